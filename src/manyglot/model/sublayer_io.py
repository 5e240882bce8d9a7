"""The inputs and outputs of the sub-layers of a Transformer.

A kernel can sum the gradients of its output itself, but only if each use of that output is a separate tensor. So the
input of a sub-layer holds the same tensor three times, and its output stays in parts until it is added to the residual.
"""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.guidance.base import NormTerms, TargetLanguages
from manyglot.model.guidance.language_matmul import LanguageGroups


class SublayerInput(NamedTuple):
    """The hidden states that a sub-layer reads, once for each use."""

    residual: Tensor
    """For the residual connection around the sub-layer."""
    states: Tensor
    """For attention or feed-forward."""
    guidance_input: Tensor
    """For the terms that guidance computes inside attention."""

    @classmethod
    def from_states(cls, x: Tensor) -> SublayerInput:
        """Use the same tensor everywhere."""
        return cls(x, x, x)

    def with_hook_output(self, x: Tensor) -> SublayerInput:
        """Return a copy with new states x from a guidance hook, cast to the previous data type as kernels require."""
        return self if x is self.residual else SublayerInput.from_states(x.to(self.residual.dtype))


class SublayerOutput(NamedTuple):
    """The output of a sub-layer before the residual connection: y + bias + term, not yet summed."""

    y: Tensor
    bias: Tensor | None = None
    term: Tensor | None = None

    def with_term(self, term: Tensor | None) -> SublayerOutput:
        """Return a copy with a further term, cast to the data type of y as kernels require."""
        if term is None:
            return self
        term = term.to(self.y.dtype)
        return self._replace(term=term if self.term is None else self.term + term)

    def total(self) -> Tensor:
        """Return the sum of the parts."""
        y = self.y if self.bias is None else self.y + self.bias
        return y if self.term is None else y + self.term


class GuidedNorm(NamedTuple):
    """A layer norm whose gain and bias may depend on the target language of each row (LALN)."""

    shared: nn.LayerNorm
    terms: NormTerms | None
    target_languages: TargetLanguages

    def __call__(self, x_BTD: Tensor) -> Tensor:
        """Return LN(x)."""
        y_BTD: Tensor
        if self.terms is None:
            y_BTD = self.shared(x_BTD)
            return y_BTD
        gain_LD, bias_LD = self.gain_and_bias()
        y_BTD = F.layer_norm(x_BTD, self.shared.normalized_shape, eps=self.shared.eps)
        return (
            y_BTD * self.target_languages.gather_rows(gain_LD)[:, None]
            + self.target_languages.gather_rows(bias_LD)[:, None]
        )

    def gain_and_bias(self) -> tuple[Tensor, Tensor]:
        """Return gain and bias: vectors, or contiguous tables with a row per language if guidance adds terms."""
        gain, bias = self.shared.weight, self.shared.bias
        if self.terms is None:
            return gain, bias
        return (gain + self.terms.gain_LD).contiguous(), (bias + self.terms.bias_LD).contiguous()

    @property
    def language_groups(self) -> LanguageGroups | None:
        """The groups by which rows select their gain and bias; None if all rows share them."""
        return None if self.terms is None else self.target_languages.groups
