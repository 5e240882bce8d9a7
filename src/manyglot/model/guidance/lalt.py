"""Language-aware linear transformation (LALT): one matrix per target language between encoder and decoder.

The decoder reads H W instead of the encoder's output H (Zhang et al. 2020). With `residual` it reads H + H W, which can
represent the same functions but starts from the plain model.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from manyglot.model.guidance.adapter import LanguageLinear
from manyglot.model.guidance.base import HookPoint, MethodSettings, ModelDimensions, Site, TargetLanguages


class LALTSettings(MethodSettings):
    """Language-aware linear transformation (LALT): one matrix per target language between encoder and decoder."""

    method: Literal["lalt"] = "lalt"
    """The name of the method."""
    residual: bool = False
    """true: H + H W, with W initialized to 0. false: H W with a random W, as in Zhang et al. 2020."""


class LALT(LanguageLinear):
    """H W on the encoder's output."""

    settings_type: ClassVar = LALTSettings

    def __init__(self, settings: LALTSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions, settings.residual)

    @property
    def affects_encoder(self) -> bool:
        """False: the matrix is applied after the encoder."""
        return False

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        """Transform the encoder's output."""
        return self.transform_states(x_BTD, target_languages) if point.site == Site.MEMORY else x_BTD

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the matrices."""
        return {"lalt": self.language_matrices()}
