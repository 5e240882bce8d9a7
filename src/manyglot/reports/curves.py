"""The curves of runs in one picture: losses, dev scores, the loss into each language, learning rate and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manyglot.errors import ManyglotError
from manyglot.reports.history import Curve, History, spoken

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""One for each run, after Okabe and Ito: the colour-blind can tell them apart."""
INK, QUIET = "#333333", "#999999"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "grid.color": "#ececec",
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "text.parse_math": False,  # a name may have a $ in it
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
DEV: dict[str, Any] = {"linestyle": "--", "marker": "o", "markersize": 3, "linewidth": 1.2}
NUMBERS = ("alignment", "learning_rate", "tokens_per_second")
MOST_POINTS = 150
"""Of a curve; where a log has more lines, a point is the mean of several."""
FEW_LINES = 40
"""A log as short as this is drawn from its first line."""
NUM_WORST, FEW_LANGUAGES = 5, 12
"""Languages that stand out, at most, and how many can all be named."""
IN_A_ROW = 3
"""Panels; the loss takes the place of two."""
LINE = 9
"""The height of a line of small text, in points."""


class _Run(NamedTuple):
    name: str
    history: History
    colour: str


class _End(NamedTuple):
    """Words beside the end of a curve."""

    x: float
    y: float
    text: str
    colour: str


def draw_curves(histories: Mapping[str, History], output: Path) -> None:
    """Draw runs, by their names, into a file."""
    if output.suffix not in KINDS:
        raise ManyglotError(f"{output}: a picture is written as {', '.join(KINDS[:-1])} or {KINDS[-1]}.")
    if len(histories) > len(COLOURS):
        raise ManyglotError(f"At most {len(COLOURS)} runs can be told apart in one picture; got {len(histories)}.")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ManyglotError("To draw curves, install matplotlib: pip install 'manyglot[plot]'.") from None
    runs = [_Run(name, history, colour) for (name, history), colour in zip(histories.items(), COLOURS, strict=False)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(layout="constrained")
        _draw(figure, runs)
        figure.savefig(output, dpi=160)


def _draw(figure: Figure, runs: Sequence[_Run]) -> None:
    """The loss beside learning rate and speed; then a panel for each dev score, and one for each run's languages."""
    scores = list(dict.fromkeys(key for run in runs for key in run.history.metrics if key != "dev_nll"))
    into = {f"into:{run.name}": run for run in runs if run.history.into}
    numbers = [key for key in NUMBERS if any(key in run.history.training[-1] for run in runs)]
    parts = {1.7: [["loss"] * 4 + [key] * 2 for key in numbers], 2.2: _rows(scores), 3.3: _rows([*into])}
    rows: Any = [row for part in parts.values() for row in part]
    heights = [height for height, part in parts.items() for _ in part]
    figure.set_size_inches(11, sum(heights) + 0.5)
    panels = figure.subplot_mosaic(rows, height_ratios=heights)
    for axes in panels.values():
        axes.set_xlim(0, 1.01 * max(run.history.curve("nll").x[-1] for run in runs))
        axes.set_xlabel("target tokens" if runs[0].history.by_tokens else "steps")
        axes.xaxis.set_major_formatter(_short)

    words = {"loss": _loss(panels["loss"], runs)}
    words |= {key: _scores(panels[key], runs, key) for key in scores}
    words |= {key: _languages(panels[key], run, runs) for key, run in into.items()}
    for key in numbers:
        _numbers(panels[key], [run for run in runs if key in run.history.training[-1]], key)
    for key in numbers[:-1]:
        panels[key].set_xlabel("")  # the same as below it
    lines = panels[numbers[-1]].get_lines()
    figure.legend(lines, [run.name for run in runs], loc="outside upper left", ncols=4, fontsize=10)
    figure.draw_without_rendering()  # from here on it is known where things are
    for key, ends in words.items():
        _write(panels[key], ends)


def _rows(names: Sequence[str]) -> list[list[str]]:
    """Panels side by side, as rows of six cells."""
    columns = min(len(names), IN_A_ROW) or 1
    rows = [names[i : i + columns] for i in range(0, len(names), columns)]
    return [[cell for name in (*row, *"." * (columns - len(row))) for cell in [name] * (6 // columns)] for row in rows]


def _loss(axes: Axes, runs: Sequence[_Run]) -> list[_End]:
    """The loss in training and on the dev split."""
    ends, curves = [], []
    for run in runs:
        training, dev = run.history.curve("nll"), run.history.curve("dev_nll")
        axes.plot(*training, color=run.colour, linewidth=0.6, alpha=0.25)
        axes.plot(*training.thinned(MOST_POINTS), color=run.colour, linewidth=1.6)
        axes.plot(*dev, color=run.colour, **DEV)
        ends.append(_end(axes, run, dev if len(dev.x) else training))
        curves += [training, dev]
    axes.plot([], [], color=QUIET, linewidth=1.6, label="training")
    if any("dev_nll" in run.history.metrics for run in runs):
        axes.plot([], [], color=QUIET, label="dev", **DEV)
    axes.legend(loc="upper right")
    axes.set_title("loss (negative log-likelihood of a token)")
    axes.set_ylim(_limits(curves))
    return ends


def _numbers(axes: Axes, runs: Sequence[_Run], key: str) -> None:
    """A number of each line of the log."""
    curves = [run.history.curve(key).thinned(MOST_POINTS) for run in runs]
    for run, curve in zip(runs, curves, strict=True):
        axes.plot(*curve, color=run.colour, linewidth=1.4)
    axes.set_title(spoken(key))
    axes.set_ylim(0, 1.15 * max(curve.y.max() for curve in curves))
    axes.yaxis.set_major_formatter(_short)


def _scores(axes: Axes, runs: Sequence[_Run], key: str) -> list[_End]:
    """A measurement on the dev split."""
    measured = [run for run in runs if key in run.history.metrics]
    for run in measured:
        axes.plot(*run.history.curve(key), color=run.colour, **DEV)
    axes.set_ylim(bottom=max(axes.get_ylim()[0], 0))
    axes.set_title(spoken(key))
    return [_end(axes, run, run.history.curve(key)) for run in measured]


def _languages(axes: Axes, run: _Run, runs: Sequence[_Run]) -> list[_End]:
    """The loss into each language, the worst ones with their names; the panels of all runs have the same scale."""
    curves, ends = run.history.into, []
    worst = run.history.worst(max(1, min(NUM_WORST, len(curves) // 4)))
    for code, curve in curves.items():
        colour, width, alpha, order = (run.colour, 1.0, 0.9, 3) if code in worst else (QUIET, 0.5, 0.6, 2)
        axes.plot(*curve.thinned(MOST_POINTS // 2), color=colour, linewidth=width, alpha=alpha, zorder=order)
        if code in worst or len(curves) <= FEW_LANGUAGES:
            ends.append(_End(curve.x[-1], curve.end(), code, colour))
    axes.set_title("loss into each language" + (f", {run.name}" if len(runs) > 1 else ""))
    axes.set_ylim(_limits([curve.thinned(MOST_POINTS // 2) for each in runs for curve in each.history.into.values()]))
    return ends


def _end(axes: Axes, run: _Run, curve: Curve) -> _End:
    """The last value, at the right of the panel: there it covers no longer run."""
    return _End(axes.get_xlim()[1], curve.y[-1], f"{curve.y[-1]:.2f}", run.colour)


def _limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """The range of curves, without the steep fall of the first steps that would flatten the rest."""
    drawn = [curve for curve in curves if len(curve.x)]
    later = np.concatenate([c.y[c.x >= (c.x[-1] / 20 if len(c.x) > FEW_LINES else 0)] for c in drawn])
    later = later[np.isfinite(later)] if np.isfinite(later).any() else np.zeros(1)
    room = np.ptp(later) / 20 or 0.1
    return float(later.min() - room), float(later.max() + room)


def _write(axes: Axes, ends: Sequence[_End]) -> None:
    """Put words beside the ends of curves, none over another."""
    point = 72 / axes.figure.dpi
    at = [axes.transData.transform((end.x, end.y))[1] * point for end in ends]
    lowest = axes.bbox.y0 * point + LINE / 2  # below are the numbers of the axis
    for end, height, free in zip(ends, at, _apart(at, LINE, lowest), strict=True):
        axes.annotate(
            end.text,
            (end.x, end.y),
            (4, free - height),
            textcoords="offset points",
            verticalalignment="center",
            color=end.colour,
            fontsize=8,
            annotation_clip=False,
        )


def _apart(heights: Sequence[float], gap: float, lowest: float) -> list[float]:
    """Heights that are moved a little, so that there is a gap between any two, and none is too low."""
    order = np.argsort(heights)
    moved = np.array(heights, dtype=np.float64)[order]
    for _ in range(100):  # neighbours give way to each other
        missing = np.clip(gap - np.diff(moved), 0, None) / 2
        moved[:-1] -= missing
        moved[1:] += missing
    for i in range(len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap if i else lowest)
    return [float(moved[place]) for place in np.argsort(order)]


def _short(value: float, _: object = None) -> str:
    """A number in a few letters, such as 20k."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
