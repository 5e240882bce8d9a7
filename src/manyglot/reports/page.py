"""The report: one HTML page that needs nothing else, opened from disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from manyglot.corpus.languages import name_of
from manyglot.evaluation.evaluate import DirectionResult, Evaluation, Example
from manyglot.reports.matrix import matrix_svg
from manyglot.reports.tables import percent

STYLE = """
:root { color-scheme: light dark; --line: #8884; --accent: #0d5972; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; } td, th { padding: .25rem .75rem; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; } th { text-align: left; }
.scroll { overflow-x: auto; } .scroll svg { max-width: 100%; height: auto; border-radius: 6px; }
small, .quiet { opacity: .75; } pre { overflow-x: auto; font-size: .85rem; }
"""


def write_report(
    folder: Path, title: str, evaluation: Evaluation, log: Sequence[Mapping[str, Any]], config: Mapping[str, Any]
) -> Path:
    """Write report.html and the matrix alone as matrix.svg; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = yaml.safe_dump({**config, **evaluation.settings}, sort_keys=False, allow_unicode=True)
    matrix = matrix_svg(evaluation)
    (folder / "matrix.svg").write_text(matrix, encoding="utf-8")
    sections = [
        f"<h1>{escape(title)}</h1>",
        _averages(evaluation),
        f"<h2>All directions</h2><div class=scroll>{matrix}</div>",
        _languages(evaluation.directions),
        _worst(evaluation.directions),
        _examples(evaluation.sample(24)),
        _curve(log),
        f"<h2>Settings</h2><pre>{escape(settings)}</pre>",
    ]
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    path = folder / "report.html"
    path.write_text(
        f"<!doctype html><html lang=en>{head}<style>{STYLE}</style><body>{''.join(sections)}</body></html>\n",
        encoding="utf-8",
    )
    return path


def _averages(evaluation: Evaluation) -> str:
    rows = [
        (name, a["num_directions"], f"{a['bleu']:.1f}", f"{a['chrf']:.1f}", percent(a["language_accuracy"]))
        for name, a in evaluation.averages().items()
    ]
    bounds = (f"{percent(a['reference_accuracy'])} ({name})" for name, a in evaluation.averages().items())
    signatures = [*sorted({d.bleu_signature for d in evaluation.directions}), evaluation.chrf_signature]
    return (
        _table(("directions", "number", "BLEU", "chrF++", "LangAcc"), rows)
        + f"<p><small>LangAcc: share of translations in the target language, told by {escape(evaluation.identifier)}; "
        + f"on the references themselves it reaches {escape(', '.join(bounds))}. "
        + f"Signatures: {escape(' · '.join(signatures))}</small></p>"
    )


def _languages(directions: Sequence[DirectionResult]) -> str:
    """Means by target language: which languages are bad."""
    rows = []
    for code in sorted({d.target for d in directions}):
        into = [d for d in directions if d.target == code]
        groups = [[d for d in into if d.zero_shot == zero_shot] for zero_shot in (False, True)]
        cells = [f"{fmean(d.bleu for d in group):.1f}" if group else "–" for group in groups]
        known = [[d.language_accuracy for d in group if d.language_accuracy is not None] for group in groups]
        cells += [percent(fmean(values) if values else None) for values in known]
        rows.append((f"{name_of(code)} ({code})", *cells))
    headings = ("into", "BLEU supervised", "BLEU zero-shot", "LangAcc supervised", "LangAcc zero-shot")
    return "<h2>By target language</h2>" + _table(headings, rows)


def _worst(directions: Sequence[DirectionResult], number: int = 10) -> str:
    worst = sorted(directions, key=lambda d: d.bleu)[:number]
    rows = [
        (
            f"{name_of(d.source)} → {name_of(d.target)}",
            "zero-shot" if d.zero_shot else "supervised",
            f"{d.bleu:.1f}",
            f"{d.chrf:.1f}",
            percent(d.language_accuracy),
        )
        for d in worst
    ]
    return "<h2>Worst directions</h2>" + _table(("direction", "kind", "BLEU", "chrF++", "LangAcc"), rows)


def _examples(examples: Sequence[Example]) -> str:
    rows = [
        (f"{e.source}→{e.target}" + (" zero-shot" if e.zero_shot else ""), e.text, e.output, e.reference, e.identified)
        for e in examples
    ]
    return "<h2>Translations</h2>" + _table(("direction", "source", "output", "reference", "identified as"), rows)


def _curve(log: Sequence[Mapping[str, Any]]) -> str:
    """Training and dev loss against the step."""
    lines = {
        "training": [(line["step"], line["nll"]) for line in log if "nll" in line],
        "dev": [(line["step"], line["dev_nll"]) for line in log if "dev_nll" in line],
    }
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    last, top = max(step for step, _ in points), max(loss for _, loss in points)
    drawn = []
    for colour, (name, line) in zip(("#0d5972", "#d9822b"), lines.items(), strict=True):
        path = " ".join(f"{40 + 600 * step / last:.1f},{210 - 190 * loss / top:.1f}" for step, loss in line)
        end = line[-1][1] if line else 0.0
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(
            f'<text x="648" y="{214 - 190 * end / top:.0f}" font-size="12" fill="{colour}">{name} {end:.2f}</text>'
        )
    axes = (
        '<path d="M40 20V210H640" fill="none" stroke="#888"/>'
        f'<text x="36" y="26" text-anchor="end" font-size="12" fill="#888">{top:.1f}</text>'
        f'<text x="640" y="228" text-anchor="end" font-size="12" fill="#888">step {last:,}</text>'
    )
    svg = f'<svg viewBox="0 0 760 236" width="760">{axes}{"".join(drawn)}</svg>'
    return (
        f"<h2>Learning</h2><p class=quiet>Negative log-likelihood of a target token.</p><div class=scroll>{svg}</div>"
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{head}</tr>{body}</table></div>"


def _cell(value: object) -> str:
    text = str(value)
    number = text.rstrip("%").replace(".", "").isdigit() or text == "–"
    return f"<td{' class=number' if number else ' dir=auto'}>{escape(text)}</td>"
