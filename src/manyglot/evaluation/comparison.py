"""Runs beside one another: averages, win rates, means over seeds and significance, as in the paper's tables.

A system is one run, or several that differ in their seed, whose mean ± standard deviation is then given. Win rate: the
percentage of directions in which BLEU is strictly above the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError, SettingsError, suggest
from manyglot.evaluation.bootstrap import Drawn, Significance, overall, resample
from manyglot.evaluation.common import check_measures, check_test_sets, common_part
from manyglot.evaluation.results import DirectionGroup, DirectionResult, Evaluation, mean_of_known
from manyglot.evaluation.statistics import Statistics
from manyglot.progress import bar

ALPHA = 0.05
"""The p-value below which a difference counts as one."""


@dataclass(frozen=True)
class System:
    """One row of a table: a name, and one run for each seed."""

    name: str
    runs: Sequence[Evaluation]


@dataclass(frozen=True)
class Value:
    """A mean over runs; `deviation` is that of a sample, where there are several."""

    mean: float
    deviation: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Value:
        """The mean of some."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else None)


@dataclass(frozen=True)
class GroupScore:
    """A system in one group of directions."""

    num_directions: int
    bleu: Value
    language_accuracy: Value | None
    win_rate: Value | None
    """None for the reference itself."""
    significance: Significance | None = None
    """Of the difference in mean BLEU to the reference."""
    better: int | None = None
    """Directions with a significantly higher BLEU than the reference."""
    worse: int | None = None


@dataclass(frozen=True)
class Comparison:
    """All systems in all groups."""

    reference: str | None
    pivot: str
    rows: Mapping[str, Mapping[DirectionGroup, GroupScore]]
    """By system and group."""
    num_samples: int
    """Of the bootstrap; 0 without."""
    directions: Mapping[str, Mapping[Direction, Significance]]
    """By system, of each direction, where it was asked for."""
    signatures: Sequence[str]
    """Of BLEU."""
    identifier: str
    """The name of the language identifier behind LangAcc."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "reference": self.reference,
            "pivot": self.pivot,
            "num_samples": self.num_samples,
            "signatures": list(self.signatures),
            "identifier": self.identifier,
            "systems": {name: {g: asdict(score) for g, score in row.items()} for name, row in self.rows.items()},
            "significance": {
                name: [{**direction._asdict(), **asdict(each)} for direction, each in those.items()]
                for name, those in self.directions.items()
            },
        }


def read_systems(runs: Sequence[str], reference: str | None) -> tuple[list[System], str | None]:
    """Read runs as a user names them, `[NAME=]FOLDER[,FOLDER…]` with a folder for each seed, and find the reference.

    The reference is one of them, by its name or as it was given, or else one more run, which then comes first.
    """
    given = list(dict.fromkeys(runs))
    names = name_runs(given)
    if reference is not None and reference not in {*names, *names.values()}:
        if not all(folder.exists() for folder in folders_of(reference)):
            known = suggest(reference, names.values())
            raise SettingsError(f"--reference: '{reference}' is no folder and not the name of a run. {known}")
        names = name_runs([reference, *given])
    systems = [System(name, [Evaluation.load(folder) for folder in folders_of(text)]) for text, name in names.items()]
    return systems, None if reference is None else names.get(reference, reference)


def name_runs(given: Sequence[str]) -> dict[str, str]:
    """What runs are called, by what a user wrote: the name given to them, else that of the folder if it is the only."""
    names = {text: text.partition("=")[0] for text in given if "=" in text}
    short = {text: names.get(text) or folders_of(text)[0].resolve().name for text in given}
    if len(set(short.values())) < len(given):
        short = {text: names.get(text) or text for text in given}
    if len(set(short.values())) < len(given):
        raise ManyglotError("Two systems have the same name. Name them apart, as in a=FOLDER b=FOLDER.")
    return short


def folders_of(text: str) -> list[Path]:
    """The folders of `[NAME=]FOLDER[,FOLDER…]`, each of them once; a comma may also be in the name of one."""
    given = text.rpartition("=")[2]
    folders = [given] if Path(given).is_dir() else given.split(",")
    if "" in folders or len(set(folders)) < len(folders):
        raise SettingsError(f"'{text}' should be a folder, or several that differ: NAME=FOLDER,FOLDER.")
    return [Path(folder) for folder in folders]


def compare(
    systems: Sequence[System], reference: str | None = None, common: bool = False, num_samples: int = 0, seed: int = 1
) -> Comparison:
    """Compare systems with a reference, one of them by name; with samples, by paired bootstrap too.

    Runs must have the same directions and test sets; with `common`, what all have is compared.
    """
    if num_samples and (reference is None or len(systems) == 1):
        raise SettingsError("--significance is of a difference. Give --reference, and another run than that.")
    if 0 < num_samples < 1 / ALPHA:
        raise SettingsError(f"--significance: {num_samples} samples cannot show that p < {ALPHA}. 1000 are usual.")
    runs = [run for system in systems for run in system.runs]
    check_measures(runs)
    if common:
        shared = iter(common_part(runs))
        systems = [replace(system, runs=[next(shared) for _ in system.runs]) for system in systems]
        runs = [run for system in systems for run in system.runs]
    else:
        check_test_sets([(system.name, run) for system in systems for run in system.runs])
    chosen = next((system for system in systems if system.name == reference), None)
    groups = groups_of(runs[0])
    drawn = _resample(systems, chosen, num_samples, seed) if num_samples and chosen else {}
    rows = {
        system.name: {
            name: _group_score(system, chosen, members, drawn.get(system.name)) for name, members in groups.items()
        }
        for system in systems
    }
    return Comparison(
        reference=reference,
        pivot=runs[0].pivot or "en",
        rows=rows,
        num_samples=num_samples,
        directions={name: {d: each.significance() for d, each in those.items()} for name, those in drawn.items()},
        signatures=sorted({d.bleu_signature for d in runs[0].directions}),
        identifier=runs[0].identifier,
    )


def _resample(
    systems: Sequence[System], reference: System, num_samples: int, seed: int
) -> dict[str, dict[Direction, Drawn]]:
    """Draw the sentences of every direction, for every system but the reference."""
    directions = [result.direction for result in reference.runs[0].directions]
    others = [system for system in systems if system is not reference]
    drawn: dict[str, dict[Direction, Drawn]] = {system.name: {} for system in others}
    with bar("resampling", total=len(others) * len(directions)) as progress:
        for system in others:
            for direction in directions:
                ours, theirs = (_counted(each, direction) for each in (system, reference))
                keys_N = theirs.sentences_N if theirs.rows_N is None else theirs.rows_N
                drawn[system.name][direction] = resample(ours.bleu_NS, theirs.bleu_NS, keys_N, num_samples, seed)
                progress.advance()
    return drawn


def win_rate(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Percent of directions in which we are strictly better."""
    return 100 * fmean(our > their for our, their in zip(ours, theirs, strict=True))


def groups_of(run: Evaluation) -> dict[DirectionGroup, list[Direction]]:
    """The directions of each group that has some; those from and into the pivot without the zero-shot ones."""
    kinds: dict[DirectionGroup, Callable[[DirectionResult], bool]] = {
        DirectionGroup.FROM_PIVOT: lambda d: not d.zero_shot and d.source == run.pivot,
        DirectionGroup.INTO_PIVOT: lambda d: not d.zero_shot and d.target == run.pivot,
        DirectionGroup.SUPERVISED: lambda d: not d.zero_shot,
        DirectionGroup.ZERO_SHOT: lambda d: d.zero_shot,
    }
    found = {name: [d.direction for d in run.directions if belongs(d)] for name, belongs in kinds.items()}
    return {name: members for name, members in found.items() if members}


def _group_score(
    system: System, reference: System | None, members: Sequence[Direction], drawn: Mapping[Direction, Drawn] | None
) -> GroupScore:
    tables = [{d.direction: d for d in run.directions} for run in system.runs]
    bleu = [[table[d].bleu for d in members] for table in tables]
    known = [mean_of_known(table[d].language_accuracy for d in members) for table in tables]
    rates: Value | None = None
    if reference is not None and reference is not system:
        their_tables = [{d.direction: d.bleu for d in run.directions} for run in reference.runs]
        theirs = [fmean(table[d] for table in their_tables) for d in members]
        rates = Value.of([win_rate(ours, theirs) for ours in bleu])
    score = GroupScore(
        num_directions=len(members),
        bleu=Value.of([fmean(each) for each in bleu]),
        language_accuracy=Value.of([each for each in known if each is not None]) if None not in known else None,
        win_rate=rates,
    )
    if drawn is None:
        return score
    differences = [drawn[d].significance() for d in members]
    return replace(
        score,
        significance=overall([drawn[d] for d in members]),
        better=sum(each.p_value < ALPHA and each.difference > 0 for each in differences),
        worse=sum(each.p_value < ALPHA and each.difference < 0 for each in differences),
    )


def _counted(system: System, direction: Direction) -> Statistics:
    """The sentences in an order that all runs share; the first run stands for a system of several."""
    run = system.runs[0]
    if direction not in run.statistics:
        raise ManyglotError(
            f"{system.name} has no statistics.npz for {direction}: evaluate it again, or leave out --significance."
        )
    found = run.statistics[direction]
    return found.part(np.argsort(found.sentences_N, kind="stable"))
