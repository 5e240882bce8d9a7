"""Monolingual adapters: one matrix for each language after a sub-layer, shared by all layers and both stacks.

x becomes x + x W, where W belongs to the target language. The paper leaves out the bottleneck and the activation of the
original (Philip et al. 2020) and gives neither the place nor the residual; ours are the original's: after the
feed-forward sub-layer (and its norm, in a post-norm model), with a residual.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from manyglot.model.guidance.base import (
    GuidanceMethod,
    HookPoint,
    MethodSettings,
    ModelDimensions,
    Site,
    SitedSettings,
    TargetLanguages,
)
from manyglot.model.guidance.laa import init_language_matrices
from manyglot.model.guidance.language_matmul import LanguageGroups, language_matmul


class AdapterSettings(SitedSettings):
    """One matrix for each language after a sub-layer, shared by all layers (monolingual adapters)."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.ENC_FFN, Site.DEC_SELF, Site.DEC_CROSS, Site.DEC_FFN)
    method: Literal["adapter"] = "adapter"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_FFN,)
    """The sub-layers whose output is adapted: enc.ffn for the encoder, dec.ffn for the decoder, both, or others."""
    residual: bool = True
    """x + x W, starting from W = 0; or x W, starting from a random W."""


class LanguageLinear(GuidanceMethod):
    """Base of the methods that multiply states by the matrix of the target language, with or without a residual."""

    def __init__(self, settings: MethodSettings, dimensions: ModelDimensions, residual: bool) -> None:
        super().__init__(settings, dimensions)
        self.residual = residual
        self.matrix_LDD = init_language_matrices(dimensions)
        if residual:
            nn.init.zeros_(self.matrix_LDD)

    def preferred_grouping(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """Grouped products want the sentences in the order of their matrices."""
        return target_languages.groups

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """x W is x when W is the identity, x + x W when it is zero."""
        self.matrix_LDD.zero_()
        if not self.residual:
            self.matrix_LDD.diagonal(dim1=1, dim2=2).fill_(1)

    def transform_states(self, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """x + x W, or x W."""
        y_BTD = language_matmul(x_BTD, target_languages.cast_table(self.matrix_LDD, x_BTD), target_languages.groups)
        return x_BTD + y_BTD if self.residual else y_BTD


class Adapter(LanguageLinear):
    """x + x W on what leaves the sub-layers."""

    settings_type: ClassVar = AdapterSettings

    def __init__(self, settings: AdapterSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions, settings.residual)
        self.sites = settings.sites

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Adapt what leaves the sub-layer."""
        return self.transform_states(x_BTD, target_languages) if point.site in self.sites else x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """The matrices."""
        return {"adapter": self.matrix_LDD}
