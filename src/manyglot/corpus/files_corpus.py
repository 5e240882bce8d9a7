"""Reader of text in the layouts of published corpora, without renaming, such as FLORES, NTREX, OPUS and TMX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME
from manyglot.corpus.base import AlignedFiles, BaseCorpusSettings, Row, Split
from manyglot.corpus.language_codes import CodeStyle
from manyglot.corpus.language_selection import check_spelled_once, match_languages, select_languages
from manyglot.corpus.languages import is_known_language_code, looks_like_language_code
from manyglot.corpus.layouts import FoundText, Layout, find_text
from manyglot.corpus.text_parts import LINE_LABELS, AlignedText, TextPart, file_with
from manyglot.corpus.textfiles import fingerprint_files
from manyglot.errors import CorpusError, LanguageError, shorten


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
    """The text of one split, and where it comes from."""

    path: Path
    found: FoundText
    parts: list[TextPart]
    """The parts of the split."""
    language_codes: Mapping[str, str]
    """The languages that the settings state."""

    @cached_property
    def files(self) -> dict[str, str]:
        """A file for each language of the split, for error messages. Languages are as stated, or as files name them."""
        files: dict[str, str] = {}
        for part in self.parts:
            names: dict[str, str] = {}
            for name in sorted(part.names):
                language = self.language_codes.get(name, name)
                other = names.setdefault(language, name)
                if other != name:
                    raise LanguageError(
                        f"{file_with(part, other)} and {file_with(part, name)} are both text in {language}: "
                        f"'{shorten(other)}' and '{shorten(name)}'. Correct corpus.language_codes."
                    )
                files.setdefault(language, str(file_with(part, name)))
        return files

    def select(self, listed: Sequence[str], code_style: CodeStyle) -> dict[str, str]:
        """Map the languages of the split to their codes in a style. `listed` selects languages, or all if empty."""
        if not listed:
            self.check_known()
        return select_languages(self.files, listed, code_style, f"the languages of {self.path}")

    def match(self, codes: Iterable[str], selected: Iterable[str] | None = None) -> dict[str, str]:
        """Map languages of the split, by default all, to those of the codes that mean the same."""
        check_spelled_once(self.files)
        matches = match_languages(codes, self.files if selected is None else selected, f"the languages of {self.path}")
        return {language: code for code, language in matches.items()}

    def check_known(self) -> None:
        """Raise an error if a language has no known code."""
        for language, file in self.files.items():
            if not looks_like_language_code(language) or not is_known_language_code(language):
                raise LanguageError(
                    f"{file}: '{shorten(language)}' is not a known language code. State the language with "
                    f"corpus.language_codes, or list the languages to use in corpus.languages."
                )

    def rows(self, codes: Mapping[str, str], min_languages: int = 2) -> Iterator[Row]:
        """Yield the rows in some languages; `codes` maps them to codes.

        Parts with fewer of the languages are omitted, except those that are in fewer languages altogether.
        """
        for part, codes_by_name in self._used_parts(codes, min_languages):
            for row in part.rows(codes_by_name.keys()):
                yield {codes_by_name[name]: text for name, text in row.items()}

    def aligned_files(self, codes: Mapping[str, str]) -> list[AlignedFiles] | None:
        """Return the files that `rows` reads, by code; None if a part is not line-aligned or has labels."""
        groups: list[AlignedFiles] = []
        for part, codes_by_name in self._used_parts(codes, min_languages=2):
            if not isinstance(part, AlignedText) or LINE_LABELS in part.files:
                return None
            groups.append({codes_by_name[name]: part.files[name] for name in part.files if name in codes_by_name})
        return groups

    def _used_parts(self, codes: Mapping[str, str], min_languages: int) -> Iterator[tuple[TextPart, dict[str, str]]]:
        """Yield the parts that `rows` reads, each with the codes of its languages."""
        for part in self.parts:
            codes_by_name = {
                name: codes[language]
                for name in part.names
                if (language := self.language_codes.get(name, name)) in codes
            }
            if len(codes_by_name) >= min(min_languages, len(part.names)):
                yield part, codes_by_name


class FilesCorpus:
    """The rows of all parts of a published corpus, one part after the other."""

    def __init__(self, settings: FilesSettings) -> None:
        self._settings = settings
        found = settings.find_text(settings.path, settings.layout)
        self._texts = {
            split: SplitText(settings.path, found, _parts_of(found, split, Split.TRAIN), settings.language_codes)
            for split in Split
        }
        for split, path in ((Split.DEV, settings.dev), (Split.TEST, settings.test)):
            if path is not None:
                self._texts[split] = find_split_text(settings, path, split)
        if not self._texts[Split.TRAIN].parts:
            raise CorpusError(
                f"{settings.path} contains no training text. Use it as corpus.dev or corpus.test, or with "
                f"`manyglot evaluate --test`."
            )
        self._train_codes = self._select_languages()
        self.languages = tuple(self._train_codes.values())

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the parts of a split one after the other."""
        return self._texts[split].rows(self._codes(split))

    def aligned_files(self, split: Split) -> Sequence[AlignedFiles] | None:
        """The files that the rows of a split come from; None if some are not line-aligned."""
        return self._texts[split].aligned_files(self._codes(split))

    def fingerprint(self) -> str:
        """A digest of the files' names, sizes and modification times."""
        sources = {source for text in self._texts.values() for part in text.parts for source in part.sources}
        return fingerprint_files({source if isinstance(source, Path) else source.archive for source in sources})

    def describe(self) -> str:
        """Return one line about the layout, the languages and the files that are not used."""
        texts = {text.path: text.found for text in self._texts.values()}
        unused = sorted(
            {name for split, text in self._texts.items() for name in text.files.keys() - self._codes(split)}
        )
        languages = f"{len(self.languages)} languages"
        languages += f" (not used: {', '.join(unused[:10])}{' …' if len(unused) > 10 else ''})" if unused else ""
        return "; ".join([languages, *(describe_layout(path, found) for path, found in texts.items())]) + "."

    def _codes(self, split: Split) -> dict[str, str]:
        """Map the languages of a split to the codes of the corpus."""
        text, train_text = self._texts[split], self._texts[Split.TRAIN]
        if split == Split.TRAIN:
            return self._train_codes
        if text.path == train_text.path:
            check_spelled_once(text.files | train_text.files)
            return self._train_codes
        return text.match(self.languages)

    def _select_languages(self) -> dict[str, str]:
        settings, files = self._settings, self._texts[Split.TRAIN].files
        if not settings.languages:
            self._texts[Split.TRAIN].check_known()
        return select_languages(
            files, settings.languages, settings.code_style, f"the languages of the training text in {settings.path}"
        )


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
    return SplitText(path, found, parts, settings.language_codes)


def describe_layout(path: Path, found: FoundText) -> str:
    """Return what was found in a path, such as `flores200_dataset: layout flores, 408 files in dev and test`."""
    num_files = len({source for part in found.parts for source in part.sources})
    splits = sorted({part.split for part in found.parts if part.split})
    text = f"{path}: layout {found.layout}, {num_files} {'file' if num_files == 1 else 'files'}"
    text += f" in {' and '.join(splits)}" if splits else ""
    if found.ignored:
        num_more = len(found.ignored) - 1
        more = f" and {num_more} other {'file' if num_more == 1 else 'files'}" if num_more else ""
        text += f", without {found.ignored[0]}{more}"
    return text


def _parts_of(found: FoundText, split: Split, default: Split) -> list[TextPart]:
    return [part for part in found.parts if (part.split or default) == split]
