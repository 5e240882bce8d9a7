"""Plot the learning curves of runs: loss, dev metrics, loss by target language, learning rate and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from manyglot.errors import ManyglotError
from manyglot.files import replacing_file, report_unwritable
from manyglot.reports.training_history import Curve, TrainingHistory, metric_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""One color per run, from the color-blind-safe palette of Okabe and Ito."""
TEXT_COLOR, MUTED_COLOR = "#333333", "#999999"
MATPLOTLIB_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": TEXT_COLOR,
    "axes.edgecolor": MUTED_COLOR,
    "axes.labelcolor": TEXT_COLOR,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "grid.color": "#ececec",
    "xtick.color": TEXT_COLOR,
    "ytick.color": TEXT_COLOR,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "text.parse_math": False,  # names of runs may contain $
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
DEV_LINE_STYLE: dict[str, Any] = {"linestyle": "--", "marker": "o", "markersize": 3, "linewidth": 1.2}
SIDE_METRICS = ("alignment", "learning_rate", "tokens_per_second")
"""Metrics of the training records that get a small panel beside the loss."""
MAX_POINTS_PER_CURVE = 150
"""Longer logs are downsampled."""
SHORT_LOG_LINES = 40
"""Logs of at most this length determine the y range from their first line on."""
MAX_HIGHLIGHTED_LANGUAGES, MAX_LABELED_LANGUAGES = 5, 12
"""Languages with the highest loss to highlight, and the number up to which every language is labeled."""
PANELS_PER_ROW = 3
"""Number of panels in a row of dev metrics or languages."""
LABEL_LINE_HEIGHT = 9
"""Height of a line of label text, in points."""


class _PlottedRun(NamedTuple):
    name: str
    history: TrainingHistory
    color: str


class _EndLabel(NamedTuple):
    """A label at the end of a curve."""

    x: float
    y: float
    text: str
    color: str


def plot_learning_curves(histories: Mapping[str, TrainingHistory], output: Path) -> None:
    """Plot the learning curves of runs, given by name, into a file."""
    if output.suffix not in FIGURE_SUFFIXES:
        raise ManyglotError(
            f"{output}: unknown image format. Use {', '.join(FIGURE_SUFFIXES[:-1])} or {FIGURE_SUFFIXES[-1]}."
        )
    if len(histories) > len(COLORS):
        raise ManyglotError(f"A plot shows at most {len(COLORS)} runs; got {len(histories)}.")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ManyglotError("Plotting needs matplotlib. Run pip install 'manyglot[plot]'.") from None
    runs = [
        _PlottedRun(name, history, color) for (name, history), color in zip(histories.items(), COLORS, strict=False)
    ]
    with matplotlib.rc_context(MATPLOTLIB_STYLE):
        figure = Figure(layout="constrained")
        _plot_panels(figure, runs)
        save_figure(figure, output)


def save_figure(figure: Figure, output: Path) -> None:
    """Write a figure in the format of the file's suffix."""
    with report_unwritable(output), replacing_file(output) as unfinished:
        figure.savefig(unfinished, format=output.suffix.removeprefix("."), dpi=160)


def _plot_panels(figure: Figure, runs: Sequence[_PlottedRun]) -> None:
    """Plot the loss beside learning rate and speed, then one panel per dev metric and one per run for its languages."""
    from matplotlib.lines import Line2D

    dev_metrics = list(
        dict.fromkeys(key for run in runs for key in run.history.validation_metric_names if key != "dev_nll")
    )
    run_by_panel = {f"by_target:{run.name}": run for run in runs if run.history.nll_by_target}
    side_metrics = [key for key in SIDE_METRICS if any(run.history.has_metric(key) for run in runs)]
    rows_by_height = {
        1.7: [["loss"] * 4 + [key] * 2 for key in side_metrics] or [["loss"] * 6],
        2.2: _mosaic_rows(dev_metrics),
        3.3: _mosaic_rows([*run_by_panel]),
    }
    rows: Any = [row for block in rows_by_height.values() for row in block]
    heights = [height for height, block in rows_by_height.items() for _ in block]
    figure.set_size_inches(11, sum(heights) + 0.5)
    panels = figure.subplot_mosaic(rows, height_ratios=heights)
    for axes in panels.values():
        axes.set_xlim(0, 1.01 * max(run.history.metric_curve("nll").x[-1] for run in runs))
        axes.set_xlabel("target tokens" if runs[0].history.by_tokens else "steps")
        axes.xaxis.set_major_formatter(_format_short)

    end_labels = {"loss": _plot_loss(panels["loss"], runs)}
    end_labels |= {key: _plot_dev_metric(panels[key], runs, key) for key in dev_metrics}
    end_labels |= {key: _plot_loss_by_target(panels[key], run, runs) for key, run in run_by_panel.items()}
    for key in side_metrics:
        _plot_side_metric(panels[key], [run for run in runs if run.history.has_metric(key)], key)
    for key in side_metrics[:-1]:
        panels[key].set_xlabel("")  # the panel below has the same axis
    lines = [Line2D([], [], color=run.color, linewidth=1.4) for run in runs]
    figure.legend(lines, [run.name for run in runs], loc="outside upper left", ncols=4, fontsize=10)
    figure.draw_without_rendering()  # fixes the layout, which the labels depend on
    for key, ends in end_labels.items():
        _annotate_ends(panels[key], ends)


def _mosaic_rows(names: Sequence[str]) -> list[list[str]]:
    """Arrange panels side by side, in mosaic rows of six cells."""
    columns = min(len(names), PANELS_PER_ROW) or 1
    rows = [names[i : i + columns] for i in range(0, len(names), columns)]
    return [[cell for name in (*row, *"." * (columns - len(row))) for cell in [name] * (6 // columns)] for row in rows]


def _plot_loss(axes: Axes, runs: Sequence[_PlottedRun]) -> list[_EndLabel]:
    """Plot the training and dev loss."""
    ends, curves = [], []
    for run in runs:
        training, dev = run.history.metric_curve("nll"), run.history.metric_curve("dev_nll")
        axes.plot(*training, color=run.color, linewidth=0.6, alpha=0.25)
        axes.plot(*training.downsample(MAX_POINTS_PER_CURVE), color=run.color, linewidth=1.6)
        axes.plot(*dev, color=run.color, **DEV_LINE_STYLE)
        ends.append(_end_label(axes, run, dev if len(dev.x) else training))
        curves += [training, dev]
    axes.plot([], [], color=MUTED_COLOR, linewidth=1.6, label="training")
    if any("dev_nll" in run.history.validation_metric_names for run in runs):
        axes.plot([], [], color=MUTED_COLOR, label="dev", **DEV_LINE_STYLE)
    axes.legend(loc="upper right")
    axes.set_title("loss (negative log-likelihood of a token)")
    axes.set_ylim(_y_limits(curves))
    return ends


def _plot_side_metric(axes: Axes, runs: Sequence[_PlottedRun], key: str) -> None:
    """Plot a metric of the training records."""
    curves = [run.history.metric_curve(key).downsample(MAX_POINTS_PER_CURVE) for run in runs]
    for run, curve in zip(runs, curves, strict=True):
        axes.plot(*curve, color=run.color, linewidth=1.4)
    axes.set_title(metric_title(key))
    axes.set_ylim(0, 1.15 * max(curve.y.max() for curve in curves))
    axes.yaxis.set_major_formatter(_format_short)


def _plot_dev_metric(axes: Axes, runs: Sequence[_PlottedRun], key: str) -> list[_EndLabel]:
    """Plot a validation metric."""
    validated = [run for run in runs if key in run.history.validation_metric_names]
    for run in validated:
        axes.plot(*run.history.metric_curve(key), color=run.color, **DEV_LINE_STYLE)
    axes.set_ylim(bottom=max(axes.get_ylim()[0], 0))
    axes.set_title(metric_title(key))
    return [_end_label(axes, run, run.history.metric_curve(key)) for run in validated]


def _plot_loss_by_target(axes: Axes, run: _PlottedRun, runs: Sequence[_PlottedRun]) -> list[_EndLabel]:
    """Plot the loss into each language and label the highest ones; the panels of all runs share one y range."""
    curves, ends = run.history.nll_by_target, []
    worst = run.history.highest_loss_targets(max(1, min(MAX_HIGHLIGHTED_LANGUAGES, len(curves) // 4)))
    for code, curve in curves.items():
        color, width, alpha, order = (run.color, 1.0, 0.9, 3) if code in worst else (MUTED_COLOR, 0.5, 0.6, 2)
        axes.plot(*curve.downsample(MAX_POINTS_PER_CURVE // 2), color=color, linewidth=width, alpha=alpha, zorder=order)
        if code in worst or len(curves) <= MAX_LABELED_LANGUAGES:
            ends.append(_EndLabel(curve.x[-1], curve.mean_of_last_tenth(), code, color))
    axes.set_title("loss into each language" + (f", {run.name}" if len(runs) > 1 else ""))
    all_curves = [curve for r in runs for curve in r.history.nll_by_target.values()]
    axes.set_ylim(_y_limits([curve.downsample(MAX_POINTS_PER_CURVE // 2) for curve in all_curves]))
    return ends


def _end_label(axes: Axes, run: _PlottedRun, curve: Curve) -> _EndLabel:
    """Label the last value at the right edge of the panel, where it does not cover a longer run."""
    return _EndLabel(axes.get_xlim()[1], curve.y[-1], f"{curve.y[-1]:.2f}", run.color)


def _y_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the y range of curves without the steep first steps, which would flatten the rest."""
    nonempty = [curve for curve in curves if len(curve.x)]
    later = np.concatenate([c.y[c.x >= (c.x[-1] / 20 if len(c.x) > SHORT_LOG_LINES else 0)] for c in nonempty])
    later = later[np.isfinite(later)] if np.isfinite(later).any() else np.zeros(1)
    margin = np.ptp(later) / 20 or 0.1
    return float(later.min() - margin), float(later.max() + margin)


def _annotate_ends(axes: Axes, ends: Sequence[_EndLabel]) -> None:
    """Place labels at the ends of curves without overlap."""
    point = 72 / axes.figure.dpi
    heights = [axes.transData.transform((end.x, end.y))[1] * point for end in ends]
    lowest = axes.bbox.y0 * point + LABEL_LINE_HEIGHT / 2  # the tick labels are below
    for end, height, free in zip(ends, heights, _spread_apart(heights, LABEL_LINE_HEIGHT, lowest), strict=True):
        axes.annotate(
            end.text,
            (end.x, end.y),
            (4, free - height),
            textcoords="offset points",
            verticalalignment="center",
            color=end.color,
            fontsize=8,
            annotation_clip=False,
        )


def _spread_apart(heights: Sequence[float], gap: float, lowest: float) -> list[float]:
    """Move heights apart so that any two differ by at least `gap` and none is below `lowest`."""
    order = np.argsort(heights)
    moved = np.array(heights, dtype=np.float64)[order]
    for _ in range(100):  # neighbors push each other apart
        push = np.clip(gap - np.diff(moved), 0, None) / 2
        moved[:-1] -= push
        moved[1:] += push
    for i in range(len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap if i else lowest)
    return [float(moved[rank]) for rank in np.argsort(order)]


def _format_short(value: float, _: object = None) -> str:
    """Format a number in a few characters, such as 20k."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
