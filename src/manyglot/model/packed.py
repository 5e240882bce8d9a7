"""Execution on packed batches, as in training: sentences one after the other without padding.

To guidance every token is a row of its own, with the target language of its sentence. On a GPU in half precision, the
operations run as Triton kernels that take fewer passes over memory; anywhere else they run in plain PyTorch.

Shape letters: N tokens (queries), M tokens (keys), B sentences, T and S positions, D model width, C widths side by
side, H heads, K width of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model import kernels
from manyglot.model.executor import AttentionWeights, Embeddings, Executor, Memory
from manyglot.model.guidance.base import Guidance, Target
from manyglot.model.guidance.products import linear_by_language
from manyglot.model.half_precision import HalfPrecisionWeights
from manyglot.model.kernels.arguments import DropoutMask, PackedMask
from manyglot.model.layers import DecoderLayer
from manyglot.model.packing import PackedBatch, PackedSentences
from manyglot.model.padded import add_term, join_heads, split_heads
from manyglot.model.sublayer import GuidedNorm, SublayerInput, SublayerOutput
from manyglot.model.transformer import HiddenStates, Transformer
from manyglot.vocabulary.subwords import PAD


def packed_forward(model: Transformer, batch: PackedBatch, random_lang_B: Tensor | None = None) -> HiddenStates:
    """A forward pass over a packed batch; every token is a row of the hidden states, N1D."""
    layout = PackedLayout(model, batch)
    hidden: HiddenStates = model(batch.encoded.ids_N, batch.input.ids_N, batch.lang_B, layout, random_lang_B)
    return hidden


@dataclass
class KernelState:
    """What the kernels of one forward pass share."""

    dropout_seed: Tensor
    dtype: torch.dtype | None
    """Half precision where kernels apply, None elsewhere."""
    weights: HalfPrecisionWeights | None
    num_dropouts: int = 0

    @classmethod
    def prepare(cls, model: nn.Module, device: torch.device, adjacent: Sequence[nn.Linear]) -> KernelState:
        """Sample a dropout seed and cast the weights; those of the adjacent layers are laid out side by side."""
        seed = torch.randint(2**31 - 1, (1,), dtype=torch.int32, device=device)
        dtype, weights = kernels.kernel_dtype(seed), None
        sharded = any(type(parameter) is not nn.Parameter for parameter in model.parameters())
        if dtype is not None and not sharded:
            first = set(adjacent)
            weights = HalfPrecisionWeights([*adjacent, *(m for m in model.modules() if m not in first)], dtype)
        return cls(seed, dtype, weights)

    def dropout_mask(self, dropout: nn.Dropout) -> DropoutMask:
        """The mask of the next dropout of this pass; each one gets a number of its own."""
        self.num_dropouts += 1
        return DropoutMask(dropout.p if dropout.training else 0.0, self.dropout_seed, self.num_dropouts)

    def half(self, *weights: Tensor) -> Tensor:
        """The weights of adjacent layers in half precision, below one another."""
        assert self.dtype is not None, "kernels compute in half precision only"
        if self.weights is None:
            return torch.cat([weight.detach() for weight in weights]).to(self.dtype)
        return self.weights.stacked(*weights)


class ProjectedMemory(NamedTuple):
    """The keys and values of one cross-attention side by side, and where their gradient is written."""

    kv_MC: Tensor
    gradient_like: Callable[[Tensor], Tensor] = torch.empty_like


class PackedLayout:
    """The sentences of a packed batch, which are sorted by target language."""

    sorted_by_language = True
    source_mask: Tensor | None = None

    def __init__(self, model: Transformer, batch: PackedBatch) -> None:
        attentions = [layer.cross_attention for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self.batch, self.memory_projections = batch, [p for each in attentions for p in (each.key, each.value)]
        self.state = KernelState.prepare(model, batch.lang_B.device, self.memory_projections)

    def encoder(self, guidance: Guidance, target: Target) -> PackedExecutor:
        """Sources, and the aligned target sentences behind them, each attending to itself."""
        batch = self.batch
        assert not len(batch.aligned_source_K) or not guidance.in_encoder, "aligned sentences have no target language"
        mask = PackedMask(batch.encoded, batch.encoded, batch.encoder_groups)
        rows = target.of_tokens(batch.source.sentence_N)
        return PackedExecutor(guidance, rows, self.state, batch.encoded, mask)

    def select_sources(self, encoded_M1D: Tensor) -> Tensor:
        """The encoder's output without the aligned target sentences."""
        return encoded_M1D[: len(self.batch.source.ids_N)] if len(self.batch.aligned_source_K) else encoded_M1D

    def decoder(self, guidance: Guidance, target: Target, memory: Memory) -> PackedExecutor:
        """Target sentences, each attending to itself and to its source."""
        read = self.batch.input
        mask, rows = PackedMask(read, read, self.batch.decoder_groups, causal=True), target.of_tokens(read.sentence_N)
        cross = PackedCross(memory, PackedMask(read, self.batch.source, self.batch.cross_groups), self._project(memory))
        return PackedExecutor(guidance, rows, self.state, read, mask, cross)

    def _project(self, memory: Memory) -> list[ProjectedMemory] | None:
        """The keys and values of all cross-attentions in one product, where kernels read them."""
        memory_MD = memory.states_BSD.flatten(0, 1)
        if not (self.batch.shape.fits_tile and kernels.accepts(memory_MD) and self.state.weights is not None):
            return None
        from manyglot.model.kernels.linear import Block, LinearForAll

        weights, biases = _weights_and_biases(self.memory_projections)
        num_layers, half = len(self.memory_projections) // 2, self.state.half
        block = Block(num_layers)
        parts = _apply(LinearForAll, memory_MD, half(*weights), half(*biases), block, *weights)
        return [ProjectedMemory(kv_MC, partial(block.part, layer)) for layer, kv_MC in enumerate(parts)]


class PackedCross(NamedTuple):
    """What the cross-attentions of a packed batch read."""

    memory: Memory
    mask: PackedMask
    projected: list[ProjectedMemory] | None
    """By layer, where they are computed together."""


class PackedExecutor(Executor):
    """One stack on packed sentences."""

    def __init__(
        self,
        guidance: Guidance,
        target: Target,
        state: KernelState,
        sentences: PackedSentences,
        mask: PackedMask,
        cross: PackedCross | None = None,
    ) -> None:
        super().__init__(guidance, target)
        self.state, self.sentences, self.mask, self.cross = state, sentences, mask, cross

    def positions(self, ids_N: Tensor, table: Callable[[int], Tensor]) -> Tensor:
        """The place of each token in its sentence."""
        return table(self.sentences.max_length)[self.sentences.position_N]

    def embed(self, ids_N: Tensor, embeddings: Embeddings) -> Tensor:
        """dropout(LN(scale E[id] + position)) of each token."""
        dtype = self.state.dtype
        if dtype is None:
            return super().embed(ids_N, embeddings)[:, None]
        from manyglot.model.kernels.embedding import Embed

        table, scale, norm, dropout, positions = embeddings
        where = ids_N, positions(self.sentences.max_length), self.sentences.position_N
        constants = scale, PAD, norm.eps, self.state.dropout_mask(dropout), dtype
        x_ND: Tensor = _apply(Embed, table.weight, *where, norm.weight, norm.bias, *constants)
        return x_ND[:, None]

    def attend_self(self, attention: AttentionWeights, x_N1D: Tensor, term_N1D: Tensor | None) -> Tensor:
        """Query, key and value come from one product."""
        x_ND, term_ND = x_N1D.flatten(0, 1), _flatten(term_N1D)
        weights, biases = _weights_and_biases([attention.query, attention.key, attention.value])
        if kernels.accepts(x_ND) and self.mask.fits_tile:
            from manyglot.model.kernels.attention import SelfAttention
            from manyglot.model.kernels.linear import Linear

            qkv_NC = _apply(Linear, x_ND, self.state.half(*weights), self.state.half(*biases), *weights)
            z_ND: Tensor = _apply(SelfAttention, qkv_NC, *biases, _like(term_ND, x_ND), self.mask, attention.num_heads)
            return z_ND[:, None]
        qkv_NC = F.linear(x_ND, torch.cat(weights), torch.cat(biases))
        q_ND, k_ND, v_ND = (add_term(x, term_ND) for x in qkv_NC.chunk(3, dim=1))
        return _attend_padded(q_ND, k_ND, v_ND, self.mask, attention.num_heads)[:, None]

    def attend_cross(self, attention: AttentionWeights, x_N1D: Tensor, term_N1D: Tensor | None) -> Tensor:
        """Key and value come from one product, or from one for all layers."""
        assert self.cross is not None, "an encoder has no cross-attention"
        memory, mask, all_projected = self.cross
        x_ND, term_ND, term_MD = x_N1D.flatten(0, 1), _flatten(term_N1D), _flatten(memory.term_BSD)
        memory_MD, query = memory.states_BSD.flatten(0, 1), attention.query
        weights, biases = _weights_and_biases([attention.key, attention.value])
        if kernels.accepts(x_ND) and mask.fits_tile:
            from manyglot.model.kernels.attention import CrossAttention
            from manyglot.model.kernels.linear import Linear

            half = self.state.half
            q_ND = _apply(Linear, x_ND, half(query.weight), half(query.bias), query.weight)
            if all_projected is None:
                projected = ProjectedMemory(_apply(Linear, memory_MD, half(*weights), half(*biases), *weights))
            else:
                projected = all_projected[attention.point.layer]
            added = query.bias, *biases, _like(term_ND, x_ND), _like(term_MD, x_ND)
            rest = mask, attention.num_heads, projected.gradient_like
            z_ND: Tensor = _apply(CrossAttention, q_ND, projected.kv_MC, *added, *rest)
            return z_ND[:, None]
        kv_MC = F.linear(memory_MD, torch.cat(weights), torch.cat(biases))
        k_MD, v_MD = (add_term(x, term_MD) for x in kv_MC.chunk(2, dim=1))
        return _attend_padded(add_term(query(x_ND), term_ND), k_MD, v_MD, mask, attention.num_heads)[:, None]

    def project_output(self, attention: AttentionWeights, z_N1D: Tensor) -> SublayerOutput:
        """z W^O; where a kernel allows it, the language's matrix is added to W^O instead of multiplied on its own."""
        output = attention.output
        if not kernels.accepts(z_N1D):
            return super().project_output(attention, z_N1D)
        half_DD = self.state.half(output.weight)
        matrices = self.guidance.merge_matrices(attention.point, z_N1D, self.target)
        if matrices is not None:
            y_N1D = linear_by_language(z_N1D, output.weight, half_DD, matrices)
            if y_N1D is not None:
                return SublayerOutput(y_N1D, output.bias)
        from manyglot.model.kernels.linear import Linear

        term_N1D = self.guidance.merge(attention.point, z_N1D, self.target)
        y_ND: Tensor = _apply(Linear, z_N1D.flatten(0, 1), half_DD, None, output.weight)
        return SublayerOutput(y_ND.view_as(z_N1D), output.bias, _like(term_N1D, y_ND))

    def feed_forward(self, x_N1D: Tensor, inner: nn.Linear, outer: nn.Linear) -> SublayerOutput:
        """relu(x W1 + b1) W2 + b2."""
        if not kernels.accepts(x_N1D) or any(width % 8 for width in inner.weight.shape):  # tiles start at 16 bytes
            return super().feed_forward(x_N1D, inner, outer)
        from manyglot.model.kernels.linear import FeedForward

        weights = inner.weight, inner.bias, outer.weight
        halves = tuple(self.state.half(weight) for weight in weights)
        y_ND: Tensor = _apply(FeedForward, x_N1D.flatten(0, 1), halves, *weights)
        return SublayerOutput(y_ND.view_as(x_N1D), outer.bias)

    def add_norm(
        self, residual_N1D: Tensor, output: SublayerOutput, norm: GuidedNorm, dropout: nn.Dropout
    ) -> SublayerInput:
        """LN(x + dropout(y))."""
        groups = norm.groups
        in_order = groups is None or groups.order_B is None
        if not (kernels.accepts(residual_N1D) and in_order and output.bias is not None):
            y_N1D = norm(residual_N1D + dropout(output.total()))
            return SublayerInput.from_states(self.as_states(y_N1D, residual_N1D))
        from manyglot.model.kernels.norm import AddNorm

        parts = residual_N1D.flatten(0, 1), output.y.flatten(0, 1), output.bias, _flatten(output.term)
        constants = norm.shared.eps, self.state.dropout_mask(dropout), groups
        uses = _apply(AddNorm, *parts, *norm.gain_and_bias(), *constants)
        return SublayerInput(*(x_ND.view_as(residual_N1D) for x_ND in uses))

    def as_states(self, y: Tensor, states: Tensor) -> Tensor:
        """y in the data type of hidden states: that of the kernels, where they apply."""
        return y.to(self.state.dtype or states.dtype)


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def _weights_and_biases(projections: Sequence[nn.Linear]) -> tuple[list[Tensor], list[Tensor]]:
    return [p.weight for p in projections], [p.bias for p in projections]


def _flatten(x_N1D: Tensor | None) -> Tensor | None:
    """Rows of one token each; indexing would cost a copy in the backward pass."""
    return None if x_N1D is None else x_N1D.flatten(0, 1)


def _like(term: Tensor | None, x: Tensor) -> Tensor | None:
    return None if term is None else term.to(x.dtype)


def _attend_padded(q_ND: Tensor, k_MD: Tensor, v_MD: Tensor, mask: PackedMask, num_heads: int) -> Tensor:
    """Pad the sentences, attend, and pack again."""
    q_BHTK = split_heads(_pad(q_ND, mask.query), num_heads)
    k_BHSK, v_BHSK = (split_heads(_pad(x, mask.key), num_heads) for x in (k_MD, v_MD))
    key_mask_B11S = None
    if not mask.causal:  # a causal mask hides the padding too
        real_M1 = torch.ones(len(k_MD), 1, dtype=torch.bool, device=k_MD.device)
        key_mask_B11S = _pad(real_M1, mask.key)[:, None, None, :, 0]
    z_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=key_mask_B11S, is_causal=mask.causal)
    return join_heads(z_BHTK)[mask.query.sentence_N, mask.query.position_N]


def _pad(x_ND: Tensor, sentences: PackedSentences) -> Tensor:
    place_N = sentences.sentence_N.long() * sentences.max_length + sentences.position_N
    padded = x_ND.new_zeros(sentences.num_sentences * sentences.max_length, x_ND.shape[1])
    return padded.index_copy(0, place_N, x_ND).view(sentences.num_sentences, sentences.max_length, -1)
