"""The graphs of a Transformer: an encoder, and one decoding step with key-value caches.

Both take the target language as an input and gather its guidance from tables. `language` holds one id for each
sentence, or a single id for all. The encoder also computes what cross-attention needs: the keys and values of its
output. The decoder appends one token to each beam, and returns the hypotheses that end and the next beams. The beams
of a sentence share its keys and values.

Shape letters: B sentences, S source tokens, K beams, N = B·K rows, T past tokens, C candidates, D model width, H heads,
W width of a head, P positions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from manyglot.exporters.onnx.graph_builder import GraphBuilder
from manyglot.exporters.onnx.language_maps import GuidanceMaps, LanguageMaps, to_numpy
from manyglot.model.attention import MultiHeadAttention
from manyglot.model.executor import InputEmbedding
from manyglot.model.guidance.base import HookPoint, Site
from manyglot.model.layers import DecoderLayer, EncoderLayer, FeedForward, SubLayer
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD, UNK

MAX_POSITIONS = 4096
"""Maximum number of rows of the table of position embeddings, and so of tokens in a sequence."""


class _StackGraph:
    """What the graphs of both stacks have in common."""

    def __init__(self, graph: GraphBuilder, model: Transformer, guidance: GuidanceMaps) -> None:
        self.graph, self.model, self.guidance, self.settings = graph, model, guidance, model.settings
        self.language = graph.input("language", ["languages"], np.int64)

    def embed(self, ids: str, positions: str, embedding: InputEmbedding) -> str:
        """Return LN(scale E[id] + position); `positions` are rows of the table."""
        graph = self.graph
        scale = graph.constant(embedding.scale, np.float32)
        x = graph.node("Mul", graph.embedding(to_numpy(embedding.table.weight), ids), scale)
        return self.norm(graph.node("Add", x, graph.to_float32(positions)), embedding.norm)

    def position_table(self, embedding: InputEmbedding) -> str:
        """Return the position embeddings."""
        return self.graph.table(to_numpy(embedding.position_table(MAX_POSITIONS)[:MAX_POSITIONS]))

    def norm(self, x: str, norm: torch.nn.Module, point: HookPoint | None = None) -> str:
        """Return LN(x) with gain and bias of the languages, if the norm depends on them."""
        if isinstance(norm, torch.nn.Identity):
            return x
        assert isinstance(norm, torch.nn.LayerNorm)
        graph = self.graph
        tables = None if point is None else self.guidance.gains_and_biases(point, norm)
        if tables is None:
            gain, bias = (graph.weight(to_numpy(each)) for each in (norm.weight, norm.bias))
            return graph.node("LayerNormalization", x, gain, bias, epsilon=norm.eps)
        ones = graph.constant(np.ones(self.settings.width), np.float32)
        gain, bias = (graph.gather_language(table_LD[:, None], self.language) for table_LD in tables)
        normed = graph.node("LayerNormalization", x, ones, epsilon=norm.eps)
        return graph.node("Add", graph.node("Mul", normed, gain), bias)

    def change(self, hook: str, point: HookPoint, x: str) -> str:
        """Apply the hook `pre_sublayer` or `post_sublayer`."""
        maps = self.guidance.change(hook, point)
        return x if maps is None else self.apply(maps, x)

    def add_term(self, hook: str, *point: HookPoint, x: str, to: list[str]) -> list[str]:
        """Compute the term of a hook from x and add it to other tensors."""
        maps = self.guidance.term(hook, *point)
        if maps is None:
            return to
        term = self.apply(maps, x)
        return [self.graph.node("Add", each, term) for each in to]

    def apply(self, maps: LanguageMaps, x: str) -> str:
        """Return x A + b with A and b of the languages."""
        graph, y = self.graph, x
        for matrix in maps.matrices:
            y = graph.node("MatMul", y, graph.gather_language(matrix, self.language))
        if maps.matrices and maps.adds_input:
            y = graph.node("Add", x, y)
        if maps.bias_LD is not None:
            y = graph.node("Add", y, graph.gather_language(maps.bias_LD[:, None], self.language))
        return y

    def sublayer(self, sublayer: SubLayer, x: str, function: Callable[[str], str]) -> str:
        """Return LN(x + f(x)) in a post-norm model and x + f(LN(x)) in a pre-norm one, with the hooks around it."""
        x = self.change("pre_sublayer", sublayer.point, x)
        y = function(x if sublayer.post_norm else self.norm(x, sublayer.norm, sublayer.point))
        (y,) = self.add_term("sublayer_output_term", sublayer.point, x=y, to=[y])
        x = self.graph.node("Add", x, y)
        if sublayer.post_norm:
            x = self.norm(x, sublayer.norm, sublayer.point)
        return self.change("post_sublayer", sublayer.point, x)

    def feed_forward(self, ffn: FeedForward, x: str) -> str:
        """Return f(x W1 + b1) W2 + b2 with the activation function f."""
        return self.linear([ffn.outer], self.activation(self.linear([ffn.inner], x)))

    def activation(self, x: str) -> str:
        """Return relu(x), silu(x) = x sigmoid(x) or gelu(x) = x (1 + erf(x / sqrt(2))) / 2."""
        graph, name = self.graph, self.settings.activation
        if name == "relu":
            return graph.node("Relu", x)
        if name == "silu":
            return graph.node("Mul", x, graph.node("Sigmoid", x))
        half, one, root = (graph.constant(value, np.float32) for value in (0.5, 1, 2**0.5))
        gate = graph.node("Add", graph.node("Erf", graph.node("Div", x, root)), one)
        return graph.node("Mul", graph.node("Mul", x, gate), half)

    def linear(self, linears: list[torch.nn.Linear], x: str) -> str:
        """Apply several linear layers to x at once, and return their outputs side by side."""
        weight_ED = to_numpy(torch.cat([each.weight for each in linears]))
        return self.graph.linear(x, weight_ED, to_numpy(torch.cat([each.bias for each in linears])))

    def project_self(self, attention: MultiHeadAttention, x: str) -> list[str]:
        """Return query, key and value of self-attention with their guidance term."""
        joined = self.linear([attention.query, attention.key, attention.value], x)
        projected = self.graph.nodes("Split", 3, joined, axis=-1)
        return self.add_term("qkv_term", attention.point, x=x, to=projected)

    def project_output(self, attention: MultiHeadAttention, z: str) -> str:
        """Return z W^O with its guidance term."""
        return self.add_term("output_term", attention.point, x=z, to=[self.linear([attention.output], z)])[0]

    def split_heads(self, x: str) -> str:
        """Turn [B, T, D] into [B, H, T, W]."""
        num_heads = self.settings.num_heads
        shape = self.graph.constant([0, 0, num_heads, self.settings.width // num_heads])
        return self.graph.node("Transpose", self.graph.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def join_heads(self, z: str) -> str:
        """Turn [B, H, T, W] into [B, T, D]."""
        z = self.graph.node("Transpose", z, perm=[0, 2, 1, 3])
        return self.graph.node("Reshape", z, self.graph.constant([0, 0, self.settings.width]))

    def attend(self, query: str, key: str, value: str, mask: str | None = None) -> str:
        """Return softmax(q k^T / sqrt(W)) v in each head; all shapes are [rows, H, tokens, W]."""
        graph = self.graph
        scale = graph.constant((self.settings.width // self.settings.num_heads) ** -0.5, np.float32)
        key = graph.node("Transpose", key, perm=[0, 1, 3, 2])
        score = graph.node("MatMul", graph.node("Mul", query, scale), key)
        if mask is not None:
            score = graph.node("Add", score, mask)
        return graph.node("MatMul", graph.node("Softmax", score, axis=-1), value)

    def padding_mask(self, source: str) -> str:
        """Return 0 at the tokens of the source and minus infinity at padding, as [B, 1, 1, S]."""
        graph = self.graph
        is_padding = graph.node("Equal", source, graph.constant(PAD))
        low, zero = (graph.constant(value, np.float32) for value in (-np.inf, 0))
        return graph.node("Unsqueeze", graph.node("Where", is_padding, low, zero), graph.constant([1, 2]))

    def cache_shape(self, rows: str, length: str) -> list[str | int]:
        """The shape of keys and values."""
        num_heads = self.settings.num_heads
        return [rows, num_heads, length, self.settings.width // num_heads]


class EncoderGraph(_StackGraph):
    """From source tokens to the keys and values of every cross-attention, and the first state of the search."""

    def build(self) -> GraphBuilder:
        """Build the whole graph."""
        graph, model, embedding = self.graph, self.model, self.model.encoder_embedding
        source = graph.input("source", ["sentences", "source_tokens"], np.int64)
        mask = self.padding_mask(source)
        length = graph.node("Slice", graph.node("Shape", source), graph.constant([1]), graph.constant([2]))
        positions = graph.node(
            "Slice", self.position_table(embedding), graph.constant([0]), length, graph.constant([0])
        )
        x = self.embed(source, positions, embedding)
        for layer in model.encoder:
            assert isinstance(layer, EncoderLayer)
            x = self._layer(layer, x, mask)
        memory = self.change("pre_sublayer", HookPoint(Site.MEMORY, 0), self.norm(x, model.encoder_final_norm))
        for i, decoder_layer in enumerate(model.decoder):
            assert isinstance(decoder_layer, DecoderLayer)
            attention = decoder_layer.cross_attention
            projected = graph.nodes("Split", 2, self.linear([attention.key, attention.value], memory), axis=-1)
            projected = self.add_term("memory_kv_term", x=memory, to=projected)
            for name, tensor in zip(("key", "value"), projected, strict=True):
                shape = self.cache_shape("sentences", "source_tokens")
                graph.output(f"memory_{name}_{i}", self.split_heads(tensor), shape)
        self._first_step(source)
        return graph

    def _first_step(self, source: str) -> None:
        """Declare what else the decoder reads in its first step: one beam of score 0, and empty caches."""
        graph = self.graph
        number = graph.node("Slice", graph.node("Shape", source), graph.constant([0]), graph.constant([1]))
        graph.output("score", self._zeros(number, [1]), ["sentences", "beams"])
        rows = graph.node("Range", graph.constant(0), graph.node("Squeeze", number), graph.constant(1))
        graph.output("parent", rows, ["rows"], np.int64)
        empty = self._zeros(number, [self.settings.num_heads, 0, self.settings.width // self.settings.num_heads])
        for i in range(len(self.model.decoder)):
            for name in ("key", "value"):
                graph.output(f"past_{name}_{i}", empty, self.cache_shape("rows", "past_tokens"))

    def _zeros(self, number: str, shape: list[int]) -> str:
        """Return zeros of this shape for each sentence."""
        shape_of_all = self.graph.node("Concat", number, self.graph.constant(shape), axis=0)
        return self.graph.node("ConstantOfShape", shape_of_all)

    def _layer(self, layer: EncoderLayer, x: str, mask: str) -> str:
        def attention(x: str) -> str:
            query, key, value = map(self.split_heads, self.project_self(layer.attention, x))
            return self.project_output(layer.attention, self.join_heads(self.attend(query, key, value, mask)))

        x = self.sublayer(layer.attention_sublayer, x, attention)
        return self.sublayer(layer.ffn_sublayer, x, lambda x: self.feed_forward(layer.ffn, x))


class DecoderGraph(_StackGraph):
    """One step: appends a token to each beam and returns the hypotheses that end and the next beams."""

    def build(self) -> GraphBuilder:
        """Build the whole graph."""
        graph, model, embedding = self.graph, self.model, self.model.decoder_embedding
        source = graph.input("source", ["sentences", "source_tokens"], np.int64)
        token = graph.input("token", ["sentences", "beams"], np.int64)
        self.parent = graph.input("parent", ["rows"], np.int64)
        score = graph.input("score", ["sentences", "beams"])
        self.mask = self.padding_mask(source)
        num_layers = len(model.decoder)
        memory, past = (
            [
                [graph.input(f"{name}_{part}_{i}", self.cache_shape(rows, length)) for part in ("key", "value")]
                for i in range(num_layers)
            ]
            for name, rows, length in (("memory", "sentences", "source_tokens"), ("past", "past_rows", "past_tokens"))
        )
        position = graph.node("Slice", graph.node("Shape", past[0][0]), graph.constant([2]), graph.constant([3]))
        x = self.embed(token, graph.node("Gather", self.position_table(embedding), position), embedding)
        for i, layer in enumerate(model.decoder):
            assert isinstance(layer, DecoderLayer)
            x = self._layer(i, layer, x, memory[i], past[i])
        self._outputs(self.norm(x, model.decoder_final_norm), score)
        return graph

    def _layer(self, i: int, layer: DecoderLayer, x: str, memory: list[str], past: list[str]) -> str:
        graph = self.graph

        def self_attention(x: str) -> str:
            shape = graph.constant([-1, self.settings.num_heads, 1, self.settings.width // self.settings.num_heads])
            query, *new = (graph.node("Reshape", each, shape) for each in self.project_self(layer.self_attention, x))
            caches = []
            for name, old, added in zip(("key", "value"), past, new, strict=True):
                cache = graph.node("Concat", graph.node("Gather", old, self.parent), added, axis=2)
                graph.output(f"present_{name}_{i}", cache, self.cache_shape("rows", "present_tokens"))
                caches.append(cache)
            z = graph.node("Reshape", self.attend(query, caches[0], caches[1]), graph.node("Shape", x))
            return self.project_output(layer.self_attention, z)

        def cross_attention(x: str) -> str:
            attention = layer.cross_attention
            (query,) = self.add_term("qkv_term", attention.point, x=x, to=[self.linear([attention.query], x)])
            key, value = memory
            z = self.attend(self.split_heads(query), key, value, self.mask)
            return self.project_output(attention, self.join_heads(z))

        x = self.sublayer(layer.self_sublayer, x, self_attention)
        x = self.sublayer(layer.cross_sublayer, x, cross_attention)
        return self.sublayer(layer.ffn_sublayer, x, lambda x: self.feed_forward(layer.ffn, x))

    def _outputs(self, hidden: str, score: str) -> None:
        """Declare the hypotheses that end and the next beams, from the best 2K continuations of each sentence."""
        graph = self.graph
        beam_size = graph.input("beam_size", [1], np.int64)
        best, parent, token = self._candidates(hidden, score, graph.node("Mul", beam_size, graph.constant([2])))
        low = graph.constant(-np.inf, np.float32)
        ends = graph.node("Equal", token, graph.constant(EOS))
        first = (graph.constant([0]), beam_size, graph.constant([1]))
        end_score = graph.node("Slice", graph.node("Where", ends, best, low), *first)
        graph.output("end_score", end_score, ["sentences", "beams"])
        graph.output("end_parent", graph.node("Slice", parent, *first), ["sentences", "beams"], np.int64)
        next_score, survivor = graph.nodes("TopK", 2, graph.node("Where", ends, low, best), beam_size)
        graph.output("next_score", next_score, ["sentences", "beams"])
        for name, each in (("parent", parent), ("token", token)):
            survivors = graph.node("GatherElements", each, survivor, axis=1)
            graph.output(f"next_{name}", survivors, ["sentences", "beams"], np.int64)

    def _candidates(self, hidden: str, score: str, number: str) -> list[str]:
        """Return the best continuations of each sentence, best first: their scores, parent rows and tokens."""
        graph, weight, bias = self.graph, self.model.embedding.weight, self.model.output_bias
        forced = graph.input("forced", ["sentences"], np.int64)
        logits = graph.linear(hidden, to_numpy(weight), None if bias is None else to_numpy(bias))
        normalizer = graph.node("ReduceLogSumExp", logits, axes=[-1], keepdims=1)
        offset = graph.node("Sub", graph.node("Unsqueeze", score, graph.constant([-1])), normalizer)  # [B, K, 1]
        allowed = np.full(len(weight), -np.inf, np.float32)
        allowed[PAD + 1 : self.model.dimensions.first_tag_id] = 0
        allowed[UNK] = -np.inf
        free = graph.node("Add", logits, graph.weight(allowed))
        forced = graph.node("Unsqueeze", forced, graph.constant([1, 2]))
        is_forced_token = graph.node("Equal", forced, graph.weight(np.arange(len(weight))))
        only = graph.node("Where", is_forced_token, normalizer, graph.constant(-np.inf, np.float32))  # scores nothing
        is_free = graph.node("Less", forced, graph.constant(0))
        logit, token = graph.nodes("TopK", 2, graph.node("Where", is_free, free, only), number)
        per_sentence = graph.constant([0, -1])
        total, token = (graph.node("Reshape", each, per_sentence) for each in (graph.node("Add", logit, offset), token))
        best, index = graph.nodes("TopK", 2, total, number)
        rows = graph.node("Range", graph.constant(0), graph.node("Size", score), graph.constant(1))
        row = graph.node("Reshape", rows, graph.node("Shape", score))  # [B, K]
        parent = graph.node("GatherElements", row, graph.node("Div", index, number), axis=1)
        return [best, parent, graph.node("GatherElements", token, index, axis=1)]
