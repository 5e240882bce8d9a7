"""Bilingual text in pairs of files, by the names that people give them.

| name | from |
|---|---|
| train.de-en.de | Moses |
| de-en.train.de, de-en/train.de, train/de-en.de | habits |
| supervised/de-en/opus.de-en-train.de, zero-shot/de-fr/opus.de-fr-test.de | OPUS-100 |
| de_en/ted-train.orig.de, de_en/ted-train.mtok.de | split files of the TED talks |

Each has its twin in the other language, plain or compressed. `valid`, `validation` and `devtest` are understood too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from manyglot.config.settings import RESUMABLE
from manyglot.corpus.rows import SPLITS, CorpusOptions, Row, Split
from manyglot.corpus.textfiles import fingerprint_files, plain_name, read_aligned
from manyglot.errors import CorpusError, LanguageError, suggest

_SPLIT, _PAIR, _CODE = f"(?P<split>{'|'.join(SPLITS)})", r"(?P<pair>[\w-]+)", r"(?P<code>[\w-]+)"
_NAMES = [
    re.compile(pattern)
    for pattern in (
        rf"{_SPLIT}\.{_PAIR}\.{_CODE}",
        rf"{_PAIR}\.{_SPLIT}\.{_CODE}",
        rf"{_PAIR}/{_SPLIT}\.{_CODE}",
        rf"{_SPLIT}/{_PAIR}\.{_CODE}",
        rf"((supervised|zero-shot)/)?{_PAIR}/opus\.(?P=pair)-{_SPLIT}\.{_CODE}",
        rf"{_PAIR}/ted-{_SPLIT}\.(orig|mtok)\.{_CODE}",
    )
]


class PairsSettings(CorpusOptions):
    """Your own text, or OPUS-100: a folder with two files per split and pair of languages."""

    kind: Literal["pairs"] = "pairs"
    """Which corpus: a folder of files named train.de-en.de, train.de-en.en, dev.de-en.de, …, or as OPUS-100 comes."""
    path: Annotated[Path, RESUMABLE]
    """The folder."""
    languages: tuple[str, ...] = ()
    """Use only pairs of these languages; empty uses all pairs of the folder."""


class PairsCorpus:
    """Rows of two languages each, pair after pair in the order of their names."""

    def __init__(self, settings: PairsSettings) -> None:
        folder = settings.path
        if not folder.is_dir():
            raise CorpusError(f"corpus.path: {folder} is not a folder. It should hold files such as train.de-en.de.")
        self._pairs = find_pairs(folder)
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


def find_pairs(folder: Path) -> dict[tuple[Split, str], dict[str, Path]]:
    """The two files of each pair of languages in each split, by names that we know."""
    pairs: dict[tuple[Split, str], dict[str, Path]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).with_name(plain_name(path)).as_posix()
        match = next((m for pattern in _NAMES if (m := pattern.fullmatch(name))), None)
        if match is None or not path.is_file():
            continue
        files = pairs.setdefault((SPLITS[match["split"]], match["pair"]), {})
        if match["code"] in files:
            raise CorpusError(f"{folder} has both {files[match['code']].name} and {path.name}. Keep one of them.")
        files[match["code"]] = path
    for (split, pair), files in pairs.items():
        if len(files) != 2:
            raise CorpusError(f"{folder}: {split}.{pair} needs two files and has {len(files)}: {', '.join(files)}.")
        if pair not in {f"{a}{mark}{b}" for mark in "-_" for a in files for b in files}:
            raise CorpusError(f"{folder}: {split}.{pair} has files in {' and '.join(files)}.")
    return pairs
