"""Encoder and decoder layers: sub-layers with residual and norm, and the hooks `enter`, `norm` and `leave` around them.

Shape letters: B sentences, T target positions, S source positions, D model width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from manyglot.config.settings import Settings
from manyglot.model.attention import Attention, Memory
from manyglot.model.cache import LayerCache
from manyglot.model.guidance.base import Guidance, Point, Site, Target
from manyglot.model.operations import Branch, Fork, Norm, Sight, add_norm, as_states, feed_forward
from manyglot.model.slots import SlotLayer


class ModelSettings(Settings):
    """The size and shape of the Transformer; the defaults are the paper's base model."""

    width: int = Field(512, ge=2, le=65536)
    """Width of the embeddings and the hidden states (d)."""
    ffn_width: int = Field(2048, ge=1, le=262144)
    """Width inside the feed-forward sub-layers."""
    num_heads: int = Field(8, ge=1, le=1024)
    """Attention heads; they share the width."""
    num_encoder_layers: int = Field(6, ge=1, le=1000)
    """Depth of the encoder."""
    num_decoder_layers: int = Field(6, ge=1, le=1000)
    """Depth of the decoder."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """On the embeddings and on what each sub-layer adds."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after the residual (the paper) or before the sub-layer (easier to train when deep)."""
    free_layer: int | None = Field(None, ge=1)
    """The encoder layer, from 1, whose self-attention has no residual connection: what it hands on is tied less to the
    places of the source's words, which may help directions without training (Liu et al., 2021). null: none."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> ModelSettings:
        if self.width % self.num_heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of num_heads {self.num_heads}.")
        return self

    @model_validator(mode="after")
    def _has_free_layer(self) -> ModelSettings:
        if self.free_layer is not None and self.free_layer > self.num_encoder_layers:
            raise ValueError(f"free_layer {self.free_layer} must be one of the encoder's {self.num_encoder_layers}.")
        return self


class SubLayer(nn.Module):
    """Residual and norm around a function: LN(x + f(x)) in a post-norm model, x + f(LN(x)) in a pre-norm one.

    In a free layer, it is LN(f(x)) and f(LN(x)).
    """

    def __init__(self, point: Point, settings: ModelSettings) -> None:
        super().__init__()
        self.point, self.post_norm = point, settings.norm == "post"
        self.free = settings.free_layer is not None and point == Point(Site.ENC_SELF, settings.free_layer - 1)
        self.norm = nn.LayerNorm(settings.width)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, states: Fork, function: Callable[[Fork], Branch], guidance: Guidance, target: Target) -> Fork:
        """Apply the function between the hooks."""
        states = _unless_same(guidance.enter(self.point, states.past, target), states)
        past_BTD = torch.zeros_like(states.past) if self.free else states.past
        norm = Norm(self.norm, guidance.norm(self.point), target)
        if self.post_norm:
            states = add_norm(past_BTD, function(states), norm, self.dropout)
        else:
            y_BTD = function(Fork.of(as_states(norm.of(states.through), states.through))).total()
            states = Fork.of(past_BTD + self.dropout(y_BTD))
        return _unless_same(guidance.leave(self.point, states.past, target), states)


def _unless_same(x: Tensor, states: Fork) -> Fork:
    """The states, or what a hook made of them, in their type: in another one there are no kernels."""
    return states if x is states.past else Fork.of(x.to(states.past.dtype))


class FeedForward(nn.Module):
    """relu(x W1 + b1) W2 + b2."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.inner = nn.Linear(settings.width, settings.ffn_width)
        self.outer = nn.Linear(settings.ffn_width, settings.width)
        for projection in (self.inner, self.outer):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, states: Fork) -> Branch:
        """Each position on its own."""
        return feed_forward(states.through, self.inner, self.outer)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.attention = Attention(Point(Site.ENC_SELF, layer), settings.width, settings.num_heads)
        self.attention_sublayer = SubLayer(Point(Site.ENC_SELF, layer), settings)
        self.ffn = FeedForward(settings)
        self.ffn_sublayer = SubLayer(Point(Site.ENC_FFN, layer), settings)

    def forward(
        self, states: Fork, mask: Tensor | None, guidance: Guidance, target: Target, sight: Sight | None = None
    ) -> Fork:
        """One layer up."""

        def attend(x: Fork) -> Branch:
            y: Branch = self.attention(x, guidance, target, mask=mask, sight=sight)
            return y

        states = self.attention_sublayer(states, attend, guidance, target)
        states = self.ffn_sublayer(states, self.ffn, guidance, target)
        return states


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.self_attention = Attention(Point(Site.DEC_SELF, layer), settings.width, settings.num_heads)
        self.self_sublayer = SubLayer(Point(Site.DEC_SELF, layer), settings)
        self.cross_attention = Attention(Point(Site.DEC_CROSS, layer), settings.width, settings.num_heads)
        self.cross_sublayer = SubLayer(Point(Site.DEC_CROSS, layer), settings)
        self.ffn = FeedForward(settings)
        self.ffn_sublayer = SubLayer(Point(Site.DEC_FFN, layer), settings)

    def forward(
        self,
        states: Fork,
        memory: Memory | None,
        guidance: Guidance,
        target: Target,
        cache: LayerCache | SlotLayer | None,
        sights: tuple[Sight, Sight] | None = None,
    ) -> Fork:
        """One layer up; packed sentences have a sight for each of the attentions."""
        self_sight, cross_sight = (None, None) if sights is None else sights
        self_cache = cache.self_attention if cache is not None else None
        cross_cache = cache.cross_attention if cache is not None else None

        def attend_self(x: Fork) -> Branch:
            y: Branch = self.self_attention(x, guidance, target, causal=True, cache=self_cache, sight=self_sight)
            return y

        def attend_cross(x: Fork) -> Branch:
            y: Branch = self.cross_attention(x, guidance, target, memory=memory, cache=cross_cache, sight=cross_sight)
            return y

        states = self.self_sublayer(states, attend_self, guidance, target)
        states = self.cross_sublayer(states, attend_cross, guidance, target)
        states = self.ffn_sublayer(states, self.ffn, guidance, target)
        return states
