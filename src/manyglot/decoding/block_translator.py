"""Translates blocks of requests: one search covers all sentences of a block and all their target languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.scored_translation import Translation
from manyglot.decoding.translation_requests import TranslationRequest
from manyglot.decoding.translation_results import TranslationResult, failed_result, failed_results, join_result
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, OutOfMemory
from manyglot.progress import ProgressReporter


@dataclass(frozen=True)
class TranslatedBlock:
    """A block of requests with resolved target languages, and their results in the same order."""

    requests: list[TranslationRequest]
    results: list[TranslationResult]
    num_sentences: int


@dataclass(frozen=True)
class BlockTranslator:
    """Translates requests and builds their results."""

    translator: Translator
    default_targets: Sequence[str] = ()
    """Target languages of requests that name none."""
    n_best: int = 1
    """Number of translations per sentence, including alternatives. A split text has no alternatives."""
    include_scores: bool = False
    """Whether results have scores."""

    def translate(
        self, block: Sequence[TranslationRequest], sentence_offset: int = 0, progress: ProgressReporter | None = None
    ) -> TranslatedBlock:
        """Translate a block of requests, given the number of sentences before it. Progress is counted in requests."""
        requests = [request.resolve_targets(self.translator.languages, self.default_targets) for request in block]
        sentence_progress = None if progress is None else _RequestProgress(progress, len(block))
        try:
            return self._translate(requests, sentence_offset, sentence_progress)
        except OutOfMemory:
            raise
        except ManyglotError:  # a single request, such as one too long for the engine, must not stop the others
            requests = [self._mark_if_untranslatable(request) for request in requests]
            return self._translate(requests, sentence_offset, sentence_progress)

    def _translate(
        self,
        requests: list[TranslationRequest],
        sentence_offset: int = 0,
        sentence_progress: _RequestProgress | None = None,
    ) -> TranslatedBlock:
        sentences = [
            (sentence, code)
            for request in requests
            if not request.problem
            for code in request.targets or ()
            if code not in request.unknown_languages
            for sentence in request.sentences
        ]
        texts, codes = [text for text, _ in sentences], [code for _, code in sentences]
        if sentence_progress is not None:
            sentence_progress.begin(len(sentences))
        hypotheses = self.translator.translate_n_best(
            texts, codes, self.n_best, sentence_offset=sentence_offset, progress=sentence_progress
        )
        hypotheses_iterator = iter(hypotheses)
        results = [result for request in requests for result in self._results(request, hypotheses_iterator)]
        if sentence_progress is not None:
            sentence_progress.finish()
        return TranslatedBlock(requests, results, len(sentences))

    def _mark_if_untranslatable(self, request: TranslationRequest) -> TranslationRequest:
        """Translate a request on its own. If that fails, return the request with the reason as its problem."""
        unfiltered = replace(self, translator=self.translator.with_off_target_filter(None))
        try:
            unfiltered._translate([request])
        except ManyglotError as error:
            return replace(request, problem=f"{request.location}: {error}")
        return request

    def _results(
        self, request: TranslationRequest, hypotheses: Iterator[Sequence[Translation]]
    ) -> Iterator[TranslationResult]:
        """Yield a result for each target language, taking the hypotheses of its sentences from the iterator."""
        if request.problem or request.targets is None:
            yield from failed_results(request, self.default_targets)
            return
        for code in request.targets:
            if code in request.unknown_languages:
                yield failed_result(request, code)
            else:
                request_hypotheses = [next(hypotheses) for _ in request.sentences]
                yield join_result(request, code, request_hypotheses, self.include_scores)


class _RequestProgress:
    """Converts progress in sentences to progress in requests. A request may have several sentences, or none."""

    def __init__(self, progress: ProgressReporter, num_requests: int) -> None:
        self.progress, self.num_requests = progress, num_requests
        self.num_sentences = self.num_sentences_done = self.num_requests_done = 0

    def begin(self, num_sentences: int) -> None:
        """Start counting sentences. A second search starts again from 0."""
        self.num_sentences, self.num_sentences_done = num_sentences, 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.num_sentences_done += amount
        self._advance_to(self.num_requests * self.num_sentences_done // max(1, self.num_sentences), note)

    def finish(self) -> None:
        """Count all requests as done, including those without sentences."""
        self._advance_to(self.num_requests)

    def _advance_to(self, num_requests: int, note: str = "") -> None:
        if num_requests > self.num_requests_done:
            self.progress.advance(num_requests - self.num_requests_done, note)
            self.num_requests_done = num_requests
