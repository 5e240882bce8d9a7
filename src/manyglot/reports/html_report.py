"""The HTML report: one self-contained page that opens from disk.

Python writes what needs no script: averages, facts about systems, worst directions and learning curves. html_report.js,
large_heatmap.js and language_map.js draw the heat map, the tables, the off-target chart and the language map from JSON
inside the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

import manyglot
from manyglot.corpus.languages import english_language_name
from manyglot.evaluation.comparability import check_same_metrics, check_same_test_sets, share_supervision
from manyglot.evaluation.direction_changes import DirectionChanges
from manyglot.evaluation.evaluator import Evaluation
from manyglot.evaluation.results import DirectionGroup, macro_average, shared_segment_metrics
from manyglot.evaluation.system_comparison import group_directions, win_rate
from manyglot.files import report_unwritable, write_file
from manyglot.langid.identifier import describe_identifier
from manyglot.progress import format_duration
from manyglot.reports.html_changes import changes_html
from manyglot.reports.html_examples import worst_directions_html
from manyglot.reports.html_report_data import build_html_report_data
from manyglot.reports.html_verdict import verdict_html
from manyglot.reports.learning_curves_html import learning_curves_html
from manyglot.reports.report_run import ReportRun as ReportRun
from manyglot.reports.report_run import load_report_run as load_report_run
from manyglot.reports.report_run import make_report_run as make_report_run
from manyglot.reports.report_run import restrict_report_run as restrict_report_run
from manyglot.reports.result_parts import format_segment_score, group_label, segment_metric_label

SECTIONS = {
    "verdict": "Verdict",
    "changes": "Changes",
    "averages": "Averages",
    "heatmap": "Heat map of all directions",
    "off_target": "Off-target languages",
    "worst": "Worst directions",
    "directions": "Directions",
    "languages": "Languages",
    "similarities": "Language similarity",
    "learning": "Learning curves",
    "card": "Systems",
}

SCRIPTS = ("language_map.js", "large_heatmap.js", "html_report.js")

SIMILARITY_NOTE = (
    "Similarity of the representations that the model has learned for each language: the cosine of vectors, or the "
    "mean row-wise cosine of matrices. The dendrogram uses average linkage."
)


AVERAGED_METRICS = {
    "bleu": "BLEU",
    "chrf": "chrF++",
    "language_accuracy": "LangAcc",
    "reference_language_accuracy": "LangAcc of references",
    "relative_language_accuracy": "relative LangAcc",
    "copy_rate": "copied",
    "empty_rate": "empty",
}
"""Columns of the table of averages, with their headings."""
RUN_COLUMN = 2
"""Index of the column with the run's name in the table of averages, if there are several runs."""
MAX_NAMED_LEAKING_PAIRS = 5
"""Number of language pairs to name, those with the largest share of leaked sentences first."""


def write_html_report(
    path: Path, runs: Sequence[ReportRun], changes: DirectionChanges | None = None, baseline_name: str = "the baseline"
) -> None:
    """Write a report of the first run, compared with the others; all must have the same metrics and test sets.

    `changes` are those of the first run since a baseline. A section then lists the directions that have changed.
    """
    evaluations = share_supervision([run.evaluation for run in runs])
    runs = [replace(run, evaluation=evaluation) for run, evaluation in zip(runs, evaluations, strict=True)]
    if len(runs) > 1:
        check_same_metrics([run.evaluation for run in runs])
        check_same_test_sets([(run.name, run.evaluation) for run in runs])
    data = build_html_report_data(runs)
    similarities = f"<p class=quiet>{SIMILARITY_NOTE}</p><div id=language-map></div>"
    bodies = {
        "verdict": verdict_html(runs),
        "changes": "" if changes is None else changes_html(changes, baseline_name),
        "averages": _averages_html(runs),
        "heatmap": "<div id=direction-heatmap></div>",
        "off_target": "<div id=off-target-chart></div>"
        if any(run.evaluation.output_language_counts for run in runs)
        else "",
        "worst": worst_directions_html(runs, data),
        "directions": "<div id=direction-table></div>",
        "languages": "<div id=language-table></div>",
        "similarities": similarities if data["language_maps"] else "",
        "learning": learning_curves_html(
            [(run.name, run.system_facts.get("curves", {})) for run in runs if "model" in run.system_facts]
        ),
        "card": "".join(map(_system_facts_html, runs)),
    }
    bodies = {key: body for key, body in bodies.items() if body}
    links = "".join(f'<a href="#{key}">{SECTIONS[key]}</a>' for key in bodies)
    headings = {key: SECTIONS[key] for key in bodies}
    if len(runs) > 1:
        headings["verdict"] += f" on {escape(runs[0].name)}"
    if changes is not None:
        headings["changes"] += f" since {escape(baseline_name)}"
    sections = "".join(f"<section id={key}><h2>{headings[key]}</h2>{body}</section>" for key, body in bodies.items())
    title = escape(" · ".join(run.name for run in runs))
    page = (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title>\n<style>\n{_read_resource('html_report.css')}</style></head>\n<body>"
        f"<header><h1>{title}</h1>{_introduction_html(runs[0].evaluation)}<nav>{links}</nav></header>\n<main>{sections}</main>"
        "<noscript><p>The heat map and the tables need JavaScript; the scripts are part of this page.</p></noscript>"
        f"<footer>manyglot {escape(manyglot.__version__)}</footer>\n"
        f"<script type=application/json id=data>{json_for_script(data)}</script>\n"
        f"<script>\n{''.join(map(_read_resource, SCRIPTS))}</script>"
        "</body></html>\n"
    )
    with report_unwritable(path):
        write_file(path, page.encode("utf-8", "replace"))  # outputs may contain lone surrogates


def json_for_script(data: Any) -> str:
    """Return JSON that is safe inside a <script> element: no text in it can close the element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _read_resource(name: str) -> str:
    return files("manyglot.reports").joinpath(name).read_text("utf-8")


def _introduction_html(evaluation: Evaluation) -> str:
    """Summarize an evaluation in a sentence."""
    codes = {code for d in evaluation.directions for code in (d.source, d.target)}
    num_zero_shot = sum(d.zero_shot is True for d in evaluation.directions)
    zero_shot = "" if evaluation.directions[0].zero_shot is None else f"{num_zero_shot:,} of them zero-shot; "
    num_sentences = sum(d.num_sentences for d in evaluation.directions)
    return (
        f"<p class=quiet>{len(evaluation.directions):,} directions between {len(codes)} languages, "
        f"{zero_shot}{num_sentences:,} sentences.</p>"
    )


def _averages_html(runs: Sequence[ReportRun]) -> str:
    several = len(runs) > 1
    headings = ["directions", "number", *(["run"] if several else []), *AVERAGED_METRICS.values()]
    segment_metrics = shared_segment_metrics([run.evaluation for run in runs])
    headings += [segment_metric_label(name, metric) for name, metric in segment_metrics.items()]
    headings += [f"win rate against {run.name}" for run in runs if several]
    rows = []
    for group, members in group_directions(runs[0].evaluation).items():
        for i, run in enumerate(runs):
            results = {d.direction: d for d in run.evaluation.directions}
            means = macro_average([results[direction] for direction in members])
            name = (
                "all supervised"
                if group is DirectionGroup.SUPERVISED
                else group_label(group, run.evaluation.central_language)
            )
            is_first = i == 0
            values = [f"{len(members):,}" if is_first else "", *([run.name] if several else [])]
            values += [_format_score(means[key]) for key in AVERAGED_METRICS]
            values += [format_segment_score(means["metrics"].get(name)) for name in segment_metrics]
            ours = [results[direction].bleu for direction in members]
            for other in runs if several else []:
                theirs = {d.direction: d.bleu for d in other.evaluation.directions}
                rate = None if other is run else win_rate(ours, [theirs[direction] for direction in members])
                values.append(_format_score(rate))
            own_win_rate = len(values) - len(runs) + i + 1
            cells = [f"<th scope=row>{escape(name if is_first else '')}</th>"]
            for column, (heading, value) in enumerate(zip(headings[1:], values, strict=True), 1):
                kind = f"run{i} name" if several and column == RUN_COLUMN else "number"
                kind += " own" if several and column == own_win_rate else ""
                cells.append(f'<td class="{kind}" data-label="{escape(heading)}">{escape(value)}</td>')
            rows.append(f"<tr{' class=begins' if is_first else ''}>{''.join(cells)}</tr>")
    head = "".join(
        f"<th scope=col{' class=name' if several and column == RUN_COLUMN else ''}>{escape(heading)}</th>"
        for column, heading in enumerate(headings)
    )
    table = f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    return table + _metric_notes_html(runs[0].evaluation, several)


def _metric_notes_html(evaluation: Evaluation, has_win_rates: bool) -> str:
    signatures = [*sorted({d.bleu_signature for d in evaluation.directions}), evaluation.chrf_signature]
    notes = [
        "All values are unweighted means over directions. LangAcc is the percentage of outputs identified as the "
        f"target language (identifier: {describe_identifier(evaluation.identifier_signature)}). "
        "No identifier is perfect, so LangAcc of the reference translations is shown too. Relative LangAcc is LangAcc "
        "of the outputs as a percentage of LangAcc of the references: at 100, the identifier recognizes the outputs as "
        "often as perfect translations."
    ]
    if has_win_rates:
        notes.append("The win rate is the percentage of directions with a strictly higher BLEU.")
    if unknown := evaluation.unidentifiable_targets():
        notes.append(f"LangAcc excludes targets that the identifier does not know: {', '.join(unknown)}.")
    notes.append(f"Signatures: {' · '.join(signature for signature in signatures if signature)}.")
    return f"<p class=quiet>{escape(' '.join(notes))}</p>"


def _system_facts_html(run: ReportRun) -> str:
    """Show the languages, data, parameters, training and settings of a run."""
    about, facts, system = run.system_facts, {}, run.evaluation.system
    if system is not None:
        facts["system"], facts["translations"] = system.name, system.hypotheses.path
        facts["date of the translations"] = system.hypotheses.modified
        facts["checksum (sha256)"] = system.hypotheses.sha256
        facts["test set"] = (about.get("test") or {}).get("folder", "")
    for name, metric in run.evaluation.metrics.items():
        facts[f"scores of {name}"] = metric.scores.describe()
    if "model" in about:
        data, codes = about["data"], about["languages"]
        facts["model"] = about["model"]
        facts["languages"] = f"{len(codes)}: {', '.join(f'{english_language_name(code)} ({code})' for code in codes)}"
        facts["trained directions"] = f"{about['num_trained_directions']:,}"
        facts["data"] = ", ".join([data["folder"], *(f"{n:,} {split} rows" for split, n in data["rows"].items())])
        test = about.get("test") or {"folder": "the test split of the data", "leaks": None}
        facts["test set"] = test["folder"]
        facts["test sentences in training"] = _leakage_text(test.get("leaks"))
        facts["training sentences"] = f"{sum(data['sentences'].values()):,}" if data["sentences"] else ""
        parts = ", ".join(f"{part} {n:,}" for part, n in about["parameters"].items())
        facts["parameters"] = f"{about['num_parameters']:,} ({parts})"
        facts["subwords"] = f"{about['num_subwords']:,}"
        facts["training"] = ", ".join(_training_facts(about["training"]))
    settings = {**about.get("config", {}), **run.evaluation.settings}
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items() if value)
    missing = (
        ""
        if about or system is not None
        else "<p class=quiet>about.json, which describes the model and its training, is missing.</p>"
    )
    text = escape(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    return (
        f"<h3>{escape(run.name)}</h3>{missing}<dl class=facts>{rows}</dl>"
        f"<details><summary>Settings</summary><pre>{text}</pre></details>"
    )


def _leakage_text(leaks: Mapping[str, Any] | None) -> str:
    """Describe how many test sentences occur in the training data, and which language pairs have the most."""
    if leaks is None:
        return ""
    sets = sorted(leaks["sets"], key=lambda s: -s["num_any_leaked"] / s["num_sentences"])
    num_leaked, num_sentences = (sum(s[key] for s in sets) for key in ("num_any_leaked", "num_sentences"))
    worst = [
        f"{s['first_language']}-{s['second_language']} {s['num_any_leaked'] / s['num_sentences']:.0%}"
        for s in sets[:MAX_NAMED_LEAKING_PAIRS]
        if s["num_any_leaked"]
    ]
    share = f"{num_leaked:,} of {num_sentences:,} sentence pairs ({num_leaked / num_sentences:.1%})"
    text = f"{share} by source, target or central language"
    text += f", most in {', '.join(worst)}" if worst else ""
    return text + ("; excluded from the test set" if leaks["leaked_dropped"] and num_leaked else "")


def _training_facts(training: Mapping[str, Any]) -> list[str]:
    facts = []
    if training.get("steps"):
        facts.append(f"{training['steps']:,} steps")
    if training.get("target_tokens"):
        facts.append(f"{training['target_tokens']:,} target tokens")
    if training.get("seconds"):
        facts.append(format_duration(training["seconds"]))
    if steps := training.get("averaged_steps"):
        facts.append(f"mean weights of steps {', '.join(f'{step:,}' for step in steps)}")
    elif training.get("best_metric"):
        facts.append(f"weights of step {training['step']:,}, the best by {training['best_metric']}")
    return facts


def _format_score(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
