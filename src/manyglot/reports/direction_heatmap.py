"""SVG heat maps of all directions: one row per source language, one column per target language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from manyglot.corpus.languages import english_language_name
from manyglot.evaluation.evaluator import DirectionResult, Evaluation

CELL, MARGIN = 34, 64
LOW_COLOR, HIGH_COLOR = (247, 243, 233), (13, 89, 114)  # sand to deep sea: reads in gray and for the color-blind too

MetricGetter = Callable[[DirectionResult], float | None]


def direction_heatmap_svg(evaluation: Evaluation) -> str:
    """Draw BLEU and language accuracy side by side; supervised directions are framed."""
    left = _heatmap(evaluation.directions, "BLEU", lambda d: d.bleu, x=0)
    right_x = _heatmap_size(evaluation.directions) + 24
    right = _heatmap(evaluation.directions, "language accuracy, %", lambda d: d.language_accuracy, x=right_x)
    width, height = right_x + _heatmap_size(evaluation.directions), _heatmap_size(evaluation.directions) + 26
    is_known = any(d.zero_shot is not None for d in evaluation.directions)
    note = "rows: source, columns: target" + (" · framed: supervised, others: zero-shot" if is_known else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui, sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{left}{right}'
        f'<text x="{MARGIN}" y="{height - 8}" fill="#555">{note}</text></svg>\n'
    )


def _heatmap_size(directions: Sequence[DirectionResult]) -> int:
    return MARGIN + CELL * len(_language_codes(directions)) + 8


def _language_codes(directions: Sequence[DirectionResult]) -> list[str]:
    return sorted({code for d in directions for code in (d.source, d.target)})


def _heatmap(directions: Sequence[DirectionResult], title: str, value: MetricGetter, x: int) -> str:
    codes = _language_codes(directions)
    place = {code: MARGIN + i * CELL for i, code in enumerate(codes)}
    parts = [f'<g transform="translate({x} 0)"><text x="{MARGIN}" y="20" font-size="14" fill="#222">{title}</text>']
    for code in codes:
        middle = place[code] + CELL / 2
        parts.append(f'<text x="{MARGIN - 8}" y="{middle + 4}" text-anchor="end" fill="#222">{escape(code)}</text>')
        parts.append(f'<text x="{middle}" y="{MARGIN - 8}" text-anchor="middle" fill="#222">{escape(code)}</text>')
    parts += [_heatmap_cell(d, value(d), place[d.target], place[d.source]) for d in directions]
    return "".join([*parts, "</g>"])


def _heatmap_cell(direction: DirectionResult, value: float | None, x: float, y: float) -> str:
    share = 0.0 if value is None else min(max(value / 100, 0.0), 1.0)
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(LOW_COLOR, HIGH_COLOR, strict=True))
    frame = "" if direction.zero_shot is not False else ' stroke="#d9822b" stroke-width="2"'
    shown = "–" if value is None else f"{value:.0f}"
    ink = "white" if share > 0.5 else "#222"
    tip = f"{english_language_name(direction.source)} → {english_language_name(direction.target)}: {shown}"
    return (
        f'<g><title>{escape(tip)}</title><rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" rx="3" '
        f'fill="rgb({red},{green},{blue})"{frame}/><text x="{x + CELL / 2}" y="{y + CELL / 2 + 4}" '
        f'text-anchor="middle" fill="{ink}">{shown}</text></g>'
    )
