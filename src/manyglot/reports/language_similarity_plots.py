"""Plot the languages of a model: a dendrogram, a similarity heat map in its order, and a 2-D map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyglot.probing.knn import Floats
from manyglot.probing.language_distance_analysis import (
    ClusterMerge,
    MantelResult,
    average_linkage,
    classical_mds,
    cosine_distances,
    language_families,
    leaf_order,
    script_names,
)
from manyglot.probing.language_representations import LanguageRepresentation
from manyglot.probing.uriel import UrielDatabase
from manyglot.reports.learning_curve_plot import COLORS, MATPLOTLIB_STYLE, MUTED_COLOR, TEXT_COLOR, save_figure
from manyglot.reports.typology_probing import check_can_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHER_CATEGORY, UNKNOWN_CATEGORY = "other", "unknown"
CATEGORY_LABELS = {UNKNOWN_CATEGORY: "not known"}
"""Legend labels that differ from the category."""
INCHES_PER_LANGUAGE, MIN_FIGURE_HEIGHT, MAX_FIGURE_HEIGHT = 0.115, 4.0, 14.0
"""Figure height in inches: per language, minimum and maximum."""
LABEL_DISTANCES, NUM_LABEL_ANGLES = (7, 14, 21, 28, 35), 8
"""Candidate positions of a label around its point: distances in points, and angles at each distance."""


def plot_language_similarity(
    uriel: UrielDatabase, representation: LanguageRepresentation, color_by: str, output: Path
) -> None:
    """Plot the similarity structure of a model's languages, colored by family or script."""
    check_can_plot(output)
    import matplotlib
    from matplotlib.figure import Figure

    distance_LL = cosine_distances(representation.values)
    merges = average_linkage(distance_LL)
    order = leaf_order(merges)
    codes = representation.codes
    categories = script_names(codes) if color_by == "script" else language_families(uriel, codes)
    members = _group_by_category(categories)
    height = min(max(INCHES_PER_LANGUAGE * len(order) + 1.2, MIN_FIGURE_HEIGHT), MAX_FIGURE_HEIGHT)
    with matplotlib.rc_context(MATPLOTLIB_STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(2.1 * height + 1.5, height), layout="constrained")
        dendrogram, heatmap, points = figure.subplots(1, 3, width_ratios=(0.25, 1, 1))
        plot_dendrogram(dendrogram, merges, order)
        _plot_similarity_heatmap(heatmap, distance_LL, order, codes)
        point_L2, explained_variance = classical_mds(distance_LL)
        points.set_title(f"map by {color_by} (MDS, {100 * explained_variance:.0f}% of the variance)")
        figure.suptitle(f"{representation.model_name} ({representation.method})", x=0.01, horizontalalignment="left")
        plot_points(points, point_L2, members, _category_colors(members))
        points.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
        label_points(points, point_L2, codes, 7)
        save_figure(figure, output)


def mantel_markdown(
    representations: Sequence[LanguageRepresentation], mantel_results: Sequence[Sequence[MantelResult]]
) -> str:
    """Return a Markdown table of Mantel tests, given the results of each representation."""
    lines = ["| representation | URIEL distance | languages | r | p (Mantel) |", "| --- | --- | ---: | ---: | ---: |"]
    for representation, results in zip(representations, mantel_results, strict=True):
        name = f"{representation.model_name} ({representation.method})"
        lines += [
            f"| {name} | {mantel.distance_kind} | {mantel.num_languages} | {mantel.correlation:z.2f} "
            f"| {mantel.p_value:.3f} |"
            for mantel in results
        ]
    return "\n".join([*lines, ""])


def plot_dendrogram(axes: Axes, merges: Sequence[ClusterMerge], order: Sequence[int]) -> None:
    """Plot the dendrogram with its leaves on the right, in the order of the heat map's rows."""
    position = {language: (float(row), 0.0) for row, language in enumerate(order)}
    for cluster, merge in enumerate(merges, start=len(order)):
        (low, left), (high, right) = position[merge.left], position[merge.right]
        axes.plot([left, merge.height, merge.height, right], [low, low, high, high], color=TEXT_COLOR, linewidth=0.8)
        position[cluster] = ((low + high) / 2, merge.height)
    heights = [merge.height for merge in merges]
    floor = max(
        0.0, min(heights) - 0.15 * (max(heights) - min(heights))
    )  # shows differences even if all merges are high
    axes.set_xlim(max(heights) * 1.001, floor)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_axis_off()


def _plot_similarity_heatmap(axes: Axes, distance_LL: Floats, order: Sequence[int], codes: Sequence[str]) -> None:
    """Plot the similarities in the order of the dendrogram."""
    similarity_LL = 1 - distance_LL[np.ix_(order, order)]
    off_diagonal = similarity_LL[~np.eye(len(order), dtype=np.bool_)]
    vmax = np.quantile(off_diagonal, 0.99)  # a few very similar pairs would flatten the scale
    image = axes.imshow(similarity_LL, cmap="cividis", vmin=off_diagonal.min(), vmax=vmax, aspect="auto")
    names = [codes[i] for i in order]
    axes.set_yticks(range(len(order)), names, fontsize=6)
    axes.set_xticks(range(len(order)), names, fontsize=6, rotation=90)
    axes.tick_params(length=0)
    axes.set_title("similarity")
    axes.figure.colorbar(image, ax=axes, shrink=0.5, pad=0.01, extend="max")


def plot_points(
    axes: Axes,
    point_L2: Floats,
    members_by_category: Mapping[str, Sequence[int]],
    color_by_category: Mapping[str, str],
) -> None:
    """Plot each language as a point in the color of its category."""
    for name, members in members_by_category.items():
        axes.scatter(
            point_L2[members, 0],
            point_L2[members, 1],
            s=12,
            color=color_by_category.get(name, MUTED_COLOR),
            label=CATEGORY_LABELS.get(name, name),
        )
    axes.set_xticks([])
    axes.set_yticks([])


def label_points(axes: Axes, point_L2: Floats, codes: Sequence[str], font_size: float) -> None:
    """Label points, each as close as possible without covering another label or point.

    Call it last: the free space depends on the rest of the figure.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    pixel_L2 = axes.transData.transform(point_L2) * 72 / figure.dpi
    occupied = [(x - 2.5, y - 2.5, x + 2.5, y + 2.5) for x, y in pixel_L2]
    for i, code in enumerate(codes):
        half_width, half_height = 0.32 * font_size * len(code), 0.42 * font_size
        candidates = [
            (
                x,
                y,
                (
                    *(pixel_L2[i] + (x - half_width, y - half_height)),
                    *(pixel_L2[i] + (x + half_width, y + half_height)),
                ),
            )
            for x, y in _label_offsets()
        ]
        free = (c for c in candidates if not any(_boxes_overlap(c[2], box) for box in occupied))
        x, y, box = next(free, candidates[0])
        occupied.append(box)
        line = {"arrowstyle": "-", "color": MUTED_COLOR, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            code,
            point_L2[i],
            (x, y),
            textcoords="offset points",
            arrowprops=line if np.hypot(x, y) > 1.5 * LABEL_DISTANCES[0] else None,
            fontsize=font_size,
            ha="center",
            va="center",
            in_layout=False,
        )


Box = tuple[float, float, float, float]


def _label_offsets() -> Iterator[tuple[float, float]]:
    """Yield label offsets around a point, nearest first, starting on the right."""
    for distance in LABEL_DISTANCES:
        for k in range(NUM_LABEL_ANGLES):
            angle = 2 * np.pi * k / NUM_LABEL_ANGLES
            yield float(distance * np.cos(angle)), float(distance * np.sin(angle))


def _boxes_overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _category_colors(members_by_category: Mapping[str, Sequence[int]]) -> dict[str, str]:
    named = (name for name in members_by_category if name not in (OTHER_CATEGORY, UNKNOWN_CATEGORY))
    return dict(zip(named, COLORS, strict=False))


def _group_by_category(categories: Sequence[str]) -> dict[str, list[int]]:
    """Return the languages of the most frequent categories, largest first; the rest are grouped as other or unknown."""
    frequent = [name for name, _ in Counter(filter(None, categories)).most_common(len(COLORS))]
    members: dict[str, list[int]] = {name: [] for name in (*frequent, OTHER_CATEGORY, UNKNOWN_CATEGORY)}
    for i, name in enumerate(categories):
        members[name if name in frequent else OTHER_CATEGORY if name else UNKNOWN_CATEGORY].append(i)
    return {name: indices for name, indices in members.items() if indices}
