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

from pydantic import Field, model_validator
from torch import Tensor

from manyglot.model.guidance.base import HookPoint, ModelDimensions, Site, TargetLanguages
from manyglot.model.guidance.language_matmul import LanguageMatrices, gathered_matmul
from manyglot.model.guidance.language_matrices import LanguageMatrixMethod, RankedSettings


class LAASettings(RankedSettings):
    """Language-aware multi-head attention (LAA): one matrix per language in the attention."""

    possible_sites: ClassVar = (Site.ENC_SELF, Site.DEC_SELF, Site.DEC_CROSS)
    method: Literal["laa"] = "laa"
    """The name of the method."""
    sites: tuple[Site, ...] = (Site.DEC_SELF,)
    """The attentions that use the matrices: enc.self, dec.self, dec.cross."""
    init_gain: float = Field(0.0, ge=0, le=10)
    """Gain of the Xavier initialization of the matrices; 1 in the paper. With 0, all matrices start at zero and become
    different during training, which is better in zero-shot directions."""

    @model_validator(mode="after")
    def _rank_needs_zero_gain(self) -> LAASettings:
        if self.rank is not None and self.init_gain:
            raise ValueError(
                f"rank: {self.rank} needs init_gain: 0, because matrices of low rank start at zero. Remove one of them."
            )
        return self


class LAA(LanguageMatrixMethod):
    """{Q,K,V} (W^{Q,K,V} + W) and z (W^O + W^T), computed by adding {Q,K,V} W and z W^T."""

    settings_type: ClassVar = LAASettings

    def __init__(self, settings: LAASettings, dimensions: ModelDimensions) -> None:
        super().__init__(settings, dimensions, settings.init_gain, settings.rank)
        self.sites = settings.sites

    def qkv_term(self, point: HookPoint, x_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return {Q,K,V} W of Eqs. 3 and 6."""
        return self.matmul_language(x_BTD, target_languages) if point.site in self.sites else None

    def memory_kv_term(self, memory_BSD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return {K,V} W of cross-attention, the same in all layers."""
        return self.matmul_language(memory_BSD, target_languages) if Site.DEC_CROSS in self.sites else None

    def output_term(self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages) -> Tensor | None:
        """Return z W^T of Eqs. 5 and 7."""
        return self.matmul_language(z_BTD, target_languages, transposed=True) if point.site in self.sites else None

    def output_term_matrices(
        self, point: HookPoint, z_BTD: Tensor, target_languages: TargetLanguages
    ) -> LanguageMatrices | None:
        """Return W itself, because a linear layer multiplies by the transpose of its weight; None for low rank."""
        if point.site not in self.sites or self.matmul is gathered_matmul or self.rank is not None:
            return None
        return LanguageMatrices(
            target_languages.cast_table(self.matrix_LDD, z_BTD), self._matrix_groups(target_languages)
        )

    def language_representations(self, tag_embedding_LD: Tensor) -> dict[str, Tensor]:
        """Return the matrices."""
        return {"laa": self.language_matrices()}
