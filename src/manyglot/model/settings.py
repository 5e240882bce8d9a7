"""Settings of the Transformer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from manyglot.config.base_settings import Settings


class ModelSettings(Settings):
    """The size and shape of the Transformer; the defaults are the paper's base model."""

    width: int = Field(512, ge=2, le=65536)
    """Width of the embeddings and the hidden states (d)."""
    ffn_width: int = Field(2048, ge=1, le=262144)
    """Width inside the feed-forward sub-layers."""
    num_heads: int = Field(8, ge=1, le=1024)
    """Number of attention heads, among which the width is divided."""
    num_encoder_layers: int = Field(6, ge=1, le=1000)
    """Depth of the encoder."""
    num_decoder_layers: int = Field(6, ge=1, le=1000)
    """Depth of the decoder."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout on the embeddings and on the output of each sub-layer."""
    norm: Literal["post", "pre"] = "post"
    """Position of the layer norm. post: after the residual connection, as in the paper. pre: before the sub-layer,
    which makes deep models easier to train."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> ModelSettings:
        if self.width % self.num_heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of num_heads {self.num_heads}.")
        return self
