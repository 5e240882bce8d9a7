"""What a model has learnt of its languages at the steps of its training, as a table and as curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyglot.errors import ManyglotError
from manyglot.probing.over_training import Moment
from manyglot.probing.probe import Baselines, GroupResult
from manyglot.reports.curves import COLOURS, INK, QUIET, STYLE
from manyglot.reports.probing import FAMILY, MAJORITY, RANDOM, check_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Column = tuple[str, Sequence[tuple[int, float]]]
BASELINES: Sequence[tuple[str, Callable[[Baselines], str]]] = (
    (FAMILY, lambda each: f"{each.family_and_geography.best:.1f}"),
    (RANDOM, lambda each: f"{each.random_mean.best:.1f} ± {each.random_std.best:.1f}"),
    (MAJORITY, lambda each: f"{each.majority:.1f}"),
)
"""The label and the cell of each baseline."""


def over_training_text(moments: Sequence[Moment]) -> str:
    """The table in Markdown: a line for each step, and under them what is told of the languages without a model."""
    groups, kinds = _groups(moments), _kinds(moments)
    headings = ["representation", "step", *groups, *(f"r {kind}" for kind in kinds)]
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)]]
    for languages in dict.fromkeys(moment.result.languages for moment in moments):
        alike = [moment for moment in moments if moment.result.languages == languages]
        for label, those in _lines(alike).items():
            lines += [_row(label, moment, groups, kinds) for moment in those]
        same = {each.group: each.baselines for each in alike[0].result.groups}
        lines += [
            [label, "", *(cell(same[group]) if group in same else "–" for group in groups), *[""] * len(kinds)]
            for label, cell in BASELINES
        ]
    notes = (
        "Accuracy in per cent, with the k of the protocol; r: the correlation of distances with those of URIEL. "
        "In brackets: p, by permutations of the languages."
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n- {notes}\n"


def draw_over_training(moments: Sequence[Moment], output: Path) -> None:
    """Accuracies above and correlations below, against the steps; a line for each representation of a run."""
    check_picture(output)
    lines = _lines(moments)
    if len(lines) > len(COLOURS):
        raise ManyglotError(f"At most {len(COLOURS)} lines can be told apart in one picture; got {len(lines)}.")
    import matplotlib
    from matplotlib.figure import Figure

    groups, kinds = _groups(moments), _kinds(moments)
    rows, columns = (2 if kinds else 1), max(len(groups), len(kinds))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.7 * columns, 2.7 * rows + 0.6), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for axes, group in zip(panels[0], groups, strict=False):
            _draw(axes, group, [(label, _accuracies(those, group)) for label, those in lines.items()])
            _draw_beside(axes, next(each for m in moments if (each := _of(m, group))).baselines)
        for axes, kind in zip(panels[-1], kinds, strict=False):
            _draw(axes, f"{kind} distance", [(label, _correlations(those, kind)) for label, those in lines.items()])
            axes.axhline(0, color=QUIET, linewidth=1)
        for axes in [*panels[0][len(groups) :], *panels[-1][len(kinds) if kinds else columns :]]:
            axes.set_axis_off()
        for axes in panels[-1]:
            axes.set_xlabel("step")
        panels[0][0].set_ylabel("accuracy, %")
        if kinds:
            panels[-1][0].set_ylabel("correlation")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
        figure.savefig(output, dpi=160)


def _draw(axes: Axes, title: str, lines: Sequence[Column]) -> None:
    for (label, points), colour in zip(lines, COLOURS, strict=False):
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3.5, label=label)
    axes.set_title(title)


def _draw_beside(axes: Axes, same: Baselines) -> None:
    axes.axhline(same.family_and_geography.best, color=INK, linestyle=":", label=FAMILY)
    middle, spread = same.random_mean.best, same.random_std.best
    axes.axhspan(middle - spread, middle + spread, color=QUIET, alpha=0.25, linewidth=0)
    axes.axhline(middle, color=QUIET, linewidth=1, label=f"{RANDOM} ± std")
    axes.axhline(same.majority, color=QUIET, linestyle="--", linewidth=1, label=MAJORITY)


def _row(label: str, moment: Moment, groups: Sequence[str], kinds: Sequence[str]) -> list[str]:
    cells = [label, f"{moment.step:,}"]
    for group in groups:
        found = _of(moment, group)
        cells.append(f"{found.score.best:.1f} ({found.p_value:.3f})" if found else "–")
    related = {each.kind: each for each in moment.mantels}
    for kind in kinds:
        each = related.get(kind)
        cells.append(f"{each.correlation:z.2f} ({each.p_value:.3f})" if each else "–")
    return cells


def _accuracies(moments: Sequence[Moment], group: str) -> list[tuple[int, float]]:
    return [(moment.step, found.score.best) for moment in moments if (found := _of(moment, group))]


def _correlations(moments: Sequence[Moment], kind: str) -> list[tuple[int, float]]:
    return [(m.step, each.correlation) for m in moments for each in m.mantels if each.kind == kind]


def _lines(moments: Sequence[Moment]) -> dict[str, list[Moment]]:
    """The moments of each representation of a run."""
    found: dict[str, list[Moment]] = {}
    for moment in moments:
        found.setdefault(f"{moment.result.name} ({moment.result.representation})", []).append(moment)
    return found


def _groups(moments: Sequence[Moment]) -> list[str]:
    return list(dict.fromkeys(group.group for moment in moments for group in moment.result.groups))


def _kinds(moments: Sequence[Moment]) -> list[str]:
    return list(dict.fromkeys(each.kind for moment in moments for each in moment.mantels))


def _of(moment: Moment, group: str) -> GroupResult | None:
    return next((each for each in moment.result.groups if each.group == group), None)
