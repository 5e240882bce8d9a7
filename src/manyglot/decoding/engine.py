"""The interface between the Translator and the search engines, in terms of subword ids."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from manyglot.corpus.languages import Languages
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import LanguageError
from manyglot.progress import ProgressReporter

DEFAULT_BLOCK_SIZE = 1024
"""Number of sentences of a stream to translate together: enough to sort by length, few enough to show progress."""


@dataclass(frozen=True)
class SearchRequest:
    """Sentences to translate, in any number and order, and how to search for their translations."""

    sources: Sequence[Sequence[int]]
    """Subword ids of each sentence, without tags and end symbol. An empty sentence gets an empty translation."""
    target_language_ids: Sequence[int]
    """Target language id of each sentence."""
    settings: DecodingSettings
    prefixes: Sequence[Sequence[int]] | None = None
    """Subword ids that each translation must begin with."""
    num_hypotheses: int | None = None
    """Number of hypotheses to return per sentence. None returns as many as the beam holds."""
    sentence_offset: int = 0
    """Number of sentences of the text before the first one. Sampling depends on a sentence's index in the text, not on
    its batch."""
    source_language_ids: Sequence[int | None] | None = None
    """Source language id of each sentence, or None where it is unknown. Only models with `source_tag` need it."""

    def __post_init__(self) -> None:
        assert len(self.sources) == len(self.target_language_ids)
        assert self.source_language_ids is None or len(self.source_language_ids) == len(self.sources)
        assert self.prefixes is None or len(self.prefixes) == len(self.sources)

    def blank_all_except(self, rows: Collection[int]) -> SearchRequest:
        """Return a copy that empties all other sentences, so that the given rows keep their index in the text."""
        return replace(self, sources=[source if row in rows else [] for row, source in enumerate(self.sources)])


@dataclass(frozen=True)
class ScoringRequest:
    """Given translations to score, in any number and order."""

    sources: Sequence[Sequence[int]]
    """Subword ids of each sentence, without tags and end symbol."""
    translations: Sequence[Sequence[int]]
    """Subword ids of the translation of each sentence, without tags and end symbol."""
    target_language_ids: Sequence[int]
    """Target language id of each translation."""
    settings: DecodingSettings
    sentence_offset: int = 0
    """Number of sentences of the text before the first one, as in `SearchRequest`."""
    source_language_ids: Sequence[int | None] | None = None
    """Source language id of each sentence, or None where it is unknown. Only models with `source_tag` need it."""

    def __post_init__(self) -> None:
        assert len(self.sources) == len(self.translations) == len(self.target_language_ids)

    def blank_all_except(self, rows: Collection[int]) -> ScoringRequest:
        """Return a copy that empties all other sentences and translations."""
        sources, translations = (
            [ids if row in rows else [] for row, ids in enumerate(side)] for side in (self.sources, self.translations)
        )
        return replace(self, sources=sources, translations=translations)


class SourceLanguageMissing(LanguageError):
    """A model that reads the source language translates a text of unknown language."""

    def __init__(self) -> None:
        super().__init__(
            "This model reads the source language of each text. Name it with --from (source in Python, the field from "
            "in requests)."
        )


def checked_source_languages(request: SearchRequest | ScoringRequest) -> list[int]:
    """Return the source language ids of a request for a model that reads them; raise an error if one is missing.

    An empty sentence needs no language.
    """
    languages = request.source_language_ids or [None] * len(request.sources)
    if any(language is None and source for source, language in zip(request.sources, languages, strict=True)):
        raise SourceLanguageMissing
    return [language or 0 for language in languages]


class Engine(Protocol):
    """Finds and scores translations: `NativeEngine` with a model folder, `CTranslate2Engine` with an export."""

    @property
    def languages(self) -> Languages:
        """The languages of the model, in the order of their ids."""

    @property
    def reads_source_language(self) -> bool:
        """Whether the model reads the source language of each sentence, so that a request must name it."""

    @property
    def default_settings(self) -> DecodingSettings:
        """The decoding settings stored with the model."""

    @property
    def preferred_block_size(self) -> int:
        """Number of sentences per request with which the engine translates long texts fast."""

    @property
    def short_block_size(self) -> int:
        """Number of sentences per request that take seconds, at nearly full speed; depends only on model and device."""

    def search(self, request: SearchRequest, progress: ProgressReporter | None = None) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first, and at least one per sentence."""

    def score(self, request: ScoringRequest, progress: ProgressReporter | None = None) -> list[TranslationScore]:
        """Return the scores of given translations (forced decoding)."""
