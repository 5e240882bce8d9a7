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

FEW = 512
"""Rows for which a CPU multiplies faster the other way round, though the result has to be turned."""


class NextWords:
    """Log-probabilities of the next word after each of some rows, by a model's output layer."""

    def __init__(self, model: Transformer, exact_VD: Tensor | None = None) -> None:
        self.weight_VD, self.exact_VD = model.embedding.weight.detach(), exact_VD
        """The weights, and the same as they were before they were rounded."""
        self.dtype = torch.promote_types(self.weight_VD.dtype, torch.float32)
        self.words = range(1, model.dimensions.first_tag)
        """Padding, the unknown word and tags are never written, but have their share of the probability."""
        tags = range(model.dimensions.first_tag, len(self.weight_VD))
        self._never = torch.tensor([PAD, UNK, *tags], device=self.weight_VD.device)
        self._memory = self.weight_VD.new_empty(0, dtype=self.dtype)

    def follow(self, hidden_ND: Tensor) -> None:
        """Take other rows, by their last hidden states."""
        self._hidden_ND, self._score_NV = hidden_ND, self._room(len(hidden_ND))
        self._multiply(hidden_ND, self._score_NV)
        first_N = self._score_NV[:, 0].clone()
        torch.log_softmax(self._score_NV, dim=1, out=self._score_NV)
        self._log_total_N = first_N - self._score_NV[:, 0]

    def best(self, number: int) -> tuple[Tensor, Tensor]:
        """The words that are most probable after each row, with their log-probabilities."""
        self._score_NV.index_fill_(1, self._never, -torch.inf)
        wanted = number if self.exact_VD is None else 2 * number
        rough_NC, word_NC = self._score_NV.topk(min(wanted, len(self.weight_VD)))
        if self.exact_VD is None:
            return rough_NC, word_NC
        exact_NC = self._exact(word_NC).masked_fill(rough_NC.isneginf(), -torch.inf)
        logprob_NC, place_NC = exact_NC.topk(min(number, exact_NC.shape[1]))
        return logprob_NC, word_NC.gather(1, place_NC)

    def of(self, word_N: Tensor) -> Tensor:
        """The log-probability of one word after each row."""
        if self.exact_VD is None:
            return self._score_NV.gather(1, word_N[:, None])[:, 0]
        return self._exact(word_N[:, None])[:, 0]

    def _exact(self, word_NC: Tensor) -> Tensor:
        """The log-probabilities of some words, by the exact weights."""
        assert self.exact_VD is not None
        weight_NCD = self.exact_VD[word_NC]
        score_NC1 = weight_NCD @ self._hidden_ND.to(weight_NCD.dtype)[:, :, None]
        return score_NC1[..., 0] - self._log_total_N[:, None]

    def _room(self, num_rows: int) -> Tensor:
        """A place for the scores of so many rows, the same as before if it is large enough."""
        size = num_rows * len(self.weight_VD)
        if self._memory.numel() < size:
            self._memory = self._memory.new_empty(size)
        return self._memory[:size].view(num_rows, -1)

    def _multiply(self, hidden_ND: Tensor, out_NV: Tensor) -> None:
        """Scores of all words."""
        if hidden_ND.dtype != out_NV.dtype:
            out_NV.copy_(hidden_ND @ self.weight_VD.T)
        elif hidden_ND.is_cpu and len(hidden_ND) <= FEW:
            out_NV.copy_((self.weight_VD @ hidden_ND.T).T)
        else:
            torch.mm(hidden_ND, self.weight_VD.T, out=out_NV)
