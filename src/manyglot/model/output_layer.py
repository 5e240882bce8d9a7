"""The output layer, which turns hidden states into logits: the shared embeddings and, in some models, a bias.

Shape letters: N rows, C tokens per row, D model width, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

BIAS_COLUMNS = 8
"""Columns that hold the bias in `with_bias_as_weights`; only the first is not zero. Kernels prefer multiples of 8."""


class OutputLayer(NamedTuple):
    """The parameters of the output layer."""

    weight_VD: Tensor
    bias_V: Tensor | None = None

    def detach(self) -> OutputLayer:
        """Return the same parameters without gradients."""
        return OutputLayer(self.weight_VD.detach(), None if self.bias_V is None else self.bias_V.detach())

    def logits_of(self, token_NC: Tensor, hidden_ND: Tensor) -> Tensor:
        """Return the logits of some tokens for each row."""
        weight_NCD = self.weight_VD[token_NC]
        logits_NC = (weight_NCD * hidden_ND.to(weight_NCD.dtype)[:, None]).sum(dim=-1)
        return logits_NC if self.bias_V is None else logits_NC + self.bias_V[token_NC]

    def with_bias_as_weights(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return states and a matrix whose product is the logits, for operations without a bias."""
        if self.bias_V is None:
            return hidden, self.weight_VD
        ones = F.pad(hidden.new_ones(*hidden.shape[:-1], 1), (0, BIAS_COLUMNS - 1))
        bias = F.pad(self.bias_V[:, None], (0, BIAS_COLUMNS - 1))
        return torch.cat([hidden, ones], dim=-1), torch.cat([self.weight_VD, bias], dim=1)
