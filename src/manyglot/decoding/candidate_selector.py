"""Selects the best candidates of each sentence among the possible next tokens of all its beams.

Like `token_scorer`, the selector picks more candidates than needed from half-precision scores, and recomputes their
scores from the full-precision weights. It does so per sentence instead of per beam, and on a GPU in one pass over the
scores.

Shape letters: B sentences, K beams, N = B·K rows, V vocabulary, W columns (V, padded), C candidates, D model width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from manyglot.decoding.beam_search import Candidates
from manyglot.model import kernels
from manyglot.model.kernels.attention_tiles import VOCABULARY_MULTIPLE
from manyglot.model.kernels.kernel_arguments import TopCandidates
from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD, UNK


class CandidateSelector:
    """Selects the best 2K candidates of each sentence. All steps share one score buffer."""

    def __init__(self, model: Transformer, full_precision: OutputLayer | None, num_rows: int) -> None:
        weight_VD, self.bias_V = model.output_layer.detach()
        self.full_precision, self.candidate_factor = (
            (model.output_layer.detach(), 1) if full_precision is None else (full_precision, 2)
        )
        self.vocabulary_size, self.allowed_tokens = len(weight_VD), range(PAD + 1, model.dimensions.first_tag_id)
        self.weight_WD = F.pad(weight_VD, (0, 0, 0, -len(weight_VD) % VOCABULARY_MULTIPLE))
        self._score_NW = weight_VD.new_empty(num_rows, len(self.weight_WD))

    def select_candidates(
        self, hidden_BKD: Tensor, score_BK: Tensor, forced_token_B: Tensor, is_scored_B: Tensor
    ) -> Candidates:
        """Return the best 2K candidates by the summed log-probability of beam and token.

        Where `forced_token_B` is not -1, that token is the only candidate of each beam. Where `is_scored_B` is False,
        the token does not change the score.
        """
        beam_size = score_BK.shape[1]
        beam_BC, token_BC, log_normalizer_N = self._rough_candidates(
            hidden_BKD, score_BK, self.candidate_factor * 2 * beam_size
        )
        is_forced_B1 = (forced_token_B >= 0)[:, None]
        every_beam_BK = torch.arange(beam_size, device=beam_BC.device).expand(len(score_BK), beam_size)
        beam_BC = torch.cat([beam_BC, every_beam_BK], dim=1)  # the last K columns hold the forced token of each beam
        token_BC = torch.cat([token_BC, forced_token_B.clamp_min(0)[:, None].expand(-1, beam_size)], dim=1)
        logprob_BC = self._full_precision_log_probs(hidden_BKD, beam_BC, token_BC, log_normalizer_N)
        is_forced_column_C = torch.arange(beam_BC.shape[1], device=beam_BC.device) >= beam_BC.shape[1] - beam_size
        is_allowed_BC = (is_forced_column_C == is_forced_B1) & (is_forced_B1 | self._is_allowed(token_BC))
        total_BC = score_BK.gather(1, beam_BC) + logprob_BC * is_scored_B[:, None]
        total_BC, index_BC = total_BC.masked_fill(~is_allowed_BC, -torch.inf).topk(
            min(2 * beam_size, total_BC.shape[1])
        )
        return Candidates(total_BC, beam_BC.gather(1, index_BC), token_BC.gather(1, index_BC))

    def _is_allowed(self, token_BC: Tensor) -> Tensor:
        return (token_BC >= self.allowed_tokens.start) & (token_BC < self.allowed_tokens.stop) & (token_BC != UNK)

    def _rough_candidates(self, hidden_BKD: Tensor, score_BK: Tensor, num_candidates: int) -> TopCandidates:
        """Return the best candidates by unrefined scores."""
        score_NW = torch.mm(hidden_BKD.flatten(0, 1), self.weight_WD.T, out=self._score_NW)
        if self.bias_V is not None:
            score_NW[:, : self.vocabulary_size] += self.bias_V
        if kernels.runs_kernels(score_NW.device):
            from manyglot.model.kernels.top_candidates import top_candidates

            return top_candidates(score_NW, score_BK, num_candidates, self.vocabulary_size, self.allowed_tokens, UNK)
        score_NV = score_NW[:, : self.vocabulary_size].to(score_BK.dtype)
        log_normalizer_N = score_NV.logsumexp(dim=1)
        is_allowed_V = self._is_allowed(torch.arange(self.vocabulary_size, device=score_NV.device))
        rough_NV = (score_NV - log_normalizer_N[:, None] + score_BK.flatten()[:, None]).masked_fill(
            ~is_allowed_V, -torch.inf
        )
        rough_BV = rough_NV.view(len(score_BK), -1)
        index_BC = rough_BV.topk(min(num_candidates, rough_BV.shape[1])).indices
        return TopCandidates(index_BC // self.vocabulary_size, index_BC % self.vocabulary_size, log_normalizer_N)

    def _full_precision_log_probs(
        self, hidden_BKD: Tensor, beam_BC: Tensor, token_BC: Tensor, log_normalizer_N: Tensor
    ) -> Tensor:
        weight_VD, bias_V = self.full_precision
        if kernels.runs_kernels(hidden_BKD.device):
            from manyglot.model.kernels.top_candidates import candidate_log_probs

            logprob_BC = candidate_log_probs(hidden_BKD, weight_VD, beam_BC, token_BC, log_normalizer_N)
        else:
            index_BC1 = beam_BC[..., None].expand(-1, -1, hidden_BKD.shape[2])
            hidden_BCD = hidden_BKD.gather(1, index_BC1).to(log_normalizer_N.dtype)
            score_BC = (hidden_BCD * weight_VD[token_BC].to(log_normalizer_N.dtype)).sum(dim=2)
            logprob_BC = score_BC - log_normalizer_N.view(len(beam_BC), -1).gather(1, beam_BC)
        return logprob_BC if bias_V is None else logprob_BC + bias_V[token_BC]
