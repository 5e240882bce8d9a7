"""Execution on padded batches: the reference for all other executors.

Shape letters: B sentences, T query positions, S key positions, D model width, H heads, K width of a head.
"""

from __future__ import annotations

from torch import Tensor

from manyglot.model.attention import attend, project_keys_and_values, project_queries
from manyglot.model.executor import AttentionParameters, EncoderMemory, Executor
from manyglot.model.guidance.base import Guidance, TargetLanguages
from manyglot.model.positions import PositionTable, first_positions
from manyglot.vocabulary.subword_model import PAD


class PaddedLayout:
    """One sentence per row, padded to the same length."""

    def __init__(self, source_BS: Tensor, *, sorted_by_language: bool = False) -> None:
        self.sorted_by_language = sorted_by_language
        self.source_mask: Tensor | None = (source_BS != PAD)[:, None, None, :]

    def encoder_executor(self, guidance: Guidance, target_languages: TargetLanguages) -> PaddedEncoderExecutor:
        """Every source position attends to the whole source."""
        return PaddedEncoderExecutor(guidance, target_languages, self.source_mask)

    def keep_source_sentences(self, encoded_BSD: Tensor) -> Tensor:
        """Return the encoder's whole output."""
        return encoded_BSD

    def decoder_executor(
        self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory
    ) -> PaddedDecoderExecutor:
        """Every target position attends to the positions up to its own and to the whole source."""
        return PaddedDecoderExecutor(guidance, target_languages, memory)


class _PaddedExecutor(Executor):
    def position_embeddings(self, ids_BT: Tensor, table: PositionTable) -> Tensor:
        """Number the positions from 0."""
        return first_positions(table, ids_BT.shape[1])


class PaddedEncoderExecutor(_PaddedExecutor):
    """The encoder on padded source sentences."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages, mask_B11S: Tensor | None) -> None:
        super().__init__(guidance, target_languages)
        self.mask_B11S = mask_B11S

    def attend_self(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to all real tokens of the sentence."""
        q_BHTK = project_queries(attention, x_BTD, term_BTD)
        k_BHSK, v_BHSK = project_keys_and_values(attention, x_BTD, term_BTD)
        return attend(q_BHTK, k_BHSK, v_BHSK, mask=self.mask_B11S)

    def attend_cross(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """An encoder has no cross-attention."""
        raise AssertionError("an encoder has no cross-attention")


class PaddedDecoderExecutor(_PaddedExecutor):
    """The decoder on padded target sentences, all positions at once."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory) -> None:
        super().__init__(guidance, target_languages)
        self.memory = memory

    def attend_self(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to the positions up to the current one."""
        q_BHTK = project_queries(attention, x_BTD, term_BTD)
        k_BHSK, v_BHSK = project_keys_and_values(attention, x_BTD, term_BTD)
        return attend(q_BHTK, k_BHSK, v_BHSK, is_causal=True)

    def attend_cross(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Attend to the real tokens of the source."""
        q_BHTK = project_queries(attention, x_BTD, term_BTD)
        k_BHSK, v_BHSK = project_keys_and_values(attention, self.memory.states_BSD, self.memory.kv_term_BSD)
        return attend(q_BHTK, k_BHSK, v_BHSK, mask=self.memory.mask_B11S)
