"""Batched beam search with a KV cache. Each sentence has its own target language, tags and maximum length.

In each step, the continuations of all beams of a sentence compete, and the search keeps the best 2K. Of these, every
candidate that ends the sentence and ranks among the first K becomes a finished hypothesis. The first K candidates that
do not end it become the new beams. A sentence is done when it has K finished hypotheses, or at its maximum length,
where the end symbol is forced. The score of a hypothesis is its log-probability, divided by its length (including the
end symbol) to the power of the length penalty. Target tags and an end symbol at the maximum length are forced, so they
score nothing. Tags that the model predicts and every end symbol count in the length.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary, C candidates, T positions, D model width, R source
rows, S source tokens, F sentences with a forced token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.token_scorer import TokenScorer
from manyglot.model.cached_executor import CachedDecoderExecutor, encode_sources
from manyglot.model.cpu_inference import Int8OutputLayer
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD
from manyglot.vocabulary.vocabulary import LanguageTags


class BeamSearch:
    """Beam search with one model.

    If the model is in half precision, `full_precision` is its output layer before rounding. The search uses it to
    recompute the scores of the best candidates, which it may find with the `int8_layer`.
    """

    def __init__(
        self,
        model: Transformer,
        settings: DecodingSettings,
        full_precision: OutputLayer | None = None,
        tags: Sequence[LanguageTags] | None = None,
        int8_layer: Int8OutputLayer | None = None,
    ) -> None:
        self.model, self.tags, self.settings = model, model.tags_by_language() if tags is None else tags, settings
        self.token_scorer = self._make_token_scorer(full_precision, int8_layer)

    def _make_token_scorer(self, full_precision: OutputLayer | None, int8_layer: Int8OutputLayer | None) -> TokenScorer:
        return TokenScorer(self.model, full_precision, int8_layer)

    def index_batches(self, sources: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Yield the indices of nonempty sentences in batches within the size limits, longest sentences first."""
        batch: list[int] = []
        for row in nonempty_indices_longest_first(sources):
            too_large = batch and (len(batch) + 1) * len(sources[batch[0]]) > self.settings.max_batch_tokens
            if too_large or len(batch) == self.settings.max_batch_sentences:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    @torch.inference_mode()
    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each output, best first."""
        state = self._encode_and_start(
            batch.source_RS, batch.target_language_ids, batch.random_lang_B, batch.source_rows
        )
        prefixes, numbers = batch.prefixes, batch.sentence_numbers
        for sentence in state.sentences:
            sentence.prefix = () if prefixes is None else tuple(prefixes[sentence.row])
            sentence.sentence_number = sentence.row if numbers is None else numbers[sentence.row]
        num_hypotheses = batch.num_hypotheses or self.settings.beam_size
        results: list[list[Hypothesis]] = [[] for _ in batch.target_language_ids]
        while state.sentences:
            length = state.ids_BKT.shape[2]
            candidates = self._select_candidates(state)
            self._collect_finished(state, candidates)
            done = [s for s in state.sentences if len(s.finished) >= self.settings.beam_size or length == s.max_length]
            for sentence in done:
                ranked = sorted(sentence.finished, key=self._ranking_key)
                results[sentence.row] = [hypothesis for _, hypothesis in ranked[:num_hypotheses]]
            self._advance(state, candidates, [i for i, s in enumerate(state.sentences) if s not in done])
        return results

    def _encode_and_start(
        self,
        source_BS: Tensor,
        languages: Sequence[int],
        random_lang_B: Tensor | None,
        sentences: Sequence[int] | None,
    ) -> BeamSearchState:
        """Encode the sources, feed the start symbol and the tags to the decoder, and build the first state."""
        device, beam_size, num_sentences = source_BS.device, self.settings.beam_size, len(languages)
        target_languages = self.model.prepare_target_languages(
            torch.tensor(languages, device=device), random_lang_B, is_sorted=list(languages) == sorted(languages)
        )
        sentence_B = None if sentences is None else torch.tensor(sentences, device=device)
        decoder = CachedDecoderExecutor(
            self.model, target_languages, encode_sources(self.model, source_BS, target_languages, sentence_B)
        )
        tags = [self.tags[language] for language in languages]
        prefix_BT = torch.tensor([[tag.start, *tag.target] for tag in tags], device=device)
        hidden_BTD = self.model.decode(prefix_BT, decoder)
        score_BK = self._initial_beam_scores(num_sentences)
        rows_N = torch.arange(num_sentences, device=device).repeat_interleave(beam_size)
        decoder.expand_to_beams(rows_N)
        self.token_scorer.compute_scores(hidden_BTD[:, -1].index_select(0, rows_N))
        lengths = (source_BS != PAD).sum(dim=1).tolist()
        return BeamSearchState(
            sentences=[
                SentenceState(
                    row=row,
                    max_length=min(
                        self.settings.max_output_length(lengths[row if sentences is None else sentences[row]]),
                        self.model.max_output_length(tag),
                    ),
                    num_predicted_tags=tag.num_predicted,
                )
                for row, tag in enumerate(tags)
            ],
            ids_BKT=torch.zeros(num_sentences, beam_size, 0, dtype=torch.long, device=device),
            score_BK=score_BK,
            decoder=decoder,
        )

    def _initial_beam_scores(self, num_sentences: int) -> Tensor:
        """Return the scores of the first step. All beams start equal, so only one of them may continue."""
        score_BK = self.token_scorer.weight_VD.new_zeros(
            num_sentences, self.settings.beam_size, dtype=self.token_scorer.dtype
        )
        score_BK[:, 1:] = -torch.inf
        return score_BK

    def _select_candidates(self, state: BeamSearchState) -> Candidates:
        """Return the best 2K continuations of each sentence.

        They are among the best 2K of each of its beams. A forced token is the only candidate: a token of the prefix, or
        the end symbol at the maximum length.
        """
        num_sentences, beam_size = state.score_BK.shape
        logprob_NC, token_NC = self.token_scorer.masked_topk(2 * beam_size)
        logprob_BKC, token_BKC = (x.view(num_sentences, beam_size, -1) for x in (logprob_NC, token_NC))
        forced_tokens = [sentence.forced_token(state.ids_BKT.shape[2]) for sentence in state.sentences]
        forced_rows = [row for row, token in enumerate(forced_tokens) if token >= 0]
        if forced_rows:
            row_F = torch.tensor(forced_rows, device=token_NC.device)
            forced_token_B = torch.tensor(
                [token if token >= 0 else EOS for token in forced_tokens], device=token_NC.device
            )
            logprob_BKC[row_F] = -torch.inf
            forced_token_BK = forced_token_B[:, None].expand(-1, beam_size)
            logprob_BKC[row_F, :, 0] = self._log_probs(state, forced_token_BK)[row_F]
            token_BKC[row_F, :, 0] = forced_token_B[row_F][:, None]
        score_BC, index_BC = (state.score_BK[..., None] + logprob_BKC).flatten(1).topk(2 * beam_size)
        return Candidates(score_BC, index_BC // token_BKC.shape[2], token_BKC.flatten(1).gather(1, index_BC))

    def _log_probs(self, state: BeamSearchState, token_BK: Tensor) -> Tensor:
        """Return what a token adds to the score of each beam; a forced end at the maximum length adds nothing."""
        logprob_N = self.token_scorer.token_log_probs(token_BK.flatten())
        length = state.ids_BKT.shape[2]
        must_end_B = torch.tensor([s.max_length == length for s in state.sentences], device=token_BK.device)
        return logprob_N.view(token_BK.shape).masked_fill(must_end_B[:, None], 0.0)

    def _collect_finished(self, state: BeamSearchState, candidates: Candidates) -> None:
        """Store the hypotheses that end among the first K candidates."""
        beam_size = self.settings.beam_size
        ends_BK = (candidates.token_BC[:, :beam_size] == EOS) & candidates.score_BC[:, :beam_size].isfinite()
        for i, rank in ends_BK.nonzero().tolist():
            sentence = state.sentences[i]
            ids = tuple(state.ids_BKT[i, candidates.parent_BC[i, rank]].tolist())
            length = len(ids) + 1 + sentence.num_predicted_tags
            score = float(candidates.score_BC[i, rank]) / length**self.settings.length_penalty
            sentence.finished.append((rank, Hypothesis(ids, score)))

    @staticmethod
    def _ranking_key(finished: tuple[int, Hypothesis]) -> float:
        """Sort key that puts the best hypothesis first."""
        return -finished[1].score

    def _surviving_candidates(self, candidates: Candidates) -> Tensor:
        """Return the indices of the first K candidates that do not end the sentence."""
        beam_size = self.settings.beam_size
        ending_BC = candidates.token_BC == EOS
        rank_BC = torch.arange(2 * beam_size, device=ending_BC.device) + 2 * beam_size * ending_BC
        return rank_BC.topk(beam_size, largest=False).indices

    def _advance(self, state: BeamSearchState, candidates: Candidates, remaining: list[int]) -> None:
        """Keep the surviving candidates of the remaining sentences, and decode one step."""
        some_done = len(remaining) < len(state.sentences)
        state.sentences = [state.sentences[i] for i in remaining]
        if not remaining:
            return
        beam_size = self.settings.beam_size
        remaining_B = torch.tensor(remaining, device=state.score_BK.device)
        survivor_BK = self._surviving_candidates(candidates)[remaining_B]
        state.score_BK = candidates.score_BC[remaining_B].gather(1, survivor_BK)
        parent_BK = candidates.parent_BC[remaining_B].gather(1, survivor_BK)
        token_BK = candidates.token_BC[remaining_B].gather(1, survivor_BK)
        past_BKT = state.ids_BKT[remaining_B[:, None], parent_BK]
        state.ids_BKT = torch.cat([past_BKT, token_BK[..., None]], dim=2)
        state.decoder.select_beams(
            (remaining_B[:, None] * beam_size + parent_BK).flatten(), remaining_B if some_done else None
        )
        hidden_BKD = self.model.decode(token_BK, state.decoder)
        self.token_scorer.compute_scores(hidden_BKD.flatten(0, 1))


def nonempty_indices_longest_first(sources: Sequence[Sequence[int]]) -> list[int]:
    """Return the indices of nonempty sources, longest first. Equal sources are neighbors."""
    first_seen: dict[tuple[int, ...], int] = {}
    text_ids = [first_seen.setdefault(tuple(source), len(first_seen)) for source in sources]
    order = np.lexsort((text_ids, [-len(source) for source in sources]))
    return [index for index in order.tolist() if sources[index]]


@dataclass
class SentenceState:
    """Search state of one sentence of the batch."""

    row: int
    max_length: int
    """Maximum number of subwords in the output."""
    num_predicted_tags: int
    """Number of target tags that count in the length of a hypothesis."""
    prefix: tuple[int, ...] = ()
    """Subwords that the output must begin with."""
    sentence_number: int = 0
    """Index of the sentence in the text, which seeds sampling."""
    finished: list[tuple[int, Hypothesis]] = field(default_factory=list)
    """Finished hypotheses, each with its rank among the candidates of its step."""

    def forced_token(self, length: int) -> int:
        """Return the only token allowed after `length` tokens, or -1 if the next token is free."""
        if length < min(len(self.prefix), self.max_length):
            return self.prefix[length]
        return EOS if length == self.max_length else -1


@dataclass
class BeamSearchState:
    """The live beams of the unfinished sentences."""

    sentences: list[SentenceState]
    ids_BKT: Tensor
    score_BK: Tensor
    decoder: CachedDecoderExecutor


@dataclass
class Candidates:
    """The best C = 2K continuations of each sentence, best first."""

    score_BC: Tensor
    """Log-probability of the beam and its new token together."""
    parent_BC: Tensor
    """Beam that the candidate continues."""
    token_BC: Tensor
