"""The directions that another system was trained on, as a user states them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.languages import Direction, Languages, parse_direction
from manyglot.errors import LanguageError, SettingsError
from manyglot.evaluation.direction_names import DirectionNames
from manyglot.files import StrPath
from manyglot.model.run_models import load_any_model

ALL_DIRECTIONS = "all"
"""Value of `trained_directions` for a system that was trained on all directions."""


def find_trained_directions(
    given: StrPath | Sequence[str] | None,
    central_language: str | None,
    languages: Languages,
    all_directions: Sequence[Direction],
) -> set[Direction] | None:
    """Return the directions of a system: the given ones, or those of its central language, or None if unknown."""
    if given is not None:
        return parse_trained_directions(given, languages, all_directions)
    if central_language is not None:
        return {direction for direction in all_directions if central_language in direction}
    return None


def parse_trained_directions(
    given: StrPath | Sequence[str], languages: Languages, all_directions: Sequence[Direction]
) -> set[Direction]:
    """Return the directions of a system: listed, all, or those of a model or of prepared data."""
    if given == ALL_DIRECTIONS:
        return set(all_directions)
    if isinstance(given, str | os.PathLike) and Path(given).is_dir():
        folder = Path(given)
        is_data = (folder / "dataset.json").exists()
        listed = PreparedDataset(folder).train_directions if is_data else load_any_model(folder).trained_directions
        find = DirectionNames(languages).find
        pairs = ((find(source), find(target)) for source, target in listed)
        return {Direction(source, target) for source, target in pairs if source and target}
    texts = given.split(",") if isinstance(given, str) else list(map(str, given)) if isinstance(given, Sequence) else []
    if not texts:
        raise SettingsError(f"--trained-directions: {given} is not a model. Give a model, 'all', or de>en,en>de.")
    return parse_directions(texts, languages, "--trained-directions")


def parse_directions(texts: Iterable[str], languages: Languages, option: str) -> set[Direction]:
    """Parse directions such as de>en. Languages may be spelled in another way than in the test set."""
    try:
        return {_parse_any_direction(text, languages) for text in texts}
    except LanguageError as error:
        raise LanguageError(f"{option}: {error}") from None


def _parse_any_direction(text: str, languages: Languages) -> Direction:
    codes = [languages.find_code(part.strip()) for part in re.split("[>→]", text) if part.strip()]
    return parse_direction(">".join(codes), languages)
