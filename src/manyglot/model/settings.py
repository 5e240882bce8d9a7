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

    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Activation function of the feed-forward sub-layers."""
    embedding_norm: bool = True
    """Whether a layer norm follows the sum of embedding and position."""
    scale_embeddings: bool = True
    """Whether the embeddings are multiplied by the square root of the width."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position embeddings. learned: a trained table for each of encoder and decoder."""
    max_positions: int | None = Field(None, ge=128, le=2**20)
    """Number of learned positions, which limits the tokens of a sentence on each side, tags and end symbol included."""
    position_offset: int = Field(0, ge=0, le=1024)
    """Number of the first sinusoidal position, such as 2 in models of fairseq."""
    output_bias: bool = False
    """Whether the output layer has a bias."""
    start_symbol: Literal["eos", "pad"] = "eos"
    """Symbol with which the decoder starts. pad: models of Marian."""
    source_tag: bool = False
    """Whether the source sequence begins with the tag of the source language, which must then be known."""

    @model_validator(mode="after")
    def _positions_fit_their_kind(self) -> ModelSettings:
        if self.positions == "learned" and self.max_positions is None:
            raise ValueError("positions: learned needs max_positions, the number of positions, such as 1024.")
        if self.positions == "learned" and self.position_offset:
            raise ValueError("position_offset is for positions: sinusoidal. Remove it.")
        if self.positions == "sinusoidal" and self.max_positions is not None:
            raise ValueError("max_positions is for positions: learned. Remove it.")
        return self

    @model_validator(mode="after")
    def _heads_divide_width(self) -> ModelSettings:
        if self.width % self.num_heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of num_heads {self.num_heads}.")
        return self
