"""LAA with matrices chosen at random (LAA^R): the paper's control for the parameters that LAA adds.

Each sentence of each forward pass takes the matrix of a language drawn uniformly, the same in all layers, beams and
steps, in training and in translation. The matrices belong to no language, so another method must tell the target.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from manyglot.model.guidance.base import Target
from manyglot.model.guidance.laa import LAA, LAASettings
from manyglot.model.guidance.products import Choice


class RandomLAASettings(LAASettings):
    """LAA whose matrices are chosen at random, the control for its parameters (LAA^R)."""

    method: Literal["random_laa"] = "random_laa"  # type: ignore[assignment]
    """The name of the method."""


class RandomLAA(LAA):
    """LAA by the drawn language instead of the target."""

    settings_type: ClassVar = RandomLAASettings
    draws = True
    tells_target: ClassVar = False
    excludes: ClassVar = {"laa": "it is laa with the languages taken away, to be compared with it"}

    def representations(self, tag_LD: Tensor) -> dict[str, Tensor]:
        """None: the matrices are of no language."""
        return {}

    def _choice(self, target: Target) -> Choice:
        assert target.drawn is not None, "Transformer.target draws"
        return target.drawn
