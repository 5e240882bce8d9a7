"""Execution on packed batches, as in training: concatenated sentences without padding.

To guidance every token is a row of its own, with the target language of its sentence. On a GPU in half precision, the
operations run as Triton kernels that pass over memory less often; elsewhere they run in plain PyTorch.

Shape letters: N tokens (queries), M tokens (keys), B sentences, T and S positions, D model width, C concatenated
widths, H heads, K width of a head.
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
from manyglot.model.attention import add_term, attend, drop_positions, split_heads
from manyglot.model.executor import AttentionParameters, EncoderMemory, Executor, FeedForwardParameters, InputEmbedding
from manyglot.model.guidance.base import Guidance, TargetLanguages
from manyglot.model.guidance.language_matmul import try_fused_language_linear
from manyglot.model.half_precision_weights import HalfPrecisionWeights
from manyglot.model.kernels.kernel_arguments import DropoutMaskParameters, PackedMask
from manyglot.model.layers import DecoderLayer
from manyglot.model.packing import PackedBatch, PackedSentences
from manyglot.model.positions import PositionTable, first_positions
from manyglot.model.sublayer_io import GuidedNorm, SublayerInput, SublayerOutput
from manyglot.model.transformer import HiddenStates, Transformer
from manyglot.vocabulary.subword_model import PAD


def packed_forward(model: Transformer, batch: PackedBatch, random_lang_B: Tensor | None = None) -> HiddenStates:
    """Run a forward pass over a packed batch; every token is a row of the hidden states, N1D."""
    layout = PackedLayout(model, batch)
    hidden: HiddenStates = model(batch.encoded.ids_N, batch.input.ids_N, batch.lang_B, layout, random_lang_B)
    return hidden


@dataclass
class PackedKernelContext:
    """State that the kernels of one forward pass share."""

    dropout_seed: Tensor
    dtype: torch.dtype | None
    """The half-precision data type of the kernels; None if kernels cannot be used."""
    weights: HalfPrecisionWeights | None
    num_dropouts: int = 0

    @classmethod
    def prepare(cls, model: nn.Module, device: torch.device, adjacent: Sequence[nn.Linear]) -> PackedKernelContext:
        """Sample a dropout seed and cast the weights; those of the `adjacent` layers are stored contiguously."""
        seed = torch.randint(2**31 - 1, (1,), dtype=torch.int32, device=device)
        dtype, weights = kernels.autocast_kernel_dtype(seed), None
        sharded = any(type(parameter) is not nn.Parameter for parameter in model.parameters())
        if dtype is not None and not sharded:
            first = set(adjacent)
            weights = HalfPrecisionWeights([*adjacent, *(m for m in model.modules() if m not in first)], dtype)
        return cls(seed, dtype, weights)

    def dropout_mask(self, dropout: nn.Dropout) -> DropoutMaskParameters:
        """Return the mask of the next dropout of this pass; each one gets its own index."""
        self.num_dropouts += 1
        return DropoutMaskParameters(dropout.p if dropout.training else 0.0, self.dropout_seed, self.num_dropouts)

    def concatenated_half(self, *weights: Tensor) -> Tensor:
        """Return the weights of adjacent layers in half precision, concatenated along the rows."""
        assert self.dtype is not None, "kernels compute in half precision only"
        if self.weights is None:
            return torch.cat([weight.detach() for weight in weights]).to(self.dtype)
        return self.weights.concatenated(*weights)


class ProjectedMemory(NamedTuple):
    """The concatenated keys and values of one cross-attention, and the allocator of their gradient."""

    kv_MC: Tensor
    allocate_gradient: Callable[[Tensor], Tensor] = torch.empty_like


class PackedLayout:
    """The layout of a packed batch, whose sentences are sorted by target language."""

    sorted_by_language = True
    source_mask: Tensor | None = None

    def __init__(self, model: Transformer, batch: PackedBatch) -> None:
        attentions = [layer.cross_attention for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self.batch, self.memory_projections = batch, [p for each in attentions for p in (each.key, each.value)]
        self.context = PackedKernelContext.prepare(model, batch.lang_B.device, self.memory_projections)

    def encoder_executor(self, guidance: Guidance, target_languages: TargetLanguages) -> PackedExecutor:
        """Every source sentence, and every aligned target sentence, attends to itself."""
        batch = self.batch
        if len(batch.aligned_source_K):
            assert not guidance.affects_encoder, "aligned sentences have no target language"
        mask = PackedMask(batch.encoded, batch.encoded, batch.encoder_groups)
        token_languages = target_languages.per_token(batch.source.sentence_N)
        return PackedExecutor(guidance, token_languages, self.context, batch.encoded, mask)

    def keep_source_sentences(self, encoded_M1D: Tensor) -> Tensor:
        """Return the encoder's output without the aligned target sentences."""
        return encoded_M1D[: len(self.batch.source.ids_N)] if len(self.batch.aligned_source_K) else encoded_M1D

    def decoder_executor(
        self, guidance: Guidance, target_languages: TargetLanguages, memory: EncoderMemory
    ) -> PackedExecutor:
        """Every target sentence attends to itself and to its source."""
        input_sentences = self.batch.input
        mask = PackedMask(input_sentences, input_sentences, self.batch.decoder_groups, causal=True)
        cross_mask = PackedMask(input_sentences, self.batch.source, self.batch.cross_groups)
        cross = PackedCrossInputs(memory, cross_mask, self._project_memory(memory))
        token_languages = target_languages.per_token(input_sentences.sentence_N)
        return PackedExecutor(guidance, token_languages, self.context, input_sentences, mask, cross)

    def _project_memory(self, memory: EncoderMemory) -> list[ProjectedMemory] | None:
        """Compute the keys and values of all cross-attentions in one product; None if kernels cannot be used."""
        memory_MD = memory.states_BSD.flatten(0, 1)
        if not (self.batch.shape.fits_tile and kernels.can_use_kernels(memory_MD) and self.context.weights is not None):
            return None
        from manyglot.model.kernels.linear import ConcatenatedGradients, ConcatenatedLinear

        weights, biases = _weights_and_biases(self.memory_projections)
        num_layers, half = len(self.memory_projections) // 2, self.context.concatenated_half
        gradients = ConcatenatedGradients(num_layers)
        kv_by_layer = _apply(ConcatenatedLinear, memory_MD, half(*weights), half(*biases), gradients, *weights)
        return [
            ProjectedMemory(kv_MC, partial(gradients.part_buffer, layer)) for layer, kv_MC in enumerate(kv_by_layer)
        ]


class PackedCrossInputs(NamedTuple):
    """The inputs of the cross-attentions of a packed batch."""

    memory: EncoderMemory
    mask: PackedMask
    projected: list[ProjectedMemory] | None
    """The keys and values of each layer, if they are computed in one product."""


class PackedExecutor(Executor):
    """One stack on packed sentences."""

    def __init__(
        self,
        guidance: Guidance,
        target_languages: TargetLanguages,
        context: PackedKernelContext,
        sentences: PackedSentences,
        mask: PackedMask,
        cross: PackedCrossInputs | None = None,
    ) -> None:
        super().__init__(guidance, target_languages)
        self.context, self.sentences, self.mask, self.cross = context, sentences, mask, cross

    def position_embeddings(self, ids_N: Tensor, table: PositionTable) -> Tensor:
        """Number the positions from 0 in each sentence."""
        return first_positions(table, self.sentences.max_length)[self.sentences.position_N]

    def embed(self, ids_N: Tensor, embeddings: InputEmbedding) -> Tensor:
        """Return dropout(LN(scale E[id] + position)) of each token; the kernel needs a norm and fixed positions."""
        table, scale, norm, dropout, position_table, learned_positions = embeddings
        dtype = self.context.dtype
        if dtype is None or learned_positions is not None or not isinstance(norm, nn.LayerNorm):
            plain_ND = super().embed(ids_N, embeddings)
            return self.cast_to_states_dtype(plain_ND, plain_ND)[:, None]
        from manyglot.model.kernels.embedding import FusedEmbeddingNormDropout

        inputs = ids_N, position_table(self.sentences.max_length), self.sentences.position_N
        constants = scale, PAD, norm.eps, self.context.dropout_mask(dropout), dtype
        x_ND: Tensor = _apply(FusedEmbeddingNormDropout, table.weight, *inputs, norm.weight, norm.bias, *constants)
        return x_ND[:, None]

    def attend_self(self, attention: AttentionParameters, x_N1D: Tensor, term_N1D: Tensor | None) -> Tensor:
        """Compute query, key and value in one product, then attend within each sentence."""
        x_ND, term_ND = x_N1D.flatten(0, 1), drop_positions(term_N1D)
        weights, biases = _weights_and_biases([attention.query, attention.key, attention.value])
        if kernels.can_use_kernels(x_ND) and self.mask.fits_tile:
            from manyglot.model.kernels.linear import MixedPrecisionLinear
            from manyglot.model.kernels.packed_attention import PackedSelfAttention

            half = self.context.concatenated_half
            qkv_NC = _apply(MixedPrecisionLinear, x_ND, half(*weights), half(*biases), *weights)
            biases_and_term = *biases, _cast_term(term_ND, x_ND)
            z_ND: Tensor = _apply(PackedSelfAttention, qkv_NC, *biases_and_term, self.mask, attention.num_heads)
            return z_ND[:, None]
        qkv_NC = F.linear(x_ND, torch.cat(weights), torch.cat(biases))
        q_ND, k_ND, v_ND = (add_term(x, term_ND) for x in qkv_NC.chunk(3, dim=1))
        return _attend_padded(q_ND, k_ND, v_ND, self.mask, attention.num_heads)[:, None]

    def attend_cross(self, attention: AttentionParameters, x_N1D: Tensor, term_N1D: Tensor | None) -> Tensor:
        """Compute key and value in one product, per layer or for all layers at once, then attend to the source."""
        assert self.cross is not None, "an encoder has no cross-attention"
        memory, mask, all_projected = self.cross
        x_ND, term_ND, term_MD = x_N1D.flatten(0, 1), drop_positions(term_N1D), drop_positions(memory.kv_term_BSD)
        memory_MD, query = memory.states_BSD.flatten(0, 1), attention.query
        weights, biases = _weights_and_biases([attention.key, attention.value])
        if kernels.can_use_kernels(x_ND) and mask.fits_tile:
            from manyglot.model.kernels.linear import MixedPrecisionLinear
            from manyglot.model.kernels.packed_attention import PackedCrossAttention

            half = self.context.concatenated_half
            q_ND = _apply(MixedPrecisionLinear, x_ND, half(query.weight), half(query.bias), query.weight)
            if all_projected is None:
                kv_MC = _apply(MixedPrecisionLinear, memory_MD, half(*weights), half(*biases), *weights)
                projected = ProjectedMemory(kv_MC)
            else:
                projected = all_projected[attention.point.layer]
            biases_and_terms = query.bias, *biases, _cast_term(term_ND, x_ND), _cast_term(term_MD, x_ND)
            constants = mask, attention.num_heads, projected.allocate_gradient
            z_ND: Tensor = _apply(PackedCrossAttention, q_ND, projected.kv_MC, *biases_and_terms, *constants)
            return z_ND[:, None]
        kv_MC = F.linear(memory_MD, torch.cat(weights), torch.cat(biases))
        k_MD, v_MD = (add_term(x, term_MD) for x in kv_MC.chunk(2, dim=1))
        return _attend_padded(add_term(query(x_ND), term_ND), k_MD, v_MD, mask, attention.num_heads)[:, None]

    def project_output(self, attention: AttentionParameters, z_N1D: Tensor) -> SublayerOutput:
        """Return z W^O; if a kernel supports it, language matrices are added to W^O, not multiplied separately."""
        output = attention.output
        if not kernels.can_use_kernels(z_N1D):
            return super().project_output(attention, z_N1D)
        half_DD = self.context.concatenated_half(output.weight)
        matrices = self.guidance.output_term_matrices(attention.point, z_N1D, self.target_languages)
        if matrices is not None:
            y_N1D = try_fused_language_linear(z_N1D, output.weight, half_DD, matrices)
            if y_N1D is not None:
                return SublayerOutput(y_N1D, output.bias)
        from manyglot.model.kernels.linear import MixedPrecisionLinear

        term_N1D = self.guidance.output_term(attention.point, z_N1D, self.target_languages)
        y_ND: Tensor = _apply(MixedPrecisionLinear, z_N1D.flatten(0, 1), half_DD, None, output.weight)
        return SublayerOutput(y_ND.view_as(z_N1D), output.bias, _cast_term(term_N1D, y_ND))

    def feed_forward(self, ffn: FeedForwardParameters, x_N1D: Tensor) -> SublayerOutput:
        """Return f(x W1 + b1) W2 + b2; the kernel needs f to be relu."""
        inner, outer = ffn.inner, ffn.outer
        tiles_are_aligned = all(width % 8 == 0 for width in inner.weight.shape)  # they start at multiples of 16 bytes
        if not (kernels.can_use_kernels(x_N1D) and tiles_are_aligned and ffn.activation is F.relu):
            return super().feed_forward(ffn, x_N1D)
        from manyglot.model.kernels.linear import FusedFeedForward

        weights = inner.weight, inner.bias, outer.weight
        half_weights = tuple(self.context.concatenated_half(weight) for weight in weights)
        y_ND: Tensor = _apply(FusedFeedForward, x_N1D.flatten(0, 1), half_weights, *weights)
        return SublayerOutput(y_ND.view_as(x_N1D), outer.bias)

    def add_norm(
        self, residual_N1D: Tensor, output: SublayerOutput, norm: GuidedNorm, dropout: nn.Dropout
    ) -> SublayerInput:
        """Return LN(x + dropout(y))."""
        groups = norm.language_groups
        is_sorted = groups is None or groups.sort_order_B is None
        if not (kernels.can_use_kernels(residual_N1D) and is_sorted and output.bias is not None):
            y_N1D = norm(residual_N1D + dropout(output.total()))
            return SublayerInput.from_states(self.cast_to_states_dtype(y_N1D, residual_N1D))
        from manyglot.model.kernels.add_norm import AddNorm

        summands = residual_N1D.flatten(0, 1), output.y.flatten(0, 1), output.bias, drop_positions(output.term)
        constants = norm.shared.eps, self.context.dropout_mask(dropout), groups
        uses = _apply(AddNorm, *summands, *norm.gain_and_bias(), *constants)
        return SublayerInput(*(x_ND.view_as(residual_N1D) for x_ND in uses))

    def cast_to_states_dtype(self, y: Tensor, states: Tensor) -> Tensor:
        """Cast y to the data type of the kernels or, without kernels, of the hidden states."""
        return y.to(self.context.dtype or states.dtype)


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def _weights_and_biases(projections: Sequence[nn.Linear]) -> tuple[list[Tensor], list[Tensor]]:
    return [p.weight for p in projections], [p.bias for p in projections]


def _cast_term(term: Tensor | None, x: Tensor) -> Tensor | None:
    return None if term is None else term.to(x.dtype)


def _attend_padded(q_ND: Tensor, k_MD: Tensor, v_MD: Tensor, mask: PackedMask, num_heads: int) -> Tensor:
    """Pad the sentences, attend, and pack again."""
    q_BHTK = split_heads(_pad_sentences(q_ND, mask.query), num_heads)
    k_BHSK, v_BHSK = (split_heads(_pad_sentences(x, mask.key), num_heads) for x in (k_MD, v_MD))
    key_mask_B11S = None
    if not mask.causal:  # a causal mask hides the padding too
        real_M1 = torch.ones(len(k_MD), 1, dtype=torch.bool, device=k_MD.device)
        key_mask_B11S = _pad_sentences(real_M1, mask.key)[:, None, None, :, 0]
    z_BTD = attend(q_BHTK, k_BHSK, v_BHSK, mask=key_mask_B11S, is_causal=mask.causal)
    return z_BTD[mask.query.sentence_N, mask.query.position_N]


def _pad_sentences(x_ND: Tensor, sentences: PackedSentences) -> Tensor:
    place_N = sentences.sentence_N.long() * sentences.max_length + sentences.position_N
    padded = x_ND.new_zeros(sentences.num_sentences * sentences.max_length, x_ND.shape[1])
    return padded.index_copy(0, place_N, x_ND).view(sentences.num_sentences, sentences.max_length, -1)
