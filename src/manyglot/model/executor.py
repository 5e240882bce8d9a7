"""The interface between the definition of the model and its executors.

The model (`transformer.py`, `layers.py`, `attention.py`) defines what is computed. An executor computes it for one
stack and one arrangement of the tokens: padded, packed without padding, cached step by step, or in the slots of a
static cache. The padded executor is the reference; tests compare the outputs and gradients of the others with it.

Shape letters: B rows, T and S positions, D model width. A row is a sentence, or a single token where sentences are
packed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from manyglot.model.fused_inference import add_norm, feed_forward
from manyglot.model.guidance.base import Guidance, HookPoint, TargetLanguages
from manyglot.model.positions import PositionTable
from manyglot.model.sublayer_io import GuidedNorm, SublayerInput, SublayerOutput


class AttentionParameters(Protocol):
    """The parameters of one multi-head attention."""

    point: HookPoint
    num_heads: int
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear


class FeedForwardParameters(Protocol):
    """The parameters and the activation function of one feed-forward sub-layer."""

    inner: nn.Linear
    outer: nn.Linear
    activation: Callable[[Tensor], Tensor]


class InputEmbedding(NamedTuple):
    """The input layer of one stack: dropout(LN(scale E[id] + position)), possibly without the norm."""

    table: nn.Embedding
    scale: float
    norm: nn.Module
    dropout: nn.Dropout
    position_table: PositionTable
    learned_positions: nn.Embedding | None


@dataclass(frozen=True)
class EncoderMemory:
    """The encoder's output as every cross-attention reads it."""

    states_BSD: Tensor
    kv_term_BSD: Tensor | None
    """The guidance term for the keys and values of every layer."""
    mask_B11S: Tensor | None = None
    """True at real tokens; packed sentences need no mask."""

    def select(self, rows_B: Tensor) -> EncoderMemory:
        """Select rows by index; a row may be repeated."""
        states_BSD, kv_term_BSD, mask_B11S = (
            None if x is None else x.index_select(0, rows_B)
            for x in (self.states_BSD, self.kv_term_BSD, self.mask_B11S)
        )
        assert states_BSD is not None
        return EncoderMemory(states_BSD, kv_term_BSD, mask_B11S)


class Executor(ABC):
    """Executes one stack. Subclasses decide which positions attend to which, and may fuse operations."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages) -> None:
        self.guidance, self.target_languages = guidance, target_languages

    @abstractmethod
    def position_embeddings(self, ids: Tensor, table: PositionTable) -> Tensor:
        """Return the position embedding of each token."""

    @abstractmethod
    def attend_self(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Return softmax(q k^T / sqrt(K)) v within each sentence, heads joined; the term is added to q, k and v."""

    @abstractmethod
    def attend_cross(self, attention: AttentionParameters, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """Like `attend_self`, but from each target sentence to its source; the term is added to q."""

    def embed(self, ids: Tensor, embeddings: InputEmbedding) -> Tensor:
        """Return dropout(LN(scale E[id] + position)). The layer norm is in the authors' code, not in the paper."""
        position = self.position_embeddings(ids, embeddings.position_table)
        x: Tensor = embeddings.dropout(embeddings.norm(embeddings.table(ids) * embeddings.scale + position))
        return x

    def project_output(self, attention: AttentionParameters, z_BTD: Tensor) -> SublayerOutput:
        """Return z W^O of Eqs. 5 and 7, with the guidance term."""
        term_BTD = self.guidance.output_term(attention.point, z_BTD, self.target_languages)
        return SublayerOutput(attention.output(z_BTD), None, term_BTD)

    def feed_forward(self, ffn: FeedForwardParameters, x: Tensor) -> SublayerOutput:
        """Return f(x W1 + b1) W2 + b2 with the activation function f."""
        return SublayerOutput(feed_forward(x, ffn.inner, ffn.outer, ffn.activation))

    def add_norm(
        self, residual: Tensor, output: SublayerOutput, norm: GuidedNorm, dropout: nn.Dropout
    ) -> SublayerInput:
        """Return LN(x + dropout(y))."""
        return SublayerInput.from_states(add_norm(residual, output, norm, dropout))

    def cast_to_states_dtype(self, y: Tensor, states: Tensor) -> Tensor:
        """Cast y to the data type of the hidden states it was computed from."""
        return y.to(states.dtype)


class BatchLayout(Protocol):
    """The arrangement of the tokens of a batch; it provides the executors of one forward pass."""

    sorted_by_language: bool
    """Whether the sentences are sorted by target language."""
    source_mask: Tensor | None
    """True at real source tokens, for cross-attention; packed sentences need no mask."""

    def encoder_executor(self, guidance: Guidance, target_languages: TargetLanguages) -> Executor:
        """Return the executor of the encoder."""

    def keep_source_sentences(self, encoded: Tensor) -> Tensor:
        """Return the part of the encoder's output that the decoder attends to."""

    def decoder_executor(
        self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory
    ) -> Executor:
        """Return the executor of the decoder."""
