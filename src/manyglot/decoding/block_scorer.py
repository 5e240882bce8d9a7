"""Scores the given translations of blocks of requests, and builds their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from manyglot.decoding.block_translator import BlockTranslator, TranslatedBlock
from manyglot.decoding.scaled_progress import ScaledProgress
from manyglot.decoding.source_text import SourceText
from manyglot.decoding.text_splitter import SplitText
from manyglot.decoding.translation_requests import TranslationRequest
from manyglot.decoding.translation_results import TranslationResult, failed_results


@dataclass(frozen=True)
class BlockScorer(BlockTranslator):
    """Scores given translations by forced decoding, instead of translating."""

    def _translate(
        self,
        requests: list[TranslationRequest],
        sentence_offset: int = 0,
        text_progress: ScaledProgress | None = None,
    ) -> TranslatedBlock:
        requests = [replace(request, problem=request.problem or _find_problem(request)) for request in requests]
        scored = [r for r in requests if r.text.strip() and not r.problem]
        if text_progress is not None:
            text_progress.begin(len(scored))
        scores = self.translator.score(
            [request.text for request in scored],
            [request.translation or "" for request in scored],
            [request.known_targets[0] for request in scored],
            source=[request.source for request in scored],
            sentence_offset=sentence_offset,
            progress=text_progress,
        )
        score_by_number = dict(zip((request.number for request in scored), scores, strict=True))
        sources: list[SourceText | None] = []
        results: list[TranslationResult] = []
        for request in requests:
            score = score_by_number.get(request.number)
            if score is None:
                results += self._unscored(request)
                sources.append(None)
                continue
            results.append(
                TranslationResult(
                    number=request.number,
                    source=request.text,
                    target=request.known_targets[0],
                    output=request.translation or "",
                    score=score.score,
                    log_probability=score.log_probability,
                    warnings=tuple(f"The text {warning.message}" for warning in score.warnings),
                    extra_fields=request.extra_fields,
                )
            )
            sources.append(SourceText(SplitText.unsplit(request.text), (request.text,), (), score.warnings))
        if text_progress is not None:
            text_progress.finish()
        return TranslatedBlock(requests, sources, results, len(scored))

    def _unscored(self, request: TranslationRequest) -> Sequence[TranslationResult]:
        """Return the results of a request without a score. They keep the given translation."""
        results = failed_results(request, self.default_targets)
        return [replace(result, output=request.translation or "") for result in results]


def _find_problem(request: TranslationRequest) -> str:
    """Return why the translation of a request cannot be scored, or nothing."""
    has_text, has_translation = bool(request.text.strip()), bool((request.translation or "").strip())
    if has_text and request.translation is None:
        return f'{request.location} has no "output" to score.'
    if has_text != has_translation:
        return f"{request.location} has an empty {'translation' if has_text else 'text'}."
    if len(request.known_targets) + len(request.unknown_languages) > 1:
        return f"{request.location} names several target languages, but a translation has one."
    return ""
