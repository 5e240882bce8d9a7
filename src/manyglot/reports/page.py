"""The report: one HTML page that needs nothing else, opened from disk.

What can be read without a script is written here: averages, the model card, the worst directions, the curves. The
heat map, the tables, the drift and the map of the languages are drawn by page.js from the JSON inside the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

import manyglot
from manyglot.corpus.languages import name_of
from manyglot.evaluation.common import check_measures, check_test_sets
from manyglot.evaluation.comparison import groups_of, win_rate
from manyglot.evaluation.evaluate import DirectionResult, Evaluation
from manyglot.evaluation.results import DirectionGroup, average
from manyglot.langid.identifier import describe_identifier
from manyglot.progress import duration
from manyglot.reports.learning import learning_html
from manyglot.reports.page_data import Run as Run
from manyglot.reports.page_data import page_data, worst_directions
from manyglot.reports.page_data import part_of as part_of
from manyglot.reports.page_data import read_run as read_run
from manyglot.reports.page_data import run_of as run_of
from manyglot.reports.tables import group_label

SECTIONS = {
    "averages": "Averages",
    "map": "All directions at once",
    "drift": "Where outputs drift to",
    "worst": "Worst directions",
    "directions": "Directions",
    "languages": "Languages",
    "alike": "Which languages are alike",
    "learning": "Learning",
    "card": "Model card",
}

ALIKE = (
    "By what the model has learnt of each language: the cosine of vectors, the mean of the row-wise cosines of "
    "matrices. The tree joins the nearest first, by average linkage."
)


RUN_COLUMN = 2
"""The place of the run's name in the table of averages, where there are several runs."""
NUM_LEAKING = 5
"""Pairs of languages that are named, of those that training has seen most of."""


def write_page(path: Path, runs: Sequence[Run]) -> None:
    """Write the report of the first run, beside others; they must have been tested alike."""
    if len(runs) > 1:
        check_measures([run.evaluation for run in runs])
        check_test_sets([(run.name, run.evaluation) for run in runs])
    data = page_data(runs)
    bodies = {
        "averages": _averages(runs),
        "map": "<div id=heatmap></div>",
        "drift": "<div id=drifts></div>" if any(run.evaluation.outputs_in for run in runs) else "",
        "worst": _worst(runs, data),
        "directions": "<div id=direction-table></div>",
        "languages": "<div id=language-table></div>",
        "alike": f"<p class=quiet>{ALIKE}</p><div id=places></div>" if data["places"] else "",
        "learning": learning_html([(run.name, run.about.get("curves", {})) for run in runs]),
        "card": "".join(map(_card, runs)),
    }
    shown = {key: body for key, body in bodies.items() if body}
    links = "".join(f'<a href="#{key}">{SECTIONS[key]}</a>' for key in shown)
    sections = "".join(f"<section id={key}><h2>{SECTIONS[key]}</h2>{body}</section>" for key, body in shown.items())
    title = escape(" · ".join(run.name for run in runs))
    page = (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title>\n<style>\n{_resource('page.css')}</style></head>\n<body>"
        f"<header><h1>{title}</h1>{_lead(runs[0].evaluation)}<nav>{links}</nav></header>\n<main>{sections}</main>"
        "<noscript><p>The heat map and the tables need JavaScript, which is part of this page.</p></noscript>"
        f"<footer>manyglot {escape(manyglot.__version__)}</footer>\n"
        f"<script type=application/json id=data>{embedded(data)}</script>\n"
        f"<script>\n{_resource('language_places.js')}{_resource('page.js')}</script>"
        "</body></html>\n"
    )
    path.write_text(page, encoding="utf-8", errors="replace")  # an output may hold half a letter


def embedded(data: Any) -> str:
    """JSON inside a page: no text in it can end the script that holds it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _resource(name: str) -> str:
    return files("manyglot.reports").joinpath(name).read_text("utf-8")


def _lead(run: Evaluation) -> str:
    """The run in a sentence."""
    codes = {code for d in run.directions for code in (d.source, d.target)}
    unseen = sum(d.zero_shot for d in run.directions)
    counted = f"{len(run.directions):,} directions, {unseen:,} of them zero-shot, between {len(codes)} languages"
    return f"<p class=quiet>{counted}; {sum(d.num_sentences for d in run.directions):,} sentences.</p>"


def _averages(runs: Sequence[Run]) -> str:
    others = len(runs) > 1
    headings = ["directions", "number", *(["run"] if others else []), "BLEU", "chrF++", "LangAcc", "of references"]
    headings += ["relative", "copied", "empty", *(f"win rate against {run.name}" for run in runs if others)]
    lines = []
    for group, members in groups_of(runs[0].evaluation).items():
        for i, run in enumerate(runs):
            results = {d.direction: d for d in run.evaluation.directions}
            means = average([results[direction] for direction in members])
            name = "all supervised" if group is DirectionGroup.SUPERVISED else group_label(group, run.evaluation.pivot)
            cells = [_th(name), _number(f"{len(members):,}")] if not i else [_th(""), _number("")]
            cells += [f'<td class="run{i} name">{escape(run.name)}</td>'] if others else []
            keys = ("bleu", "chrf", "language_accuracy", "reference_accuracy", "relative_accuracy")
            cells += [_number(_shown(means[key])) for key in (*keys, "copy_rate", "empty_rate")]
            ours = [results[direction].bleu for direction in members]
            for other in runs if others else []:
                theirs = {d.direction: d.bleu for d in other.evaluation.directions}
                rate = None if other is run else win_rate(ours, [theirs[direction] for direction in members])
                cells.append(_number(_shown(rate)))
            lines.append(f"<tr{' class=begins' if not i else ''}>{''.join(cells)}</tr>")
    head = "".join(
        f"<th scope=col{' class=name' if others and place == RUN_COLUMN else ''}>{escape(heading)}</th>"
        for place, heading in enumerate(headings)
    )
    table = f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    return table + _notes(runs[0].evaluation, others)


def _notes(run: Evaluation, others: bool) -> str:
    signatures = [*sorted({d.bleu_signature for d in run.directions}), run.chrf_signature]
    notes = [
        "Plain means over directions. LangAcc: percent of outputs in the target language, told by "
        f"{describe_identifier(run.identifier)}; "
        "that of the references is what the identifier sees in perfect text, and relative is in percent of it."
    ]
    if others:
        notes.append("Win rate: percent of directions with a strictly higher BLEU.")
    if unknown := run.left_out():
        notes.append(f"The identifier does not know {', '.join(unknown)}, which LangAcc leaves out.")
    notes.append(f"Signatures: {' · '.join(each for each in signatures if each)}.")
    return f"<p class=quiet>{escape(' '.join(notes))}</p>"


def _worst(runs: Sequence[Run], data: Mapping[str, Any]) -> str:
    """The worst directions, with sentences where these are known."""
    numbers = {d.direction: i for i, d in enumerate(runs[0].evaluation.directions)}
    parts = []
    for kind, those in worst_directions(runs[0].evaluation).items():
        parts.append(f"<h3>{group_label(kind).capitalize()}</h3>")
        for i, d in enumerate(those):
            entries = data["examples"].get(numbers[d.direction], [])
            sentences = "".join(_sentence(d, entry, runs, data["texts"]) for entry in entries)
            parts.append(f"<details{' open' if not i else ''}><summary>{_heading(d)}</summary>{sentences}</details>")
    return (
        f"<p class=quiet>By BLEU of {escape(runs[0].name)}; sentences are spread evenly over the test set.</p>"
        + "".join(parts)
    )


def _heading(d: DirectionResult) -> str:
    facts = [f"BLEU {d.bleu:.1f}", f"chrF++ {_shown(d.chrf)}"]
    if d.language_accuracy is not None:
        facts.append(f"LangAcc {d.language_accuracy:.0f}%")
    if d.other_language and d.other_share >= 5:
        facts.append(f"{d.other_share:.0f}% in {name_of(d.other_language)}")
    return f"<b>{escape(name_of(d.source))} → {escape(name_of(d.target))}</b> <span>{escape(', '.join(facts))}</span>"


def _sentence(d: DirectionResult, entry: Sequence[Any], runs: Sequence[Run], texts: Sequence[str]) -> str:
    """Source, outputs and reference under one another; a language that is not the one asked for stands out."""
    text, output, reference, identified, others = entry
    lines = [_line("source", texts[text], d.source)]
    made = [(runs[0].name, output, identified)]
    made += [(run.name, *each) for run, each in zip(runs[1:], others, strict=True) if each is not None]
    for name, number, told in made:
        label = "output" if len(runs) == 1 else f"output of {name}"
        wrong = "" if told == d.target else f" <em>{escape(name_of(told) if told else 'no language')}</em>"
        lines.append(_line(label, texts[number], told, wrong if d.language_accuracy is not None else ""))
    lines.append(_line("reference", texts[reference], d.target))
    return f"<dl class=sentence>{''.join(lines)}</dl>"


def _line(label: str, text: str, code: str, mark: str = "") -> str:
    lang = f' lang="{escape(code)}"' if code else ""
    shown = escape(text) if text.strip() else "<i class=quiet>empty</i>"
    return f"<dt>{escape(label)}{mark}</dt><dd dir=auto{lang}>{shown}</dd>"


def _card(run: Run) -> str:
    """Languages, data, parameters, time and settings of a run."""
    about, facts = run.about, {}
    if about:
        training, data = about["training"], about["data"]
        codes = about["languages"]
        facts["model"] = about["model"]
        facts["languages"] = f"{len(codes)}: {', '.join(f'{name_of(code)} ({code})' for code in codes)}"
        facts["trained directions"] = f"{about['num_trained_directions']:,}"
        facts["data"] = ", ".join([data["folder"], *(f"{n:,} {split} rows" for split, n in data["rows"].items())])
        test = about.get("test") or {"folder": "the test rows of the data"}
        facts["tested on"] = test["folder"]
        facts["of that in training"] = _leaks(test.get("leaks"))
        facts["training sentences"] = f"{sum(data['sentences'].values()):,}" if data["sentences"] else ""
        parts = ", ".join(f"{part} {n:,}" for part, n in about["parameters"].items())
        facts["parameters"] = f"{about['num_parameters']:,} ({parts})"
        facts["subwords"] = f"{about['num_subwords']:,}"
        facts["training"] = ", ".join(_training(training))
    settings = {**about.get("config", {}), **run.evaluation.settings}
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items() if value)
    missing = "" if about else "<p class=quiet>about.json, which tells of the model and its training, is not there.</p>"
    text = escape(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    return (
        f"<h3>{escape(run.name)}</h3>{missing}<dl class=facts>{rows}</dl>"
        f"<details><summary>Settings</summary><pre>{text}</pre></details>"
    )


def _leaks(leaks: Mapping[str, Any] | None) -> str:
    """How much of the test sets training has seen, and in which pairs of languages the most."""
    if leaks is None:
        return ""
    sets = sorted(leaks["sets"], key=lambda each: -each["leaked"] / each["num_sentences"])
    leaked, found = (sum(each[key] for each in sets) for key in ("leaked", "num_sentences"))
    most = [
        f"{e['one']}-{e['other']} {e['leaked'] / e['num_sentences']:.0%}" for e in sets[:NUM_LEAKING] if e["leaked"]
    ]
    named = f", most in {', '.join(most)}" if most else ""
    share = f"{leaked:,} of {found:,} sentence pairs ({leaked / found:.1%}) by source, target or pivot{named}"
    return share + ("; they are left out" if leaks["left_out"] and leaked else "")


def _training(training: Mapping[str, Any]) -> list[str]:
    found = []
    if training.get("steps"):
        found.append(f"{training['steps']:,} steps")
    if training.get("target_tokens"):
        found.append(f"{training['target_tokens']:,} target tokens")
    if training.get("seconds"):
        found.append(duration(training["seconds"]))
    if training.get("best_by"):
        found.append(f"weights of step {training['step']:,}, the best by {training['best_by']}")
    return found


def _th(text: str) -> str:
    return f"<th scope=row>{escape(text)}</th>"


def _number(text: str) -> str:
    return f"<td class=number>{escape(text)}</td>"


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
