"""Typology probing results: the paper's table with baselines for every feature group, and a plot of accuracy by k."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyglot.errors import ManyglotError
from manyglot.probing.knn import VotingRule
from manyglot.probing.missing_features import PredictedFeature
from manyglot.probing.typology_probe import FeatureGroupKnnAccuracy, FeatureGroupResult, ProbeResult, ProbeSettings
from manyglot.probing.uriel import FEATURE_GROUPS, Exclusion
from manyglot.reports.displayable import DisplayPart
from manyglot.reports.learning_curve_plot import (
    COLORS,
    FIGURE_SUFFIXES,
    MATPLOTLIB_STYLE,
    MUTED_COLOR,
    TEXT_COLOR,
    save_figure,
)
from manyglot.reports.result_table import ResultTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAMILY_LABEL, RANDOM_LABEL, MAJORITY_LABEL = "family + geography", "random vectors", "majority class"


def probing_markdown(results: Sequence[ProbeResult], settings: ProbeSettings) -> str:
    """Return the table in Markdown: accuracy for each k and for the k that the protocol selects."""
    table = _probing_table(results, settings)
    lines = [table.headings, ["---", "---", *["---:"] * (len(table.headings) - 2)], *table.rows]
    notes = "\n".join(f"- {note}" for note in _probing_notes(results, settings))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{notes}\n"


def probing_parts(results: Sequence[ProbeResult], settings: ProbeSettings) -> Iterator[DisplayPart]:
    """Yield the same table and notes for the terminal and for notebooks."""
    yield _probing_table(results, settings)
    yield from _probing_notes(results, settings)


def _probing_table(results: Sequence[ProbeResult], settings: ProbeSettings) -> ResultTable:
    selected = "max" if settings.voting_rule is VotingRule.PAPER else "selected k"
    headings = ["features", "representation", *(f"k = {k}" for k in results[0].k_values), selected, "p"]
    rows = [row for group in _feature_groups(results) for row in _table_rows(group, results)]
    return ResultTable(headings, rows)


def predicted_features_markdown(language: str, representation: str, predicted: Sequence[PredictedFeature]) -> str:
    """Return predicted features in Markdown, with the neighbors they are predicted from."""
    lines = [
        f"Missing features of {language}, predicted from its nearest neighbors in {representation}:",
        "",
        "| group | feature | value | agreement | accuracy | neighbors |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for p in predicted:
        neighbors = " ".join(f"{code} {value}" if value != p.value else code for code, value in p.neighbor_values)
        accuracy = "–" if p.feature_accuracy is None else f"{p.feature_accuracy:.0f}%"
        feature = p.feature.replace("|", "\\|")
        cells = (p.group, feature, str(p.value), f"{100 * p.neighbor_agreement:.0f}%", accuracy, neighbors)
        lines.append(f"| {' | '.join(cells)} |")
    note = (
        "Agreement: share of the neighbors with this value. A neighbor with another value is followed by that value. "
        "Accuracy: how often the feature is predicted correctly for the other languages."
    )
    return "\n".join([*lines, "", note, ""])


def excluded_languages_text(exclusions: Mapping[str, Exclusion]) -> str:
    """List the excluded languages with the reasons."""
    return "Excluded: " + ", ".join(f"{code} ({exclusion})" for code, exclusion in exclusions.items()) + "."


def plot_accuracy_by_k(results: Sequence[ProbeResult], output: Path) -> None:
    """Plot accuracy against k: one panel per feature group, one line per representation."""
    check_can_plot(output)
    if len(results) > len(COLORS):
        raise ManyglotError(
            f"A plot shows at most {len(COLORS)} representations; got {len(results)}. "
            "Probe fewer models, or use --method."
        )
    import matplotlib
    from matplotlib.figure import Figure

    groups = _feature_groups(results)
    with matplotlib.rc_context(MATPLOTLIB_STYLE):
        figure = Figure(figsize=(3.7 * len(groups), 3.6), layout="constrained")
        panels: list[Axes] = list(figure.subplots(1, len(groups), squeeze=False)[0])
        for axes, group in zip(panels, groups, strict=True):
            _plot_feature_group(axes, group, results)
        panels[0].set_ylabel("accuracy, %")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=9)
        save_figure(figure, output)


def check_can_plot(output: Path) -> None:
    """Raise if a plot cannot be written: unknown format, missing folder or no matplotlib.

    Call it before any expensive computation.
    """
    if output.suffix not in FIGURE_SUFFIXES:
        raise ManyglotError(
            f"{output}: unknown image format. Use {', '.join(FIGURE_SUFFIXES[:-1])} or {FIGURE_SUFFIXES[-1]}."
        )
    if not output.parent.is_dir():
        raise ManyglotError(f"{output}: the folder {output.parent} does not exist.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ManyglotError("Plotting needs matplotlib. Run pip install 'manyglot[plot]'.") from None


def _plot_feature_group(axes: Axes, group: str, results: Sequence[ProbeResult]) -> None:
    baselines = next(g.baselines for result in results if (g := _find_group(result, group)))  # of the first model
    k_values, random_mean, random_std = results[0].k_values, baselines.random_mean.by_k, baselines.random_std.by_k
    low, high = ([mean + sign * std for mean, std in zip(random_mean, random_std, strict=True)] for sign in (-1, 1))
    for result, color in zip(results, COLORS, strict=False):
        if group_result := _find_group(result, group):
            axes.plot(
                k_values,
                group_result.knn_accuracy.by_k,
                color=color,
                marker="o",
                markersize=3.5,
                label=_representation_label(result),
            )
    axes.plot(k_values, baselines.family_and_geography.by_k, color=TEXT_COLOR, linestyle=":", label=FAMILY_LABEL)
    axes.fill_between(k_values, low, high, color=MUTED_COLOR, alpha=0.25, linewidth=0)
    axes.plot(k_values, random_mean, color=MUTED_COLOR, linewidth=1, label=f"{RANDOM_LABEL} ± std")
    axes.axhline(baselines.majority_class, color=MUTED_COLOR, linestyle="--", linewidth=1, label=MAJORITY_LABEL)
    axes.set_title(group)
    axes.set_xticks(k_values)
    axes.set_xlabel("k")


def _table_rows(group: str, results: Sequence[ProbeResult]) -> Iterator[list[str]]:
    """Yield the rows of all representations of the same languages, followed by the baselines for these languages."""
    for languages in dict.fromkeys(result.languages for result in results):
        same_languages = [result for result in results if result.languages == languages]
        probed = [(result, g) for result in same_languages if (g := _find_group(result, group))]
        for result, g in probed:
            yield [group, _representation_label(result), *_format_accuracies(g.knn_accuracy), f"{g.p_value:.3f}"]
        if probed:
            baselines = probed[0][1].baselines
            mean, std = (_format_accuracies(accuracy) for accuracy in (baselines.random_mean, baselines.random_std))
            yield [group, FAMILY_LABEL, *_format_accuracies(baselines.family_and_geography), ""]
            yield [group, RANDOM_LABEL, *(f"{m} ± {s}" for m, s in zip(mean, std, strict=True)), ""]
            yield [group, MAJORITY_LABEL, *[f"{baselines.majority_class:.1f}"] * (len(results[0].k_values) + 1), ""]


def _probing_notes(results: Sequence[ProbeResult], settings: ProbeSettings) -> Iterator[str]:
    if settings.voting_rule is VotingRule.PAPER:
        yield "Voting rule of the paper: a value needs more than k / 2 votes. The maximum is selected on the test data."
    else:
        yield "Voting rule: majority of the available neighbors. Each language's k is selected on all other languages."
    yield (
        f"p: share of {settings.num_permutations:,} permutations of the languages with an accuracy at least as high. "
        f"Random vectors: mean ± std of {settings.num_random_baselines:,} samples. Seed {settings.seed}."
    )
    several = len({result.languages for result in results}) > 1
    if several:
        yield "The models have different languages, so their accuracies cover different features."
    for result in {result.languages: result for result in reversed(results)}.values():
        suffix = f" for {result.model_name}" if several else ""
        for group in result.group_results:
            sources = ", ".join(f"{source} ({number})" for source, number in group.languages_by_source)
            yield f"{group.group}{suffix}: mean over sources (number of languages in parentheses): {sources}."
        for name in FEATURE_GROUPS.keys() - {group.group for group in result.group_results}:
            yield f"{name}{suffix}: no two languages share a feature."


def _feature_groups(results: Iterable[ProbeResult]) -> list[str]:
    return list(dict.fromkeys(group.group for result in results for group in result.group_results))


def _find_group(result: ProbeResult, group: str) -> FeatureGroupResult | None:
    return next((g for g in result.group_results if g.group == group), None)


def _representation_label(result: ProbeResult) -> str:
    return f"{result.model_name} ({result.method})"


def _format_accuracies(accuracy: FeatureGroupKnnAccuracy) -> list[str]:
    return [f"{value:.1f}" for value in (*accuracy.by_k, accuracy.at_selected_k)]
