"""Selects the target languages of an export, and writes one folder for all of them or one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from manyglot.corpus.languages import Languages
from manyglot.errors import LanguageError, did_you_mean
from manyglot.folders import atomic_folder
from manyglot.model.folding import uses_only_tags
from manyglot.model.model_folder import TrainedModel

NUM_POSITIONS = 4096
"""Number of rows of the exported position tables. Engines have tables, while our model computes its positions."""

ModelWriter = Callable[[Path, Sequence[str]], None]
"""Writes the model for target languages with the same weights into an existing folder."""


def write_target_folders(
    trained: TrainedModel, folder: Path, targets: Sequence[str], write_model: ModelWriter
) -> list[Path]:
    """Write an export atomically and return its folders.

    A model that uses only tags has one folder for all targets, by default all languages. Otherwise each target needs
    its own weights: several targets get one subfolder each, and targets are required.
    """
    languages, one_folder_serves_all = trained.vocabulary.languages, uses_only_tags(trained.model)
    if not targets and not one_folder_serves_all:
        known = did_you_mean("", languages)
        raise LanguageError(f"Each target language needs its own weights. Give --target (targets in Python). {known}")
    known_targets = languages if trained.targets is None else Languages(trained.targets)
    codes = list(dict.fromkeys(known_targets.find_code(name) for name in targets)) or list(known_targets)
    groups = [codes] if one_folder_serves_all else [[code] for code in codes]
    with atomic_folder(folder) as unfinished:
        for group in groups:
            model_folder = unfinished if len(groups) == 1 else unfinished / group[0]
            model_folder.mkdir(exist_ok=True)
            write_model(model_folder, group)
    return [folder] if len(groups) == 1 else [folder / code for code in codes]


def find_unused_name(taken: set[str], name: str) -> str:
    """Return the name, in extra angle brackets if it is taken, and add it to the taken names."""
    while name in taken:
        name = f"<{name}>"
    taken.add(name)
    return name
