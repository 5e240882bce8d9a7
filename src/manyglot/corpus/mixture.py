"""Several corpora as one, such as old and new text for fine-tuning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Annotated, Literal

from pydantic import Field, field_validator

from manyglot.corpus.base import AlignedCorpus, AlignedFiles, BaseCorpusSettings, Corpus, Row, Split
from manyglot.corpus.bilingual import BilingualSettings
from manyglot.corpus.files_corpus import FilesSettings
from manyglot.corpus.language_selection import match_languages, select_languages
from manyglot.corpus.multiway import MultiwaySettings
from manyglot.corpus.phrasebook import PhrasebookSettings
from manyglot.corpus.prepared_text import PreparedSettings
from manyglot.corpus.synthetic import SyntheticSettings
from manyglot.corpus.table import TableSettings

SingleCorpusSettings = (
    PhrasebookSettings
    | SyntheticSettings
    | MultiwaySettings
    | BilingualSettings
    | TableSettings
    | FilesSettings
    | PreparedSettings
)
"""The settings of every kind of corpus but a mixture."""


PART_SETTINGS = ("train_share", "license")
"""The common settings that a part of a mixture may have."""


class MixtureSettings(BaseCorpusSettings):
    """Several corpora, whose rows follow one another. Languages that they spell differently are joined."""

    kind: Literal["mixture"] = "mixture"
    """The kind of corpus: several corpora as one."""
    parts: tuple[Annotated[SingleCorpusSettings, Field(discriminator="kind")], ...] = Field(min_length=1)
    """The corpora, each with the settings of its kind. `train_share` weights a part, and `license` is that of its text.
    Settings that concern the whole corpus, such as `central_language`, belong to the mixture."""

    @field_validator("parts")
    @classmethod
    def _check_parts(cls, parts: tuple[SingleCorpusSettings, ...]) -> tuple[SingleCorpusSettings, ...]:
        for number, part in enumerate(parts):
            for name, field in BaseCorpusSettings.model_fields.items():
                if name not in PART_SETTINGS and getattr(part, name) != field.default:
                    raise ValueError(f"part {number} sets {name}. Set corpus.{name} for the whole mixture")
        is_prepared = [isinstance(part, PreparedSettings) for part in parts]
        if is_prepared != sorted(is_prepared, reverse=True):
            raise ValueError("list the parts of kind prepared before all others")
        return parts


class MixtureCorpus:
    """The rows of all parts, one part after the other."""

    def __init__(self, settings: BaseCorpusSettings, parts: Sequence[Corpus]) -> None:
        self._parts = parts
        first_spellings: list[str] = []
        spellings_by_part = []
        for part in parts:
            matches = match_languages(first_spellings, part.languages, "the languages of the mixture")
            spellings = {own: own for own in part.languages} | {own: first for first, own in matches.items()}
            first_spellings += [own for own in part.languages if spellings[own] == own and own not in first_spellings]
            spellings_by_part.append(spellings)
        names = {name: name for name in first_spellings}
        codes = select_languages(names, (), settings.code_style, "the languages of the mixture")
        self.codes_by_part = [{own: codes[name] for own, name in each.items()} for each in spellings_by_part]
        """For each part, the codes of its languages in the mixture."""
        self.languages = tuple(codes.values())

    def rows(self, split: Split) -> Iterator[Row]:
        """Read the parts of a split one after the other."""
        for part, codes in zip(self._parts, self.codes_by_part, strict=True):
            for row in part.rows(split):
                yield {codes[code]: text for code, text in row.items()}

    def aligned_files(self, split: Split) -> Sequence[AlignedFiles] | None:
        """The files that the rows of a split come from; None if some part has other rows."""
        groups: list[AlignedFiles] = []
        for part, codes in zip(self._parts, self.codes_by_part, strict=True):
            part_groups = part.aligned_files(split) if isinstance(part, AlignedCorpus) else None
            if part_groups is None:
                return None
            groups += [{codes[code]: source for code, source in files.items()} for files in part_groups]
        return groups

    def fingerprint(self) -> str:
        """A digest of the fingerprints of the parts."""
        return hashlib.sha256("\n".join(part.fingerprint() for part in self._parts).encode()).hexdigest()[:16]


class ResampledCorpus:
    """A corpus with fewer training rows, or with some of them more than once."""

    def __init__(self, corpus: Corpus, train_share: float) -> None:
        self.original, self._train_share = corpus, train_share
        self.languages = corpus.languages

    def rows(self, split: Split) -> Iterator[Row]:
        """Read a split. A training row appears `train_share` times on average, evenly spaced."""
        if split is not Split.TRAIN:
            yield from self.original.rows(split)
            return
        for i, row in enumerate(self.original.rows(split)):
            yield from repeat(row, int((i + 1) * self._train_share) - int(i * self._train_share))

    def fingerprint(self) -> str:
        """The fingerprint of the corpus; the share is a setting."""
        return self.original.fingerprint()
