"""A folder of line-aligned files, `train.de`, `train.en`, …: line i is the same sentence in every language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from manyglot.corpus.rows import Row, Split
from manyglot.corpus.textfiles import fingerprint_files, read_aligned
from manyglot.errors import CorpusError, LanguageError, suggest
from manyglot.settings import Settings


class MultiwaySettings(Settings):
    """Your own text: a folder with one file per split and language."""

    kind: Literal["multiway"] = "multiway"
    """Which corpus: a folder of line-aligned files named train.de, dev.de, test.de, …"""
    path: Path
    """The folder."""
    languages: tuple[str, ...] = ()
    """The languages to use; empty takes all that have a training file."""
    pivot: str | None = "en"
    """Train to and from this language only, so that all other directions are zero-shot; null trains on all pairs."""


class MultiwayCorpus:
    """Rows read from `split.code` files; an empty line means that language has no such sentence."""

    def __init__(self, settings: MultiwaySettings) -> None:
        self.folder = settings.path
        if not self.folder.is_dir():
            raise CorpusError(f"corpus.path: {self.folder} is not a folder. It should hold files such as train.en.")
        found = [path.name.removeprefix("train.") for path in self.folder.glob("train.*")]
        if not found:
            raise CorpusError(f"{self.folder} holds no training text. Name the files train.en, train.de, …")
        for code in settings.languages:
            if code not in found:
                raise LanguageError(
                    f"corpus.languages: {self.folder} has no train.{code}. {suggest(code, sorted(found))}"
                )
        self.languages = tuple(settings.languages or sorted(found))

    def rows(self, split: Split) -> Iterator[Row]:
        """Read a split; it may leave out a language, except in training."""
        return read_aligned(self._files(split))

    def fingerprint(self) -> str:
        """The state of the files."""
        return fingerprint_files(path for split in Split for path in self._files(split).values())

    def _files(self, split: Split) -> dict[str, Path]:
        paths = {code: self.folder / f"{split}.{code}" for code in self.languages}
        return {code: path for code, path in paths.items() if split is Split.TRAIN or path.exists()}
