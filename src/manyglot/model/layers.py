"""Encoder and decoder layers: sub-layers with residual connection and layer norm, surrounded by guidance hooks."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.attention import CrossAttention, SelfAttention
from manyglot.model.executor import Executor
from manyglot.model.guidance.base import HookPoint, Site
from manyglot.model.settings import ModelSettings
from manyglot.model.sublayer_io import GuidedNorm, SublayerInput, SublayerOutput

SublayerFunction = Callable[[SublayerInput, Executor], SublayerOutput]
"""The function of a sub-layer: attention or feed-forward."""


class SubLayer(nn.Module):
    """Residual connection and layer norm: LN(x + f(x)) in a post-norm model, x + f(LN(x)) in a pre-norm one."""

    def __init__(self, point: HookPoint, settings: ModelSettings) -> None:
        super().__init__()
        self.point, self.post_norm = point, settings.norm == "post"
        self.norm = nn.LayerNorm(settings.width)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: SublayerInput, function: SublayerFunction, executor: Executor) -> SublayerInput:
        """Apply the function between the guidance hooks `pre_sublayer` and `post_sublayer`."""
        guidance, target_languages = executor.guidance, executor.target_languages
        x = x.with_hook_output(guidance.pre_sublayer(self.point, x.residual, target_languages))
        norm = GuidedNorm(self.norm, guidance.norm_terms(self.point), target_languages)
        if self.post_norm:
            output = self._add_guidance_term(function(x, executor), executor)
            x = executor.add_norm(x.residual, output, norm, self.dropout)
        else:
            normed = executor.cast_to_states_dtype(norm(x.states), x.states)
            output = self._add_guidance_term(function(SublayerInput.from_states(normed), executor), executor)
            x = SublayerInput.from_states(x.residual + self.dropout(output.total()))
        return x.with_hook_output(guidance.post_sublayer(self.point, x.residual, target_languages))

    def _add_guidance_term(self, output: SublayerOutput, executor: Executor) -> SublayerOutput:
        """Apply the guidance hook `sublayer_output_term` at its sites."""
        if self.point.site not in executor.guidance.sublayer_output_sites:
            return output
        term = executor.guidance.sublayer_output_term(self.point, output.total(), executor.target_languages)
        return output.with_term(term)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """f(x W1 + b1) W2 + b2 with the activation function f, at each position separately."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.inner = nn.Linear(settings.width, settings.ffn_width)
        self.outer = nn.Linear(settings.ffn_width, settings.width)
        self.activation = ACTIVATIONS[settings.activation]
        for projection in (self.inner, self.outer):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerOutput:
        """Return the output before the residual connection."""
        return executor.feed_forward(self, x.states)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.attention = SelfAttention(HookPoint(Site.ENC_SELF, layer), settings.width, settings.num_heads)
        self.attention_sublayer = SubLayer(HookPoint(Site.ENC_SELF, layer), settings)
        self.ffn = FeedForward(settings)
        self.ffn_sublayer = SubLayer(HookPoint(Site.ENC_FFN, layer), settings)

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerInput:
        """Apply the two sub-layers."""
        x = self.attention_sublayer(x, self.attention, executor)
        x = self.ffn_sublayer(x, self.ffn, executor)
        return x


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.self_attention = SelfAttention(HookPoint(Site.DEC_SELF, layer), settings.width, settings.num_heads)
        self.self_sublayer = SubLayer(HookPoint(Site.DEC_SELF, layer), settings)
        self.cross_attention = CrossAttention(HookPoint(Site.DEC_CROSS, layer), settings.width, settings.num_heads)
        self.cross_sublayer = SubLayer(HookPoint(Site.DEC_CROSS, layer), settings)
        self.ffn = FeedForward(settings)
        self.ffn_sublayer = SubLayer(HookPoint(Site.DEC_FFN, layer), settings)

    def forward(self, x: SublayerInput, executor: Executor) -> SublayerInput:
        """Apply the three sub-layers."""
        x = self.self_sublayer(x, self.self_attention, executor)
        x = self.cross_sublayer(x, self.cross_attention, executor)
        x = self.ffn_sublayer(x, self.ffn, executor)
        return x
