"""Log-probabilities of the next token after each row, and the top tokens.

A search spends most of its time here, because the vocabulary is large. All steps share one score buffer: allocating
memory would take longer than the softmax.

In half precision, tokens of similar probability would get equal scores. The scorer therefore selects the top tokens
in half precision and recomputes their scores from the float32 weights.

Shape letters: N rows (beams), D model width, V vocabulary, C candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyglot.model.output_layer import OutputLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD, UNK

MAX_TRANSPOSED_ROWS = 512
"""Up to this number of rows, a CPU multiplies faster with the operands swapped, despite the transposed copy."""


class TokenScorer:
    """Scores the next token of each row with the model's output layer.

    Call `compute_scores` once per step. `masked_topk` and `token_log_probs` then read the scores of that step.
    """

    def __init__(self, model: Transformer, full_precision: OutputLayer | None = None) -> None:
        self.weight_VD, self.bias_V = model.output_layer.detach()
        self.full_precision = full_precision
        """The output layer before it was rounded to half precision."""
        self.dtype = torch.promote_types(self.weight_VD.dtype, torch.float32)
        self.allowed_tokens = range(1, model.dimensions.first_tag_id)
        """Ids that outputs may contain, apart from UNK. Padding, UNK and tags are never generated, but they keep their
        share of the probability."""
        tags = range(model.dimensions.first_tag_id, len(self.weight_VD))
        self._forbidden_tokens = torch.tensor([PAD, UNK, *tags], device=self.weight_VD.device)
        self._buffer = self.weight_VD.new_empty(0, dtype=self.dtype)

    def compute_scores(self, hidden_ND: Tensor) -> None:
        """Compute the log-probabilities of all tokens from the last hidden state of each row."""
        self._hidden_ND, self._score_NV = hidden_ND, self._score_buffer(len(hidden_ND))
        self._compute_logits(hidden_ND, self._score_NV)
        logit_N = self._score_NV[:, 0].clone()
        torch.log_softmax(self._score_NV, dim=1, out=self._score_NV)
        self._log_normalizer_N = logit_N - self._score_NV[:, 0]

    def masked_topk(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities and ids of the k most probable tokens of each row.

        This overwrites the scores of forbidden tokens.
        """
        self._score_NV.index_fill_(1, self._forbidden_tokens, -torch.inf)
        num_candidates = k if self.full_precision is None else 2 * k
        rough_NC, token_NC = self._score_NV.topk(min(num_candidates, len(self.weight_VD)))
        if self.full_precision is None:
            return rough_NC, token_NC
        logprob_NC = self._full_precision_log_probs(token_NC).masked_fill(rough_NC.isneginf(), -torch.inf)
        logprob_NC, index_NC = logprob_NC.topk(min(k, logprob_NC.shape[1]))
        return logprob_NC, token_NC.gather(1, index_NC)

    def token_log_probs(self, token_N: Tensor) -> Tensor:
        """Return the log-probability of one given token per row."""
        if self.full_precision is None:
            return self._score_NV.gather(1, token_N[:, None])[:, 0]
        return self._full_precision_log_probs(token_N[:, None])[:, 0]

    def _full_precision_log_probs(self, token_NC: Tensor) -> Tensor:
        """Recompute the log-probabilities of some tokens from the full-precision weights."""
        assert self.full_precision is not None
        return self.full_precision.logits_of(token_NC, self._hidden_ND) - self._log_normalizer_N[:, None]

    def _score_buffer(self, num_rows: int) -> Tensor:
        """Return a view of the score buffer with this number of rows. The buffer grows if it is too small."""
        size = num_rows * len(self.weight_VD)
        if self._buffer.numel() < size:
            self._buffer = self._buffer.new_empty(size)
        return self._buffer[:size].view(num_rows, -1)

    def _compute_logits(self, hidden_ND: Tensor, out_NV: Tensor) -> None:
        """Write the logits of all tokens to `out_NV`."""
        if hidden_ND.dtype != out_NV.dtype:
            out_NV.copy_(hidden_ND @ self.weight_VD.T)
        elif hidden_ND.is_cpu and len(hidden_ND) <= MAX_TRANSPOSED_ROWS:
            out_NV.copy_((self.weight_VD @ hidden_ND.T).T)
        else:
            torch.mm(hidden_ND, self.weight_VD.T, out=out_NV)
        if self.bias_V is not None:
            out_NV += self.bias_V
