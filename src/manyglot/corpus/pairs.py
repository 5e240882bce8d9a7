"""Bilingual text in the Moses manner: `train.de-en.de` and `train.de-en.en`, a pair of files per pair of languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from manyglot.corpus.rows import Row, Split
from manyglot.corpus.textfiles import fingerprint_files, read_aligned
from manyglot.errors import CorpusError, LanguageError, suggest
from manyglot.settings import Settings

_NAME = re.compile(r"(?P<split>train|dev|test)\.(?P<pair>[^.]+)\.(?P<code>[^.]+)")


class PairsSettings(Settings):
    """Your own text: a folder with two files per split and pair of languages."""

    kind: Literal["pairs"] = "pairs"
    """Which corpus: a folder of files named train.de-en.de, train.de-en.en, dev.de-en.de, …"""
    path: Path
    """The folder."""
    languages: tuple[str, ...] = ()
    """Use only pairs of these languages; empty uses all pairs of the folder."""
    pivot: str | None = "en"
    """Train to and from this language only; null trains on all pairs that have text."""


class PairsCorpus:
    """Rows of two languages each, pair after pair in the order of their names."""

    def __init__(self, settings: PairsSettings) -> None:
        folder = settings.path
        if not folder.is_dir():
            raise CorpusError(f"corpus.path: {folder} is not a folder. It should hold files such as train.de-en.de.")
        self._pairs: dict[tuple[str, str], dict[str, Path]] = {}
        for path in sorted(folder.iterdir()):
            match = _NAME.fullmatch(path.name)
            if match:
                self._pairs.setdefault((match["split"], match["pair"]), {})[match["code"]] = path
        for (split, pair), files in self._pairs.items():
            if len(files) != 2:
                raise CorpusError(f"{folder}: {split}.{pair} needs two files and has {len(files)}: {', '.join(files)}.")
            if pair not in ("-".join(files), "-".join(reversed(files))):
                raise CorpusError(f"{folder}: {split}.{pair} has files in {' and '.join(files)}.")
        found = sorted({code for files in self._pairs.values() for code in files})
        for code in settings.languages:
            if code not in found:
                raise LanguageError(f"corpus.languages: {folder} has no text in '{code}'. {suggest(code, found)}")
        if settings.languages:
            self._pairs = {key: f for key, f in self._pairs.items() if set(f) <= set(settings.languages)}
        if not any(split == Split.TRAIN for split, _ in self._pairs):
            raise CorpusError(f"{folder} holds no training pairs. Name the files train.de-en.de and train.de-en.en, …")
        self.languages = tuple(sorted({code for files in self._pairs.values() for code in files}))

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the pairs of a split one after the other."""
        for (of_split, _), files in self._pairs.items():
            if of_split == split:
                yield from read_aligned(files)

    def fingerprint(self) -> str:
        """The state of the files."""
        return fingerprint_files(path for files in self._pairs.values() for path in files.values())
