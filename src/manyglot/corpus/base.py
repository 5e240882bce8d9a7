"""Definitions shared by all corpora: rows, splits, common settings and the protocol of a reader.

A corpus consists of rows. A row maps language codes to the same sentence in each language and omits languages without a
translation. Rows of a multi-way corpus have many languages; rows of a bilingual corpus have two. All later stages treat
both the same way and store each sentence once, however many directions use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Annotated, Protocol, TypeVar, runtime_checkable

from pydantic import Field

from manyglot.config.base_settings import CHANGEABLE_ON_RESUME, Settings
from manyglot.corpus.language_codes import CodeStyle
from manyglot.corpus.zip_archives import TextSource

T = TypeVar("T")
MAX_GENERATED_ROWS = 1_000_000
"""Maximum number of rows per split of a generated corpus; it cannot write endlessly many different ones."""
Row = Mapping[str, str]
"""Maps language codes to the same sentence in each language."""


class Split(StrEnum):
    """The three parts of a corpus."""

    TRAIN = "train"
    DEV = "dev"
    TEST = "test"


SPLIT_ALIASES = {
    "train": Split.TRAIN,
    "dev": Split.DEV,
    "valid": Split.DEV,
    "validation": Split.DEV,
    "test": Split.TEST,
    "devtest": Split.TEST,
}
"""Accepted names of the splits in file names."""


class BaseCorpusSettings(Settings):
    """Settings shared by all corpora: how to show language codes, and the directions to train on."""

    code_style: CodeStyle = "as_given"
    """How the dataset, its model and all results show language codes. as_given: as the files, columns or generated
    languages are named. bcp47: de, pt-BR, zh-Hant. iso639-3: deu, por-BR, zho-Hant. flores: deu_Latn, por_Latn_BR,
    zho_Hant. Settings and commands accept all styles in any case."""
    central_language: str | None = "en"
    """Train only to and from this language, so that all other directions are zero-shot; null trains on all pairs."""
    train_directions: tuple[str, ...] = ()
    """Train on exactly these directions, such as [de>en, en>fr]; `central_language` then only groups the results."""
    exclude_directions: tuple[str, ...] = ()
    """Never train on these directions, such as [de>fr], so that they stay zero-shot."""
    train_share: float | None = Field(None, gt=0, le=1000)
    """Share of the training rows to use, evenly spaced. 2.5 uses every row two or three times, which weights a part of
    a mixture; `cleaning.deduplicate_pairs` would undo this. null uses every row once."""
    license: Annotated[str | None, CHANGEABLE_ON_RESUME] = None
    """The license of the text, such as CC BY 4.0, for the model card."""


class Corpus(Protocol):
    """The protocol of a corpus reader."""

    @property
    def languages(self) -> tuple[str, ...]:
        """The language codes."""

    def rows(self, split: Split) -> Iterator[Row]:
        """Read one split from its beginning. Every call yields the same rows in the same order."""

    def fingerprint(self) -> str:
        """A short string that changes whenever the rows change under the same settings; used to detect stale data."""


AlignedFiles = Mapping[str, TextSource]
"""Line-aligned files by language: line i is the same sentence in every language, or empty."""


@runtime_checkable
class AlignedCorpus(Protocol):
    """A corpus whose rows come from line-aligned files, so that they can be read on all cores."""

    def aligned_files(self, split: Split) -> Sequence[AlignedFiles] | None:
        """Return the files of a split in the order of its rows; None if some rows come from elsewhere."""


def take_split(stream: Iterator[T], split: Split, sizes: Mapping[Split, int]) -> Iterator[T]:
    """Cut one split out of an endless stream of distinct items.

    Dev and test come first, so they do not depend on the size of the training split.
    """
    start = 0
    for earlier in (Split.DEV, Split.TEST, Split.TRAIN):
        if earlier is split:
            break
        start += sizes[earlier]
    return islice(stream, start, start + sizes[split])
