"""Continuous-batching beam search with static shapes.

The batch has a fixed number of slots. When a sentence finishes, the next one takes its slot. Because no shape ever
changes, one decoding step is captured as a CUDA graph and replayed, and the CPU only learns whether any sentences
remain. Short sentences never wait for long ones, and no slot is idle until the queue is empty.

Shape letters: B slots, K beams, N = B·K rows, T positions, S sentences (the last one is a dummy for empty slots), P
forced tokens, C = 2K candidates (2K + 1 columns in `BeamHistory`), D model width.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from manyglot.decoding.beam_search import Candidates
from manyglot.decoding.candidate_selector import CandidateSelector
from manyglot.model.continuous_executor import Slots, SourceSpans, StaticCacheDecoderExecutor, StaticKVCache
from manyglot.model.executor import EncoderMemory
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS


@dataclass(frozen=True)
class Capacity:
    """The sizes of the static buffers of a `ContinuousBatch`."""

    num_slots: int
    num_sentences: int
    num_positions: int
    """Decoder positions per output: tags, subwords and end symbol."""
    num_source_tokens: int
    """Tokens of all sources together."""
    num_forced_tokens: int
    """Tokens that may be forced at the beginning of an output, tags included."""

    def covers(self, other: Capacity) -> bool:
        """Return whether this capacity is at least as large as the other in every dimension."""
        return all(getattr(self, field.name) >= getattr(other, field.name) for field in fields(self))


@dataclass
class SentenceQueue:
    """Sentences waiting for a slot, with their target languages, length limits and source spans."""

    lang_S: Tensor
    random_lang_S: Tensor
    last_position_S: Tensor
    """Position at which only the end symbol is allowed."""
    forced_token_SP: Tensor
    """Tokens that each output must begin with, tags included; -1 where the token is free."""
    start_S: Tensor
    """Index of the first source token in the concatenation of all sources."""
    length_S: Tensor
    num_slots: int

    def required_capacity(self) -> Capacity:
        """Return the capacity that the queue needs, rounded up to powers of two so that later queues fit too."""
        return Capacity(
            num_slots=self.num_slots,
            num_sentences=next_power_of_two(len(self.lang_S)),
            num_positions=next_power_of_two(int(self.last_position_S.max()) + 1),
            num_source_tokens=next_power_of_two(int((self.start_S + self.length_S).max())),
            num_forced_tokens=next_power_of_two(self.forced_token_SP.shape[1]),
        )


@dataclass
class BeamHistory:
    """The tokens of all beams of all sentences, and the positions at which hypotheses ended."""

    token_STK: Tensor
    """Token of each beam at each position, tags included."""
    parent_STK: Tensor
    """Beam of the previous position that each beam continues."""
    end_position_SC: Tensor
    """End positions of the finished hypotheses in order of time; -1 in unused columns."""
    ended_beam_SC: Tensor
    """Beam of each finished hypothesis."""
    ended_score_SC: Tensor
    """Log-probability of each finished hypothesis, not normalized by length."""


class ContinuousBatch:
    """The slots with their static buffers, and the decoding step over all of them.

    The first `num_tags` tokens of each output and an end symbol at its last position are forced and score nothing.
    """

    def __init__(
        self,
        model: Transformer,
        full_precision: OutputLayer | None,
        beam_size: int,
        capacity: Capacity,
        num_tags: int,
    ) -> None:
        self.model, self.beam_size, self.capacity, self.num_tags = (
            model,
            beam_size,
            capacity,
            num_tags,
        )
        self.start_symbol = model.start_symbol
        weight, num_rows = model.embedding.weight, capacity.num_sentences + 1
        self.device, score_dtype = weight.device, torch.promote_types(weight.dtype, torch.float32)

        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        self.queue = SentenceQueue(
            lang_S=zeros(num_rows),
            random_lang_S=zeros(num_rows),
            last_position_S=zeros(num_rows),
            forced_token_SP=zeros(num_rows, capacity.num_forced_tokens),
            start_S=zeros(num_rows),
            length_S=zeros(num_rows),
            num_slots=capacity.num_slots,
        )
        self.history = BeamHistory(
            token_STK=zeros(num_rows, capacity.num_positions, beam_size, dtype=torch.int32),
            parent_STK=zeros(num_rows, capacity.num_positions, beam_size, dtype=torch.int16),
            end_position_SC=zeros(
                num_rows, 2 * beam_size + 1
            ),  # the last column is a dummy for beams that have not ended
            ended_beam_SC=zeros(num_rows, 2 * beam_size + 1),
            ended_score_SC=zeros(num_rows, 2 * beam_size + 1, dtype=score_dtype),
        )
        sources = SourceSpans(self.queue.start_S, self.queue.length_S)
        slots = Slots.allocate(capacity.num_slots, beam_size, capacity.num_positions, self.device)
        self.cache = StaticKVCache.allocate(model, slots, sources, capacity.num_source_tokens)
        self.candidate_selector = CandidateSelector(model, full_precision, capacity.num_slots * beam_size)
        self.slot_N = torch.arange(capacity.num_slots, device=self.device).repeat_interleave(beam_size)
        self.token_BK, self.score_BK = (
            zeros(capacity.num_slots, beam_size),
            zeros(capacity.num_slots, beam_size, dtype=score_dtype),
        )
        self.initial_score_K = zeros(beam_size, dtype=score_dtype)
        self.initial_score_K[1:] = -torch.inf  # all beams start equal, so only the first one may continue
        self.num_ended_B = zeros(capacity.num_slots)
        self.num_queued, self.next_sentence, self.num_occupied = zeros(1), zeros(1), zeros(1)
        self._graph: torch.cuda.CUDAGraph | None = None

    @property
    def _no_sentence(self) -> int:
        """Index of the dummy sentence in empty slots."""
        return self.capacity.num_sentences

    def decode_all(self, queue: SentenceQueue, memories: Iterable[EncoderMemory]) -> BeamHistory:
        """Decode all sentences of the queue in order. `memories` yields their encoder outputs in the same order.

        The result is a view of the static buffers, so it is valid until the next call.
        """
        self._load_queue(queue, memories)
        self._capture_step()
        self._fill_slots(len(queue.lang_S))
        self._run_until_done()
        return BeamHistory(*(getattr(self.history, field.name)[: len(queue.lang_S)] for field in fields(self.history)))

    def _load_queue(self, queue: SentenceQueue, memories: Iterable[EncoderMemory]) -> None:
        num_sentences = len(queue.lang_S)
        for field in fields(SentenceQueue):
            buffer, value = getattr(self.queue, field.name), getattr(queue, field.name)
            if field.name == "forced_token_SP":
                buffer[:num_sentences] = _pad_forced_tokens(value, buffer)
            elif isinstance(buffer, Tensor):
                buffer[:num_sentences] = value.to(self.device)
        self.queue.lang_S[self._no_sentence], self.queue.last_position_S[self._no_sentence] = 0, -1
        self.queue.forced_token_SP[self._no_sentence], self.queue.length_S[self._no_sentence] = -1, 1
        end = 0
        for memory in memories:
            end = self.cache.write_sources(self.model, memory, end)

    def _fill_slots(self, num_sentences: int) -> None:
        """Reset all slots and assign the first sentences to them."""
        slot_B = torch.arange(self.capacity.num_slots, device=self.device)
        self.num_queued.fill_(num_sentences)
        self.next_sentence.fill_(min(self.capacity.num_slots, num_sentences))
        self.num_occupied.fill_(min(self.capacity.num_slots, num_sentences))
        self.cache.slots.sentence_B.copy_(torch.where(slot_B < num_sentences, slot_B, self._no_sentence))
        self.cache.slots.num_decoded_B.zero_()
        self.num_ended_B.zero_()
        self.token_BK.fill_(self.start_symbol)
        self.score_BK.copy_(self.initial_score_K.expand_as(self.score_BK))
        self.history.end_position_SC.fill_(-1)

    def _capture_step(self) -> None:
        """Capture the step as a CUDA graph, once per batch, after warm-up steps on empty slots compile the kernels."""
        if self.device.type != "cuda" or self._graph is not None:
            return
        self._fill_slots(0)
        for _ in range(2):
            self._step()
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph

    def _run_until_done(self) -> None:
        """Run steps until all slots are empty.

        On a GPU, the count of occupied slots is read one step late, so the GPU never waits for the CPU.
        """
        if self._graph is None:
            while int(self.num_occupied):
                self._step()
            return
        counts = [_AsyncCount() for _ in range(2)]
        for step in itertools.count():
            self._graph.replay()
            counts[step % 2].start_copy(self.num_occupied)
            if step and not counts[(step + 1) % 2].wait():
                return

    def _step(self) -> None:
        """Decode one token per beam, select the candidates, record finished hypotheses and refill the slots."""
        slots, queue = self.cache.slots, self.queue
        sentence_B, num_decoded_B = slots.sentence_B, slots.num_decoded_B
        hidden_BKD = self._decode()
        at_last_position_B = num_decoded_B == queue.last_position_S[sentence_B]
        forced_token_B = queue.forced_token_SP[sentence_B, num_decoded_B.clamp_max(self.capacity.num_forced_tokens - 1)]
        forced_token_B = torch.where(num_decoded_B < self.capacity.num_forced_tokens, forced_token_B, -1).masked_fill(
            at_last_position_B, EOS
        )
        candidates = self.candidate_selector.select_candidates(
            hidden_BKD, self.score_BK, forced_token_B, (num_decoded_B >= self.num_tags) & ~at_last_position_B
        )
        self._record_finished(candidates)
        done_B = (self.num_ended_B >= self.beam_size) | at_last_position_B
        self._advance_beams(candidates)
        self._refill_slots(done_B)

    def _decode(self) -> Tensor:
        """Return the hidden states of the current tokens, in slot order, although guidance may need another."""
        slots, queue = self.cache.slots, self.queue
        random_lang_B = queue.random_lang_S[slots.sentence_B] if self.model.guidance.uses_random_language else None
        target_languages = self.model.prepare_target_languages(queue.lang_S[slots.sentence_B], random_lang_B)
        grouping = self.model.guidance.groups_to_sort_by(target_languages)
        if grouping is not None and grouping.sort_order_B is not None:
            target_languages = target_languages.sorted_by(grouping)
            slots.slot_order_B.copy_(grouping.sort_order_B)
        sorted_token_BK = self.token_BK[slots.slot_order_B]
        decoder = StaticCacheDecoderExecutor(self.model.guidance, target_languages.per_token(self.slot_N), self.cache)
        hidden_N1D = self.model.decode(sorted_token_BK.view(-1, 1), decoder)
        hidden_BKD = hidden_N1D.view(*self.token_BK.shape, -1)
        return hidden_BKD if grouping is None else grouping.unsort_rows(hidden_BKD)

    def _record_finished(self, candidates: Candidates) -> None:
        """Record the hypotheses that end among the first K candidates."""
        slots, history, beam_size = self.cache.slots, self.history, self.beam_size
        score_BK, parent_BK = candidates.score_BC[:, :beam_size], candidates.parent_BC[:, :beam_size]
        ends_BK = (candidates.token_BC[:, :beam_size] == EOS) & score_BK.isfinite()
        column_BK = torch.where(ends_BK, self.num_ended_B[:, None] + ends_BK.cumsum(dim=1) - 1, 2 * beam_size)
        index = slots.sentence_B[:, None].expand_as(column_BK), column_BK
        history.end_position_SC[index] = torch.where(ends_BK, slots.num_decoded_B[:, None], -1)
        history.ended_beam_SC[index], history.ended_score_SC[index] = parent_BK, score_BK
        self.num_ended_B += ends_BK.sum(dim=1)

    def _advance_beams(self, candidates: Candidates) -> None:
        """Continue the beams with the first K candidates that do not end the sentence."""
        slots, history, beam_size = self.cache.slots, self.history, self.beam_size
        ending_BC = candidates.token_BC == EOS
        rank_BC = torch.arange(ending_BC.shape[1], device=self.device) + ending_BC.shape[1] * ending_BC
        live_BK = rank_BC.topk(beam_size, largest=False).indices
        parent_BK = candidates.parent_BC.gather(1, live_BK)
        self.token_BK.copy_(candidates.token_BC.gather(1, live_BK))
        self.score_BK.copy_(candidates.score_BC.gather(1, live_BK))
        history.token_STK[slots.sentence_B, slots.num_decoded_B] = self.token_BK.int()
        history.parent_STK[slots.sentence_B, slots.num_decoded_B] = parent_BK.short()
        index_BKT = parent_BK[..., None].expand_as(slots.ancestor_BKT)
        slots.ancestor_BKT.copy_(slots.ancestor_BKT.gather(1, index_BKT))
        position_BK1 = slots.num_decoded_B[:, None, None].expand(-1, beam_size, 1)
        slots.ancestor_BKT.scatter_(2, position_BK1, parent_BK[..., None].short())
        slots.num_decoded_B += 1

    def _refill_slots(self, done_B: Tensor) -> None:
        """Replace finished sentences by the next ones in the queue, or by the dummy once the queue is empty."""
        slots = self.cache.slots
        empty_B = slots.sentence_B == self._no_sentence
        done_B = done_B & ~empty_B
        new_sentence_B = self.next_sentence + done_B.cumsum(dim=0) - 1
        new_sentence_B = torch.where(new_sentence_B < self.num_queued, new_sentence_B, self._no_sentence)
        slots.sentence_B.copy_(torch.where(done_B, new_sentence_B, slots.sentence_B))
        self.next_sentence += done_B.sum()
        restarted_B = done_B | empty_B
        slots.num_decoded_B.masked_fill_(restarted_B, 0)
        self.num_ended_B.masked_fill_(restarted_B, 0)
        self.token_BK.masked_fill_(restarted_B[:, None], self.start_symbol)
        self.score_BK.copy_(torch.where(restarted_B[:, None], self.initial_score_K, self.score_BK))
        self.num_occupied.copy_((slots.sentence_B != self._no_sentence).sum())


class _AsyncCount:
    """A count copied from the GPU without blocking the CPU."""

    def __init__(self) -> None:
        self._count = torch.empty(1, dtype=torch.long, pin_memory=True)
        self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def start_copy(self, count: Tensor) -> None:
        self._count.copy_(count, non_blocking=True)
        self._copied.record()

    def wait(self) -> int:
        self._copied.synchronize()
        return int(self._count)


def next_power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()


def _pad_forced_tokens(forced_token_SP: Tensor, buffer_SP: Tensor) -> Tensor:
    """Pad the forced tokens to the buffer's number of columns with -1 (free)."""
    padded_SP = buffer_SP.new_full((len(forced_token_SP), buffer_SP.shape[1]), -1)
    padded_SP[:, : forced_token_SP.shape[1]] = forced_token_SP.to(buffer_SP.device)
    return padded_SP
