"""What may come next: log-probabilities of all words after each row, and the best of them.

Most of the time of a search is spent here, for a vocabulary is large. So there is one array for the scores of all
words, which is written over in every step: to ask for new memory would take longer than to compute the softmax.

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

    def __init__(self, model: Transformer) -> None:
        self.weight_VD = model.embedding.weight.detach()
        self.dtype = torch.promote_types(self.weight_VD.dtype, torch.float32)
        tags = range(model.dimensions.first_tag, len(self.weight_VD))
        self.never = torch.tensor([PAD, UNK, *tags], device=self.weight_VD.device)
        """Padding, the unknown word and tags are never written, but have their share of the probability."""
        self._hidden_ND = self.weight_VD.new_empty(0, self.weight_VD.shape[1])
        self._logprob_NV = self.weight_VD.new_empty(0, dtype=self.dtype)

    def follow(self, hidden_ND: Tensor) -> None:
        """Take other rows, by their last hidden states."""
        num_rows, vocabulary = len(hidden_ND), len(self.weight_VD)
        if self._logprob_NV.numel() < num_rows * vocabulary:
            self._logprob_NV = self.weight_VD.new_empty(num_rows * vocabulary, dtype=self.dtype)
        logprob_NV = self._logprob_NV[: num_rows * vocabulary].view(num_rows, vocabulary)
        self._hidden_ND = hidden_ND
        self._multiply(hidden_ND, logprob_NV)
        self.logprob_NV = torch.log_softmax(logprob_NV, dim=1, out=logprob_NV)

    def best(self, number: int) -> tuple[Tensor, Tensor]:
        """The words that are most probable after each row, with their log-probabilities."""
        self.logprob_NV.index_fill_(1, self.never, -torch.inf)
        logprob_NC, word_NC = self.logprob_NV.topk(min(number, self.logprob_NV.shape[1]))
        return logprob_NC, word_NC

    def of(self, word_N: Tensor) -> Tensor:
        """The log-probability of one word after each row."""
        return self.logprob_NV.gather(1, word_N[:, None])[:, 0]

    def _multiply(self, hidden_ND: Tensor, out_NV: Tensor) -> None:
        """Scores of all words."""
        if hidden_ND.dtype != out_NV.dtype:
            out_NV.copy_(hidden_ND @ self.weight_VD.T)
        elif hidden_ND.is_cpu and len(hidden_ND) <= FEW:
            out_NV.copy_((self.weight_VD @ hidden_ND.T).T)
        else:
            torch.mm(hidden_ND, self.weight_VD.T, out=out_NV)
