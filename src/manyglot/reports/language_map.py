"""The languages of a model as a picture: a tree, the similarities in its order, and a map of two dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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

OTHER, NOWHERE = "other", "not known"
LINE, LEAST, MOST = 0.115, 4.0, 14.0
"""Inches for a language, and of the height of the picture."""


def draw_map(uriel: Uriel, representation: Representation, by: str, output: Path) -> None:
    """Draw how the languages of a model lie to each other, coloured by family or script."""
    check_picture(output)
    import matplotlib
    from matplotlib.figure import Figure

    distance_LL = distances(representation.values)
    joins = tree(distance_LL)
    order = leaves(joins)
    names = scripts(representation.codes) if by == "script" else families(uriel, representation.codes)
    colour = _colours(names)
    height = min(max(LINE * len(order) + 1.2, LEAST), MOST)
    with matplotlib.rc_context(STYLE | {"axes.grid": False}):
        figure = Figure(figsize=(2.1 * height + 1.5, height), layout="constrained")
        branches, heat, places = figure.subplots(1, 3, width_ratios=(0.25, 1, 1))
        _tree(branches, joins, order)
        _heat(heat, distance_LL, order, representation.codes)
        place_L2, spread = plane(distance_LL)
        _places(places, place_L2, representation.codes, colour, f"map by {by}, {100 * spread:.0f}% of the spread")
        figure.suptitle(f"{representation.model} ({representation.method})", x=0.01, horizontalalignment="left")
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


def _tree(axes: Axes, joins: Sequence[Join], order: Sequence[int]) -> None:
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
    image = axes.imshow(similarity_LL, cmap="cividis", vmin=off.min(), vmax=off.max(), aspect="auto")
    names = [codes[i] for i in order]
    axes.set_yticks(range(len(order)), names, fontsize=6)
    axes.set_xticks(range(len(order)), names, fontsize=6, rotation=90)
    axes.tick_params(length=0)
    axes.set_title("similarity")
    axes.figure.colorbar(image, ax=axes, shrink=0.5, pad=0.01)


def _places(axes: Axes, place_L2: Floats, codes: Sequence[str], colours: dict[str, list[int]], title: str) -> None:
    """The plane, every language by its code."""
    shades = dict(zip((name for name in colours if name not in (OTHER, NOWHERE)), COLOURS, strict=False))
    for name, members in colours.items():
        shade = shades.get(name, QUIET)
        axes.scatter(place_L2[members, 0], place_L2[members, 1], s=12, color=shade, label=name)
        for i in members:
            axes.annotate(codes[i], place_L2[i], (3, 2), textcoords="offset points", fontsize=7, color=shade)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _colours(names: Sequence[str]) -> dict[str, list[int]]:
    """The languages of each kind that has a colour, the largest first; the others together."""
    frequent = [name for name, _ in Counter(filter(None, names)).most_common(len(COLOURS))]
    members: dict[str, list[int]] = {name: [] for name in (*frequent, OTHER, NOWHERE)}
    for i, name in enumerate(names):
        members[name if name in frequent else OTHER if name else NOWHERE].append(i)
    return {name: places for name, places in members.items() if places}
