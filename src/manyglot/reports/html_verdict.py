"""The verdict of the HTML report: which directions are good or bad, where they drift, and what to try.

Every sentence follows from the scores, the training curves and the settings by the rules below, which the page states.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from statistics import fmean, median
from typing import NamedTuple

from manyglot.corpus.languages import english_language_name
from manyglot.evaluation.results import DirectionResult, mean_ignoring_none
from manyglot.reports.direction_grades import RULES, Grade, GradedGroup, can_judge_language, grade, is_off_target
from manyglot.reports.report_run import ReportRun

NOTABLE_SHARE = 0.1
"""Share of a group's directions from which a problem is called one of the group."""
MIN_SENTENCES = 50
"""With fewer sentences, the scores of a single direction are uncertain."""
NOTABLE_RATE = 10
"""Percentage of copied or empty outputs from which they are mentioned."""
MAX_NAMED = 3
"""Number of directions or languages that a sentence names."""
RISING_LOSS = 1.02
"""A last dev loss of more than this multiple of the lowest one shows overfitting."""


class Verdict(NamedTuple):
    """Plain sentences; names of settings are between backticks."""

    findings: list[str]
    advice: list[str]
    """What to try; empty if nothing is wrong."""


def verdict(runs: Sequence[ReportRun]) -> Verdict:
    """Judge the first run and name the best one."""
    run = runs[0]
    central = run.evaluation.central_language
    is_known = all(d.zero_shot is not None for d in run.evaluation.directions)
    name = "supervised directions" if is_known else "directions"
    supervised = GradedGroup(name, [d for d in run.evaluation.directions if not d.zero_shot])
    zero_shot = GradedGroup("zero-shot directions", [d for d in run.evaluation.directions if d.zero_shot])
    groups = [group for group in (*_split_by_central_language(supervised, central), zero_shot) if group.results]
    findings = [" ".join(_group_sentences(group)) for group in groups]
    if len(runs) > 1 and (sentence := _best_run_sentence(runs)):
        findings.append(sentence)
    if (size := median(d.num_sentences for d in run.evaluation.directions)) < MIN_SENTENCES:
        findings.append(
            f"With only {size:.0f} test sentences per direction, the scores of single directions are uncertain."
        )
    unjudged = [d for d in run.evaluation.directions if not can_judge_language(d)]
    if unjudged:
        names = _name_languages(Counter(d.target for d in unjudged))
        findings.append(
            f"LangAcc is not meaningful in {len(unjudged):,} directions into {names}: the identifier does not know the "
            f"language, or recognizes less than half of the references."
        )
    is_own = run.evaluation.system is None or "config" in run.system_facts  # advice names settings of manyglot
    advice = [*_supervised_advice(supervised, run), *_zero_shot_advice(zero_shot, supervised, run)] if is_own else []
    if is_own and not zero_shot.results and _has_untested_directions(run):
        advice.append("Evaluate with `--zero-shot` to test the directions that the model was not trained on.")
    if not advice and not any(g.share_of(Grade.BAD) or g.off_target() for g in groups):
        findings.append("No direction is bad or off-target.")
    return Verdict(findings, advice)


def verdict_html(runs: Sequence[ReportRun]) -> str:
    """Return the verdict on the first run, with the rules behind it."""
    findings, advice = verdict(runs)
    paragraphs = [f"<ul class=verdict>{''.join(f'<li>{_to_html(finding)}</li>' for finding in findings)}</ul>"]
    if advice:
        paragraphs.append(f"<p class=verdict><b>What to try:</b> {_to_html(' '.join(advice))}</p>")
    rules = f"<details><summary>How this is decided</summary><p class=quiet>{escape(RULES)}</p></details>"
    return "".join(paragraphs) + rules


def _to_html(text: str) -> str:
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _split_by_central_language(supervised: GradedGroup, central: str | None) -> list[GradedGroup]:
    """Split into the directions from and into the central language, if most of the two are graded differently."""
    parts = []
    if central is not None and all(central in d.direction for d in supervised.results):
        name = english_language_name(central)
        parts = [
            GradedGroup(f"directions from {name}", [d for d in supervised.results if d.source == central]),
            GradedGroup(f"directions into {name}", [d for d in supervised.results if d.target == central]),
        ]
    if len(parts) == 2 and all(part.results for part in parts):
        first, second = (part.grades().most_common(1)[0][0] for part in parts)
        if first != second:
            return parts
    return [supervised]


# ---- findings --------------------------------------------------------------------------------------------------------


def _group_sentences(group: GradedGroup) -> list[str]:
    """Grade a group of directions, and say where they drift and which are bad."""
    results, off_target = group.results, group.off_target()
    drift = ""
    if off_target:
        accuracy = mean_ignoring_none(d.language_accuracy for d in off_target)
        reference = mean_ignoring_none(d.reference_language_accuracy for d in off_target)
        number = f"{len(off_target):,}" if len(off_target) < len(results) else "all" if len(results) > 1 else "it"
        problem = _describe_drift(off_target)
        drift = f"; {number} {problem} (LangAcc {accuracy:.1f}%, references {reference:.1f}%)"
    sentences = [f"{_describe_grades(group)}{drift}."]
    bad = [d for d in results if grade(d) is Grade.BAD]
    if 0 < len(bad) <= MAX_NAMED and len(bad) < len(results):
        sentences.append(f"The bad {'one is' if len(bad) == 1 else 'ones are'} {_titles(bad)}.")
    elif len(bad) < len(results) and (common := _common_languages(bad, results)):
        sentences.append(f"The bad ones are mostly {common}.")
    if 0 < len(off_target) <= MAX_NAMED and len(off_target) < len(results) and off_target != bad:
        sentences.append(f"The off-target {'one is' if len(off_target) == 1 else 'ones are'} {_titles(off_target)}.")
    for rate, verb in (("copy_rate", "copy the source"), ("empty_rate", "are empty")):
        if (mean := fmean(getattr(d, rate) for d in results)) >= NOTABLE_RATE:
            sentences.append(f"{mean:.0f}% of the outputs in {group.name} {verb}.")
    return sentences


def _describe_grades(group: GradedGroup) -> str:
    """Say how many directions of a group have which grade, with the mean scores."""
    results, grades = group.results, group.grades()
    most, count = grades.most_common(1)[0]
    if len(results) == 1:
        return f"{_title(results[0])} is {most} ({_mean_scores(results)})"
    if count == len(results):
        number = "Both" if count == 2 else f"All {count:,}"
        return f"{number} {group.name} are {most} (mean {_mean_scores(results)})"
    if count > len(results) / 2:
        rest = " and ".join(f"{grades[g]:,} {_be(grades[g])} {g}" for g in Grade if g != most and grades[g])
        return f"Most {group.name} are {most} ({count:,} of {len(results):,}; mean {_mean_scores(results)}); {rest}"
    parts = _join([f"{grades[g]:,} {_be(grades[g])} {g}" for g in Grade if grades[g]])
    return f"Of the {len(results):,} {group.name}, {parts} (mean {_mean_scores(results)})"


def _common_languages(bad: Sequence[DirectionResult], results: Sequence[DirectionResult]) -> str:
    """Return what most of the bad directions have in common: `into X and Y` or `from X`; empty if nothing."""
    for side, preposition in (("target", "into"), ("source", "from")):
        counts, sizes = (Counter(getattr(d, side) for d in part) for part in (bad, results))
        if len(sizes) <= 2:  # all directions have this in common
            continue
        top = [code for code, _ in counts.most_common(MAX_NAMED)]
        for n in range(1, len(top) + 1):
            covered, base = sum(counts[c] for c in top[:n]), sum(sizes[c] for c in top[:n])
            if covered > 0.6 * len(bad) and covered / len(bad) >= 2 * base / len(results):
                return f"{preposition} {_join([english_language_name(code) for code in top[:n]])}"
    return ""


def _describe_drift(off_target: Sequence[DirectionResult]) -> str:
    """Say which languages off-target directions drift into, as far as the results tell."""
    verb = "drift" if len(off_target) > 1 else "drifts"
    num_source = sum(d.top_off_target_language == d.source for d in off_target)
    tops = Counter(d.top_off_target_language for d in off_target if d.top_off_target_language)
    if tops.total() <= len(off_target) / 2:
        return f"{_be(len(off_target))} off-target"
    language, count = tops.most_common(1)[0]
    name = english_language_name(language)
    if num_source > count:
        count, name = num_source, "their source language"
    if count == len(off_target):
        return f"{verb} into {name}"
    if count > len(off_target) / 2:
        return f"{verb} into a wrong language, mostly {name}"
    names = [english_language_name(code) for code, _ in tops.most_common(MAX_NAMED)]
    return f"{verb} into wrong languages, such as {_join(names)}"


def _best_run_sentence(runs: Sequence[ReportRun]) -> str:
    """Name the run with the highest mean BLEU in supervised and in zero-shot directions; empty if none is higher."""
    means_by_group: dict[str, list[float]] = {}
    for zero_shot, name in ((False, "supervised "), (True, "zero-shot "), (None, "")):
        scores = [[d.bleu for d in run.evaluation.directions if d.zero_shot == zero_shot] for run in runs]
        if scores[0]:
            means_by_group[name] = list(map(fmean, scores))
    names_by_best: dict[int, list[str]] = {}
    for name, means in means_by_group.items():
        second, first = sorted(means)[-2:]
        if f"{first:.1f}" != f"{second:.1f}":
            best = means.index(first)
            other = f"; {runs[0].name}: {means[0]:.1f}" if best else ""
            names_by_best.setdefault(best, []).append(f"{name}directions ({first:.1f}{other})")
    if not names_by_best:
        return ""
    parts = [f"{runs[i].name} has the highest mean BLEU in {_join(names)}" for i, names in names_by_best.items()]
    return f"Of the {len(runs)} runs, {_join(parts)}."


# ---- advice ----------------------------------------------------------------------------------------------------------


def _supervised_advice(supervised: GradedGroup, run: ReportRun) -> list[str]:
    if not supervised.results:
        return []
    share = supervised.share_of(Grade.BAD)
    advice = [f"For the bad supervised directions, {_more_training_or_data(run)}."] if share >= NOTABLE_SHARE else []
    is_filtered = (run.system_facts.get("config", {}).get("cleaning") or {}).get("filter_by_language", False)
    is_off_target_group = len(supervised.off_target()) >= NOTABLE_SHARE * len(supervised.results)
    if share < NOTABLE_SHARE and is_off_target_group and not is_filtered:
        advice.append(
            "Check the language of the training text (`cleaning: {filter_by_language: true}`), because supervised "
            "directions are off-target."
        )
    return advice


def _more_training_or_data(run: ReportRun) -> str:
    """Read from the dev loss whether training was too short or the text too little."""
    curve = [
        (step, loss) for step, loss in run.system_facts.get("curves", {}).get("dev_nll", []) if math.isfinite(loss)
    ]
    if len(curve) >= 3:
        lowest_step, lowest = min(curve, key=lambda point: point[1])
        if lowest_step == curve[-1][0]:
            return "train longer, because the dev loss is lowest at the last validation"
        if curve[-1][1] > RISING_LOSS * lowest:
            return (
                f"add training text or dropout (`model.dropout`), because the dev loss has risen since step "
                f"{lowest_step:,.0f}"
            )
    return "add training text or train longer"


def _zero_shot_advice(zero_shot: GradedGroup, supervised: GradedGroup, run: ReportRun) -> list[str]:
    """Recommend what the model does not have yet; nothing unless many zero-shot directions are bad or off-target."""
    faulty = [d for d in zero_shot.results if is_off_target(d) or grade(d) is Grade.BAD]
    if not faulty or len(faulty) < NOTABLE_SHARE * len(zero_shot.results):
        return []
    config = run.system_facts.get("config", {})
    guidance = config.get("guidance") or []
    training = config.get("training") or {}
    is_aligned = training.get("alignment") is not None
    has_matrices = any(
        m.get("method") == "adapter" or (m.get("method") == "laa" and m.get("init_gain") == 0) for m in guidance
    )
    alignment = "encoder alignment (`training: {alignment: {}}`)"
    matrices = (
        "adapters (`guidance: [{method: adapter}]`) or LAA (language-aware attention) with matrices that start at zero "
        "(`guidance: [{method: laa, init_gain: 0}, {method: lee}]`)"
    )
    if is_aligned and has_matrices:
        advice = [
            "The model already has encoder alignment and language-specific matrices; try another "
            "`training.alignment.weight`: 0.3 if a batch has a few dozen aligned pairs, 0.05 if it has hundreds."
        ]
    else:
        if is_aligned:
            method = matrices
        elif has_matrices:
            method = f"{alignment}, which needs guidance in the decoder only"
        else:
            method = f"{alignment} and {matrices}"
        advice = [f"For zero-shot directions, train with {method}{'' if config else ', unless it already has them'}."]
    central = run.evaluation.central_language
    decoding = run.evaluation.settings.get("decoding") or {}
    can_pivot = central is not None and not decoding.get("pivot") and supervised.results
    share_off_target = len(supervised.off_target()) / max(len(supervised.results), 1)
    if can_pivot and supervised.share_of(Grade.BAD) < 0.5 and share_off_target < NOTABLE_SHARE:
        advice.append(
            f"Without new training, pivot through {english_language_name(str(central))} "
            f"(`--set decoding.pivot={central}`)."
        )
    return advice


# ---- wording ---------------------------------------------------------------------------------------------------------


def _has_untested_directions(run: ReportRun) -> bool:
    num_languages = len({code for d in run.evaluation.directions for code in d.direction})
    return len(run.evaluation.directions) < num_languages * (num_languages - 1)


def _mean_scores(results: Sequence[DirectionResult]) -> str:
    chrf = [d.chrf for d in results if math.isfinite(d.chrf)]
    scores = [f"BLEU {fmean(d.bleu for d in results):.1f}", *([f"chrF++ {fmean(chrf):.1f}"] if chrf else [])]
    return ", ".join(scores)


def _title(d: DirectionResult) -> str:
    return f"{english_language_name(d.source)} → {english_language_name(d.target)}"


def _titles(results: Sequence[DirectionResult]) -> str:
    return _join([_title(d) for d in results])


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _name_languages(counts: Counter[str]) -> str:
    names = [english_language_name(code) for code in sorted(counts)]
    return _join(names if len(names) <= MAX_NAMED else [*names[:MAX_NAMED], f"{len(names) - MAX_NAMED} more languages"])


def _join(parts: Sequence[str]) -> str:
    """Join with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
