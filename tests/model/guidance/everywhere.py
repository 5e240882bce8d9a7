"""A method that acts at every site through every hook, to test the interface itself."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from manyglot.model.guidance.base import (
    GuidanceMethod,
    HookPoint,
    MethodSettings,
    ModelDimensions,
    NormTerms,
    Site,
    TargetLanguages,
)
from manyglot.vocabulary.vocabulary import LanguageTags


class EverywhereSettings(MethodSettings):
    method: Literal["everywhere"] = "everywhere"


class Everywhere(GuidanceMethod):
    """One vector and one matrix per language, used in all hooks, different at each site and layer."""

    settings_type: ClassVar = EverywhereSettings
    sublayer_output_sites = frozenset(Site)

    def __init__(self, settings: EverywhereSettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        self.vector_LD = nn.Parameter(0.3 * torch.randn(dimensions.num_languages, dimensions.width))
        self.matrix_LDD = nn.Parameter(0.1 * torch.randn(dimensions.num_languages, dimensions.width, dimensions.width))
        self.first_tag_id = dimensions.first_tag_id

    def tags_for_language(self, language: int) -> LanguageTags:
        return LanguageTags(source=(self.first_tag_id + language,), target=(self.first_tag_id + language,))

    def pre_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        return x_BTD + self._weight(point) * self.vector_LD[target_languages.lang_B][:, None]

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        return self._weight(point) * x_BTD @ self.matrix_LDD[target_languages.lang_B]

    def memory_kv_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        return 0.7 * memory_BSD @ self.matrix_LDD[target_languages.lang_B]

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        return self._weight(point) * z_BTD @ self.matrix_LDD[target_languages.lang_B].mT

    def sublayer_output_term(self, point: HookPoint, y_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        return (
            self._weight(point) * y_BTD @ self.matrix_LDD[target_languages.lang_B].mT
            + 0.5 * self.vector_LD[target_languages.lang_B][:, None]
        )

    def norm_terms(self, point: HookPoint) -> NormTerms | None:
        return NormTerms(self._weight(point) * self.vector_LD, -self.vector_LD)

    def post_sublayer(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        return x_BTD + self._weight(point) * self.vector_LD[target_languages.lang_B][:, None].flip(-1)

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        return {"everywhere": self.matrix_LDD}

    @staticmethod
    def _weight(point: HookPoint) -> float:
        return 1 + list(Site).index(point.site) / 10 + point.layer / 20
