"""The runs of a report: an evaluation, access to its translations, and the facts about the system."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.evaluator import Evaluation, TranslationExample
from manyglot.evaluation.shared_language_codes import find_shared_codes, rename_direction, rename_languages
from manyglot.evaluation.translation_examples import SentenceIndices, read_examples, select_examples_by_direction
from manyglot.sealed_json import read_sealed_json

SYSTEM_FACTS_FILE, SYSTEM_FACTS_KIND = "about.json", "system facts"


@dataclass(frozen=True)
class ReportRun:
    """An evaluated run, as the report needs it."""

    name: str
    evaluation: Evaluation
    load_examples: Callable[[SentenceIndices], Iterable[TranslationExample]]
    """Returns the translations of the given test sentences."""
    system_facts: Mapping[str, Any]
    """The content of `about.json`: the model, its data and its training. Empty if the file is missing."""


def load_report_run(name: str, folder: Path) -> ReportRun:
    """Load a run from the folder that `manyglot evaluate --output` wrote, or from the results.json in it."""
    evaluation = Evaluation.load(folder)
    folder = folder if folder.is_dir() else folder.parent
    load_examples = partial(read_examples, folder, seals=evaluation.seals)
    return ReportRun(name, evaluation, load_examples, read_system_facts(folder))


def read_system_facts(folder: Path) -> dict[str, Any]:
    """Read the facts about the system in the output folder of `evaluate`; it is empty if the file is missing."""
    path = folder / SYSTEM_FACTS_FILE
    try:
        return read_sealed_json(path, SYSTEM_FACTS_KIND) if path.exists() else {}
    except FolderError as error:
        raise FolderError(f"{error} Evaluate again, or delete the file to get a report without them.") from None


def make_report_run(name: str, evaluation: Evaluation, system_facts: Mapping[str, Any]) -> ReportRun:
    """Make a report run from an evaluation in memory."""
    return ReportRun(
        name, evaluation, lambda indices: select_examples_by_direction(evaluation.examples, indices), system_facts
    )


def share_codes_of_first(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """Rename the languages of all runs to the codes of the first run that has them."""
    codes_by_run = find_shared_codes([run.evaluation for run in runs])
    return [_rename_languages(run, codes) for run, codes in zip(runs, codes_by_run, strict=True)]


def _rename_languages(run: ReportRun, codes: Mapping[str, str]) -> ReportRun:
    evaluation = rename_languages(run.evaluation, codes)
    if evaluation is run.evaluation:
        return run
    own_codes = {new: old for old, new in codes.items()}

    def load_examples(indices: SentenceIndices) -> Iterator[TranslationExample]:
        own_indices = {rename_direction(direction, own_codes): each for direction, each in indices.items()}
        for example in run.load_examples(own_indices):
            names = {name: getattr(example, name) for name in ("source", "target", "identified_language")}
            yield replace(example, **{name: codes.get(code, code) for name, code in names.items()})

    about = dict(run.system_facts)
    if "languages" in about:
        about["languages"] = [codes.get(code, code) for code in about["languages"]]
    return replace(run, evaluation=evaluation, load_examples=load_examples, system_facts=about)


def restrict_report_run(run: ReportRun, evaluation: Evaluation) -> ReportRun:
    """Replace a run's evaluation with that of a subset of its sentences. Examples then come from this subset, too."""

    def original_indices(direction: Direction, indices: Collection[int]) -> Collection[int]:
        whole, subset = run.evaluation.statistics.get(direction), evaluation.statistics.get(direction)
        if whole is None or subset is None or subset is whole:
            return indices
        order_N = np.argsort(whole.fingerprints_N, kind="stable")
        original_N = order_N[np.searchsorted(whole.fingerprints_N, subset.fingerprints_N, sorter=order_N)]
        return {int(original_N[index]) for index in indices}

    def load_examples(indices: SentenceIndices) -> Iterable[TranslationExample]:
        return run.load_examples({direction: original_indices(direction, i) for direction, i in indices.items()})

    return replace(run, evaluation=evaluation, load_examples=load_examples)
