"""The learning curves of the HTML report: small SVG panels in the colors of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

Points = Sequence[Sequence[float]]
WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 38, 12, 10, 24


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
    """Return the panels of runs, given as name and curves; an empty string if there is no curve."""
    panels = [(panel, _panel_lines(panel, curves)) for panel in PANELS]
    figures = "".join(
        f"<figure><figcaption>{escape(panel.title)}</figcaption>{_panel_svg(panel, lines)}</figure>"
        for panel, lines in panels
        if lines
    )
    if not figures:
        return ""
    names = "".join(
        f'<li class="run{i}">{escape(name)}</li>'
        for i, (name, by_metric) in enumerate(curves)
        if any(by_metric.values())
    )
    note = "<p class=quiet>Solid: training data. Dashed: dev split.</p>" if panels[0][1] else ""
    return f"<ul class=legend>{names}</ul><div class=panels>{figures}</div>{note}"


def _panel_lines(panel: _Panel, curves: Sequence[tuple[str, Mapping[str, Points]]]) -> list[tuple[str, str, Points]]:
    """Return the CSS class, name and points of each line."""
    return [
        (f"run{i}{style}", f"{name}, {key.replace('_', ' ')}", by_metric[key])
        for i, (name, by_metric) in enumerate(curves)
        for key, style in panel.lines.items()
        if by_metric.get(key)
    ]


def _panel_svg(panel: _Panel, lines: Sequence[tuple[str, str, Points]]) -> str:
    last = max(x for *_, points in lines for x, _ in points)
    values = sorted(y for *_, points in lines for _, y in points)
    # The first steps of a loss are far above the rest, which would become a flat line.
    low = 0.0 if panel.from_zero else values[0] * 0.9
    high = (values[-1] if panel.from_zero else values[int(0.97 * (len(values) - 1))]) or 1.0
    high = max(high, low + 1e-6)
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def svg_point(x: float, y: float) -> str:
        share = min(max((y - low) / (high - low), 0.0), 1.04)
        return f"{LEFT + across * x / (last or 1):.1f},{HEIGHT - BOTTOM - down * share:.1f}"

    polylines = "".join(
        f'<polyline class="{kind}" points="{" ".join(svg_point(x, y) for x, y in points)}">'
        f"<title>{escape(name)}: {points[-1][1]:.3g} at step {points[-1][0]:,.0f}</title></polyline>"
        for kind, name, points in lines
    )
    ticks = "".join(
        f'<path class=grid d="M{LEFT} {HEIGHT - BOTTOM - down * share:.1f}h{across}"/>'
        f'<text x="{LEFT - 5}" y="{HEIGHT - BOTTOM - down * share + 4:.1f}" text-anchor="end">'
        f"{low + (high - low) * share:.3g}</text>"
        for share in (0.0, 0.5, 1.0)
    )
    end = f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">step {last:,.0f}</text>'
    return f'<svg class=curve viewBox="0 0 {WIDTH} {HEIGHT}" role=img>{ticks}{end}{polylines}</svg>'
