"""The matrix W of each language in LAA, adapters and LALT: a full matrix, or the product of two thin factors.

A full matrix has D² parameters. With `rank: R` it is W = U V^T, where U and V are D x R, so a language has 2 D R
parameters. Products are computed as (x U) V^T, and no W is ever computed in training and decoding. U starts at zero and
V at random values, so W starts at zero. (If both were zero, neither would get a gradient.)

Shape letters: B sentences, T tokens, D model width, L languages, R rank.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from manyglot.errors import SettingsError
from manyglot.model.guidance.base import (
    GuidanceMethod,
    MethodSettings,
    ModelDimensions,
    SitedSettings,
    TargetLanguages,
)
from manyglot.model.guidance.language_matmul import LanguageGroups, LanguageMatmul, gathered_matmul, language_matmul


class RankedSettings(SitedSettings):
    """Base class of the settings of methods whose matrices may have a low rank."""

    rank: int | None = Field(None, ge=1, le=65536)
    """Rank r of the matrices: each is U V^T, where U and V have r columns, so that a language has 2 · width · r
    parameters instead of width². For models with hundreds of languages. null: full matrices."""

    def check_width(self, width: int) -> None:
        """Raise a SettingsError unless the rank is less than the width."""
        if self.rank is not None and self.rank >= width:
            raise SettingsError(
                f"guidance.{self.method}.rank should be less than model.width ({width}), got {self.rank}: a full "
                f"matrix is smaller then. Lower the rank, or set it to null."
            )


class LanguageMatrixMethod(GuidanceMethod):
    """Base class of the methods that multiply states by a matrix W per language."""

    def __init__(
        self, settings: MethodSettings, dimensions: ModelDimensions, gain: float = 1.0, rank: int | None = None
    ) -> None:
        super().__init__(settings, dimensions)
        self.matmul: LanguageMatmul = language_matmul
        self.rank = rank
        if rank is None:
            self.matrix_LDD = init_language_matrices(dimensions, gain)
        else:
            shape_LDR = dimensions.num_languages, dimensions.width, rank
            self.left_LDR = nn.Parameter(torch.zeros(shape_LDR))
            self.right_LDR = nn.Parameter(torch.randn(shape_LDR) / rank**0.5)

    def groups_to_sort_by(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """Sort by the language of the matrices, as `grouped_matmul` requires."""
        return self._matrix_groups(target_languages) if self.matmul is not gathered_matmul else None

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """Set W to zero. Of a low-rank matrix, only U is set, so that it can learn again."""
        (self.matrix_LDD if self.rank is None else self.left_LDR).zero_()

    def matmul_language(self, x_BTD: Tensor, target_languages: TargetLanguages, *, transposed: bool = False) -> Tensor:
        """Return x W, or x W^T, with the matrix of each sentence's language."""
        groups = self._matrix_groups(target_languages)
        if self.rank is None:
            matrix_LDD = target_languages.cast_table(self.matrix_LDD, x_BTD)
            return self.matmul(x_BTD, matrix_LDD.mT if transposed else matrix_LDD, groups)
        factors = self.left_LDR, self.right_LDR
        first_LDR, last_LDR = (
            target_languages.cast_factor(factor_LDR, x_BTD) for factor_LDR in (factors[::-1] if transposed else factors)
        )
        return self.matmul(self.matmul(x_BTD, first_LDR, groups), last_LDR.mT, groups)

    def language_matrices(self) -> Tensor:
        """Return W of all languages, for analysis: U and V are not unique, their product is."""
        return self.matrix_LDD if self.rank is None else self.left_LDR @ self.right_LDR.mT

    def _matrix_groups(self, target_languages: TargetLanguages) -> LanguageGroups:
        """Return the rows grouped by the language whose matrix they use."""
        return target_languages.groups


def init_language_matrices(dimensions: ModelDimensions, gain: float = 1.0) -> nn.Parameter:
    """Create a D x D matrix per language, each initialized like a linear layer (Xavier uniform)."""
    matrix_LDD = nn.Parameter(torch.empty(dimensions.num_languages, dimensions.width, dimensions.width))
    for matrix_DD in matrix_LDD.detach():
        nn.init.xavier_uniform_(matrix_DD, gain)
    return matrix_LDD
