"""Beam search with shapes that never change: a belt of slots, where a sentence that is done makes room for the next.

A step asks nothing of the processor and tells it nothing but whether there is something left. So on a GPU it is
recorded once and played again and again; short sentences do not wait for long ones, and no row is computed for
nothing until the last sentences are under way.

Shape letters: B slots, K beams, T positions, S sentences (the last is none: slots without a sentence have it), P words
that may be forced, C = 2K candidates, M tokens of all sources, D model width.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from manyglot.decoding.beam import Candidates
from manyglot.decoding.continuations import Continuations
from manyglot.model.executor import Memory
from manyglot.model.static_cache import Slots, SourceSpans, StaticCacheDecoder, StaticKVCache
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import EOS


@dataclass(frozen=True)
class Room:
    """For how much there is room on a belt."""

    slots: int
    sentences: int
    positions: int
    """Of an output: tags, words and its end."""
    tokens: int
    """Of all sources."""
    forced: int
    """Words that may be forced at the beginning of an output."""

    def holds(self, other: Room) -> bool:
        """Whether what fits there fits here."""
        return all(getattr(self, each.name) >= getattr(other, each.name) for each in fields(self))


@dataclass
class SentenceQueue:
    """Sentences that wait for a slot, each with its target language, its limits and the place of its source."""

    lang_S: Tensor
    drawn_S: Tensor
    last_S: Tensor
    """The position at which an output can only end."""
    forced_SP: Tensor
    """The words that come first, tags included; -1 where any may come."""
    start_S: Tensor
    """Where the source begins among all of them."""
    length_S: Tensor
    num_slots: int

    def room(self) -> Room:
        """How much it needs, with something to spare: a belt that is a little larger serves more jobs."""
        positions, forced = int(self.last_S.max()) + 1, self.forced_SP.shape[1]
        tokens = int((self.start_S + self.length_S).max())
        sizes = [round_up(size) for size in (len(self.lang_S), positions, tokens, forced)]
        return Room(self.num_slots, *sizes)


@dataclass
class Found:
    """The words of all beams of all sentences, and where hypotheses ended."""

    word_STK: Tensor
    """The word that each beam was given at each position, tags included."""
    parent_STK: Tensor
    """The beam that it came from."""
    ended_SC: Tensor
    """The positions at which hypotheses ended, in the order in which they did; -1 where there are no more."""
    beam_SC: Tensor
    """Their beams."""
    score_SC: Tensor
    """Their log-probabilities."""


class Belt:
    """Slots, what is in them, and a step of all."""

    def __init__(self, model: Transformer, exact_VD: Tensor | None, beam: int, room: Room, num_uncounted: int) -> None:
        self.model, self.beam, self.room, self.num_uncounted = model, beam, room, num_uncounted
        weight, none = model.embedding.weight, room.sentences
        self.device, dtype = weight.device, torch.promote_types(weight.dtype, torch.float32)

        def numbers(*shape: int, of: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=of, device=self.device)

        self.job = SentenceQueue(
            lang_S=numbers(none + 1),
            drawn_S=numbers(none + 1),
            last_S=numbers(none + 1),
            forced_SP=numbers(none + 1, room.forced),
            start_S=numbers(none + 1),
            length_S=numbers(none + 1),
            num_slots=room.slots,
        )
        self.found = Found(
            word_STK=numbers(none + 1, room.positions, beam, of=torch.int32),
            parent_STK=numbers(none + 1, room.positions, beam, of=torch.int16),
            ended_SC=numbers(none + 1, 2 * beam + 1),  # the last is for what has not ended
            beam_SC=numbers(none + 1, 2 * beam + 1),
            score_SC=numbers(none + 1, 2 * beam + 1, of=dtype),
        )
        sources = SourceSpans(self.job.start_S, self.job.length_S)
        slots = Slots.allocate(room.slots, beam, room.positions, self.device)
        self.cache = StaticKVCache.allocate(model, slots, sources, room.tokens)
        self.continuations = Continuations(model, exact_VD, room.slots * beam)
        self.slot_N = torch.arange(room.slots, device=self.device).repeat_interleave(beam)
        self.word_BK, self.score_BK = numbers(room.slots, beam), numbers(room.slots, beam, of=dtype)
        self.fresh_K = numbers(beam, of=dtype)
        self.fresh_K[1:] = -torch.inf  # beams are alike at first, so only one of them may go on
        self.num_ended_B, self.next, self.left = numbers(room.slots), numbers(1), numbers(1)
        self.total = numbers(1)
        self._recording: torch.cuda.CUDAGraph | None = None

    @property
    def _none(self) -> int:
        """The sentence of slots without one."""
        return self.room.sentences

    def run(self, job: SentenceQueue, memories: Iterable[Memory]) -> Found:
        """Translate all sentences, the first ones first; their sources are given in the same order."""
        self._load(job, memories)
        self._record()
        self._set_up(len(job.lang_S))
        self._turn()
        return Found(*(getattr(self.found, each.name)[: len(job.lang_S)] for each in fields(self.found)))

    def _load(self, job: SentenceQueue, memories: Iterable[Memory]) -> None:
        number = len(job.lang_S)
        for each in fields(SentenceQueue):
            mine, theirs = getattr(self.job, each.name), getattr(job, each.name)
            if isinstance(mine, Tensor):
                mine[:number] = theirs.to(self.device) if each.name != "forced_SP" else _filled_up(theirs, mine)
        self.job.lang_S[self._none], self.job.last_S[self._none] = 0, -1
        self.job.forced_SP[self._none], self.job.length_S[self._none] = -1, 1
        end = 0
        for memory in memories:
            end = self.cache.write_sources(self.model, memory, end)

    def _set_up(self, num_sentences: int) -> None:
        """The first sentences in the slots."""
        first_B = torch.arange(self.room.slots, device=self.device)
        self.total.fill_(num_sentences)
        self.next.fill_(min(self.room.slots, num_sentences))
        self.left.fill_(min(self.room.slots, num_sentences))
        self.cache.slots.sentence_B.copy_(torch.where(first_B < num_sentences, first_B, self._none))
        self.cache.slots.num_decoded_B.zero_()
        self.num_ended_B.zero_()
        self.word_BK.fill_(EOS)
        self.score_BK.copy_(self.fresh_K.expand_as(self.score_BK))
        self.found.ended_SC.fill_(-1)

    def _record(self) -> None:
        """On a GPU, once: after steps with nothing, in which kernels are compiled."""
        if self.device.type != "cuda" or self._recording is not None:
            return
        self._set_up(0)
        for _ in range(2):
            self._step()
        torch.cuda.synchronize(self.device)
        recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recording):
            self._step()
        self._recording = recording

    def _turn(self) -> None:
        """Step by step until nothing is left.

        A GPU is asked how the step before went, while it is at the next one: it never waits.
        """
        if self._recording is None:
            while int(self.left):
                self._step()
            return
        answers = [_Answer() for _ in range(2)]
        for step in itertools.count():
            self._recording.replay()
            answers[step % 2].ask(self.left)
            if step and not answers[(step + 1) % 2].get():
                return

    def _step(self) -> None:
        """Read a word in each beam, choose the next ones, note what has ended, and put new sentences in."""
        slots, job = self.cache.slots, self.job
        sentence_B, age_B = slots.sentence_B, slots.num_decoded_B
        hidden_BKD = self._decode()
        at_end_B = age_B == job.last_S[sentence_B]
        forced_B = job.forced_SP[sentence_B, age_B.clamp_max(self.room.forced - 1)]
        forced_B = torch.where(age_B < self.room.forced, forced_B, -1).masked_fill(at_end_B, EOS)
        candidates = self.continuations.best(hidden_BKD, self.score_BK, forced_B, age_B >= self.num_uncounted)
        self._note(candidates)
        done_B = (self.num_ended_B >= self.beam) | at_end_B
        self._go_on(candidates)
        self._replace(done_B)

    def _decode(self) -> Tensor:
        """Read a word in each beam; slots are put in the order in which guidance wants them."""
        slots, job = self.cache.slots, self.job
        drawn_B = job.drawn_S[slots.sentence_B] if self.model.guidance.draws else None
        target = self.model.target(job.lang_S[slots.sentence_B], drawn_B)
        choice = self.model.guidance.choice(target)
        if choice is not None and choice.order_B is not None:
            target = target.in_order_of(choice)
            slots.order_B.copy_(choice.order_B)
        in_order_BK = self.word_BK[slots.order_B]
        decoder = StaticCacheDecoder(self.model.guidance, target.of_tokens(self.slot_N), self.cache)
        hidden_N1D = self.model.decode(in_order_BK.view(-1, 1), decoder)
        hidden_BKD = hidden_N1D.view(*self.word_BK.shape, -1)
        return hidden_BKD if choice is None else choice.put_back(hidden_BKD)

    def _note(self, candidates: Candidates) -> None:
        """The hypotheses that end among the first K."""
        slots, found, beam = self.cache.slots, self.found, self.beam
        score_BK, parent_BK = candidates.score_BC[:, :beam], candidates.parent_BC[:, :beam]
        ends_BK = (candidates.word_BC[:, :beam] == EOS) & score_BK.isfinite()
        place_BK = torch.where(ends_BK, self.num_ended_B[:, None] + ends_BK.cumsum(dim=1) - 1, 2 * beam)
        where = slots.sentence_B[:, None].expand_as(place_BK), place_BK
        found.ended_SC[where] = torch.where(ends_BK, slots.num_decoded_B[:, None], -1)
        found.beam_SC[where], found.score_SC[where] = parent_BK, score_BK
        self.num_ended_B += ends_BK.sum(dim=1)

    def _go_on(self, candidates: Candidates) -> None:
        """Each beam with one of the first K continuations that do not end."""
        slots, found, beam = self.cache.slots, self.found, self.beam
        ending_BC = candidates.word_BC == EOS
        rank_BC = torch.arange(ending_BC.shape[1], device=self.device) + ending_BC.shape[1] * ending_BC
        live_BK = rank_BC.topk(beam, largest=False).indices
        parent_BK = candidates.parent_BC.gather(1, live_BK)
        self.word_BK.copy_(candidates.word_BC.gather(1, live_BK))
        self.score_BK.copy_(candidates.score_BC.gather(1, live_BK))
        found.word_STK[slots.sentence_B, slots.num_decoded_B] = self.word_BK.int()
        found.parent_STK[slots.sentence_B, slots.num_decoded_B] = parent_BK.short()
        index_BKT = parent_BK[..., None].expand_as(slots.ancestor_BKT)
        slots.ancestor_BKT.copy_(slots.ancestor_BKT.gather(1, index_BKT))
        now_BK1 = slots.num_decoded_B[:, None, None].expand(-1, beam, 1)
        slots.ancestor_BKT.scatter_(2, now_BK1, parent_BK[..., None].short())
        slots.num_decoded_B += 1

    def _replace(self, done_B: Tensor) -> None:
        """Sentences that are done by the next ones; where there are no more, by none."""
        slots = self.cache.slots
        empty_B = slots.sentence_B == self._none
        done_B = done_B & ~empty_B
        new_B = self.next + done_B.cumsum(dim=0) - 1
        new_B = torch.where(new_B < self.total, new_B, self._none)
        slots.sentence_B.copy_(torch.where(done_B, new_B, slots.sentence_B))
        self.next += done_B.sum()
        fresh_B = done_B | empty_B
        slots.num_decoded_B.masked_fill_(fresh_B, 0)
        self.num_ended_B.masked_fill_(fresh_B, 0)
        self.word_BK.masked_fill_(fresh_B[:, None], EOS)
        self.score_BK.copy_(torch.where(fresh_B[:, None], self.fresh_K, self.score_BK))
        self.left.copy_((slots.sentence_B != self._none).sum())


class _Answer:
    """A number that a GPU will know when it is there."""

    def __init__(self) -> None:
        self._number = torch.empty(1, dtype=torch.long, pin_memory=True)
        self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]

    def ask(self, number: Tensor) -> None:
        self._number.copy_(number, non_blocking=True)
        self._arrived.record()

    def get(self) -> int:
        self._arrived.synchronize()
        return int(self._number)


def round_up(size: int) -> int:
    """The next power of two."""
    return 1 << max(0, size - 1).bit_length()


def _filled_up(forced_SP: Tensor, like_SP: Tensor) -> Tensor:
    """Free where nothing is said."""
    filled_SP = like_SP.new_full((len(forced_SP), like_SP.shape[1]), -1)
    filled_SP[:, : forced_SP.shape[1]] = forced_SP.to(like_SP.device)
    return filled_SP
