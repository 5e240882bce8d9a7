"""SVG heat maps of all directions: one row per source language, one column per target language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from manyglot.corpus.languages import english_language_name
from manyglot.evaluation.evaluator import DirectionResult, Evaluation

LABELED, SMALL = (34, 11), (9, 7)
"""Cell and font size, with the value in each cell or without it."""
MAX_LABELED_LANGUAGES = 60
"""With more languages, cells are small and have no value and no tooltip, which would make a file of many megabytes."""
MARGIN = 64
LOW_COLOR, HIGH_COLOR = (247, 243, 233), (13, 89, 114)  # sand to deep sea: reads in gray and for the color-blind too
FRAME_COLOR = "#d9822b"
NUM_SMALL_SHADES = 64

MetricGetter = Callable[[DirectionResult], float | None]


def direction_heatmap_svg(evaluation: Evaluation) -> str:
    """Draw BLEU and language accuracy side by side; supervised directions are framed."""
    codes = sorted({code for d in evaluation.directions for code in (d.source, d.target)})
    cell, font = LABELED if len(codes) <= MAX_LABELED_LANGUAGES else SMALL
    size = MARGIN + cell * len(codes) + 8
    width, height = 2 * size + 24, size + 26
    left = _heatmap(evaluation.directions, codes, "BLEU", lambda d: d.bleu)
    right = _heatmap(evaluation.directions, codes, "language accuracy, %", lambda d: d.language_accuracy)
    is_known = any(d.zero_shot is not None for d in evaluation.directions)
    note = "rows: source, columns: target" + (" · framed: supervised, others: zero-shot" if is_known else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui, sans-serif" font-size="{font}">'
        f'<rect width="100%" height="100%" fill="white"/><g>{left}</g>'
        f'<g transform="translate({size + 24} 0)">{right}</g>'
        f'<text x="{MARGIN}" y="{height - 8}" fill="#555" font-size="11">{note}</text></svg>\n'
    )


def _heatmap(directions: Sequence[DirectionResult], codes: Sequence[str], title: str, value: MetricGetter) -> str:
    is_labeled = len(codes) <= MAX_LABELED_LANGUAGES
    cell, font = LABELED if is_labeled else SMALL
    place = {code: MARGIN + i * cell for i, code in enumerate(codes)}
    parts = [f'<text x="{MARGIN}" y="20" font-size="14" fill="#222">{title}</text>']
    for code in codes:
        middle = place[code] + cell / 2
        column = (
            f'x="{middle}" y="{MARGIN - 8}" text-anchor="middle"'
            if is_labeled
            else f'transform="translate({middle + font / 3:.1f} {MARGIN - 4}) rotate(-90)"'
        )
        parts.append(
            f'<text x="{MARGIN - 8}" y="{middle + font / 3:.1f}" text-anchor="end" fill="#222">{escape(code)}</text>'
        )
        parts.append(f'<text {column} fill="#222">{escape(code)}</text>')
    if is_labeled:
        parts += [_labeled_cell(d, value(d), place[d.target], place[d.source]) for d in directions]
    else:
        parts += _small_cells(directions, place, value)
    return "".join(parts)


def _labeled_cell(direction: DirectionResult, value: float | None, x: float, y: float) -> str:
    cell, _ = LABELED
    share = _share(value)
    frame = "" if direction.zero_shot is not False else f' stroke="{FRAME_COLOR}" stroke-width="2"'
    shown = "–" if value is None else f"{value:.0f}"
    ink = "white" if share > 0.5 else "#222"
    tip = f"{english_language_name(direction.source)} → {english_language_name(direction.target)}: {shown}"
    return (
        f'<g><title>{escape(tip)}</title><rect x="{x + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}" rx="3" '
        f'fill="{_color(share)}"{frame}/><text x="{x + cell / 2}" y="{y + cell / 2 + 4}" '
        f'text-anchor="middle" fill="{ink}">{shown}</text></g>'
    )


def _small_cells(directions: Sequence[DirectionResult], place: Mapping[str, int], value: MetricGetter) -> Iterator[str]:
    """Draw all cells of a shade as one path, and all frames as another."""
    cell, _ = SMALL
    squares: dict[int, list[str]] = {}
    frames = []
    for d in directions:
        square = f"M{place[d.target]} {place[d.source]}h{cell - 1}v{cell - 1}h{1 - cell}z"
        squares.setdefault(round(_share(value(d)) * NUM_SMALL_SHADES), []).append(square)
        if d.zero_shot is False:
            frames.append(square)
    for shade, drawn in sorted(squares.items()):
        yield f'<path fill="{_color(shade / NUM_SMALL_SHADES)}" d="{"".join(drawn)}"/>'
    if frames:
        yield f'<path fill="none" stroke="{FRAME_COLOR}" d="{"".join(frames)}"/>'


def _share(value: float | None) -> float:
    return 0.0 if value is None else min(max(value / 100, 0.0), 1.0)


def _color(share: float) -> str:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(LOW_COLOR, HIGH_COLOR, strict=True))
    return f"rgb({red},{green},{blue})"
