"""Probing results over the checkpoints of runs, as a table and a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyglot.errors import ManyglotError
from manyglot.probing.checkpoint_probe import CheckpointProbeResult
from manyglot.probing.typology_probe import FeatureGroupResult, ProbeBaselines
from manyglot.reports.learning_curve_plot import COLORS, MATPLOTLIB_STYLE, MUTED_COLOR, TEXT_COLOR, save_figure
from manyglot.reports.typology_probing import FAMILY_LABEL, MAJORITY_LABEL, RANDOM_LABEL, check_can_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LabeledPoints = tuple[str, Sequence[tuple[int, float]]]
BASELINES: Sequence[tuple[str, Callable[[ProbeBaselines], str]]] = (
    (FAMILY_LABEL, lambda b: f"{b.family_and_geography.at_selected_k:.1f}"),
    (RANDOM_LABEL, lambda b: f"{b.random_mean.at_selected_k:.1f} ± {b.random_std.at_selected_k:.1f}"),
    (MAJORITY_LABEL, lambda b: f"{b.majority_class:.1f}"),
)
"""The label of each baseline and the function that formats its cell."""


def checkpoint_probing_markdown(checkpoints: Sequence[CheckpointProbeResult]) -> str:
    """Return the table in Markdown: one row per step, followed by the baselines without a model."""
    groups, kinds = _feature_groups(checkpoints), _distance_kinds(checkpoints)
    headings = ["representation", "step", *groups, *(f"r {kind}" for kind in kinds)]
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)]]
    for languages in dict.fromkeys(checkpoint.probe_result.languages for checkpoint in checkpoints):
        same_languages = [c for c in checkpoints if c.probe_result.languages == languages]
        for label, steps in _group_by_representation(same_languages).items():
            lines += [_checkpoint_row(label, checkpoint, groups, kinds) for checkpoint in steps]
        baselines = {g.group: g.baselines for g in same_languages[0].probe_result.group_results}
        for label, format_cell in BASELINES:
            cells = [format_cell(baselines[group]) if group in baselines else "–" for group in groups]
            lines.append([label, "", *cells, *[""] * len(kinds)])
    notes = (
        "Accuracy in percent at the selected k; r: correlation of the model's distances with URIEL's. "
        "In parentheses: p-value from permutations of the languages."
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n- {notes}\n"


def plot_checkpoint_probing(checkpoints: Sequence[CheckpointProbeResult], output: Path) -> None:
    """Plot accuracies (top) and correlations (bottom) against the steps, one line per representation of a run."""
    check_can_plot(output)
    lines = _group_by_representation(checkpoints)
    if len(lines) > len(COLORS):
        raise ManyglotError(
            f"A plot shows at most {len(COLORS)} representations; got {len(lines)}. Probe fewer runs, or use --method."
        )
    import matplotlib
    from matplotlib.figure import Figure

    groups, kinds = _feature_groups(checkpoints), _distance_kinds(checkpoints)
    rows, columns = (2 if kinds else 1), max(len(groups), len(kinds))
    with matplotlib.rc_context(MATPLOTLIB_STYLE):
        figure = Figure(figsize=(3.7 * columns, 2.7 * rows + 0.6), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for axes, group in zip(panels[0], groups, strict=False):
            _plot_lines(axes, group, [(label, _accuracy_points(line, group)) for label, line in lines.items()])
            _plot_baselines(axes, next(g.baselines for c in checkpoints if (g := _find_group(c, group))))
        for axes, kind in zip(panels[-1], kinds, strict=False):
            _plot_lines(
                axes, f"{kind} distance", [(label, _correlation_points(line, kind)) for label, line in lines.items()]
            )
            axes.axhline(0, color=MUTED_COLOR, linewidth=1)
        for axes in [*panels[0][len(groups) :], *panels[-1][len(kinds) if kinds else columns :]]:
            axes.set_axis_off()
        for axes in panels[-1]:
            axes.set_xlabel("step")
        panels[0][0].set_ylabel("accuracy, %")
        if kinds:
            panels[-1][0].set_ylabel("correlation")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
        save_figure(figure, output)


def _plot_lines(axes: Axes, title: str, lines: Sequence[LabeledPoints]) -> None:
    for (label, points), color in zip(lines, COLORS, strict=False):
        if points:
            axes.plot(*zip(*points, strict=True), color=color, marker="o", markersize=3.5, label=label)
    axes.set_title(title)


def _plot_baselines(axes: Axes, baselines: ProbeBaselines) -> None:
    axes.axhline(baselines.family_and_geography.at_selected_k, color=TEXT_COLOR, linestyle=":", label=FAMILY_LABEL)
    mean, std = baselines.random_mean.at_selected_k, baselines.random_std.at_selected_k
    axes.axhspan(mean - std, mean + std, color=MUTED_COLOR, alpha=0.25, linewidth=0)
    axes.axhline(mean, color=MUTED_COLOR, linewidth=1, label=f"{RANDOM_LABEL} ± std")
    axes.axhline(baselines.majority_class, color=MUTED_COLOR, linestyle="--", linewidth=1, label=MAJORITY_LABEL)


def _checkpoint_row(
    label: str, checkpoint: CheckpointProbeResult, groups: Sequence[str], kinds: Sequence[str]
) -> list[str]:
    cells = [label, f"{checkpoint.step:,}"]
    for group in groups:
        result = _find_group(checkpoint, group)
        cells.append(f"{result.knn_accuracy.at_selected_k:.1f} ({result.p_value:.3f})" if result else "–")
    mantel_by_kind = {mantel.distance_kind: mantel for mantel in checkpoint.mantel_results}
    for kind in kinds:
        mantel = mantel_by_kind.get(kind)
        cells.append(f"{mantel.correlation:z.2f} ({mantel.p_value:.3f})" if mantel else "–")
    return cells


def _accuracy_points(checkpoints: Sequence[CheckpointProbeResult], group: str) -> list[tuple[int, float]]:
    return [(c.step, g.knn_accuracy.at_selected_k) for c in checkpoints if (g := _find_group(c, group))]


def _correlation_points(checkpoints: Sequence[CheckpointProbeResult], kind: str) -> list[tuple[int, float]]:
    return [(c.step, m.correlation) for c in checkpoints for m in c.mantel_results if m.distance_kind == kind]


def _group_by_representation(checkpoints: Sequence[CheckpointProbeResult]) -> dict[str, list[CheckpointProbeResult]]:
    """Group the results by representation, labeled with model and method."""
    groups: dict[str, list[CheckpointProbeResult]] = {}
    for checkpoint in checkpoints:
        result = checkpoint.probe_result
        groups.setdefault(f"{result.model_name} ({result.method})", []).append(checkpoint)
    return groups


def _feature_groups(checkpoints: Sequence[CheckpointProbeResult]) -> list[str]:
    return list(
        dict.fromkeys(group.group for checkpoint in checkpoints for group in checkpoint.probe_result.group_results)
    )


def _distance_kinds(checkpoints: Sequence[CheckpointProbeResult]) -> list[str]:
    return list(
        dict.fromkeys(mantel.distance_kind for checkpoint in checkpoints for mantel in checkpoint.mantel_results)
    )


def _find_group(checkpoint: CheckpointProbeResult, group: str) -> FeatureGroupResult | None:
    return next((g for g in checkpoint.probe_result.group_results if g.group == group), None)
