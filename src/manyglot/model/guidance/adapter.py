"""Monolingual adapters: one matrix per language on the output of a sub-layer, shared by all layers and both stacks.

x becomes x + x W, where W belongs to the target language. By default x is the output of the sub-layer before the
residual is added, as in Houlsby et al. (2019). W then folds into the last projection of the sub-layer, so the model can
be exported.

The paper omits the bottleneck and the activation of the original (Philip et al. 2020) and does not specify the position
or the residual. In its recipes both follow the original: with `placement: after_residual`, the adapter comes after the
feed-forward sub-layer (and its norm in a post-norm model).

With `rank`, W is a product of two thin matrices. This brings the bottleneck back, but not the activation.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import model_validator
from torch import Tensor

from manyglot.model.guidance.base import HookPoint, MethodSettings, ModelDimensions, Site, TargetLanguages
from manyglot.model.guidance.language_matrices import LanguageMatrixMethod, RankedSettings


class AdapterSettings(RankedSettings):
    """Monolingual adapters: one matrix per language on the output of a sub-layer, shared by all layers."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.ENC_FFN, Site.DEC_SELF, Site.DEC_CROSS, Site.DEC_FFN)
    method: Literal["adapter"] = "adapter"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_FFN,)
    """The sub-layers whose output is adapted: usually enc.ffn, dec.ffn or both."""
    residual: bool = True
    """true: x + x W, with W initialized to 0. false: x W, with a random W."""
    placement: Literal["after_residual", "before_residual"] = "before_residual"
    """What x is. before_residual: the output of the sub-layer alone, so that the adapter can be exported.
    after_residual: the states after the residual connection of the sub-layer and, in a post-norm model, its norm."""

    @model_validator(mode="after")
    def _rank_needs_residual(self) -> AdapterSettings:
        if self.rank is not None and not self.residual:
            raise ValueError(
                f"rank: {self.rank} needs residual: true, because x W with a matrix of low rank loses most of x. "
                f"Remove one of them."
            )
        return self


class LanguageLinear(LanguageMatrixMethod):
    """Base class of the methods that multiply states by a matrix per language, with or without a residual."""

    def __init__(
        self, settings: MethodSettings, dimensions: ModelDimensions, residual: bool, rank: int | None = None
    ) -> None:
        super().__init__(settings, dimensions, rank=rank)
        self.residual = residual
        if residual:
            self.reset_to_identity()

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """Set W to zero if there is a residual connection, otherwise to the identity."""
        super().reset_to_identity()
        if not self.residual:
            self.matrix_LDD.diagonal(dim1=1, dim2=2).fill_(1)

    def transform_states(self, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Return x + x W, or x W without a residual."""
        y_BTD = self.matmul_language(x_BTD, target_languages)
        return x_BTD + y_BTD if self.residual else y_BTD

    def change_of_states(self, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Return what `transform_states` adds to x."""
        y_BTD = self.matmul_language(x_BTD, target_languages)
        return y_BTD if self.residual else y_BTD - x_BTD


class Adapter(LanguageLinear):
    """x + x W on the output of the sub-layers, before or after the residual connection."""

    settings_type: ClassVar = AdapterSettings

    def __init__(self, settings: AdapterSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions, settings.residual, settings.rank)
        self.sites, self.is_before_residual = settings.sites, settings.placement == "before_residual"
        self.sublayer_output_sites = frozenset(self.sites) if self.is_before_residual else frozenset()

    def sublayer_output_term(self, point: HookPoint, y_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Adapt the output of the sub-layer, if the adapter comes before the residual."""
        return self.change_of_states(y_BTD, target_languages) if point.site in self.sublayer_output_sites else None

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Adapt the states after the sub-layer, if the adapter comes after the residual."""
        if self.is_before_residual or point.site not in self.sites:
            return x_BTD
        return self.transform_states(x_BTD, target_languages)

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the matrices."""
        return {"adapter": self.language_matrices()}
