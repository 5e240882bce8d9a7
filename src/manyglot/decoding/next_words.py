"""What may come next: log-probabilities of all words after each row, and the best of them.

Most of the time of a search is spent here, for a vocabulary is large. So there is one array for the scores of all
words, which is written over in every step: to ask for new memory would take longer than to compute the softmax.

In half precision the scores of words that are about as good would be the same number. So the best words are found in
half precision, and their scores are then computed again from the weights in float32.

Shape letters: N rows (beams), D model width, V vocabulary, C candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import PAD, UNK

FEW = 16
"""Rows for which a CPU multiplies faster the other way round."""


class NextWords:
    """Log-probabilities of the next word after each of some rows, by a model's output layer."""

    def __init__(self, model: Transformer, exact_VD: Tensor | None = None) -> None:
        self.weight_VD, self.exact_VD = model.embedding.weight.detach(), exact_VD
        """The weights, and the same as they were before they were rounded."""
        self.dtype = torch.promote_types(self.weight_VD.dtype, torch.float32)
        tags = range(model.dimensions.first_tag, len(self.weight_VD))
        self.never = torch.tensor([PAD, UNK, *tags], device=self.weight_VD.device)
        """Padding, the unknown word and tags are never written, but have their share of the probability."""
        self._logprob_NV = self.weight_VD.new_empty(0, dtype=self.dtype)

    def follow(self, hidden_ND: Tensor) -> None:
        """Take other rows, by their last hidden states."""
        num_rows, vocabulary = len(hidden_ND), len(self.weight_VD)
        if self._logprob_NV.numel() < num_rows * vocabulary:
            self._logprob_NV = self.weight_VD.new_empty(num_rows * vocabulary, dtype=self.dtype)
        logprob_NV = self._logprob_NV[: num_rows * vocabulary].view(num_rows, vocabulary)
        self._multiply(hidden_ND, logprob_NV)
        score_N = logprob_NV[:, 0].clone()
        self.logprob_NV = torch.log_softmax(logprob_NV, dim=1, out=logprob_NV)
        self._hidden_ND, self._log_total_N1 = hidden_ND, (score_N - logprob_NV[:, 0])[:, None]

    def best(self, number: int) -> tuple[Tensor, Tensor]:
        """The words that are most probable after each row, with their log-probabilities."""
        self.logprob_NV.index_fill_(1, self.never, -torch.inf)
        most = self.logprob_NV.shape[1]
        logprob_NC, word_NC = self.logprob_NV.topk(min(number if self.exact_VD is None else 2 * number, most))
        if self.exact_VD is None:
            return logprob_NC, word_NC
        exact_NC = self._exact(word_NC).masked_fill(logprob_NC.isneginf(), -torch.inf)
        logprob_NC, place_NC = exact_NC.topk(min(number, most))
        return logprob_NC, word_NC.gather(1, place_NC)

    def of(self, word_N: Tensor) -> Tensor:
        """The log-probability of one word after each row."""
        if self.exact_VD is None:
            return self.logprob_NV.gather(1, word_N[:, None])[:, 0]
        return self._exact(word_N[:, None])[:, 0]

    def _exact(self, word_NC: Tensor) -> Tensor:
        """The log-probabilities of some words, by the exact weights."""
        assert self.exact_VD is not None
        weight_NCD = self.exact_VD[word_NC]
        score_NC1 = weight_NCD @ self._hidden_ND.to(weight_NCD.dtype)[:, :, None]
        return score_NC1[..., 0] - self._log_total_N1

    def _multiply(self, hidden_ND: Tensor, out_NV: Tensor) -> None:
        """Scores of all words."""
        if hidden_ND.dtype != out_NV.dtype:
            out_NV.copy_(hidden_ND @ self.weight_VD.T)
        elif hidden_ND.is_cpu and len(hidden_ND) <= FEW:
            out_NV.copy_((self.weight_VD @ hidden_ND.T).T)
        else:
            torch.mm(hidden_ND, self.weight_VD.T, out=out_NV)
