"""Multi-head attention, with the guidance hooks `projection_term` and `output_term` inside.

Shape letters: B rows, T positions, D model width.
"""

from __future__ import annotations

from torch import nn

from manyglot.model.executor import Executor
from manyglot.model.guidance.base import HookPoint
from manyglot.model.sublayer import SublayerInput, SublayerOutput


class MultiHeadAttention(nn.Module):
    """The four projections of an attention. Heads are blocks of neighbouring columns."""

    def __init__(self, point: HookPoint, width: int, num_heads: int) -> None:
        super().__init__()
        self.point, self.num_heads = point, num_heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        for projection in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)  # as one matrix of three times the width
        nn.init.xavier_uniform_(self.output.weight)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.zeros_(projection.bias)


class SelfAttention(MultiHeadAttention):
    """Each position attends to its own sentence: in the decoder, to the positions up to its own."""

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerOutput:
        """softmax(q k^T / sqrt(K)) v W^O, where guidance adds a term to q, k and v and one to the output."""
        term_BTD = executor.guidance.projection_term(self.point, x.guidance_input, executor.target_languages)
        return executor.project_output(self, executor.attend_self(self, x.states, term_BTD))


class CrossAttention(MultiHeadAttention):
    """Each target position attends to the encoder's output, from which keys and values are projected."""

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerOutput:
        """softmax(q k^T / sqrt(K)) v W^O, where guidance adds a term to q and one to the output."""
        term_BTD = executor.guidance.projection_term(self.point, x.guidance_input, executor.target_languages)
        return executor.project_output(self, executor.attend_cross(self, x.states, term_BTD))
