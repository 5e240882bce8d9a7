"""Reader of bilingual file pairs in the common naming schemes.

| file name | used by |
|---|---|
| train.de-en.de | Moses |
| de-en.train.de, de-en/train.de, train/de-en.de | various projects |
| supervised/de-en/opus.de-en-train.de, zero-shot/de-fr/opus.de-fr-test.de | OPUS-100 |
| de_en/ted-train.orig.de, de_en/ted-train.mtok.de | split files of the TED talks |

Each file has a counterpart in the other language. Files may be compressed. `valid`, `validation` and `devtest` are
accepted as split names too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import SPLIT_ALIASES, AlignedFiles, BaseCorpusSettings, Row, Split
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.language_selection import check_spelled_once, select_languages
from manyglot.corpus.textfiles import fingerprint_files, read_aligned_rows
from manyglot.errors import CorpusError

_SPLIT, _PAIR, _CODE = f"(?P<split>{'|'.join(SPLIT_ALIASES)})", r"(?P<pair>[\w-]+)", r"(?P<code>[\w-]+)"
FILE_NAME_PATTERNS = [
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


class BilingualSettings(BaseCorpusSettings):
    """Your own text or OPUS-100: a folder with two files per split and language pair."""

    kind: Literal["bilingual"] = "bilingual"
    """The kind of corpus: a folder of files named train.de-en.de, train.de-en.en, dev.de-en.de, … or named as in
    OPUS-100."""
    path: Annotated[Path, CHANGEABLE_ON_RESUME]
    """The folder."""
    languages: tuple[str, ...] = ()
    """Use only pairs of these languages, in any style of code; empty uses all pairs in the folder."""


class BilingualCorpus:
    """Rows of two languages each, one language pair after the other in alphabetical order."""

    def __init__(self, settings: BilingualSettings) -> None:
        folder = settings.path
        if not folder.is_dir():
            raise CorpusError(f"corpus.path: {folder} is not a folder. It should contain files such as train.de-en.de.")
        self._pairs = find_bilingual_files(folder)
        paths_by_name = {name: str(path) for files in self._pairs.values() for name, path in files.items()}
        check_spelled_once(paths_by_name)
        codes = select_languages(paths_by_name, settings.languages, settings.code_style, f"the languages of {folder}")
        self._pairs = {
            key: {codes[name]: path for name, path in files.items()}
            for key, files in self._pairs.items()
            if codes.keys() >= files.keys()
        }
        if not any(split == Split.TRAIN for split, _ in self._pairs):
            raise CorpusError(
                f"{folder} contains no training pairs. Name the files train.de-en.de and train.de-en.en, …"
            )
        self.languages = tuple(sorted({code for files in self._pairs.values() for code in files}))

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the language pairs of a split one after the other."""
        for files in self.aligned_files(split):
            yield from read_aligned_rows(files)

    def aligned_files(self, split: Split) -> Sequence[AlignedFiles]:
        """The files that the rows of a split come from, one language pair after the other."""
        return [files for (file_split, _), files in self._pairs.items() if file_split == split]

    def training_pairs(self) -> dict[str, dict[str, Path]]:
        """The files of the training text by language pair, such as de-en, and language."""
        return {pair: files for (split, pair), files in self._pairs.items() if split == Split.TRAIN}

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        return fingerprint_files(path for files in self._pairs.values() for path in files.values())


def find_bilingual_files(folder: Path) -> dict[tuple[Split, str], dict[str, Path]]:
    """Map each split and language pair to its two files by language, for all known naming schemes."""
    pairs: dict[tuple[Split, str], dict[str, Path]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).with_name(uncompressed_name(path)).as_posix()
        match = next((m for pattern in FILE_NAME_PATTERNS if (m := pattern.fullmatch(name))), None)
        if match is None or not path.is_file():
            continue
        files = pairs.setdefault((SPLIT_ALIASES[match["split"]], match["pair"]), {})
        if match["code"] in files:
            raise CorpusError(f"{folder} has both {files[match['code']].name} and {path.name}. Keep one of them.")
        files[match["code"]] = path
    for (split, pair), files in pairs.items():
        if len(files) != 2:
            raise CorpusError(
                f"{folder}: {split}.{pair} needs files in two languages but has {len(files)}: {', '.join(files)}."
            )
        if pair not in {f"{a}{separator}{b}" for separator in "-_" for a in files for b in files}:
            raise CorpusError(
                f"{folder}: {split}.{pair} has files in {' and '.join(files)}. Rename the pair or the files."
            )
    return pairs
