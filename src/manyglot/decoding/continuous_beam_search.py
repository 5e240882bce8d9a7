"""Beam search with continuous batching: the results of `BeamSearch`, faster on a GPU.

The search keeps its `ContinuousBatch` between calls, because allocating buffers and capturing the CUDA graph is slow.

Shape letters: S sentences, R source rows, L languages, P forced tokens, K beams, C finished hypotheses, T positions,
B sentences encoded together, U distinct sources among them, s source tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from math import ceil

import numpy as np
import torch
from torch import Tensor

from manyglot.decoding.beam_search import nonempty_indices_longest_first
from manyglot.decoding.continuous_batch import BeamHistory, ContinuousBatch, SentenceQueue, next_power_of_two
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.devices import is_out_of_memory_error
from manyglot.model.cached_executor import encode_sources
from manyglot.model.executor import EncoderMemory
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD
from manyglot.vocabulary.vocabulary import LanguageTags

MAX_LIVE_BEAMS = 10_240
"""Maximum number of slots times beams: enough to keep a large GPU busy."""
SMALL_SLOT_COUNTS, LARGE_SLOT_COUNTS = (1, 8), (64, 512)
"""Numbers of slots for few sentences. The smallest one that holds all sentences is chosen."""
MAX_ENCODER_TOKENS = 65_536
"""Maximum number of tokens per encoder call."""
MAX_TOTAL_MEMORY_SHARE, MAX_FREE_MEMORY_SHARE = 0.4, 0.6
"""Maximum shares of the total and of the free GPU memory for the KV cache and the scores of all beams. They leave room
for other programs on the same GPU."""
MAX_SOURCE_TOKENS, MAX_SEARCH_SENTENCES = 2**19, 2**15
"""Maximum number of source tokens and of sentences per search batch, all of which are encoded before decoding."""
MAX_SOURCE_MEMORY_SHARE = 0.1
"""Maximum share of the total GPU memory for the cross-attention keys and values of the encoded sources."""


class ContinuousBeamSearch:
    """Continuous-batching beam search with one model.

    `cached_batches` holds `ContinuousBatch` objects by number of slots. Pass the same dictionary to every search with
    this model and beam size, and they are reused.
    """

    def __init__(
        self,
        model: Transformer,
        settings: DecodingSettings,
        full_precision: OutputLayer | None = None,
        tags: Sequence[LanguageTags] | None = None,
        cached_batches: dict[int, ContinuousBatch] | None = None,
    ) -> None:
        self.model, self.tags, self.settings = model, model.tags_by_language() if tags is None else tags, settings
        self.full_precision, self.cached_batches = (
            full_precision,
            {} if cached_batches is None else cached_batches,
        )

    def index_batches(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the indices of nonempty sentences in batches that can be encoded at once, longest sentences first.

        Every batch mixes long and short sentences. Its last sentences are short, so few slots are idle at its end.
        """
        order = nonempty_indices_longest_first(sources)
        if not order:
            return []
        num_added = self.tags[0].num_source_tags + 1  # end symbol
        num_tokens = sum(len(sources[row]) + num_added for row in order)
        longest = len(sources[order[0]]) + num_added
        # Batches differ by up to the longest sentence: leave room for it above the mean size.
        mean_batch_tokens = max(longest, self._max_source_tokens() - longest)
        num_batches = max(ceil(num_tokens / mean_batch_tokens), ceil(len(order) / MAX_SEARCH_SENTENCES))
        return [order[first::num_batches] for first in range(num_batches)]

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each output, best first, as `BeamSearch.search` does.

        The search is fastest when the longest sentences come first. It does not sample, so it ignores the sentence
        numbers.
        """
        try:
            return self._search_once(batch)
        except RuntimeError as error:  # another program may have taken the free memory
            if not is_out_of_memory_error(error):
                raise
        torch.cuda.empty_cache()
        return self._search_once(batch)  # with as many slots as fit now

    @torch.inference_mode()
    def _search_once(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        rows = np.arange(len(batch.target_language_ids)) if batch.source_rows is None else np.asarray(batch.source_rows)
        length_S = (batch.source_RS != PAD).sum(dim=1).cpu().numpy()[rows]
        queue = self._make_queue(length_S, batch)
        memories = self._iter_encoded_sources(batch.source_RS, rows, length_S, queue)
        try:
            history = self._get_or_make_batch(queue).decode_all(queue, memories)
        except RuntimeError:
            self.cached_batches.clear()  # their state is unknown now
            raise
        beam_size = self.settings.beam_size
        return self._backtrace_hypotheses(history, queue, min(batch.num_hypotheses or beam_size, beam_size))

    def _make_queue(self, length_S: np.ndarray, batch: SearchBatch) -> SentenceQueue:
        """Build the queue of a batch, given the source length of each output."""
        max_length_table = np.array([self.settings.max_output_length(length) for length in range(length_S.max() + 1)])
        max_length_S = max_length_table[length_S].clip(max=self.model.max_output_length(self.tags[0]))
        lang_S = torch.tensor(batch.target_language_ids)
        tags_LP = torch.tensor([tags.target for tags in self.tags], dtype=torch.long)
        prefix_SP = _forced_prefix_table(batch.prefixes or [()] * len(max_length_S), max_length_S)
        return SentenceQueue(
            lang_S=lang_S,
            random_lang_S=torch.zeros_like(lang_S) if batch.random_lang_B is None else batch.random_lang_B,
            last_position_S=torch.from_numpy(max_length_S + self._num_tags),
            forced_token_SP=torch.cat([tags_LP[lang_S], prefix_SP], dim=1),
            start_S=torch.from_numpy(length_S.cumsum() - length_S),
            length_S=torch.from_numpy(length_S),
            num_slots=self._num_slots(length_S, int(max_length_S.max()) + self._num_tags + 1),
        )

    @property
    def _num_tags(self) -> int:
        """Number of target tags, which is the same for all languages."""
        return len(self.tags[0].target)

    def _num_slots(self, length_S: np.ndarray, num_positions: int) -> int:
        """Return the smallest predefined number of slots that holds all sentences, or else as many as fit in memory."""
        max_slots, weight = MAX_LIVE_BEAMS // self.settings.beam_size, self.model.embedding.weight
        if weight.is_cuda:
            kv_bytes = next_power_of_two(num_positions) * self._kv_bytes_per_token
            slot_bytes = self.settings.beam_size * (kv_bytes + len(weight) * weight.element_size())
            free_bytes, total_bytes = torch.cuda.mem_get_info(weight.device)
            source_bytes = next_power_of_two(int(length_S.sum())) * self._kv_bytes_per_token
            available = min(MAX_TOTAL_MEMORY_SHARE * total_bytes, MAX_FREE_MEMORY_SHARE * free_bytes - source_bytes)
            max_slots = min(max_slots, int(available) // slot_bytes)
        slot_counts = (*SMALL_SLOT_COUNTS, *LARGE_SLOT_COUNTS)
        return next((num for num in slot_counts if len(length_S) <= num <= max_slots), max(1, max_slots))

    def _max_source_tokens(self) -> int:
        """Return the number of source tokens that fit in memory at once, rounded down to a power of two."""
        weight = self.model.embedding.weight
        if not weight.is_cuda:
            return MAX_SOURCE_TOKENS
        _, total_bytes = torch.cuda.mem_get_info(weight.device)
        num_tokens = int(MAX_SOURCE_MEMORY_SHARE * total_bytes) // self._kv_bytes_per_token
        return min(MAX_SOURCE_TOKENS, 1 << num_tokens.bit_length() - 1)

    @property
    def _kv_bytes_per_token(self) -> int:
        """Size of the keys and values of one token in all layers."""
        return 2 * len(self.model.decoder) * self.model.settings.width * self.model.embedding.weight.element_size()

    def _get_or_make_batch(self, queue: SentenceQueue) -> ContinuousBatch:
        """Return a batch that holds the queue, cached if possible.

        At most one small batch, for a few sentences at a time, and one large batch are cached. Reusing a batch with
        more slots than needed costs less than capturing another graph.
        """
        required = queue.required_capacity()
        is_small = required.num_slots in SMALL_SLOT_COUNTS
        same_kind = [num_slots for num_slots in self.cached_batches if (num_slots in SMALL_SLOT_COUNTS) == is_small]
        for num_slots in same_kind:
            if self.cached_batches[num_slots].capacity.covers(required):
                return self.cached_batches[num_slots]
        for num_slots in same_kind:
            del self.cached_batches[num_slots]
        batch = ContinuousBatch(self.model, self.full_precision, self.settings.beam_size, required, self._num_tags)
        self.cached_batches[required.num_slots] = batch
        return batch

    def _iter_encoded_sources(
        self, source_RS: Tensor, source_row_S: np.ndarray, length_S: np.ndarray, queue: SentenceQueue
    ) -> Iterator[EncoderMemory]:
        """Encode the sources in slices and yield their memories in the order of the queue."""
        device = self.model.embedding.weight.device
        uses_random_language = self.model.guidance.uses_random_language
        for rows in _encoder_slices(length_S):
            unique_row_U, unique_index_B = np.unique(source_row_S[rows], return_inverse=True)
            source_Us = source_RS[torch.from_numpy(unique_row_U), : length_S[rows].max()].to(device)
            lang_B, random_lang_B = queue.lang_S[rows].to(device), queue.random_lang_S[rows].to(device)
            target_languages = self.model.prepare_target_languages(
                lang_B, random_lang_B if uses_random_language else None
            )
            in_order = len(unique_row_U) == len(unique_index_B) and (np.diff(unique_index_B) > 0).all()
            sentence_B = None if in_order else torch.from_numpy(unique_index_B).to(device)
            yield encode_sources(self.model, source_Us, target_languages, sentence_B)

    def _backtrace_hypotheses(
        self, history: BeamHistory, queue: SentenceQueue, num_hypotheses: int
    ) -> list[list[Hypothesis]]:
        """Return the best finished hypotheses of each sentence, tracing each beam's parents back to the start."""
        end_position_SC, has_ended_SC = history.end_position_SC, history.end_position_SC >= 0
        length_SC = end_position_SC - self._num_tags + 1 + self.tags[0].num_predicted
        penalty_SC = length_SC.clamp_min(1).to(history.ended_score_SC.dtype) ** self.settings.length_penalty
        score_SC = (history.ended_score_SC / penalty_SC).masked_fill(~has_ended_SC, -torch.inf)
        score_SK, order_SK = (x[:, :num_hypotheses] for x in score_SC.sort(dim=1, descending=True, stable=True))
        end_position_SK, beam_SK = end_position_SC.gather(1, order_SK), history.ended_beam_SC.gather(1, order_SK)
        ids_SKT = _backtrace_tokens(history, end_position_SK, beam_SK, int(queue.last_position_S.max()))[
            ..., self._num_tags :
        ]
        length_SK = (end_position_SK - self._num_tags).clamp_min(0)
        is_token_SKT = torch.arange(ids_SKT.shape[2], device=ids_SKT.device) < length_SK[..., None]
        tokens, lengths = tuple(ids_SKT[is_token_SKT].tolist()), length_SK.flatten().tolist()
        hypotheses = [
            Hypothesis(tokens[end - length : end], score)
            for end, length, score in zip(accumulate(lengths), lengths, score_SK.flatten().tolist(), strict=True)
        ]
        num_ended_S = score_SK.isfinite().sum(dim=1).tolist()
        return [
            hypotheses[first : first + num] for first, num in zip(count(0, num_hypotheses), num_ended_S, strict=False)
        ]


def _forced_prefix_table(prefixes: Sequence[Sequence[int]], max_length_S: np.ndarray) -> Tensor:
    """Return the prefixes as a table padded with -1, cut to the maximum lengths, with at least one column."""
    longest = max(1, *map(len, prefixes))
    if longest == 1 and not any(prefixes):
        return torch.full((len(prefixes), 1), -1)
    return torch.tensor(
        [
            [*prefix[:max_length], *[-1] * longest][:longest]
            for prefix, max_length in zip(prefixes, max_length_S, strict=True)
        ]
    )


def _backtrace_tokens(history: BeamHistory, end_position_SK: Tensor, beam_SK: Tensor, longest: int) -> Tensor:
    """Return the tokens of finished hypotheses, given their end positions and their beams."""
    ids_SKT = end_position_SK.new_zeros((*end_position_SK.shape, longest))
    for position in reversed(range(longest)):
        before_end_SK = position < end_position_SK
        ids_SKT[..., position] = history.token_STK[:, position].gather(1, beam_SK)
        parent_SK = history.parent_STK[:, position].long().gather(1, beam_SK)
        beam_SK = torch.where(before_end_SK, parent_SK, beam_SK)
    return ids_SKT


def _encoder_slices(length_S: np.ndarray) -> Iterator[slice]:
    """Yield slices of consecutive sentences that fit in one encoder call."""
    start = longest = 0
    for row, length in enumerate(length_S):
        longest = max(longest, int(length))
        if row > start and (row + 1 - start) * longest > MAX_ENCODER_TOKENS:
            yield slice(start, row)
            start, longest = row, int(length)
    yield slice(start, len(length_S))
