"""The best continuations of the beams of each sentence, among all words after all beams.

As in `next_words`, words are found by rounded scores, and a few more than are wanted; their scores are then computed
again from weights that are not rounded. Here that is done for each sentence, not for each beam, and on a GPU in one
pass over the scores.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary, W columns (V filled up), C candidates, D model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from manyglot.decoding.beam import Candidates
from manyglot.model.kernels import have_kernels
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import PAD, UNK

TILE = 64
"""A vocabulary of whole tiles is multiplied much faster."""


class Continuations:
    """Finds the best 2K, in memory that is kept."""

    def __init__(self, model: Transformer, exact_VD: Tensor | None, num_rows: int) -> None:
        weight_VD = model.embedding.weight.detach()
        self.exact_VD, self.surplus = (weight_VD, 1) if exact_VD is None else (exact_VD, 2)
        self.vocabulary, self.words = len(weight_VD), range(PAD + 1, model.dimensions.first_tag)
        self.weight_WD = F.pad(weight_VD, (0, 0, 0, -len(weight_VD) % TILE))
        self._score_NW = weight_VD.new_empty(num_rows, len(self.weight_WD))

    def best(self, hidden_BKD: Tensor, score_BK: Tensor, forced_B: Tensor, counts_B: Tensor) -> Candidates:
        """The best 2K by the sum of the log-probabilities of beam and word.

        Where a word is forced (not negative), it alone is allowed; it may be that its probability does not count.
        """
        number, beam = 2 * score_BK.shape[1], score_BK.shape[1]
        beam_BC, word_BC, total_N = self._find(hidden_BKD, score_BK, self.surplus * number)
        is_forced_B1 = (forced_B >= 0)[:, None]
        beam_BC = torch.cat([beam_BC, torch.arange(beam, device=beam_BC.device).expand(len(score_BK), beam)], dim=1)
        word_BC = torch.cat([word_BC, forced_B.clamp_min(0)[:, None].expand(-1, beam)], dim=1)
        logprob_BC = self._exact(hidden_BKD, beam_BC, word_BC, total_N)
        allowed_BC = (torch.arange(beam_BC.shape[1], device=beam_BC.device) >= beam_BC.shape[1] - beam) == is_forced_B1
        allowed_BC &= is_forced_B1 | self._may_be_written(word_BC)
        total_BC = score_BK.gather(1, beam_BC) + logprob_BC * counts_B[:, None]
        total_BC, place_BC = total_BC.masked_fill(~allowed_BC, -torch.inf).topk(min(number, total_BC.shape[1]))
        return Candidates(total_BC, beam_BC.gather(1, place_BC), word_BC.gather(1, place_BC))

    def _may_be_written(self, word_BC: Tensor) -> Tensor:
        return (word_BC >= self.words.start) & (word_BC < self.words.stop) & (word_BC != UNK)

    def _find(self, hidden_BKD: Tensor, score_BK: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """Beams and words that are about the best, and log sum exp of the scores of each row."""
        score_NW = torch.mm(hidden_BKD.flatten(0, 1), self.weight_WD.T, out=self._score_NW)
        if score_NW.is_cuda and have_kernels():
            from manyglot.model.kernels.best import best_continuations

            return best_continuations(score_NW, score_BK, number, self.vocabulary, self.words, UNK)
        score_NV = score_NW[:, : self.vocabulary].to(score_BK.dtype)
        total_N = score_NV.logsumexp(dim=1)
        may_V = self._may_be_written(torch.arange(self.vocabulary, device=score_NV.device))
        rough_NV = (score_NV - total_N[:, None] + score_BK.flatten()[:, None]).masked_fill(~may_V, -torch.inf)
        rough_BV = rough_NV.view(len(score_BK), -1)
        place_BC = rough_BV.topk(min(number, rough_BV.shape[1])).indices
        return place_BC // self.vocabulary, place_BC % self.vocabulary, total_N

    def _exact(self, hidden_BKD: Tensor, beam_BC: Tensor, word_BC: Tensor, total_N: Tensor) -> Tensor:
        if hidden_BKD.is_cuda and have_kernels():
            from manyglot.model.kernels.best import exact_scores

            return exact_scores(hidden_BKD, self.exact_VD, beam_BC, word_BC, total_N)
        index_BC1 = beam_BC[..., None].expand(-1, -1, hidden_BKD.shape[2])
        hidden_BCD = hidden_BKD.gather(1, index_BC1).to(total_N.dtype)
        score_BC = (hidden_BCD * self.exact_VD[word_BC].to(total_N.dtype)).sum(dim=2)
        return score_BC - total_N.view(len(beam_BC), -1).gather(1, beam_BC)
