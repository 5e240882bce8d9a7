"""The search of `beam` for a GPU: the same results, from a belt of slots that is kept from call to call.

Shape letters: S sentences, K beams, C hypotheses that ended, T positions, B sentences that are read together, s a
source's position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from math import ceil

import numpy as np
import torch
from torch import Tensor

from manyglot.decoding.beam import DecodingSettings, Hypothesis, longest_first
from manyglot.decoding.belt import Belt, Found, SentenceQueue, round_up
from manyglot.decoding.search_batch import SearchBatch
from manyglot.devices import says_full
from manyglot.model.cached import encode_sources
from manyglot.model.executor import Memory
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import PAD
from manyglot.vocabulary.vocabulary import Tags

ROWS = 10_240
"""Beams that are searched at once: enough to keep a large GPU busy."""
SMALL, LARGER = (1, 8), (64, 512)
"""Slots of belts for fewer sentences; the next larger one is taken."""
AT_ONCE = 65_536
"""Tokens that the encoder reads at once."""
SHARE, FREE = 0.4, 0.6
"""Of a GPU's memory, and of what is free of it, for the past and the scores of all beams: others may be training."""
TOKENS, SENTENCES = 2**19, 2**15
"""What is read before it is translated: at most so many tokens of at most so many sentences."""
SHARE_READ = 0.1
"""Of a GPU's memory, for what the encoder makes of them."""


class SlotSearch:
    """Searches with one model; a belt that is large enough is kept in the place that is given."""

    def __init__(
        self,
        model: Transformer,
        settings: DecodingSettings,
        exact_VD: Tensor | None = None,
        tags: Sequence[Tags] | None = None,
        belts: dict[int, Belt] | None = None,
    ) -> None:
        self.model, self.tags, self.settings = model, model.tags() if tags is None else tags, settings
        self.exact_VD, self.belts = exact_VD, {} if belts is None else belts

    def batches(self, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        """Sentences that are not empty, longest first, in batches that can be read at once.

        Each has long ones and short ones, so that at its end only short ones are under way, and not for long.
        """
        order = longest_first(sources)
        if not order:
            return []
        around = len(self.tags[0].source) + 1
        tokens, longest = sum(len(sources[row]) + around for row in order), len(sources[order[0]]) + around
        each = max(longest, self._most_tokens() - longest)  # on average, for the first has up to the longest more
        number = max(ceil(tokens / each), ceil(len(order) / SENTENCES))
        return [order[first::number] for first in range(number)]

    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each output, best first, as `BeamSearch.search` does.

        The search is fastest when the longest sentences come first. It samples no words, so it ignores the sentence
        numbers.
        """
        try:
            return self._search(batch)
        except RuntimeError as error:  # another program may have taken what was free
            if not says_full(error):
                raise
        torch.cuda.empty_cache()
        return self._search(batch)  # with as many slots as there is room for now

    @torch.inference_mode()
    def _search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        rows = np.arange(len(batch.languages)) if batch.source_rows is None else np.asarray(batch.source_rows)
        length_S = (batch.source_RS != PAD).sum(dim=1).cpu().numpy()[rows]
        queue = self._queue(length_S, batch)
        try:
            found = self._belt(queue).run(queue, self._read(batch.source_RS, rows, length_S, queue))
        except RuntimeError:
            self.belts.clear()  # who knows in what state they are
            raise
        return self._hypotheses(found, queue, min(batch.num_hypotheses or self.settings.beam, self.settings.beam))

    def _queue(self, length_S: np.ndarray, batch: SearchBatch) -> SentenceQueue:
        """Prepare a batch, whose sources have these lengths, for the slots."""
        of_length = np.array([self.settings.limit(length) for length in range(length_S.max() + 1)])
        limits, lang_S = of_length[length_S], torch.tensor(batch.languages)
        tags_LP = torch.tensor([tags.target for tags in self.tags], dtype=torch.long)
        return SentenceQueue(
            lang_S=lang_S,
            drawn_S=torch.zeros_like(lang_S) if batch.random_lang_B is None else batch.random_lang_B,
            last_S=torch.from_numpy(limits + self._num_tags),
            forced_SP=torch.cat([tags_LP[lang_S], _cut(batch.prefixes or [()] * len(limits), limits)], dim=1),
            start_S=torch.from_numpy(length_S.cumsum() - length_S),
            length_S=torch.from_numpy(length_S),
            num_slots=self._num_slots(length_S, int(limits.max()) + self._num_tags + 1),
        )

    @property
    def _num_tags(self) -> int:
        """Before an output: all languages have as many."""
        return len(self.tags[0].target)

    def _num_slots(self, length_S: np.ndarray, num_positions: int) -> int:
        """Those of the smallest belt that has one for each sentence, or as many as there is room for."""
        most, weight = ROWS // self.settings.beam, self.model.embedding.weight
        if weight.is_cuda:
            past = round_up(num_positions) * self._token_size
            size = self.settings.beam * (past + len(weight) * weight.element_size())
            free, total = torch.cuda.mem_get_info(weight.device)
            read = round_up(int(length_S.sum())) * self._token_size
            most = min(most, int(min(SHARE * total, FREE * free - read)) // size)
        return next((few for few in (*SMALL, *LARGER) if len(length_S) <= few <= most), max(1, most))

    def _most_tokens(self) -> int:
        """Those that can be read at once: a power of two, as much as a belt has room for."""
        weight = self.model.embedding.weight
        if not weight.is_cuda:
            return TOKENS
        _, total = torch.cuda.mem_get_info(weight.device)
        return min(TOKENS, 1 << (int(SHARE_READ * total) // self._token_size).bit_length() - 1)

    @property
    def _token_size(self) -> int:
        """Bytes of the keys and values of a token, in all layers."""
        return 2 * len(self.model.decoder) * self.model.settings.width * self.model.embedding.weight.element_size()

    def _belt(self, queue: SentenceQueue) -> Belt:
        """One that holds the queue. Two are kept: a small one, for sentences that come alone, and a large one.

        A large one with more slots than are needed costs less than another recording.
        """
        needed = queue.room()
        alike = [slots for slots in self.belts if (slots in SMALL) == (needed.slots in SMALL)]
        kept = next((self.belts[slots] for slots in alike if self.belts[slots].room.holds(needed)), None)
        if kept is not None:
            return kept
        for slots in alike:
            del self.belts[slots]
        uncounted = 0 if self.tags[0].predicted else self._num_tags
        belt = Belt(self.model, self.exact_VD, self.settings.beam, needed, uncounted)
        self.belts[needed.slots] = belt
        return belt

    def _read(
        self, source_BS: Tensor, numbers: np.ndarray, length_S: np.ndarray, job: SentenceQueue
    ) -> Iterator[Memory]:
        """What the encoder makes of the sources, some at a time, in the order of the job."""
        device = self.model.embedding.weight.device
        for rows in _pieces(length_S):
            number_B, place_B = np.unique(numbers[rows], return_inverse=True)
            source_BS_ = source_BS[torch.from_numpy(number_B), : length_S[rows].max()].to(device)
            lang_B, drawn_B = job.lang_S[rows].to(device), job.drawn_S[rows].to(device)
            target = self.model.target(lang_B, drawn_B if self.model.guidance.draws else None)
            alike = len(number_B) == len(place_B) and (np.diff(place_B) > 0).all()
            sentence_B = None if alike else torch.from_numpy(place_B).to(device)
            yield encode_sources(self.model, source_BS_, target, sentence_B)

    def _hypotheses(self, found: Found, queue: SentenceQueue, best: int) -> list[list[Hypothesis]]:
        """The best K that ended, in words: those of a beam are found by going back from parent to parent."""
        num_scored = self._num_tags if self.tags[0].predicted else 0
        ended_SC, there_SC = found.ended_SC, found.ended_SC >= 0
        length_SC = ended_SC - self._num_tags + 1 + num_scored
        penalty_SC = length_SC.clamp_min(1).to(found.score_SC.dtype) ** self.settings.length_penalty
        score_SC = (found.score_SC / penalty_SC).masked_fill(~there_SC, -torch.inf)
        score_SK, order_SK = (x[:, :best] for x in score_SC.sort(dim=1, descending=True, stable=True))
        ended_SK, beam_SK = ended_SC.gather(1, order_SK), found.beam_SC.gather(1, order_SK)
        ids_SKT = _go_back(found, ended_SK, beam_SK, int(queue.last_S.max()))[..., self._num_tags :]
        num_words_SK = (ended_SK - self._num_tags).clamp_min(0)
        inside_SKT = torch.arange(ids_SKT.shape[2], device=ids_SKT.device) < num_words_SK[..., None]
        words, num_words = tuple(ids_SKT[inside_SKT].tolist()), num_words_SK.flatten().tolist()
        ends = list(accumulate(num_words))
        numbers, scores = score_SK.isfinite().sum(dim=1).tolist(), score_SK.flatten().tolist()
        all_of_them = [
            Hypothesis(words[end - number : end], score)
            for end, number, score in zip(ends, num_words, scores, strict=True)
        ]
        return [all_of_them[first : first + number] for first, number in zip(count(0, best), numbers, strict=False)]


def _cut(prefixes: Sequence[Sequence[int]], limits: np.ndarray) -> Tensor:
    """The words that are forced, filled up; no more than an output may have, and a place at least."""
    longest = max(1, *map(len, prefixes))
    if longest == 1 and not any(prefixes):
        return torch.full((len(prefixes), 1), -1)
    rows = [[*prefix[:limit], *[-1] * longest][:longest] for prefix, limit in zip(prefixes, limits, strict=True)]
    return torch.tensor(rows)


def _go_back(found: Found, ended_SK: Tensor, beam_SK: Tensor, longest: int) -> Tensor:
    """The words of the beams that ended at some positions."""
    ids_SKT = ended_SK.new_zeros((*ended_SK.shape, longest))
    for position in reversed(range(longest)):
        passed_SK = position < ended_SK
        ids_SKT[..., position] = found.word_STK[:, position].gather(1, beam_SK)
        parent_SK = found.parent_STK[:, position].long().gather(1, beam_SK)
        beam_SK = torch.where(passed_SK, parent_SK, beam_SK)
    return ids_SKT


def _pieces(length_S: np.ndarray) -> Iterator[slice]:
    """Sentences that follow one another and are not too many to be read at once."""
    start = longest = 0
    for number, length in enumerate(length_S):
        longest = max(longest, int(length))
        if number > start and (number + 1 - start) * longest > AT_ONCE:
            yield slice(start, number)
            start, longest = number, int(length)
    yield slice(start, len(length_S))
