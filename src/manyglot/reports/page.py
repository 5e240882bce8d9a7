"""The report: one HTML page that needs nothing else, opened from disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from manyglot.corpus.languages import name_of, primary
from manyglot.evaluation.evaluate import DirectionResult, Evaluation, Example
from manyglot.reports.matrix import matrix_svg
from manyglot.reports.tables import percent

STYLE = """
:root { color-scheme: light dark; --line: #8884; --accent: #0d5972; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; } td, th { padding: .25rem .75rem; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; } th { text-align: left; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 44rem; max-width: 100%; height: auto; border-radius: 6px; }
.wrong { color: #c2410c; font-weight: 600; } td:first-child { white-space: nowrap; }
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
        (
            name,
            a["num_directions"],
            f"{a['bleu']:.1f}",
            f"{a['chrf']:.1f}",
            percent(a["language_accuracy"]),
            percent(a["reference_accuracy"]),
        )
        for name, a in evaluation.averages().items()
    ]
    signatures = [*sorted({d.bleu_signature for d in evaluation.directions}), evaluation.chrf_signature]
    return (
        _table(("directions", "number", "BLEU", "chrF++", "LangAcc", "LangAcc of the references"), rows, texts=1)
        + f"<p><small>LangAcc: share of translations in the target language, told by {escape(evaluation.identifier)}; "
        + "that of the references shows how well the identifier does on perfect text. "
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
    return "<h2>By target language</h2>" + _table(headings, rows, texts=1)


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
    return "<h2>Worst directions</h2>" + _table(("direction", "kind", "BLEU", "chrF++", "LangAcc"), rows, texts=2)


def _examples(examples: Sequence[Example]) -> str:
    """Translations as they are; a language that is not the one asked for stands out."""
    rows = []
    for e in examples:
        right = e.identified in (e.target, primary(e.target))
        identified = e.identified if right else _Marked(e.identified or "none")
        rows.append(
            (
                f"{e.source}→{e.target}" + (", zero-shot" if e.zero_shot else ""),
                e.text,
                e.output,
                e.reference,
                identified,
            )
        )
    headings = ("direction", "source", "output", "reference", "identified as")
    return "<h2>Translations</h2>" + _table(headings, rows, texts=len(headings))


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
    drawn: list[str] = []
    ends = [210 - 190 * line[-1][1] / top for line in lines.values() if line]
    apart = 16 if len(ends) == 2 and abs(ends[0] - ends[1]) < 14 else 0  # labels that would cover each other
    for colour, (name, line) in zip(("#0d5972", "#d9822b"), lines.items(), strict=True):
        if not line:
            continue
        path = " ".join(f"{40 + 600 * step / last:.1f},{210 - 190 * loss / top:.1f}" for step, loss in line)
        end = line[-1][1]
        label = 214 - 190 * end / top - (apart if name == "training" else 0)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<text x="648" y="{label:.0f}" font-size="12" fill="{colour}">{name} {end:.2f}</text>')
    axes = (
        '<path d="M40 20V210H640" fill="none" stroke="#888"/>'
        f'<text x="36" y="26" text-anchor="end" font-size="12" fill="#888">{top:.1f}</text>'
        f'<text x="640" y="228" text-anchor="end" font-size="12" fill="#888">step {last:,}</text>'
    )
    svg = f'<svg viewBox="0 0 760 236" width="760">{axes}{"".join(drawn)}</svg>'
    return (
        f"<h2>Learning</h2><p class=quiet>Negative log-likelihood of a target token.</p><div class=scroll>{svg}</div>"
    )


class _Marked(str):
    """A cell that stands out."""


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]], texts: int) -> str:
    """A table whose first `texts` columns are text and whose others are numbers."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = ("".join(_cell(cell, text=i < texts) for i, cell in enumerate(row)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div class=scroll><table><tr>{head}</tr>{body}</table></div>"


def _cell(value: object, text: bool) -> str:
    kind = "class=number" if not text else "class=wrong" if isinstance(value, _Marked) else "dir=auto"
    return f"<td {kind}>{escape(str(value))}</td>"
