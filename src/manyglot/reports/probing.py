"""What probing has found: the paper's table with baselines under every group, and accuracy against k as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyglot.errors import ManyglotError
from manyglot.probing.fill import Filled
from manyglot.probing.neighbours import Vote
from manyglot.probing.probe import GroupResult, ProbeResult, ProbeSettings, Score
from manyglot.probing.uriel import GROUPS, Exclusion
from manyglot.reports.curves import COLOURS, INK, KINDS, QUIET, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAMILY, RANDOM, MAJORITY = "family + geography", "random vectors", "majority class"


def probing_text(results: Sequence[ProbeResult], settings: ProbeSettings) -> str:
    """The table in Markdown: accuracy for each number of neighbours, and the best as the protocol has it."""
    best = "max" if settings.vote is Vote.PAPER else "chosen"
    headings = ["features", "representation", *(f"k = {k}" for k in settings.neighbours), best, "p"]
    lines = [headings, ["---", "---", *["---:"] * (len(headings) - 2)]]
    lines += [row for group in _groups(results) for row in _rows(group, results, settings)]
    notes = "\n".join(f"- {note}" for note in _notes(results, settings))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{notes}\n"


def filled_text(language: str, representation: str, filled: Sequence[Filled]) -> str:
    """Predicted features in Markdown, with their neighbours."""
    lines = [
        f"Missing features of {language}, by its neighbours in {representation}:",
        "",
        "| features | feature | value | confidence | right elsewhere | neighbours |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for each in filled:
        near = " ".join(f"{code} {value}" if value != each.value else code for code, value in each.neighbours)
        accuracy = "–" if each.accuracy is None else f"{each.accuracy:.0f}%"
        feature = each.feature.replace("|", "\\|")
        cells = (each.group, feature, str(each.value), f"{100 * each.confidence:.0f}%", accuracy, near)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", "A neighbour's value is given where it is another one.", ""])


def left_out_text(left_out: Mapping[str, Exclusion]) -> str:
    """The languages that were not probed, with the reason."""
    return "Left out: " + ", ".join(f"{code} ({why})" for code, why in left_out.items()) + "."


def draw_probing(results: Sequence[ProbeResult], settings: ProbeSettings, output: Path) -> None:
    """Accuracy against the number of neighbours: a panel for each group of features, a line for each representation."""
    check_picture(output)
    if len(results) > len(COLOURS):
        raise ManyglotError(f"At most {len(COLOURS)} lines can be told apart in one picture; got {len(results)}.")
    import matplotlib
    from matplotlib.figure import Figure

    groups = _groups(results)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.7 * len(groups), 3.6), layout="constrained")
        panels: list[Axes] = list(figure.subplots(1, len(groups), squeeze=False)[0])
        for axes, group in zip(panels, groups, strict=True):
            _panel(axes, group, results, settings)
        panels[0].set_ylabel("accuracy, %")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
        figure.savefig(output, dpi=160)


def check_picture(output: Path) -> None:
    """Refuse what cannot be drawn, before anything is computed."""
    if output.suffix not in KINDS:
        raise ManyglotError(f"{output}: a picture is written as {', '.join(KINDS[:-1])} or {KINDS[-1]}.")
    if not output.parent.is_dir():
        raise ManyglotError(f"{output}: there is no folder {output.parent}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ManyglotError("To draw pictures, install matplotlib: pip install 'manyglot[plot]'.") from None


def _panel(axes: Axes, group: str, results: Sequence[ProbeResult], settings: ProbeSettings) -> None:
    first = next(each for result in results if (each := _of(result, group)))  # its baselines are drawn
    numbers, random = settings.neighbours, first.baselines.random_mean.by_number
    spread = first.baselines.random_std.by_number
    low, high = ([r + sign * s for r, s in zip(random, spread, strict=True)] for sign in (-1, 1))
    for result, colour in zip(results, COLOURS, strict=False):
        if found := _of(result, group):
            axes.plot(numbers, found.score.by_number, color=colour, marker="o", markersize=3.5, label=_label(result))
    axes.plot(numbers, first.baselines.family_and_geography.by_number, color=INK, linestyle=":", label=FAMILY)
    axes.fill_between(numbers, low, high, color=QUIET, alpha=0.25, linewidth=0)
    axes.plot(numbers, random, color=QUIET, linewidth=1, label=f"{RANDOM} ± std")
    axes.axhline(first.baselines.majority, color=QUIET, linestyle="--", linewidth=1, label=MAJORITY)
    axes.set_title(group)
    axes.set_xticks(numbers)
    axes.set_xlabel("k")


def _rows(group: str, results: Sequence[ProbeResult], settings: ProbeSettings) -> Iterator[list[str]]:
    """The representations of the same languages, and under them what is told of these languages without a model."""
    for languages in dict.fromkeys(result.languages for result in results):
        alike = [result for result in results if result.languages == languages]
        found = [(result, each) for result in alike if (each := _of(result, group))]
        for result, each in found:
            yield [group, _label(result), *_numbers(each.score), f"{each.p_value:.3f}"]
        if found:
            same = found[0][1].baselines
            mean, std = (_numbers(score) for score in (same.random_mean, same.random_std))
            yield [group, FAMILY, *_numbers(same.family_and_geography), ""]
            yield [group, RANDOM, *(f"{m} ± {s}" for m, s in zip(mean, std, strict=True)), ""]
            yield [group, MAJORITY, *[f"{same.majority:.1f}"] * (len(settings.neighbours) + 1), ""]


def _notes(results: Sequence[ProbeResult], settings: ProbeSettings) -> Iterator[str]:
    if settings.vote is Vote.PAPER:
        yield "Vote of the paper: a value needs more than k / 2 votes. The maximum is chosen on the test data."
    else:
        yield "Vote: the majority of the neighbours there are. Each language's k is chosen by all the others."
    yield (
        f"p: the share of {settings.num_permutations:,} permutations of the languages that score as high. "
        f"Random vectors: mean ± std of {settings.num_random:,} draws. Seed {settings.seed}."
    )
    several = len({result.languages for result in results}) > 1
    if several:
        yield "The models have different languages: their numbers are not of the same features."
    for result in {result.languages: result for result in reversed(results)}.values():
        of = f" of {result.name}" if several else ""
        for group in result.groups:
            sets = ", ".join(f"{source} {number}" for source, number in group.sets)
            yield f"{group.group}: mean of the sets{of}, with the most languages that have a feature: {sets}."
        for name in GROUPS.keys() - {group.group for group in result.groups}:
            yield f"{name}: no two languages{of} have a common feature."


def _groups(results: Iterable[ProbeResult]) -> list[str]:
    return list(dict.fromkeys(group.group for result in results for group in result.groups))


def _of(result: ProbeResult, group: str) -> GroupResult | None:
    return next((each for each in result.groups if each.group == group), None)


def _label(result: ProbeResult) -> str:
    return f"{result.name} ({result.representation})"


def _numbers(score: Score) -> list[str]:
    return [f"{value:.1f}" for value in (*score.by_number, score.best)]
