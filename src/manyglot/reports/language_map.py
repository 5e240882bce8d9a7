"""The languages of a model as a picture: a tree, the similarities in its order, and a map of two dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from manyglot.probing.language_map import Join, Mantel, distances, families, leaves, plane, scripts, tree
from manyglot.probing.neighbours import Floats
from manyglot.probing.representations import Representation
from manyglot.probing.uriel import Uriel
from manyglot.reports.curves import COLOURS, INK, QUIET, STYLE
from manyglot.reports.probing import check_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHER, UNKNOWN = "other", "unknown"
LABELS = {UNKNOWN: "not known"}
"""Kinds whose label differs from their name."""
LINE, LEAST, MOST = 0.115, 4.0, 14.0
"""Inches for a language, and of the height of the picture."""
RINGS, DIRECTIONS = (7, 14, 21, 28, 35), 8
"""Where the name of a point may stand around it: distances in points of text, and how many places at each."""


def draw_map(uriel: Uriel, representation: Representation, by: str, output: Path) -> None:
    """Draw how the languages of a model lie to each other, coloured by family or script."""
    check_picture(output)
    import matplotlib
    from matplotlib.figure import Figure

    distance_LL = distances(representation.values)
    joins = tree(distance_LL)
    order = leaves(joins)
    names = scripts(representation.codes) if by == "script" else families(uriel, representation.codes)
    kinds = _kinds(names)
    height = min(max(LINE * len(order) + 1.2, LEAST), MOST)
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(2.1 * height + 1.5, height), layout="constrained")
        branches, heat, places = figure.subplots(1, 3, width_ratios=(0.25, 1, 1))
        draw_tree(branches, joins, order)
        _heat(heat, distance_LL, order, representation.codes)
        place_L2, spread = plane(distance_LL)
        places.set_title(f"map by {by}, {100 * spread:.0f}% of the spread")
        figure.suptitle(f"{representation.model} ({representation.method})", x=0.01, horizontalalignment="left")
        draw_places(places, place_L2, kinds, _shades(kinds))
        places.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
        name_places(places, place_L2, representation.codes, 7)
        figure.savefig(output, dpi=160)


def mantel_text(representations: Sequence[Representation], found: Sequence[Sequence[Mantel]]) -> str:
    """The correlations of distances in Markdown."""
    lines = ["| distances in | those of URIEL | languages | r | p (Mantel) |", "| --- | --- | ---: | ---: | ---: |"]
    for representation, mantels in zip(representations, found, strict=True):
        name = f"{representation.model} ({representation.method})"
        lines += [
            f"| {name} | {each.kind} | {each.num_languages} | {each.correlation:z.2f} | {each.p_value:.3f} |"
            for each in mantels
        ]
    return "\n".join([*lines, ""])


def draw_tree(axes: Axes, joins: Sequence[Join], order: Sequence[int]) -> None:
    """The tree, its leaves at the right in the order of the heat map's rows."""
    at = {language: (float(row), 0.0) for row, language in enumerate(order)}
    for number, join in enumerate(joins, start=len(order)):
        (low, left), (high, right) = at[join.left], at[join.right]
        axes.plot([left, join.height, join.height, right], [low, low, high, high], color=INK, linewidth=0.8)
        at[number] = ((low + high) / 2, join.height)
    heights = [join.height for join in joins]
    floor = max(0.0, min(heights) - 0.15 * (max(heights) - min(heights)))  # where all are far, what differs is seen
    axes.set_xlim(max(heights) * 1.001, floor)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_axis_off()


def _heat(axes: Axes, distance_LL: Floats, order: Sequence[int], codes: Sequence[str]) -> None:
    """Similarities in the order of the tree."""
    similarity_LL = 1 - distance_LL[np.ix_(order, order)]
    off = similarity_LL[~np.eye(len(order), dtype=np.bool_)]
    top = np.quantile(off, 0.99)  # the few nearest would fade all others
    image = axes.imshow(similarity_LL, cmap="cividis", vmin=off.min(), vmax=top, aspect="auto")
    names = [codes[i] for i in order]
    axes.set_yticks(range(len(order)), names, fontsize=6)
    axes.set_xticks(range(len(order)), names, fontsize=6, rotation=90)
    axes.tick_params(length=0)
    axes.set_title("similarity")
    axes.figure.colorbar(image, ax=axes, shrink=0.5, pad=0.01, extend="max")


def draw_places(
    axes: Axes,
    place_L2: Floats,
    kinds: Mapping[str, Sequence[int]],
    shades: Mapping[str, str],
) -> None:
    """The plane: a point for each language in the colour of its kind."""
    for name, members in kinds.items():
        axes.scatter(
            place_L2[members, 0],
            place_L2[members, 1],
            s=12,
            color=shades.get(name, QUIET),
            label=LABELS.get(name, name),
        )
    axes.set_xticks([])
    axes.set_yticks([])


def name_places(axes: Axes, place_L2: Floats, codes: Sequence[str], size: float) -> None:
    """Name the points of a plane, each as near as no other name or point is covered.

    The figure must have all else already: where there is room depends on it.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    point_L2 = axes.transData.transform(place_L2) * 72 / figure.dpi
    taken = [(x - 2.5, y - 2.5, x + 2.5, y + 2.5) for x, y in point_L2]
    for i, code in enumerate(codes):
        half, up = 0.32 * size * len(code), 0.42 * size
        tried = [
            (x, y, (*(point_L2[i] + (x - half, y - up)), *(point_L2[i] + (x + half, y + up)))) for x, y in _around()
        ]
        free = (each for each in tried if not any(_cross(each[2], other) for other in taken))
        x, y, box = next(free, tried[0])
        taken.append(box)
        line = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            code,
            place_L2[i],
            (x, y),
            textcoords="offset points",
            arrowprops=line if np.hypot(x, y) > 1.5 * RINGS[0] else None,
            fontsize=size,
            ha="center",
            va="center",
            in_layout=False,
        )


Box = tuple[float, float, float, float]


def _around() -> Iterator[tuple[float, float]]:
    """Places around a point, the nearest first, beginning at its right."""
    for ring in RINGS:
        for k in range(DIRECTIONS):
            angle = 2 * np.pi * k / DIRECTIONS
            yield float(ring * np.cos(angle)), float(ring * np.sin(angle))


def _cross(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _shades(kinds: Mapping[str, Sequence[int]]) -> dict[str, str]:
    return dict(zip((name for name in kinds if name not in (OTHER, UNKNOWN)), COLOURS, strict=False))


def _kinds(names: Sequence[str]) -> dict[str, list[int]]:
    """The languages of each kind that has a colour, the largest first; the others together."""
    frequent = [name for name, _ in Counter(filter(None, names)).most_common(len(COLOURS))]
    members: dict[str, list[int]] = {name: [] for name in (*frequent, OTHER, UNKNOWN)}
    for i, name in enumerate(names):
        members[name if name in frequent else OTHER if name else UNKNOWN].append(i)
    return {name: places for name, places in members.items() if places}
