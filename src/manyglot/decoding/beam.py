"""Batched beam search with a cache; every sentence has its own target language, tags and maximum length.

In each step the best continuations of all beams of a sentence compete. Of the best 2K, those that end the sentence and
are among the first K are finished; the first K that do not end it live on. A sentence is done when K hypotheses are
finished, or at its maximum length, where only the end is allowed. The score of a hypothesis is its log-probability
divided by its length, end included, to the power of the length penalty.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from manyglot.config.settings import Settings
from manyglot.decoding.next_words import NextWords
from manyglot.decoding.search_batch import SearchBatch
from manyglot.devices import Precision
from manyglot.model.cached import CachedDecoder, encode_sources
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import EOS, PAD
from manyglot.vocabulary.vocabulary import Tags

MAX_ROWS = 1280
"""Hypotheses of a batch: each of them has a score for every symbol of the vocabulary."""


class DecodingSettings(Settings):
    """How translations are searched; the defaults are the paper's."""

    beam: int = Field(5, ge=1, le=1000)
    """Hypotheses kept per sentence; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=0, le=10)
    """Scores are divided by length to this power; 0 prefers short outputs."""
    max_length: int = Field(200, ge=1, le=100_000)
    """An output has at most this many subwords."""
    max_length_ratio: float = Field(4.0, gt=0, le=1000)
    """An output has at most this many times the source's tokens, plus ten: what runs on beyond is noise."""
    max_tokens: int = Field(4096, ge=1, le=2**24)
    """Size of a batch: sentences times the longest source, beams not counted. A GPU takes what it has room for."""
    precision: Precision = "auto"
    """auto computes in bfloat16 on a GPU, and on a CPU that has instructions for it and a model of width 512 or more;
    else in float32. The scores of the best words are computed again in float32."""
    temperature: float | None = Field(None, gt=0, le=100)
    """Draw words at random, as many outputs as the beam is wide, by probabilities that are flattened above 1 and
    sharpened below; null searches for the best output."""
    top_k: int | None = Field(None, ge=1)
    """Draw among this many of the best words only."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw among the best words that have this share of the probability together."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of what is drawn at random: words, and what guidance draws (random_laa)."""
    via: str | None = None
    """Translate by way of this language: into it first, and from it into the target. For sentences in other languages
    than it; evaluation does so in directions without training, and validation never."""

    def with_beam(self, beam: int) -> DecodingSettings:
        """The same with another beam, and with batches that have about as many rows."""
        return self.model_copy(update={"beam": beam, "max_tokens": max(1, self.max_tokens * self.beam // beam)})

    @property
    def max_sentences(self) -> int:
        """The most sentences of a batch."""
        return max(1, MAX_ROWS // self.beam)

    def limit(self, source_length: int) -> int:
        """The maximum length of a sentence's output."""
        return min(self.max_length, int(self.max_length_ratio * source_length) + 10)


class Hypothesis(NamedTuple):
    """A finished translation."""

    ids: tuple[int, ...]
    """Subwords, without tags and end."""
    score: float


class BeamSearch:
    """Searches with one model."""

    def __init__(
        self,
        model: Transformer,
        settings: DecodingSettings,
        exact_VD: Tensor | None = None,
        tags: Sequence[Tags] | None = None,
    ) -> None:
        self.model, self.tags, self.settings = model, model.tags() if tags is None else tags, settings
        self.next_words = NextWords(model, exact_VD)

    def batches(self, sources: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Sentences that are not empty, longest first, in batches that keep the budget."""
        batch: list[int] = []
        for row in longest_first(sources):
            too_large = batch and (len(batch) + 1) * len(sources[batch[0]]) > self.settings.max_tokens
            if too_large or len(batch) == self.settings.max_sentences:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    @torch.inference_mode()
    def search(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each output, best first."""
        state = self._start(batch.source_RS, batch.languages, batch.random_lang_B, batch.source_rows)
        prefixes, numbers = batch.prefixes, batch.sentence_numbers
        for sentence in state.sentences:
            sentence.prefix = () if prefixes is None else tuple(prefixes[sentence.row])
            sentence.place = sentence.row if numbers is None else numbers[sentence.row]
        num_hypotheses = batch.num_hypotheses or self.settings.beam
        results: list[list[Hypothesis]] = [[] for _ in batch.languages]
        while state.sentences:
            length = state.ids_BKT.shape[2]
            candidates = self._expand(state)
            self._finish(state, candidates)
            done = [s for s in state.sentences if len(s.finished) >= self.settings.beam or length == s.limit]
            for sentence in done:
                in_order = sorted(sentence.finished, key=self._order)
                results[sentence.row] = [hypothesis for _, hypothesis in in_order[:num_hypotheses]]
            self._go_on(state, candidates, [i for i, s in enumerate(state.sentences) if s not in done])
        return results

    def _start(
        self,
        source_BS: Tensor,
        languages: Sequence[int],
        drawn_B: Tensor | None,
        sentences: Sequence[int] | None,
    ) -> State:
        """Encode, and let the decoder read the start symbol and the tags."""
        device, beam, number = source_BS.device, self.settings.beam, len(languages)
        target = self.model.target(torch.tensor(languages, device=device), drawn_B)
        sentence_B = None if sentences is None else torch.tensor(sentences, device=device)
        decoder = CachedDecoder(self.model, target, encode_sources(self.model, source_BS, target, sentence_B))
        tags = [self.tags[language] for language in languages]
        prefix_BT = torch.tensor([[EOS, *tag.target] for tag in tags], device=device)
        hidden_BTD = self.model.decode(prefix_BT, decoder)
        score_BK = self._first_scores(self._tag_scores(hidden_BTD, prefix_BT, tags))
        rows_N = torch.arange(number, device=device).repeat_interleave(beam)
        decoder.fork(rows_N)
        self.next_words.follow(hidden_BTD[:, -1].index_select(0, rows_N))
        lengths = (source_BS != PAD).sum(dim=1).tolist()
        return State(
            sentences=[
                Sentence(
                    row=row,
                    limit=self.settings.limit(lengths[row if sentences is None else sentences[row]]),
                    num_scored_tags=len(tag.target) if tag.predicted else 0,
                )
                for row, tag in enumerate(tags)
            ],
            ids_BKT=torch.zeros(number, beam, 0, dtype=torch.long, device=device),
            score_BK=score_BK,
            decoder=decoder,
        )

    def _first_scores(self, score_B: Tensor) -> Tensor:
        """The beams are alike at first, so only one of them may go on."""
        score_BK = score_B[:, None].repeat(1, self.settings.beam)
        score_BK[:, 1:] = -torch.inf
        return score_BK

    def _tag_scores(self, hidden_BTD: Tensor, prefix_BT: Tensor, tags: Sequence[Tags]) -> Tensor:
        """The log-probabilities of the tags where they are predicted."""
        total_B = hidden_BTD.new_zeros(len(tags), dtype=self.next_words.dtype)
        if not any(tag.predicted for tag in tags):
            return total_B
        for i in range(prefix_BT.shape[1] - 1):
            self.next_words.follow(hidden_BTD[:, i])
            total_B = total_B + self.next_words.of(prefix_BT[:, i + 1])
        return total_B * torch.tensor([tag.predicted for tag in tags], device=hidden_BTD.device)

    def _expand(self, state: State) -> Candidates:
        """The best 2K continuations of each sentence, which are among the best 2K of each of its beams.

        Where a word is forced, it alone is allowed: one of the prefix, or the end at the maximum length.
        """
        num_sentences, beam = state.score_BK.shape
        logprob_NC, word_NC = self.next_words.best(2 * beam)
        logprob_BKC, word_BKC = (x.view(num_sentences, beam, -1) for x in (logprob_NC, word_NC))
        forced = [(i, word) for i, s in enumerate(state.sentences) if (word := s.forced(state.ids_BKT.shape[2])) >= 0]
        if forced:
            rows_F = torch.tensor([i for i, _ in forced], device=word_NC.device)
            words = word_BKC.new_full((num_sentences,), EOS)
            words[rows_F] = torch.tensor([word for _, word in forced], device=word_NC.device)
            of_BK = self.next_words.of(words.repeat_interleave(beam)).view(num_sentences, beam)
            logprob_BKC[rows_F] = -torch.inf
            logprob_BKC[rows_F, :, 0], word_BKC[rows_F, :, 0] = of_BK[rows_F], words[rows_F][:, None]
        score_BC, index_BC = (state.score_BK[..., None] + logprob_BKC).flatten(1).topk(2 * beam)
        return Candidates(score_BC, index_BC // word_BKC.shape[2], word_BKC.flatten(1).gather(1, index_BC))

    def _finish(self, state: State, candidates: Candidates) -> None:
        """Note the hypotheses that end among the first K."""
        beam = self.settings.beam
        ends_BK = (candidates.word_BC[:, :beam] == EOS) & candidates.score_BC[:, :beam].isfinite()
        for i, rank in ends_BK.nonzero().tolist():
            sentence = state.sentences[i]
            ids = tuple(state.ids_BKT[i, candidates.parent_BC[i, rank]].tolist())
            length = len(ids) + 1 + sentence.num_scored_tags
            score = float(candidates.score_BC[i, rank]) / length**self.settings.length_penalty
            sentence.finished.append((rank, Hypothesis(ids, score)))

    @staticmethod
    def _order(finished: tuple[int, Hypothesis]) -> float:
        """The best hypotheses come first."""
        return -finished[1].score

    def _live(self, candidates: Candidates) -> Tensor:
        """Which candidates go on: the first K that do not end."""
        beam = self.settings.beam
        ending_BC = candidates.word_BC == EOS
        rank_BC = torch.arange(2 * beam, device=ending_BC.device) + 2 * beam * ending_BC
        return rank_BC.topk(beam, largest=False).indices

    def _go_on(self, state: State, candidates: Candidates, keep: list[int]) -> None:
        """Keep the first K continuations that do not end, of the sentences that are not done, and decode a step."""
        fewer = len(keep) < len(state.sentences)
        state.sentences = [state.sentences[i] for i in keep]
        if not keep:
            return
        beam = self.settings.beam
        keep_B = torch.tensor(keep, device=state.score_BK.device)
        live_BK = self._live(candidates)[keep_B]
        state.score_BK = candidates.score_BC[keep_B].gather(1, live_BK)
        parent_BK = candidates.parent_BC[keep_B].gather(1, live_BK)
        word_BK = candidates.word_BC[keep_B].gather(1, live_BK)
        past_BKT = state.ids_BKT[keep_B[:, None], parent_BK]
        state.ids_BKT = torch.cat([past_BKT, word_BK[..., None]], dim=2)
        state.decoder.select((keep_B[:, None] * beam + parent_BK).flatten(), keep_B if fewer else None)
        hidden_BKD = self.model.decode(word_BK, state.decoder)
        self.next_words.follow(hidden_BKD.flatten(0, 1))


def longest_first(sources: Sequence[Sequence[int]]) -> list[int]:
    """The places of sentences that are not empty; those that are the same come together."""
    numbers: dict[tuple[int, ...], int] = {}
    number_of = [numbers.setdefault(tuple(source), len(numbers)) for source in sources]
    order = np.lexsort((number_of, [-len(source) for source in sources]))
    return [place for place in order.tolist() if sources[place]]


@dataclass
class Sentence:
    """The state of one sentence of the batch."""

    row: int
    limit: int
    num_scored_tags: int
    prefix: tuple[int, ...] = ()
    place: int = 0
    """In the text: what is drawn at random depends on it."""
    finished: list[tuple[int, Hypothesis]] = field(default_factory=list)
    """With the rank that each had among the candidates."""

    def forced(self, length: int) -> int:
        """The only word that is allowed after so many; -1 if any is."""
        if length < min(len(self.prefix), self.limit):
            return self.prefix[length]
        return EOS if length == self.limit else -1


@dataclass
class State:
    """The live beams of the sentences that are not done."""

    sentences: list[Sentence]
    ids_BKT: Tensor
    score_BK: Tensor
    decoder: CachedDecoder


@dataclass
class Candidates:
    """The best C = 2K continuations of each sentence, best first."""

    score_BC: Tensor
    parent_BC: Tensor
    word_BC: Tensor
