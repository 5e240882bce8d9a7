"""Translates blocks of requests: all sentences of a block in one call, whatever their target languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.requests import Request
from manyglot.decoding.results import Result, join_result, refusal, refusals
from manyglot.decoding.translation import Translation
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, MemoryIsFull
from manyglot.progress import Bar


@dataclass(frozen=True)
class TranslatedBlock:
    """A block of requests with resolved target languages, and their results in the same order."""

    requests: list[Request]
    results: list[Result]
    num_sentences: int


@dataclass(frozen=True)
class BlockTranslator:
    """Translates requests and builds their results."""

    translator: Translator
    targets: Sequence[str] = ()
    """Target languages of requests that name none."""
    n_best: int = 1
    """Translations per sentence, alternatives included. A text that was split has no alternatives."""
    scores: bool = False
    """Whether results have scores."""

    def translate(self, block: Sequence[Request], offset: int = 0, progress: Bar | None = None) -> TranslatedBlock:
        """Translate some requests, given the number of sentences before them; the bar counts requests."""
        requests = [request.into(self.translator.languages, self.targets) for request in block]
        bar = None if progress is None else _RequestBar(progress, len(block))
        try:
            return self._translate(requests, offset, bar)
        except MemoryIsFull:
            raise
        except ManyglotError:  # a single request, such as one too long for the engine, must not stop the others
            requests = [self._checked(request) for request in requests]
            return self._translate(requests, offset, bar)

    def _translate(self, requests: list[Request], offset: int = 0, bar: _RequestBar | None = None) -> TranslatedBlock:
        sentences = [
            (sentence, code)
            for request in requests
            if not request.problem
            for code in request.to or ()
            if code not in request.unknown
            for sentence in request.sentences
        ]
        texts, codes = [text for text, _ in sentences], [code for _, code in sentences]
        if bar is not None:
            bar.begin(len(sentences))
        hypotheses = self.translator.hypotheses(texts, codes, self.n_best, offset=offset, progress=bar)
        remaining = iter(hypotheses)
        results = [result for request in requests for result in self._results(request, remaining)]
        if bar is not None:
            bar.finish()
        return TranslatedBlock(requests, results, len(sentences))

    def _checked(self, request: Request) -> Request:
        """Translate a request by itself; return it with a problem if that fails."""
        unfiltered = replace(self, translator=self.translator.with_off_target_filter(None))
        try:
            unfiltered._translate([request])
        except ManyglotError as error:
            return replace(request, problem=f"{request.place}: {error}")
        return request

    def _results(self, request: Request, hypotheses: Iterator[Sequence[Translation]]) -> Iterator[Result]:
        """Yield a result for each target language, taking the hypotheses of its sentences from the iterator."""
        if request.problem or request.to is None:
            yield from refusals(request, self.targets)
            return
        for code in request.to:
            if code in request.unknown:
                yield refusal(request, code)
            else:
                own = [next(hypotheses) for _ in request.sentences]
                yield join_result(request, code, own, self.scores)


class _RequestBar:
    """A bar of sentences that advances a bar of requests: a request may have several sentences, or none."""

    def __init__(self, progress: Bar, num_requests: int) -> None:
        self.progress, self.num_requests = progress, num_requests
        self.num_sentences = self.num_sentences_done = self.num_requests_done = 0

    def begin(self, num_sentences: int) -> None:
        """Start counting sentences, again where a second search is needed."""
        self.num_sentences, self.num_sentences_done = num_sentences, 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.num_sentences_done += amount
        self._advance_to(self.num_requests * self.num_sentences_done // max(1, self.num_sentences), note)

    def finish(self) -> None:
        """Count all requests as done, also those whose sentences were empty."""
        self._advance_to(self.num_requests)

    def _advance_to(self, num_requests: int, note: str = "") -> None:
        if num_requests > self.num_requests_done:
            self.progress.advance(num_requests - self.num_requests_done, note)
            self.num_requests_done = num_requests
