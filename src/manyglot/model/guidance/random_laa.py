"""LAA with randomly selected matrices (LAA^R): the paper's control for the parameters that LAA adds.

In training and in translation, every sentence uses the matrix of a uniformly sampled language. All layers, beams and
decoding steps share this language. The matrices carry no information about the target language, so another method must
convey it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from manyglot.model.guidance.base import TargetLanguages
from manyglot.model.guidance.laa import LAA, LAASettings
from manyglot.model.guidance.language_matmul import LanguageGroups


class RandomLAASettings(LAASettings):
    """LAA with randomly selected matrices (LAA^R), a control experiment for the parameters that LAA adds."""

    method: Literal["random_laa"] = "random_laa"  # type: ignore[assignment]
    """The name of the method."""


class RandomLAA(LAA):
    """LAA that selects its matrices by a random language instead of the target language."""

    settings_type: ClassVar = RandomLAASettings
    uses_random_language = True
    conveys_target_language: ClassVar = False
    incompatible_methods: ClassVar = {"laa": "random_laa is the control experiment for laa"}

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return nothing, because the matrices belong to no language."""
        return {}

    def _matrix_groups(self, target_languages: TargetLanguages) -> LanguageGroups:
        assert target_languages.random_groups is not None, "Transformer.prepare_target_languages samples them"
        return target_languages.random_groups
