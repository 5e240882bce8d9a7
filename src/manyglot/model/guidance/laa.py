"""Language-aware multi-head attention (LAA): one matrix for each language inside the attention, Eqs. 3-7.

The matrix W of the target language is added to the projections of query, key and value, and its transpose to the output
projection. Heads are blocks of neighbouring columns, so adding W at once is adding W_i to each head. One table serves
all layers, self- and cross-attention, encoder and decoder; it is always the target language that chooses.

Three implementations give the same: `reference` goes sentence by sentence and head by head as Eqs. 3 and 5 are written,
`gathered` is the batched form of Eqs. 6-7, `grouped` has one product for each language of the batch.

Shape letters: B sentences, T tokens, D model width, K width of a head, L languages.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from manyglot.model.guidance.base import Dimensions, Method, Point, Site, SitedSettings, Target
from manyglot.model.guidance.products import ByLanguage, Choice, Product, gathered, grouped, times


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
    implementation: Literal["auto", "reference", "gathered", "grouped"] = "auto"
    """How the products are computed; they are equal. grouped: one for each language of the batch; gathered: the paper's
    copy of a matrix for each sentence; reference: sentence by sentence, head by head; auto: grouped, but gathered on a
    GPU that does not compute in half precision."""


class LAA(Method):
    """{Q,K,V} (W^{Q,K,V} + W) and z (W^O + W^T), by adding {Q,K,V} W and z W^T."""

    settings_type: ClassVar = LAASettings

    def __init__(self, settings: LAASettings, dimensions: Dimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites, self.implementation = settings.sites, settings.implementation
        self.num_heads = dimensions.num_heads
        self.matrix_LDD = language_matrices(dimensions, settings.gain)

    def choice(self, target: Target) -> Choice | None:
        """Grouped products want the sentences in the order of their matrices."""
        return self._choice(target) if self.implementation in ("auto", "grouped") else None

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
        if self.implementation == "reference":
            return merge_by_head(z_BTD, self.matrix_LDD, self._choice(target), self.num_heads)
        return self._product(z_BTD, target.cast(self.matrix_LDD, z_BTD).mT, self._choice(target))

    def merge_matrices(self, point: Point, z_BTD: Tensor, target: Target) -> ByLanguage | None:
        """W itself: a linear layer multiplies with the transpose of its weight."""
        if point.site not in self.sites or self.implementation not in ("auto", "grouped"):
            return None
        return ByLanguage(target.cast(self.matrix_LDD, z_BTD), self._choice(target))

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """The matrices."""
        return {"laa": self.matrix_LDD}

    def _times_matrix(self, x_BTD: Tensor, target: Target) -> Tensor:
        if self.implementation == "reference":
            return project_by_head(x_BTD, self.matrix_LDD, self._choice(target), self.num_heads)
        return self._product(x_BTD, target.cast(self.matrix_LDD, x_BTD), self._choice(target))

    @property
    def _product(self) -> Product:
        return {"gathered": gathered, "grouped": grouped}.get(self.implementation, times)

    def _choice(self, target: Target) -> Choice:
        return target.language


def language_matrices(dimensions: Dimensions, gain: float = 1.0) -> nn.Parameter:
    """A D x D matrix for each language, each drawn as a linear layer's (Xavier, uniform)."""
    matrix_LDD = nn.Parameter(torch.empty(dimensions.num_languages, dimensions.width, dimensions.width))
    for matrix_DD in matrix_LDD.detach():
        nn.init.xavier_uniform_(matrix_DD, gain)
    return matrix_LDD


def project_by_head(x_BTD: Tensor, matrix_LDD: Tensor, choice: Choice, num_heads: int) -> Tensor:
    """x W_i of Eq. 3 for each head i, side by side, one sentence after the other."""
    matrices = matrix_LDD.unbind()
    return torch.stack(
        [
            torch.cat([x_TD @ head_DK for head_DK in matrices[language].chunk(num_heads, dim=1)], dim=1)
            for x_TD, language in zip(x_BTD, choice.index_B.tolist(), strict=True)
        ]
    )


def merge_by_head(z_BTD: Tensor, matrix_LDD: Tensor, choice: Choice, num_heads: int) -> Tensor:
    """The sum of z_i W_i^T of Eq. 5 over the heads i, one sentence after the other."""
    sentences, matrices = [], matrix_LDD.unbind()
    for z_TD, language in zip(z_BTD, choice.index_B.tolist(), strict=True):
        heads = zip(z_TD.chunk(num_heads, dim=1), matrices[language].chunk(num_heads, dim=1), strict=True)
        sentences.append(torch.stack([z_TK @ head_DK.T for z_TK, head_DK in heads]).sum(dim=0))
    return torch.stack(sentences)
