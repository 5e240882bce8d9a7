"""Reader of line-aligned files `train.de`, `train.en`, …: line i is the same sentence in every language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import SPLIT_ALIASES, AlignedFiles, BaseCorpusSettings, Row, Split
from manyglot.corpus.decompression import uncompressed_name
from manyglot.corpus.language_selection import check_spelled_once, select_languages
from manyglot.corpus.languages import is_known_language_code, looks_like_language_code
from manyglot.corpus.textfiles import fingerprint_files, read_aligned_rows
from manyglot.errors import CorpusError, LanguageError


class MultiwaySettings(BaseCorpusSettings):
    """Your own text: a folder with one file per split and language, optionally compressed (gz, xz, zst)."""

    kind: Literal["multiway"] = "multiway"
    """The kind of corpus: a folder of line-aligned files named train.de, dev.de, test.de, …"""
    path: Annotated[Path, CHANGEABLE_ON_RESUME]
    """The folder."""
    languages: tuple[str, ...] = ()
    """The languages to use, in any style of code; empty uses all languages with a training file."""


class MultiwayCorpus:
    """Rows read from `split.code` files. An empty line means that the language lacks this sentence."""

    def __init__(self, settings: MultiwaySettings) -> None:
        folder = settings.path
        if not folder.is_dir():
            raise CorpusError(f"corpus.path: {folder} is not a folder. It should contain files such as train.en.")
        self._paths = find_aligned_files(folder)
        paths_by_split = {split: _paths_by_language(self._paths, split) for split in Split}
        available = paths_by_split[Split.TRAIN]
        if not available:
            raise CorpusError(f"{folder} contains no training text. Name the files train.en, train.de, …")
        for paths in paths_by_split.values():
            check_spelled_once({**paths, **available})
        self._codes = select_languages(available, settings.languages, settings.code_style, f"the languages of {folder}")
        for name, code in () if settings.languages else self._codes.items():
            if not looks_like_language_code(code) or not is_known_language_code(code):
                raise LanguageError(
                    f"{available[name]}: '{name}' is not a language code such as de or pt-br. "
                    f"Rename or remove the file, or list the languages to use in corpus.languages."
                )
        self.languages = tuple(self._codes.values())

    def rows(self, split: Split) -> Iterator[Row]:
        """Read a split. Dev and test may lack languages; every language has training text."""
        return read_aligned_rows(self._files(split))

    def aligned_files(self, split: Split) -> Sequence[AlignedFiles]:
        """The files that the rows of a split come from."""
        files = self._files(split)
        return [files] if files else []

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        return fingerprint_files(path for split in Split for path in self._files(split).values())

    def _files(self, split: Split) -> dict[str, Path]:
        return {code: path for name, code in self._codes.items() if (path := self._paths.get(f"{split}.{name}"))}


def _paths_by_language(paths: Mapping[str, Path], split: Split) -> dict[str, str]:
    """Map the languages of a split, as file names spell them, to their files."""
    prefix = f"{split}."
    return {name.removeprefix(prefix): str(path) for name, path in sorted(paths.items()) if name.startswith(prefix)}


def find_aligned_files(folder: Path) -> dict[str, Path]:
    """Map `split.code`, such as train.de, to the file of that split and language."""
    files: dict[str, Path] = {}
    for path in sorted(folder.glob("*.*")):
        split, _, code = uncompressed_name(path).partition(".")
        if split not in SPLIT_ALIASES:
            continue
        other = files.setdefault(f"{SPLIT_ALIASES[split]}.{code}", path)
        if other != path:
            raise CorpusError(f"{folder} has both {other.name} and {path.name}. Keep one of them.")
    return files
