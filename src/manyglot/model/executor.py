"""How the operations of a Transformer are executed: the interface between the model's definition and its executors.

The model (`transformer.py`, `layers.py`, `attention.py`) states what is computed. An executor computes it for one stack
and one arrangement of the tokens: padded, packed without padding, cached step by step, or in the slots of a static
cache. The padded executor defines the results; tests hold the others to it, outputs and gradients.

Shape letters: B rows, T and S positions, D model width. A row is a sentence, or a single token where sentences are
packed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from manyglot.model.guidance.base import Guidance, HookPoint, TargetLanguages
from manyglot.model.operations import add_norm, feed_forward
from manyglot.model.sublayer import GuidedNorm, SublayerInput, SublayerOutput


class AttentionWeights(Protocol):
    """The parameters of one multi-head attention."""

    point: HookPoint
    num_heads: int
    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear


class InputEmbedding(NamedTuple):
    """The input layer of one stack: dropout(LN(scale E[id] + position))."""

    table: nn.Embedding
    scale: float
    norm: nn.LayerNorm
    dropout: nn.Dropout
    position_table: Callable[[int], Tensor]
    """Position embeddings for at least this many positions."""


@dataclass(frozen=True)
class EncoderMemory:
    """The encoder's output as every cross-attention reads it."""

    states_BSD: Tensor
    term_BSD: Tensor | None
    """What guidance adds to the keys and values of every layer."""
    mask_B11S: Tensor | None = None
    """True at real tokens; packed sentences need no mask."""

    def select(self, rows_B: Tensor) -> EncoderMemory:
        """The memory of some rows, in the given order."""
        states_BSD, term_BSD, mask_B11S = (
            None if x is None else x.index_select(0, rows_B) for x in (self.states_BSD, self.term_BSD, self.mask_B11S)
        )
        assert states_BSD is not None
        return EncoderMemory(states_BSD, term_BSD, mask_B11S)


class Executor(ABC):
    """Executes one stack. Subclasses decide which positions attend to which, and may fuse operations."""

    def __init__(self, guidance: Guidance, target_languages: TargetLanguages) -> None:
        self.guidance, self.target_languages = guidance, target_languages

    @abstractmethod
    def position_embeddings(self, ids: Tensor, table: Callable[[int], Tensor]) -> Tensor:
        """The position embedding of each token id."""

    @abstractmethod
    def attend_self(self, attention: AttentionWeights, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """softmax(q k^T / sqrt(K)) v within each sentence, heads side by side; the term is added to q, k and v."""

    @abstractmethod
    def attend_cross(self, attention: AttentionWeights, x_BTD: Tensor, term_BTD: Tensor | None) -> Tensor:
        """The same from each target sentence to its source; the term is added to q."""

    def embed(self, ids: Tensor, embeddings: InputEmbedding) -> Tensor:
        """dropout(LN(scale E[id] + position)). The layer norm is in the authors' code, not in the paper."""
        position = self.position_embeddings(ids, embeddings.position_table)
        x: Tensor = embeddings.dropout(embeddings.norm(embeddings.table(ids) * embeddings.scale + position))
        return x

    def project_output(self, attention: AttentionWeights, z_BTD: Tensor) -> SublayerOutput:
        """z W^O of Eqs. 5 and 7, with the term of guidance."""
        term_BTD = self.guidance.output_term(attention.point, z_BTD, self.target_languages)
        return SublayerOutput(attention.output(z_BTD), None, term_BTD)

    def feed_forward(self, x: Tensor, inner: nn.Linear, outer: nn.Linear) -> SublayerOutput:
        """relu(x W1 + b1) W2 + b2."""
        return SublayerOutput(feed_forward(x, inner, outer))

    def add_norm(
        self, residual: Tensor, output: SublayerOutput, norm: GuidedNorm, dropout: nn.Dropout
    ) -> SublayerInput:
        """LN(x + dropout(y))."""
        return SublayerInput.from_states(add_norm(residual, output, norm, dropout))

    def cast_to_states_dtype(self, y: Tensor, states: Tensor) -> Tensor:
        """y in the data type of the hidden states it was computed from."""
        return y.to(states.dtype)


class BatchLayout(Protocol):
    """How the tokens of a batch are arranged; it provides the executors of one forward pass."""

    sorted_by_language: bool
    """Whether the sentences are in the order of their target languages."""
    source_mask: Tensor | None
    """True at real source tokens, as cross-attention needs it; packed sentences need no mask."""

    def encoder(self, guidance: Guidance, target_languages: TargetLanguages) -> Executor:
        """The executor of the encoder."""

    def select_sources(self, encoded: Tensor) -> Tensor:
        """The part of the encoder's output that the decoder attends to."""

    def decoder(self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory) -> Executor:
        """The executor of the decoder."""
