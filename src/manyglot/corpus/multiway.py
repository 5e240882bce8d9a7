"""A folder of line-aligned files, `train.de`, `train.en`, …: line i is the same sentence in every language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from manyglot.config.settings import RESUMABLE
from manyglot.corpus.rows import SPLITS, CorpusOptions, Row, Split
from manyglot.corpus.textfiles import fingerprint_files, plain_name, read_aligned
from manyglot.errors import CorpusError, LanguageError, suggest


class MultiwaySettings(CorpusOptions):
    """Your own text: a folder with one file per split and language, plain or compressed (gz, xz, zst)."""

    kind: Literal["multiway"] = "multiway"
    """Which corpus: a folder of line-aligned files named train.de, dev.de, test.de, …"""
    path: Annotated[Path, RESUMABLE]
    """The folder."""
    languages: tuple[str, ...] = ()
    """The languages to use; empty takes all that have a training file."""


class MultiwayCorpus:
    """Rows read from `split.code` files; an empty line means that language has no such sentence."""

    def __init__(self, settings: MultiwaySettings) -> None:
        folder = settings.path
        if not folder.is_dir():
            raise CorpusError(f"corpus.path: {folder} is not a folder. It should hold files such as train.en.")
        self._paths = find_files(folder)
        found = [name.removeprefix("train.") for name in self._paths if name.startswith("train.")]
        if not found:
            raise CorpusError(f"{folder} holds no training text. Name the files train.en, train.de, …")
        for code in settings.languages:
            if code not in found:
                raise LanguageError(f"corpus.languages: {folder} has no train.{code}. {suggest(code, sorted(found))}")
        self.languages = tuple(settings.languages or sorted(found))

    def rows(self, split: Split) -> Iterator[Row]:
        """Read a split; it may leave out a language, except in training."""
        return read_aligned(self._files(split))

    def fingerprint(self) -> str:
        """The state of the files."""
        return fingerprint_files(path for split in Split for path in self._files(split).values())

    def _files(self, split: Split) -> dict[str, Path]:
        return {code: path for code in self.languages if (path := self._paths.get(f"{split}.{code}"))}


def find_files(folder: Path) -> dict[str, Path]:
    """The files of each split and language, such as train.de."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.*")):
        split, _, code = plain_name(path).partition(".")
        if split in SPLITS and found.setdefault(f"{SPLITS[split]}.{code}", path) != path:
            other = found[f"{SPLITS[split]}.{code}"]
            raise CorpusError(f"{folder} has both {other.name} and {path.name}. Keep one of them.")
    return found
