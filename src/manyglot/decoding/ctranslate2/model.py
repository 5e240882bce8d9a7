"""Searches with one exported CTranslate2 model and reproduces the results of the native `BeamSearch`.

Both beam searches share the main rule: of the best 2K candidates, those that end the sentence and rank among the first
K are finished, and a sentence is done when it has K finished hypotheses. This module makes up for the differences:

| CTranslate2 | `BeamSearch` |
|---|---|
| The length in a score includes the target tags. | It includes them only if the model predicts them. |
| Without a length penalty, the search may stop early. | The search never stops early. |
| Suppressed tokens leave the softmax. | Tags, <pad> and <unk> keep their probability but are never generated. |
| A call has one maximum length. | Each sentence has its own. |
| At the maximum length, a hypothesis stops without an end symbol. | The end symbol counts in the length. |

The first search suppresses nothing, because forbidden tokens are rarely among the candidates, and drops hypotheses that
contain one. If the best hypothesis contains one, the sentence is searched again with all forbidden tokens suppressed. A
sentence that reaches its maximum length is searched again up to that length.

Some differences remain. A second search may return fewer hypotheses, or slightly higher probabilities. Right after a
forced tag, only the best candidate may end the sentence. docs/export.md reports how often this matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyglot.decoding.ctranslate2 import import_ctranslate2
from manyglot.decoding.ctranslate2.manifest import LanguageTagSymbols, Manifest
from manyglot.decoding.ctranslate2.model_file import check_model_files
from manyglot.decoding.engine import ScoringRequest, SearchRequest, checked_source_languages
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.scored_translation import TranslationScore
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, ManyglotError
from manyglot.vocabulary.subword_model import EOS, UNK

NEGLIGIBLE_LENGTH_PENALTY = 1e-6
"""Stands for a length penalty of 0, with which CTranslate2 would stop as soon as the best hypothesis ends. It is too
small to change the ranking."""
MIN_LOG_PROBABILITY = -1e9
"""Log-probabilities below this value represent minus infinity in CTranslate2."""


@dataclass(frozen=True)
class _ExportedSentence:
    """The input of CTranslate2 for one sentence, and what is needed to score its outputs."""

    source: list[str]
    """Tags and subwords. CTranslate2 adds the end symbol."""
    tags: LanguageTagSymbols
    max_length: int
    """Maximum length of the output, without tags and end symbol."""

    @property
    def prefix(self) -> list[str]:
        """The target tags that the output must begin with."""
        return list(self.tags.target)

    def score(self, hypothesis: _RawHypothesis, length_penalty: float) -> float:
        """Return the score that `BeamSearch` would give the hypothesis."""
        length = len(hypothesis.tokens) + 1 + self.tags.num_predicted
        return hypothesis.log_probability / float(length**length_penalty)


@dataclass(frozen=True)
class _RawHypothesis:
    """A hypothesis returned by CTranslate2, without tags and end symbol."""

    tokens: list[str]
    log_probability: float


def _best_hypothesis(
    sentence: _ExportedSentence, hypotheses: Sequence[_RawHypothesis], settings: DecodingSettings
) -> _RawHypothesis:
    return max(hypotheses, key=lambda hypothesis: sentence.score(hypothesis, settings.length_penalty))


class CTranslate2Model:
    """One exported CTranslate2 model with its manifest."""

    def __init__(self, folder: Path, manifest: Manifest, device: str, threads: tuple[int, int]) -> None:
        self.folder, self.manifest, (self.num_parallel_batches, threads_each) = folder, manifest, threads
        self.names = check_model_files(folder, manifest.num_positions)
        try:
            self.translator = import_ctranslate2().Translator(
                str(folder), device=device, inter_threads=self.num_parallel_batches, intra_threads=threads_each
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise FolderError(f"CTranslate2 cannot load {folder} on device {device} ({error}).") from None
        self.ids = {name: i for i, name in enumerate(self.names)}
        if unknown := manifest.referenced_symbols() - self.ids.keys():
            raise FolderError(
                f"{folder} has no symbol {min(unknown)}, which its manifest names. Export the model again."
            )
        self.forbidden_tokens = {*manifest.suppressed_tokens, self.names[UNK]}

    def tag_sources(
        self, request: SearchRequest | ScoringRequest, rows: Sequence[int], codes: Sequence[str]
    ) -> list[list[str]]:
        """Return tags and subwords of some sentences of a request. `codes` are their target languages."""
        sources = [
            [*self.manifest.targets[code].source, *(self.names[i] for i in request.sources[row])]
            for row, code in zip(rows, codes, strict=True)
        ]
        if not (source_tags := list(self.manifest.source_language_tags.values())):
            return sources
        languages = checked_source_languages(request)
        return [[source_tags[languages[row]], *source] for row, source in zip(rows, sources, strict=True)]

    def search(
        self, sources: Sequence[list[str]], codes: Sequence[str], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence, best first. `codes` are their target languages."""
        sentences = self._make_sentences(sources, codes, settings)
        results = self._search(sentences, settings)
        forbidden_rows = [
            row
            for row, hypotheses in enumerate(results)
            if not self._is_allowed(_best_hypothesis(sentences[row], hypotheses, settings))
        ]
        retried = self._search([sentences[row] for row in forbidden_rows], settings, suppress=True)
        for row, hypotheses in zip(forbidden_rows, retried, strict=True):
            results[row] = hypotheses
        return [
            self._rank_hypotheses(s, hypotheses, settings) for s, hypotheses in zip(sentences, results, strict=True)
        ]

    def score(
        self,
        sources: Sequence[list[str]],
        translations: Sequence[Sequence[int]],
        codes: Sequence[str],
        settings: DecodingSettings,
    ) -> list[TranslationScore]:
        """Return the scores of given translations, with the same tokens as in `BeamSearch`."""
        scores = []
        limits = [self._max_length(source, code, settings) for source, code in zip(sources, codes, strict=True)]
        sentences = [
            self._make_sentence(source, code, len(t))
            for source, code, t in zip(sources, codes, translations, strict=True)
        ]
        targets = [[*s.prefix, *(self.names[i] for i in t)] for s, t in zip(sentences, translations, strict=True)]
        log_probabilities = self._log_probabilities(sentences, targets)
        for sentence, log_probs, limit in zip(sentences, log_probabilities, limits, strict=True):
            scored = log_probs[len(sentence.prefix) :]
            length = len(scored) + sentence.tags.num_predicted
            total = sum(scored[:-1] if sentence.max_length == limit else scored)  # a forced end symbol scores nothing
            scores.append(TranslationScore.from_length(total, length, settings.length_penalty))
        return scores

    def _is_allowed(self, hypothesis: _RawHypothesis) -> bool:
        has_forbidden = not self.forbidden_tokens.isdisjoint(hypothesis.tokens)
        return not has_forbidden and hypothesis.log_probability > MIN_LOG_PROBABILITY

    def _rank_hypotheses(
        self, sentence: _ExportedSentence, hypotheses: Sequence[_RawHypothesis], settings: DecodingSettings
    ) -> list[Hypothesis]:
        allowed = [
            Hypothesis(tuple(self.ids[token] for token in raw.tokens), sentence.score(raw, settings.length_penalty))
            for raw in hypotheses
            if self._is_allowed(raw)
        ]
        return sorted(allowed, key=lambda h: -h.score)[: settings.beam_size]

    def _make_sentences(
        self, sources: Sequence[list[str]], codes: Sequence[str], settings: DecodingSettings
    ) -> list[_ExportedSentence]:
        return [
            self._make_sentence(source, code, self._max_length(source, code, settings))
            for source, code in zip(sources, codes, strict=True)
        ]

    def _max_length(self, source: list[str], code: str, settings: DecodingSettings) -> int:
        longest = self.manifest.num_positions - 1 - len(self.manifest.targets[code].target)
        return min(settings.max_output_length(len(source) + 1), longest)

    def _make_sentence(self, source: list[str], code: str, max_length: int) -> _ExportedSentence:
        """Return a sentence. Raise if it or its output is too long for the model."""
        tags = self.manifest.targets[code]
        num_needed = 1 + max(len(source), len(tags.target) + max_length)
        if num_needed > self.manifest.num_positions:
            raise ManyglotError(
                f"The exported model handles at most {self.manifest.num_positions} tokens, but a sentence needs "
                f"{num_needed}. Shorten or split it."
            )
        return _ExportedSentence(source, tags, max_length)

    def _search(
        self, sentences: Sequence[_ExportedSentence], settings: DecodingSettings, suppress: bool = False
    ) -> list[list[_RawHypothesis]]:
        """Search sentences of similar maximum length together, and repeat the search for those that reach theirs."""
        results = self._search_in_groups(sentences, [s.max_length.bit_length() for s in sentences], settings, suppress)
        # The longest hypothesis ended last. If it is shorter than the maximum, the search ended by itself.
        long_rows = [
            row
            for row, (sentence, hypotheses) in enumerate(zip(sentences, results, strict=True))
            if any(len(hypothesis.tokens) >= sentence.max_length for hypothesis in hypotheses)
        ]
        retried = self._search_to_max_length([sentences[row] for row in long_rows], settings, suppress)
        for row, hypotheses in zip(long_rows, retried, strict=True):
            results[row] = hypotheses
        return results

    def _search_to_max_length(
        self, sentences: Sequence[_ExportedSentence], settings: DecodingSettings, suppress: bool
    ) -> list[list[_RawHypothesis]]:
        """Search up to the maximum length of each sentence.

        Fewer than K hypotheses end earlier, so a patience of 2 only makes CTranslate2 return all of them.
        """
        return self._search_in_groups(sentences, [s.max_length for s in sentences], settings, suppress, patience=2)

    def _search_in_groups(
        self,
        sentences: Sequence[_ExportedSentence],
        keys: Sequence[int],
        settings: DecodingSettings,
        suppress: bool,
        patience: int = 1,
    ) -> list[list[_RawHypothesis]]:
        """Search groups of sentences with equal keys asynchronously, and collect their hypotheses."""
        rows_by_key: dict[int, list[int]] = defaultdict(list)
        for row, key in enumerate(keys):
            rows_by_key[key].append(row)
        groups = [
            (rows, self._start_search([sentences[i] for i in rows], settings, suppress, patience))
            for rows in rows_by_key.values()
        ]
        results: list[list[_RawHypothesis]] = [[] for _ in sentences]
        penalty = settings.length_penalty or NEGLIGIBLE_LENGTH_PENALTY
        for rows, futures in groups:
            for row, future in zip(rows, futures, strict=True):
                result = future.result()
                for tokens, score in zip(result.hypotheses, result.scores, strict=True):
                    log_probability = score * len(tokens) ** penalty
                    results[row].append(self._parse_hypothesis(sentences[row], tokens, log_probability))
        return results

    def _parse_hypothesis(
        self, sentence: _ExportedSentence, tokens: list[str], log_probability: float
    ) -> _RawHypothesis:
        """Remove the tags and the end symbol."""
        without_tags, ended = tokens[len(sentence.prefix) :], tokens[-1] == self.names[EOS]
        return _RawHypothesis(without_tags[:-1] if ended else without_tags, log_probability)

    def _start_search(
        self, sentences: Sequence[_ExportedSentence], settings: DecodingSettings, suppress: bool, patience: int
    ) -> Any:
        """Start the asynchronous search. CTranslate2 sorts the sentences and splits them into batches."""
        lengths = [len(s.source) + 1 for s in sentences]
        tokens_per_thread = -(-sum(lengths) // self.num_parallel_batches)
        return self.translator.translate_batch(
            [s.source for s in sentences],
            target_prefix=[s.prefix for s in sentences] if any(s.prefix for s in sentences) else None,
            max_batch_size=min(
                settings.max_batch_tokens, settings.max_batch_sentences * min(lengths), tokens_per_thread
            ),
            batch_type="tokens",
            asynchronous=True,
            beam_size=settings.beam_size,
            patience=patience,
            num_hypotheses=1 if settings.beam_size == 1 else patience * settings.beam_size,
            length_penalty=settings.length_penalty or NEGLIGIBLE_LENGTH_PENALTY,
            suppress_sequences=[[token] for token in self.forbidden_tokens] if suppress else None,
            return_end_token=True,
            max_input_length=0,
            max_decoding_length=max(len(s.prefix) + s.max_length for s in sentences),
            min_decoding_length=0,
            return_scores=True,
        )

    def _log_probabilities(
        self, sentences: Sequence[_ExportedSentence], targets: Sequence[list[str]]
    ) -> list[list[float]]:
        """Return the log-probability of each token of the targets and of their end symbols. No token is suppressed."""
        if not sentences:
            return []
        max_batch_tokens = self.manifest.decoding.max_batch_tokens
        sources = [s.source for s in sentences]
        results = self.translator.score_batch(
            sources, targets, max_batch_size=max_batch_tokens, batch_type="tokens", max_input_length=0
        )
        return [list(result.log_probs) for result in results]
