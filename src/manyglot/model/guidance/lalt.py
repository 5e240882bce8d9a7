"""Language-aware linear transformation (LALT): one matrix for each target language between encoder and decoder.

The decoder sees H W instead of the encoder's output H (Zhang et al. 2020). With `residual` it sees H + H W, which
reaches the same functions but starts from the plain model.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from manyglot.model.guidance.adapter import LanguageLinear
from manyglot.model.guidance.base import Dimensions, MethodSettings, Point, Site, Target


class LALTSettings(MethodSettings):
    """One matrix for each target language between encoder and decoder (LALT)."""

    method: Literal["lalt"] = "lalt"
    """The name of the method."""
    residual: bool = False
    """H + H W, starting from W = 0, instead of the original's H W, starting from a random W."""


class LALT(LanguageLinear):
    """H W on the encoder's output."""

    settings_type: ClassVar = LALTSettings

    def __init__(self, settings: LALTSettings, dimensions: Dimensions) -> None:
        super().__init__(settings, dimensions, settings.residual)

    @property
    def in_encoder(self) -> bool:
        """No, behind it."""
        return False

    def enter(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        """Transform the encoder's output."""
        return self.map(x_BTD, target) if point.site == Site.MEMORY else x_BTD

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """The matrices."""
        return {"lalt": self.matrix_LDD}
