"""Searching with one exported CTranslate2 model, with the results of our own `BeamSearch`.

CTranslate2's beam search is ours in the main: of the best 2K candidates, those that end the sentence and are among the
first K are finished, and a sentence is done when K are. What is made equal here:

| CTranslate2 | ours |
|---|---|
| the length in a score counts the tags before the target | counts them only where they are predicted |
| a tag that is forced scores 0 | has its log-probability, where it is predicted |
| without a length penalty the search may stop early | it does not |
| a symbol that is suppressed leaves the softmax | tags, <pad> and <unk> keep their share, but are never written |
| a call has one maximum length | each sentence has its own |
| at the maximum length a hypothesis stops as it is | it ends there, and the end is scored |

So nothing is suppressed at first, for such symbols hardly ever come among the candidates. A hypothesis with one of them
is dropped; if it is the best, the sentence is searched again with all of them suppressed. One that reaches its maximum
length is searched again up to there. What stays different: fewer hypotheses in these cases, or probabilities a little
higher; and right after a tag that is forced, only the best candidate may end the sentence. docs/export.md says how
often that matters.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyglot.decoding.beam_search import DecodingSettings, Hypothesis
from manyglot.decoding.ctranslate2 import import_ctranslate2
from manyglot.decoding.ctranslate2.manifest import Manifest, TagSymbols
from manyglot.errors import FolderError, ManyglotError
from manyglot.vocabulary.subword_model import EOS, UNK

NEGLIGIBLE_LENGTH_PENALTY = 1e-6
"""A length penalty that changes no order; with 0, CTranslate2 would stop when the best hypothesis ends."""
MIN_LOG_PROBABILITY = -1e9
"""Log-probabilities below are CTranslate2's way to say minus infinity."""


@dataclass(frozen=True)
class _ExportedSentence:
    """A sentence as CTranslate2 reads it, and what our search knows of it."""

    source: list[str]
    """Tags and subwords; the model adds the end."""
    tags: TagSymbols
    max_length: int
    """The maximum length of the output, tags and end not counted."""
    tag_score: float = 0.0
    """Log-probability of the tags before the target, where they are predicted."""

    @property
    def prefix(self) -> list[str]:
        """What the output begins with."""
        return list(self.tags.target)

    def score(self, hypothesis: _RawHypothesis, length_penalty: float) -> float:
        """The score of our search."""
        length = len(hypothesis.tokens) + 1 + (len(self.prefix) if self.tags.target_predicted else 0)
        return (hypothesis.log_probability + self.tag_score) / float(length**length_penalty)


@dataclass(frozen=True)
class _RawHypothesis:
    """A hypothesis of CTranslate2."""

    tokens: list[str]
    log_probability: float
    ended: bool
    """Whether it ends by itself, and the end is in the log-probability."""


def _best_hypothesis(
    sentence: _ExportedSentence, hypotheses: Sequence[_RawHypothesis], settings: DecodingSettings
) -> _RawHypothesis:
    return max(hypotheses, key=lambda hypothesis: sentence.score(hypothesis, settings.length_penalty))


class ExportedModel:
    """One folder of CTranslate2 with its manifest."""

    def __init__(self, folder: Path, manifest: Manifest, device: str, threads: tuple[int, int]) -> None:
        self.folder, self.manifest, (self.num_parallel_batches, threads_each) = folder, manifest, threads
        try:
            self.names: list[str] = json.loads((folder / "shared_vocabulary.json").read_text("utf-8"))
            self.translator = import_ctranslate2().Translator(
                str(folder), device=device, inter_threads=self.num_parallel_batches, intra_threads=threads_each
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise FolderError(f"CTranslate2 cannot use {folder} on the device {device} ({error}).") from None
        self.ids = {name: i for i, name in enumerate(self.names)}
        if unknown := manifest.referenced_symbols() - self.ids.keys():
            raise FolderError(f"{folder} has no symbol {min(unknown)}, of which its manifest speaks. Export it again.")
        self.forbidden_tokens = {*manifest.suppressed_tokens, self.names[UNK]}

    def search(
        self, sources: Sequence[Sequence[int]], codes: Sequence[str], settings: DecodingSettings
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first; codes are those of the target languages."""
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
        self, sources: Sequence[Sequence[int]], codes: Sequence[str], settings: DecodingSettings
    ) -> list[_ExportedSentence]:
        sentences = []
        for ids, code in zip(sources, codes, strict=True):
            tags = self.manifest.targets[code]
            source = [*tags.source, *(self.names[i] for i in ids)]
            sentence = _ExportedSentence(source, tags, settings.max_output_length(len(source) + 1))
            num_needed = 1 + max(len(source), len(tags.target) + sentence.max_length)
            if num_needed > self.manifest.num_positions:
                raise ManyglotError(
                    f"The exported model reads and writes at most {self.manifest.num_positions} tokens; "
                    f"a sentence of {len(source)} with decoding.max_length {settings.max_length} may need {num_needed}."
                )
            sentences.append(sentence)
        return self._with_tag_scores(sentences)

    def _with_tag_scores(self, sentences: Sequence[_ExportedSentence]) -> list[_ExportedSentence]:
        predicted = [bool(s.prefix) and s.tags.target_predicted for s in sentences]
        if not any(predicted):
            return list(sentences)
        log_probabilities = self._log_probabilities(sentences, [s.prefix for s in sentences])
        return [
            replace(s, tag_score=sum(log_probs[: len(s.prefix)])) if is_predicted else s
            for s, log_probs, is_predicted in zip(sentences, log_probabilities, predicted, strict=True)
        ]

    def _search(
        self, sentences: Sequence[_ExportedSentence], settings: DecodingSettings, suppress: bool = False
    ) -> list[list[_RawHypothesis]]:
        """Search with sentences of similar maximum lengths together, and again where one reaches its own."""
        results = self._search_in_groups(sentences, [s.max_length.bit_length() for s in sentences], settings, suppress)
        # The longest hypothesis ended last: where it is shorter than the limit, the search was over before.
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
        """Search up to the maximum length of each sentence, and end what has not ended there.

        Fewer than K hypotheses end before, so more patience changes nothing but that all of them are returned.
        """
        results = self._search_in_groups(sentences, [s.max_length for s in sentences], settings, suppress, patience=2)
        cut_off = [(row, k) for row, each in enumerate(results) for k, raw in enumerate(each) if not raw.ended]
        targets = [sentences[row].prefix + results[row][k].tokens for row, k in cut_off]
        log_probabilities = self._log_probabilities([sentences[row] for row, _ in cut_off], targets)
        for (row, k), target_log_probs in zip(cut_off, log_probabilities, strict=True):
            raw = results[row][k]
            results[row][k] = replace(raw, log_probability=raw.log_probability + target_log_probs[-1], ended=True)
        return results

    def _search_in_groups(
        self,
        sentences: Sequence[_ExportedSentence],
        keys: Sequence[int],
        settings: DecodingSettings,
        suppress: bool,
        patience: int = 1,
    ) -> list[list[_RawHypothesis]]:
        """Start the search for each group of sentences, told by its key, and collect what they find."""
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
        """Take the tags and the end away."""
        without_tags, ended = tokens[len(sentence.prefix) :], tokens[-1] == self.names[EOS]
        return _RawHypothesis(without_tags[:-1] if ended else without_tags, log_probability, ended)

    def _start_search(
        self, sentences: Sequence[_ExportedSentence], settings: DecodingSettings, suppress: bool, patience: int
    ) -> Any:
        """Let CTranslate2 sort and cut the sentences into batches, and search on its threads."""
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
        """Of each symbol of the targets and of their ends, all symbols being possible."""
        if not sentences:
            return []
        max_batch_tokens = self.manifest.decoding.max_batch_tokens
        sources = [s.source for s in sentences]
        results = self.translator.score_batch(
            sources, targets, max_batch_size=max_batch_tokens, batch_type="tokens", max_input_length=0
        )
        return [list(result.log_probs) for result in results]
