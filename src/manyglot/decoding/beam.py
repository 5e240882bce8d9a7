"""Batched beam search with a cache; every sentence has its own target language, tags and maximum length.

In each step the best continuations of all beams of a sentence compete. Of the best 2K, those that end the sentence and
are among the first K are finished; the first K that do not end it live on. A sentence is done when K hypotheses are
finished, or at its maximum length, where only the end is allowed. The score of a hypothesis is its log-probability
divided by its length, end included, to the power of the length penalty.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from pydantic import Field
from torch import Tensor

from manyglot.model.attention import Memory
from manyglot.model.cache import DecoderCache
from manyglot.model.guidance.base import Target
from manyglot.model.transformer import Transformer
from manyglot.settings import Settings
from manyglot.vocabulary.subwords import EOS, PAD, UNK


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
    """Size of a batch: sentences times the longest source, beams not counted."""
    max_sentences: int = Field(256, ge=1, le=2**20)
    """A batch has at most this many sentences: each of their beams has a score for every symbol."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of what guidance draws at random (random_laa); others do not need it."""

    def with_beam(self, beam: int) -> DecodingSettings:
        """The same with another beam, and with larger batches where it is narrower, for they have as many rows."""
        more = max(self.beam // beam, 1)
        larger = {"max_tokens": self.max_tokens * more, "max_sentences": self.max_sentences * more}
        return self.model_copy(update={"beam": beam, **larger})

    def limit(self, source_length: int) -> int:
        """The maximum length of a sentence's output."""
        return min(self.max_length, int(self.max_length_ratio * source_length) + 10)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    ids: tuple[int, ...]
    """Subwords, without tags and end."""
    score: float


class BeamSearch:
    """Searches with one model."""

    def __init__(self, model: Transformer, settings: DecodingSettings) -> None:
        self.model, self.tags, self.settings = model, model.tags(), settings
        self.forbidden = [PAD, UNK, *range(model.dimensions.first_tag, len(model.embedding.weight))]

    @torch.inference_mode()
    def search(
        self, source_BS: Tensor, languages: Sequence[int], drawn_B: Tensor | None = None
    ) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence, best first; guidance may need a drawn language for each."""
        state = self._start(source_BS, languages, drawn_B)
        results: list[list[Hypothesis]] = [[] for _ in languages]
        while state.sentences:
            length = state.ids_BKT.shape[2]
            candidates = self._expand(state)
            self._finish(state, candidates)
            done = [s for s in state.sentences if len(s.finished) >= self.settings.beam or length == s.limit]
            for sentence in done:
                best_first = sorted(sentence.finished, key=lambda h: -h.score)
                results[sentence.row] = best_first[: self.settings.beam]
            self._go_on(state, candidates, [i for i, s in enumerate(state.sentences) if s not in done])
        return results

    def _start(self, source_BS: Tensor, languages: Sequence[int], drawn_B: Tensor | None) -> _State:
        """Encode, and let the decoder read the start symbol and the tags."""
        device, beam = source_BS.device, self.settings.beam
        target = self.model.target(torch.tensor(languages, device=device), drawn_B)
        memory = self.model.encode(source_BS, target)
        tags = [self.tags[language] for language in languages]
        prefix_BT = torch.tensor([[EOS, *tag.target] for tag in tags], device=device)
        cache = self.model.new_cache()
        logprob_BTV = self.model.log_probabilities(self.model.decode(prefix_BT, memory, target, cache))
        tag_score_BT = logprob_BTV[:, :-1].gather(2, prefix_BT[:, 1:, None])[..., 0]
        predicted_B = torch.tensor([tag.predicted for tag in tags], device=device)
        score_BK = logprob_BTV.new_full((len(languages), beam), -torch.inf)  # the beams are alike at first,
        score_BK[:, 0] = tag_score_BT.sum(dim=1) * predicted_B  # so only one of them may go on
        sentences = [
            _Sentence(row, self.settings.limit(int(length)), len(tag.target) if tag.predicted else 0)
            for row, (length, tag) in enumerate(zip((source_BS != PAD).sum(dim=1), tags, strict=True))
        ]
        rows_N = torch.arange(len(languages), device=device).repeat_interleave(beam)
        cache.select(rows_N)
        return _State(
            sentences=sentences,
            ids_BKT=torch.zeros(len(languages), beam, 0, dtype=torch.long, device=device),
            score_BK=score_BK,
            logprob_NV=self._allowed(logprob_BTV[:, -1])[rows_N],
            target=target.select(rows_N),
            memory=memory.select(rows_N),
            cache=cache,
        )

    def _expand(self, state: _State) -> _Candidates:
        """The best 2K continuations of each sentence; at its maximum length the end alone is allowed."""
        num_sentences, beam = state.score_BK.shape
        logprob_BKV = state.logprob_NV.view(num_sentences, beam, -1)
        at_limit = [i for i, s in enumerate(state.sentences) if s.limit == state.ids_BKT.shape[2]]
        if at_limit:
            end_BK = logprob_BKV[at_limit, :, EOS]
            logprob_BKV[at_limit] = -torch.inf
            logprob_BKV[at_limit, :, EOS] = end_BK
        total_BKV = state.score_BK[..., None] + logprob_BKV
        score_BC, index_BC = total_BKV.flatten(1).topk(2 * beam)
        return _Candidates(score_BC, index_BC // total_BKV.shape[2], index_BC % total_BKV.shape[2])

    def _finish(self, state: _State, candidates: _Candidates) -> None:
        """Note the hypotheses that end among the first K."""
        beam = self.settings.beam
        ends_BK = (candidates.word_BC[:, :beam] == EOS) & candidates.score_BC[:, :beam].isfinite()
        for i, rank in ends_BK.nonzero().tolist():
            sentence = state.sentences[i]
            ids = tuple(state.ids_BKT[i, candidates.parent_BC[i, rank]].tolist())
            length = len(ids) + 1 + sentence.num_scored_tags
            score = float(candidates.score_BC[i, rank]) / length**self.settings.length_penalty
            sentence.finished.append(Hypothesis(ids, score))

    def _go_on(self, state: _State, candidates: _Candidates, keep: list[int]) -> None:
        """Keep the first K continuations that do not end, of the sentences that are not done, and decode a step."""
        state.sentences = [state.sentences[i] for i in keep]
        if not keep:
            return
        beam = self.settings.beam
        keep_B = torch.tensor(keep, device=state.score_BK.device)
        ending_BC = candidates.word_BC[keep_B] == EOS
        rank_BC = torch.arange(2 * beam, device=keep_B.device) + 2 * beam * ending_BC
        live_BK = rank_BC.topk(beam, largest=False).indices
        state.score_BK = candidates.score_BC[keep_B].gather(1, live_BK)
        parent_BK = candidates.parent_BC[keep_B].gather(1, live_BK)
        word_BK = candidates.word_BC[keep_B].gather(1, live_BK)
        past_BKT = state.ids_BKT[keep_B[:, None], parent_BK]
        state.ids_BKT = torch.cat([past_BKT, word_BK[..., None]], dim=2)
        rows_N = (keep_B[:, None] * beam + parent_BK).flatten()
        smaller = len(rows_N) < len(state.logprob_NV)
        state.cache.select(rows_N, cross_attention=smaller)  # beams of one sentence share its memory
        if smaller:
            state.target, state.memory = state.target.select(rows_N), state.memory.select(rows_N)
        hidden_N1D = self.model.decode(word_BK.reshape(-1, 1), state.memory, state.target, state.cache)
        state.logprob_NV = self._allowed(self.model.log_probabilities(hidden_N1D)[:, 0])

    def _allowed(self, logprob_NV: Tensor) -> Tensor:
        """Padding, the unknown word and tags are never written."""
        logprob_NV[:, self.forbidden] = -torch.inf
        return logprob_NV


@dataclass
class _Sentence:
    """The state of one sentence of the batch."""

    row: int
    limit: int
    num_scored_tags: int
    finished: list[Hypothesis] = field(default_factory=list)


@dataclass
class _State:
    """The live beams of the sentences that are not done."""

    sentences: list[_Sentence]
    ids_BKT: Tensor
    score_BK: Tensor
    logprob_NV: Tensor
    """Of the next word, after each beam."""
    target: Target
    memory: Memory
    cache: DecoderCache


@dataclass
class _Candidates:
    """The best C = 2K continuations of each sentence, best first."""

    score_BC: Tensor
    parent_BC: Tensor
    word_BC: Tensor
