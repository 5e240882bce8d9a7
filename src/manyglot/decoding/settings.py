"""The settings of a search. This module does not import torch, so that exported models can be used without it."""

from __future__ import annotations

from pydantic import Field

from manyglot.config.base_settings import Settings
from manyglot.config.precision import Precision

MAX_BATCH_HYPOTHESES = 1280
"""Maximum number of hypotheses per batch. Each one needs memory for the scores of the whole vocabulary."""


class DecodingSettings(Settings):
    """How to search for translations. The defaults are those of the paper."""

    beam_size: int = Field(5, ge=1, le=1000)
    """Number of hypotheses per sentence. 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=0, le=10)
    """Scores are divided by the output length to this power. 0 favors short outputs."""
    max_length: int = Field(200, ge=1, le=100_000)
    """Maximum number of subwords in an output."""
    max_length_factor: float = Field(4.0, gt=0, le=1000)
    """Limits an output to this many times the number of source tokens, plus ten. Longer outputs are degenerate."""
    max_batch_tokens: int = Field(4096, ge=1, le=2**24)
    """Batch size: the number of sentences times the longest source, not counting beams. Continuous batching on a GPU
    ignores it and uses the available memory."""
    precision: Precision = "auto"
    """auto uses bfloat16 on a GPU, and on a CPU with bfloat16 instructions if the model is at least 128 wide; otherwise
    float32. The scores of the best tokens are recomputed in float32."""
    temperature: float | None = Field(None, ge=1e-6, le=100)
    """Sample `beam_size` outputs instead of searching for the best. Values above 1 flatten the distribution, values
    below 1 sharpen it. null disables sampling."""
    top_k: int | None = Field(None, ge=1, le=2**22)
    """Sample only from this many of the most probable tokens."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Sample only from the most probable tokens whose total probability reaches this share."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Random seed for sampled tokens and for the languages that guidance samples (random_laa)."""
    pivot: str | None = None
    """Translate into this language first, then from it into the target. Sources should not be in the pivot language.
    Evaluation pivots only in zero-shot directions, and validation never pivots."""

    def with_beam_size_and_scaled_batch(self, beam_size: int) -> DecodingSettings:
        """Return a copy with another beam size, and a batch size that keeps the number of hypotheses about equal."""
        return self.model_copy(
            update={
                "beam_size": beam_size,
                "max_batch_tokens": max(1, self.max_batch_tokens * self.beam_size // beam_size),
            }
        )

    @property
    def max_batch_sentences(self) -> int:
        """Maximum number of sentences per batch."""
        return max(1, MAX_BATCH_HYPOTHESES // self.beam_size)

    def max_output_length(self, source_length: int) -> int:
        """Return the maximum number of subwords in an output. The source length includes tags and end symbol."""
        return min(self.max_length, int(self.max_length_factor * source_length) + 10)
