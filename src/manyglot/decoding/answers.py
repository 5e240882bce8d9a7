"""Requests in, results out: a block of them is translated at once, whatever their languages and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from manyglot.decoding.requests import Request
from manyglot.decoding.results import Result, answer, refusal, refusals
from manyglot.decoding.translation import Translation
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError, MemoryIsFull
from manyglot.progress import Bar


@dataclass(frozen=True)
class Answered:
    """A block of requests as they were understood, and their results in order."""

    requests: list[Request]
    results: list[Result]
    num_sentences: int


@dataclass(frozen=True)
class Answering:
    """What is asked of each result."""

    targets: Sequence[str] = ()
    """The languages of requests that name none."""
    n_best: int = 1
    """The number of translations, the alternatives included; those of a text that was split are not told."""
    scores: bool = False

    def block(
        self, translator: Translator, block: Sequence[Request], first: int = 0, progress: Bar | None = None
    ) -> Answered:
        """Translate some requests; `first` is the number of sentences before, progress is told of requests."""
        requests = [request.into(translator.languages, self.targets) for request in block]
        share = None if progress is None else _Share(progress, len(block))
        try:
            return self._answered(translator, requests, first, share)
        except MemoryIsFull:
            raise
        except ManyglotError:  # one of them, too long for the engine say, should not stop the others
            requests = [self._tried(translator, request) for request in requests]
            return self._answered(translator, requests, first, share)

    def _answered(
        self, translator: Translator, requests: list[Request], first: int, share: _Share | None = None
    ) -> Answered:
        asked = [
            (sentence, code)
            for request in requests
            if not request.problem
            for code in request.to or ()
            if code not in request.unknown
            for sentence in request.sentences
        ]
        texts, codes = [text for text, _ in asked], [code for _, code in asked]
        if share is not None:
            share.begin(len(asked))
        found = iter(translator.hypotheses(texts, codes, self.n_best, share, first))
        results = [result for request in requests for result in self._results(request, found)]
        if share is not None:
            share.finish()
        return Answered(requests, results, len(asked))

    def _tried(self, translator: Translator, request: Request) -> Request:
        """The request, with a problem if it cannot be translated by itself."""
        try:
            self._answered(translator.with_check(None), [request], first=0)
        except ManyglotError as error:
            return replace(request, problem=f"{request.place}: {error}")
        return request

    def _results(self, request: Request, found: Iterator[Sequence[Translation]]) -> Iterator[Result]:
        if request.problem or request.to is None:
            yield from refusals(request, self.targets)
            return
        for code in request.to:
            if code in request.unknown:
                yield refusal(request, code)
            else:
                yield self._result(request, code, [next(found) for _ in request.sentences])

    def _result(self, request: Request, code: str, found: Sequence[Sequence[Translation]]) -> Result:
        best = [translations[0] for translations in found]
        judged = [each.on_target for each in best if each.on_target is not None]
        return answer(
            request,
            code,
            [each.text for each in best],
            score=fmean(each.score for each in best) if self.scores and request.text.strip() else None,
            alternatives=found[0][1:] if len(found) == 1 else (),
            on_target=all(judged) if judged else None,
        )


class _Share:
    """Tells a bar of requests how far the sentences of a block are: there may be more of them, or fewer."""

    def __init__(self, progress: Bar, num_requests: int) -> None:
        self.progress, self.num_requests = progress, num_requests
        self.num_sentences = self.done = self.told = 0

    def begin(self, num_sentences: int) -> None:
        """Count the sentences, again where a second search is needed."""
        self.num_sentences, self.done = num_sentences, 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.done += amount
        self._tell(self.num_requests * self.done // max(1, self.num_sentences), note)

    def finish(self) -> None:
        """All of them; empty ones were not searched for."""
        self._tell(self.num_requests)

    def _tell(self, requests: int, note: str = "") -> None:
        if requests > self.told:
            self.progress.advance(requests - self.told, note)
            self.told = requests
