"""Language-aware multi-head attention (LAA): one matrix per language inside the attention, Eqs. 3-7.

The matrix W of the target language is added to the projections of query, key and value, and its transpose to the output
projection. Heads are blocks of adjacent columns, so adding W adds W_i to each head. One set of matrices serves all
layers, self- and cross-attention, encoder and decoder; the target language always selects the matrix.

The products of all sentences in a language are computed together. Tests and benchmarks may set `LAA.matmul` to
`gathered_matmul`, the batched form of Eqs. 6-7.

Shape letters: B sentences, T tokens, D model width, L languages.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from manyglot.model.guidance.base import (
    GuidanceMethod,
    HookPoint,
    ModelDimensions,
    Site,
    SitedSettings,
    TargetLanguages,
)
from manyglot.model.guidance.language_matmul import (
    LanguageGroups,
    LanguageMatmul,
    LanguageMatrices,
    gathered_matmul,
    language_matmul,
)


class LAASettings(SitedSettings):
    """Language-aware multi-head attention (LAA): one matrix per language in the attention."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.DEC_SELF, Site.DEC_CROSS)
    method: Literal["laa"] = "laa"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_SELF,)
    """The attentions that use the matrices: enc.self, dec.self, dec.cross."""
    init_gain: float = Field(0.0, ge=0, le=10)
    """Gain of the Xavier initialization of the matrices; 1 in the paper. With 0, all matrices start at zero and become
    different during training, which is better in zero-shot directions."""


class LAA(GuidanceMethod):
    """{Q,K,V} (W^{Q,K,V} + W) and z (W^O + W^T), computed by adding {Q,K,V} W and z W^T."""

    settings_type: ClassVar = LAASettings

    def __init__(self, settings: LAASettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions)
        self.sites = settings.sites
        self.matmul: LanguageMatmul = language_matmul
        self.matrix_LDD = init_language_matrices(dimensions, settings.init_gain)

    def groups_to_sort_by(self, target_languages: TargetLanguages) -> LanguageGroups | None:
        """Sort by the language of the matrices, as `grouped_matmul` requires."""
        return self._matrix_groups(target_languages) if self.matmul is not gathered_matmul else None

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return {Q,K,V} W of Eqs. 3 and 6."""
        return self._matmul_language(x_BTD, target_languages) if point.site in self.sites else None

    def memory_kv_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return {K,V} W of cross-attention, the same in all layers."""
        return self._matmul_language(memory_BSD, target_languages) if Site.DEC_CROSS in self.sites else None

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return z W^T of Eqs. 5 and 7."""
        if point.site not in self.sites:
            return None
        return self.matmul(
            z_BTD, target_languages.cast_table(self.matrix_LDD, z_BTD).mT, self._matrix_groups(target_languages)
        )

    def output_term_matrices(
        self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages
    ) -> LanguageMatrices | None:
        """Return W itself, because a linear layer multiplies by the transpose of its weight."""
        if point.site not in self.sites or self.matmul is gathered_matmul:
            return None
        return LanguageMatrices(
            target_languages.cast_table(self.matrix_LDD, z_BTD), self._matrix_groups(target_languages)
        )

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the matrices."""
        return {"laa": self.matrix_LDD}

    def _matmul_language(self, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor:
        return self.matmul(
            x_BTD, target_languages.cast_table(self.matrix_LDD, x_BTD), self._matrix_groups(target_languages)
        )

    def _matrix_groups(self, target_languages: TargetLanguages) -> LanguageGroups:
        return target_languages.groups


def init_language_matrices(dimensions: ModelDimensions, gain: float = 1.0) -> nn.Parameter:
    """Create a D x D matrix per language, each initialized like a linear layer (Xavier uniform)."""
    matrix_LDD = nn.Parameter(torch.empty(dimensions.num_languages, dimensions.width, dimensions.width))
    for matrix_DD in matrix_LDD.detach():
        nn.init.xavier_uniform_(matrix_DD, gain)
    return matrix_LDD
