"""Translates blocks of requests: one search covers all texts of a block and all their target languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from manyglot.decoding.scaled_progress import ScaledProgress
from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.source_text import SourceText
from manyglot.decoding.translation_requests import TranslationRequest
from manyglot.decoding.translation_results import TranslationResult, failed_result, failed_results, make_result
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, OutOfMemory
from manyglot.progress import ProgressReporter


@dataclass(frozen=True)
class TranslatedBlock:
    """A block of requests with resolved languages, and their results in the same order."""

    requests: list[TranslationRequest]
    sources: list[SourceText | None]
    """The text of each request as it was split, or None if it was not translated."""
    results: list[TranslationResult]
    num_sentences: int


@dataclass(frozen=True)
class BlockTranslator:
    """Translates requests and builds their results."""

    translator: Translator
    default_targets: Sequence[str] = ()
    """Target languages of requests that name none."""
    n_best: int = 1
    """Number of translations per text, including alternatives."""
    include_scores: bool = False
    """Whether results have scores."""
    default_source: str | None = None
    """Language of requests that name none, or None if it is unknown."""

    def translate(
        self, block: Sequence[TranslationRequest], sentence_offset: int = 0, progress: ProgressReporter | None = None
    ) -> TranslatedBlock:
        """Translate a block of requests, given the number of sentences before it. Progress is counted in requests."""
        targets, languages = self.translator.languages, self.translator.engine.languages
        requests = [
            request.resolve_languages(targets, languages, self.default_targets, self.default_source)
            for request in block
        ]
        text_progress = None if progress is None else ScaledProgress(progress, len(block), 0)
        try:
            return self._translate(requests, sentence_offset, text_progress)
        except OutOfMemory:
            raise
        except ManyglotError:  # a single request, such as one too long for the engine, must not stop the others
            requests = [self._mark_if_untranslatable(request) for request in requests]
            return self._translate(requests, sentence_offset, text_progress)

    def _translate(
        self,
        requests: list[TranslationRequest],
        sentence_offset: int = 0,
        text_progress: ScaledProgress | None = None,
    ) -> TranslatedBlock:
        codes_by_request = [request.known_targets for request in requests]
        texts, targets, languages = [], [], []
        for request, codes in zip(requests, codes_by_request, strict=True):
            texts += [request.text] * len(codes)
            targets += codes
            languages += [request.source] * len(codes)
        if text_progress is not None:
            text_progress.begin(len(texts))
        translated = self.translator.translate_texts(
            texts, targets, self.n_best, source=languages, sentence_offset=sentence_offset, progress=text_progress
        )
        n_best, sources_by_text = iter(translated.n_best), iter(translated.sources)
        results = [result for request in requests for result in self._results(request, n_best)]
        sources_by_request = [list(islice(sources_by_text, len(codes))) for codes in codes_by_request]
        sources = [same_sources[0] if same_sources else None for same_sources in sources_by_request]
        if text_progress is not None:
            text_progress.finish()
        return TranslatedBlock(requests, sources, results, translated.num_sentences)

    def _mark_if_untranslatable(self, request: TranslationRequest) -> TranslationRequest:
        """Translate a request on its own. If that fails, return the request with the reason as its problem."""
        unfiltered = replace(self, translator=self.translator.with_off_target_filter(None))
        try:
            unfiltered._translate([request])
        except ManyglotError as error:
            return replace(request, problem=f"{request.location}: {error}")
        return request

    def _results(
        self, request: TranslationRequest, n_best: Iterator[Sequence[Translation]]
    ) -> Iterator[TranslationResult]:
        """Yield a result for each target language, taking its translations from the iterator."""
        if request.problem or request.targets is None:
            yield from failed_results(request, self.default_targets)
            return
        for code in request.targets:
            if code in request.unknown_languages:
                yield failed_result(request, code)
            else:
                yield make_result(request, code, next(n_best), self.include_scores)
