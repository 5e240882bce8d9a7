"""A method that acts at every site through every hook, so that the seam itself is under test."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from manyglot.model.guidance.base import Dimensions, Method, MethodSettings, NormTerms, Point, Site, Target
from manyglot.vocabulary.vocabulary import Tags


class EverywhereSettings(MethodSettings):
    method: Literal["everywhere"] = "everywhere"


class Everywhere(Method):
    """One vector and one matrix per language, used in all hooks, different at each site and layer."""

    settings_type: ClassVar = EverywhereSettings

    def __init__(self, settings: EverywhereSettings, dimensions: Dimensions) -> None:
        super().__init__(settings, dimensions)
        self.vector_LD = nn.Parameter(0.3 * torch.randn(dimensions.num_languages, dimensions.width))
        self.matrix_LDD = nn.Parameter(0.1 * torch.randn(dimensions.num_languages, dimensions.width, dimensions.width))
        self.first_tag = dimensions.first_tag

    def tag(self, language: int) -> Tags:
        return Tags(source=(self.first_tag + language,), target=(self.first_tag + language,))

    def enter(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        return x_BTD + self._weight(point) * self.vector_LD[target.lang_B][:, None]

    def project(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor | None:
        return self._weight(point) * x_BTD @ self.matrix_LDD[target.lang_B]

    def project_memory(self, memory_BSD: Tensor, target: Target) -> Tensor | None:
        return 0.7 * memory_BSD @ self.matrix_LDD[target.lang_B]

    def merge(self, point: Point, z_BTD: Tensor, target: Target) -> Tensor | None:
        return self._weight(point) * z_BTD @ self.matrix_LDD[target.lang_B].mT

    def norm(self, point: Point) -> NormTerms | None:
        return NormTerms(self._weight(point) * self.vector_LD, -self.vector_LD)

    def leave(self, point: Point, x_BTD: Tensor, target: Target) -> Tensor:
        return x_BTD + self._weight(point) * self.vector_LD[target.lang_B][:, None].flip(-1)

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        return {"everywhere": self.matrix_LDD}

    @staticmethod
    def _weight(point: Point) -> float:
        return 1 + list(Site).index(point.site) / 10 + point.layer / 20
