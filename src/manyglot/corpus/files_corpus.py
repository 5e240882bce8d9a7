"""Reader of text in the layouts of published corpora, without renaming, such as FLORES, NTREX, OPUS and TMX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import BaseCorpusSettings, Row, Split
from manyglot.corpus.language_matching import HOW_TO_STATE, check_distinct, match_languages
from manyglot.corpus.languages import is_known_language_code, looks_like_language_code
from manyglot.corpus.layouts import FoundText, Layout, find_text
from manyglot.corpus.text_parts import TextPart, file_with
from manyglot.corpus.textfiles import fingerprint_files
from manyglot.errors import CorpusError, LanguageError, did_you_mean, shorten


class FilesSettings(BaseCorpusSettings):
    """Text in the layout of a published corpus, such as FLORES-200, NTREX-128, OPUS, Tatoeba or TMX."""

    kind: Literal["files"] = "files"
    """The kind of corpus: a folder, file or zip archive in a layout that is detected."""
    path: Annotated[Path, CHANGEABLE_ON_RESUME]
    """The folder or file, or the beginning of the names of several files: `newstest` for newstest.src and newstest.ref.
    Text whose name tells no split is training text."""
    dev: Annotated[Path | None, CHANGEABLE_ON_RESUME] = None
    """Another folder or file with the dev text, such as flores200_dataset; null uses that of `path`."""
    test: Annotated[Path | None, CHANGEABLE_ON_RESUME] = None
    """Another folder or file with the test text; null uses that of `path`."""
    layout: Literal["auto"] | Layout = "auto"
    """The layout of `path`: aligned, pairs, flores, ntrex, tatoeba, tmx, table or stated (by `language_codes`)."""
    languages: tuple[str, ...] = ()
    """The languages to use; empty uses all languages of the training text."""
    language_codes: dict[str, str] = Field(default_factory=dict)
    """The languages of files or columns that no code names, such as {src: de, ref: en} for newstest.src and
    newstest.ref."""
    columns: tuple[str, ...] = ()
    """The columns of TSV files without a header, such as [de, en]; empty reads the names from the first line."""

    @field_validator("language_codes")
    @classmethod
    def _values_are_codes(cls, language_codes: dict[str, str]) -> dict[str, str]:
        if wrong := next((code for code in language_codes.values() if not looks_like_language_code(code)), None):
            raise ValueError(f"'{shorten(wrong)}' is not a language code such as de.")
        return language_codes

    def find_text(self, path: Path, layout: Literal["auto"] | Layout = "auto") -> FoundText:
        """Find the text of a folder or file."""
        return find_text(path, None if layout == "auto" else layout, self.language_codes.keys(), self.columns)


@dataclass(frozen=True)
class SplitText:
    """Where the text of a split comes from."""

    path: Path
    found: FoundText
    parts: list[TextPart]
    """The parts of the split."""


class FilesCorpus:
    """The rows of all parts of a published corpus, one part after the other."""

    def __init__(self, settings: FilesSettings) -> None:
        self._settings = settings
        found = settings.find_text(settings.path, settings.layout)
        self._texts = {split: SplitText(settings.path, found, _parts_of(found, split, Split.TRAIN)) for split in Split}
        for split, path in ((Split.DEV, settings.dev), (Split.TEST, settings.test)):
            if path is not None:
                self._texts[split] = find_split_text(settings, path, split)
        if not self._texts[Split.TRAIN].parts:
            raise CorpusError(
                f"{settings.path} contains no training text. Use it as corpus.dev or corpus.test, or with "
                f"`manyglot evaluate --test`."
            )
        self._train_codes = self._map_train_languages()
        self.languages = tuple(settings.languages) or tuple(sorted(self._train_codes.values()))

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the parts of a split one after the other."""
        return read_parts(self._texts[split].parts, self._codes_by_name(split))

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        sources = {source for text in self._texts.values() for part in text.parts for source in part.sources}
        return fingerprint_files({source if isinstance(source, Path) else source.archive for source in sources})

    def describe(self) -> str:
        """Return one line about the layout, the languages and the files that are not used."""
        texts = {text.path: text.found for text in self._texts.values()}
        unused = sorted(
            {
                name
                for split, text in self._texts.items()
                for part in text.parts
                for name in part.names - self._codes_by_name(split).keys()
            }
        )
        languages = f"{len(self.languages)} languages"
        languages += f" (not used: {', '.join(unused[:10])}{' …' if len(unused) > 10 else ''})" if unused else ""
        return "; ".join([languages, *(describe_layout(path, found) for path, found in texts.items())]) + "."

    def _codes_by_name(self, split: Split) -> dict[str, str]:
        if split == Split.TRAIN:
            return self._train_codes
        return map_languages(self._texts[split].parts, self._settings.language_codes, self.languages)

    def _map_train_languages(self) -> dict[str, str]:
        settings, parts = self._settings, self._texts[Split.TRAIN].parts
        if settings.languages:
            codes_by_name = map_languages(parts, settings.language_codes, settings.languages)
            names = sorted({name for part in parts for name in part.names})
            for code in settings.languages:
                if code not in codes_by_name.values():
                    raise LanguageError(
                        f"corpus.languages: {settings.path} has no training text in '{code}'. "
                        f"{did_you_mean(code, names)}"
                    )
            return codes_by_name
        codes_by_name = {}
        for part in parts:
            for name in part.names:
                codes_by_name[name] = code = settings.language_codes.get(name, name)
                if not looks_like_language_code(code) or not is_known_language_code(code):
                    raise LanguageError(
                        f"{file_with(part, name)}: '{shorten(code)}' is not a known language code. {HOW_TO_STATE}, "
                        f"or list the languages to use in corpus.languages."
                    )
        check_distinct(dict(sorted(codes_by_name.items())))
        return codes_by_name


def find_split_text(settings: FilesSettings, path: Path, split: Split) -> SplitText:
    """Find the text of one split in a folder or file; text whose name tells no split belongs to it.

    If the text is all dev text or all test text, it may serve as the other.
    """
    found = settings.find_text(path, settings.layout if path == settings.path else "auto")
    parts = _parts_of(found, split, split)
    if not parts and len({part.split for part in found.parts} - {Split.TRAIN}) == 1:
        parts = [part for part in found.parts if part.split != Split.TRAIN]
    if not parts:
        raise CorpusError(f"{path} contains no {split} text. Name it {split}.de, {split}.en, … or give another path.")
    return SplitText(path, found, parts)


def map_languages(parts: list[TextPart], language_codes: Mapping[str, str], languages: Sequence[str]) -> dict[str, str]:
    """Map the names in the parts to languages, as the settings state it or as they mean one of `languages`."""
    names = {name for part in parts for name in part.names}
    stated = {name: code for name, code in language_codes.items() if name in names and code in languages}
    check_distinct(stated)
    others = names - language_codes.keys()
    return stated | match_languages(others, [code for code in languages if code not in stated.values()])


def read_parts(parts: list[TextPart], codes_by_name: Mapping[str, str]) -> Iterator[Row]:
    """Yield the rows of the parts with the codes of their languages. Parts in fewer than two of them are omitted."""
    for part in parts:
        names = part.names & codes_by_name.keys()
        if names:
            for row in part.rows(names):
                yield {codes_by_name[name]: text for name, text in row.items()}


def describe_layout(path: Path, found: FoundText) -> str:
    """Return what was found in a path, such as `flores200_dataset: layout flores, 408 files in dev and test`."""
    num_files = len({source for part in found.parts for source in part.sources})
    splits = sorted({part.split for part in found.parts if part.split})
    text = f"{path}: layout {found.layout}, {num_files} files"
    text += f" in {' and '.join(splits)}" if splits else ""
    if found.ignored:
        more = f" and {len(found.ignored) - 1} other files" if len(found.ignored) > 1 else ""
        text += f", without {found.ignored[0]}{more}"
    return text


def _parts_of(found: FoundText, split: Split, default: Split) -> list[TextPart]:
    return [part for part in found.parts if (part.split or default) == split]
