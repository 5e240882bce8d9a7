"""The learning curves of the HTML report: small SVG panels in the colors of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

Points = Sequence[Sequence[float]]
WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 38, 30, 10, 24
MAX_TICKS = 6
"""Maximum number of ticks of an axis."""


class _Panel(NamedTuple):
    title: str
    lines: Mapping[str, str]
    """CSS classes of the curves, by name."""
    from_zero: bool


PANELS = (
    _Panel("negative log-likelihood per target token", {"nll": "", "dev_nll": " dashed"}, False),
    _Panel("dev BLEU", {"dev_bleu": ""}, True),
    _Panel("zero-shot LangAcc on the dev split, %", {"zero_shot_language_accuracy": ""}, True),
    _Panel("zero-shot chrF++ on the dev split", {"zero_shot_chrf": ""}, True),
)


def learning_curves_html(curves: Sequence[tuple[str, Mapping[str, Points]]]) -> str:
    """Return the panels of runs, given as name and curves, and name the runs without curves."""
    panels = [(panel, _panel_lines(panel, curves)) for panel in PANELS]
    figures = "".join(
        f"<figure><figcaption>{escape(panel.title)}, by training step</figcaption>{_panel_svg(panel, lines)}</figure>"
        for panel, lines in panels
        if lines
    )
    missing = [name for name, by_metric in curves if not any(by_metric.values())]
    missing_note = f"There are no curves of {', '.join(missing)}: its log.jsonl was missing or damaged at evaluation."
    missing_note = f"<p class=quiet>{escape(missing_note)}</p>" if missing else ""
    if not figures:
        return missing_note
    names = "".join(
        f'<li class="run{i}">{escape(name)}</li>'
        for i, (name, by_metric) in enumerate(curves)
        if any(by_metric.values())
    )
    note = "<p class=quiet>Solid: training data. Dashed: dev split.</p>" if panels[0][1] else ""
    return f"<ul class=legend>{names}</ul><div class=panels>{figures}</div>{note}{missing_note}"


def _panel_lines(panel: _Panel, curves: Sequence[tuple[str, Mapping[str, Points]]]) -> list[tuple[str, str, Points]]:
    """Return the CSS class, name and points of each line."""
    return [
        (f"run{i}{style}", f"{name}, {key.replace('_', ' ')}", by_metric[key])
        for i, (name, by_metric) in enumerate(curves)
        for key, style in panel.lines.items()
        if by_metric.get(key)
    ]


def _panel_svg(panel: _Panel, lines: Sequence[tuple[str, str, Points]]) -> str:
    last = max(x for *_, points in lines for x, _ in points) or 1
    values = sorted(y for *_, points in lines for _, y in points)
    # The first steps of a loss are far above the rest, which would become a flat line.
    low = 0.0 if panel.from_zero else values[0]
    high = values[-1] if panel.from_zero else values[int(0.97 * (len(values) - 1))]
    y_ticks = round_ticks(low, max(high, low))
    low, high = y_ticks[0], y_ticks[-1]
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def svg_x(x: float) -> float:
        return LEFT + across * x / last

    def svg_y(y: float) -> float:
        return HEIGHT - BOTTOM - down * min(max((y - low) / (high - low), 0.0), 1.04)

    def svg_curve(kind: str, name: str, points: Points) -> str:
        title = f"<title>{escape(name)}: {points[-1][1]:.3g} at step {points[-1][0]:,.0f}</title>"
        if len(points) == 1:
            x, y = points[0]
            return f'<circle class="{kind}" cx="{svg_x(x):.1f}" cy="{svg_y(y):.1f}" r=3>{title}</circle>'
        return (
            f'<polyline class="{kind}" points="{" ".join(f"{svg_x(x):.1f},{svg_y(y):.1f}" for x, y in points)}">'
            f"{title}</polyline>"
        )

    ticks = "".join(
        f'<path class=grid d="M{LEFT} {svg_y(y):.1f}h{across}"/>'
        f'<text x="{LEFT - 5}" y="{svg_y(y) + 4:.1f}" text-anchor="end">{y:g}</text>'
        for y in y_ticks
    )
    ticks += "".join(
        f'<path class=grid d="M{svg_x(x):.1f} {HEIGHT - BOTTOM}v4"/>'
        f'<text x="{svg_x(x):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{x:,.0f}</text>'
        for x in round_ticks(0, last)
        if x <= last
    )
    curves = "".join(svg_curve(*line) for line in lines)
    return f'<svg class=curve viewBox="0 0 {WIDTH} {HEIGHT}" role=img>{ticks}{curves}</svg>'


def round_ticks(low: float, high: float) -> list[float]:
    """Return at most `MAX_TICKS` multiples of 1, 2 or 5 times a power of ten, from at most `low` to at least `high`."""
    if high == low:  # a constant curve
        high = low + (abs(low) / 10 or 1.0)
    magnitude = 10.0 ** math.floor(math.log10((high - low) / MAX_TICKS))
    for factor in (1, 2, 5, 10, 20):
        step = factor * magnitude
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        last = max(last, first + 1)
        if last - first < MAX_TICKS:
            break
    return [round(i * step, 12) for i in range(first, last + 1)]
