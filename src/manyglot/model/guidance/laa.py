"""Language-aware multi-head attention (LAA): one matrix for each language inside the attention, Eqs. 3-7.

The matrix W of the target language is added to the projections of query, key and value, and its transpose to the output
projection. Heads are blocks of neighbouring columns, so adding W at once is adding W_i to each head. One table serves
all layers, self- and cross-attention, encoder and decoder; it is always the target language that chooses.

The products are computed for all sentences of a language together. Tests and benchmarks may set `LAA.product` to
`gathered`, the batched form of Eqs. 6-7.

Shape letters: B sentences, T tokens, D model width, L languages.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from manyglot.model.guidance.base import Dimensions, Method, Point, Site, SitedSettings, Target
from manyglot.model.guidance.products import ByLanguage, Choice, Product, gathered, times


class LAASettings(SitedSettings):
    """One matrix for each language in the attention (LAA)."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.DEC_SELF, Site.DEC_CROSS)
    method: Literal["laa"] = "laa"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_SELF,)
    """The attentions: enc.self, dec.self, dec.cross."""
    gain: float = Field(1.0, ge=0, le=10)
    """How large the matrices are at first, as many times as those of a linear layer (Xavier's gain). With 0 all
    languages begin alike and grow apart as far as it helps."""


class LAA(Method):
    """{Q,K,V} (W^{Q,K,V} + W) and z (W^O + W^T), by adding {Q,K,V} W and z W^T."""

    settings_type: ClassVar = LAASettings

    def __init__(self, settings: LAASettings, dimensions: Dimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites = settings.sites
        self.product: Product = times
        self.matrix_LDD = language_matrices(dimensions, settings.gain)

    def choice(self, target: Target) -> Choice | None:
        """Grouped products want the sentences in the order of their matrices."""
        return self._choice(target) if self.product is not gathered else None

    def project(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor | None:
        """{Q,K,V} W of Eqs. 3 and 6."""
        return self._times_matrix(x_BTD, target) if point.site in self.sites else None

    def project_memory(self, memory_BSD: Tensor, target: Target) -> Tensor | None:
        """{K,V} W in cross-attention, the same in all layers."""
        return self._times_matrix(memory_BSD, target) if Site.DEC_CROSS in self.sites else None

    def merge(self, point: Point, z_BTD: Tensor, target: Target) -> Tensor | None:
        """z W^T of Eqs. 5 and 7."""
        if point.site not in self.sites:
            return None
        return self.product(z_BTD, target.cast(self.matrix_LDD, z_BTD).mT, self._choice(target))

    def merge_matrices(self, point: Point, z_BTD: Tensor, target: Target) -> ByLanguage | None:
        """W itself: a linear layer multiplies with the transpose of its weight."""
        if point.site not in self.sites or self.product is gathered:
            return None
        return ByLanguage(target.cast(self.matrix_LDD, z_BTD), self._choice(target))

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """The matrices."""
        return {"laa": self.matrix_LDD}

    def _times_matrix(self, x_BTD: Tensor, target: Target) -> Tensor:
        return self.product(x_BTD, target.cast(self.matrix_LDD, x_BTD), self._choice(target))

    def _choice(self, target: Target) -> Choice:
        return target.language


def language_matrices(dimensions: Dimensions, gain: float = 1.0) -> nn.Parameter:
    """A D x D matrix for each language, each drawn as a linear layer's (Xavier, uniform)."""
    matrix_LDD = nn.Parameter(torch.empty(dimensions.num_languages, dimensions.width, dimensions.width))
    for matrix_DD in matrix_LDD.detach():
        nn.init.xavier_uniform_(matrix_DD, gain)
    return matrix_LDD
