"""LAA with matrices chosen at random (LAA^R): the paper's control for the parameters that LAA adds.

Each sentence of each forward pass takes the matrix of a language drawn uniformly, the same in all layers, beams and
steps, in training and in translation. The matrices belong to no language, so another method must tell the target.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from manyglot.model.guidance.base import TargetLanguages
from manyglot.model.guidance.laa import LAA, LAASettings
from manyglot.model.guidance.language_matmul import LanguageGroups


class RandomLAASettings(LAASettings):
    """LAA whose matrices are chosen at random, the control for its parameters (LAA^R)."""

    method: Literal["random_laa"] = "random_laa"  # type: ignore[assignment]
    """The name of the method."""


class RandomLAA(LAA):
    """LAA by the drawn language instead of the target."""

    settings_type: ClassVar = RandomLAASettings
    uses_random_language = True
    conveys_target_language: ClassVar = False
    incompatible_methods: ClassVar = {"laa": "it is laa with the languages taken away, to be compared with it"}

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """None: the matrices are of no language."""
        return {}

    def _matrix_groups(self, target_languages: TargetLanguages) -> LanguageGroups:
        assert target_languages.random_groups is not None, "Transformer.target draws"
        return target_languages.random_groups
