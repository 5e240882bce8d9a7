"""What the layers compute, where it pays to compute it in two ways.

The plain way defines it and runs anywhere. For packed sentences on a GPU, in half precision, kernels do the same in
fewer passes over memory.

Shape letters: N tokens (queries), M tokens (keys), B sentences, T and S positions, D model width, H heads, K width of
a head, V vocabulary, P positions of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.model.cross_entropy import ChunkedCrossEntropy
from manyglot.model.guidance.base import NormTerms, Target
from manyglot.model.guidance.products import ByLanguage, Choice, linear_by_language, product_dtype
from manyglot.model.halves import Halves
from manyglot.model.kernels import have_kernels
from manyglot.model.kernels.tiles import TileGroups, fits_tile
from manyglot.model.packing import PackedSentences
from manyglot.vocabulary.subwords import PAD

HALVES = (torch.bfloat16, torch.float16)


def _half_type(x: Tensor) -> torch.dtype | None:
    """The type of half precision in which kernels would compute on the device of x; none where there are none."""
    if not (x.is_cuda and have_kernels() and torch.is_autocast_enabled("cuda")):
        return None
    return torch.get_autocast_dtype("cuda")


def _has_kernels(x: Tensor) -> bool:
    """Whether x goes through kernels: packed, on a GPU and in half precision."""
    return bool(_passes) and x.is_cuda and x.dtype in HALVES and have_kernels()


def _only_forward(x: Tensor, weight: Tensor) -> bool:
    """Whether x goes through kernels that have no gradients, as in a search: weights are in half precision too."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return x.is_cuda and x.dtype in HALVES and weight.dtype == x.dtype and have_kernels()


class Dropped(NamedTuple):
    """What a kernel needs to know of dropout: the share, a seed in the memory of the device, the place in the model."""

    share: float
    seed: Tensor
    site: int


@dataclass
class _Pass:
    seed: Tensor
    dtype: torch.dtype | None
    """Of half precision, if there are kernels."""
    halves: Halves | None
    sites: int = 0


_passes: list[_Pass] = []
"""Over packed sentences, and under way."""


@contextmanager
def packed_pass(model: nn.Module, device: torch.device, together: Sequence[nn.Linear] = ()) -> Iterator[None]:
    """What the kernels of a pass share: a seed of dropout from PyTorch's generator, and weights in half precision.

    Layers may be named that are used together though they are not neighbours in the model.
    """
    seed = torch.randint(2**31 - 1, (1,), dtype=torch.int32, device=device)
    dtype = _half_type(seed)
    whole = all(type(parameter) is nn.Parameter for parameter in model.parameters())  # not shared out by processes
    halves = None
    if dtype is not None and whole:
        chosen = set(together)
        halves = Halves([*together, *(layer for layer in model.modules() if layer not in chosen)], dtype)
    _passes.append(_Pass(seed, dtype, halves))
    try:
        yield
    finally:
        _passes.pop()


def _dropout(dropout: nn.Dropout) -> Dropped:
    """The share that is dropped now; the calls within a pass are counted to tell their masks apart."""
    now = _passes[-1]
    now.sites += 1
    return Dropped(dropout.p if dropout.training else 0.0, now.seed, now.sites)


def _half(*weights: Tensor) -> Tensor:
    """Weights of layers that follow one another, in half precision."""
    now = _passes[-1]
    assert now.dtype is not None, "there are kernels in half precision only"
    if now.halves is None:
        return torch.cat([weight.detach() for weight in weights]).to(now.dtype)
    return now.halves.of(*weights)


def embed(
    table: nn.Embedding,
    sentences: PackedSentences,
    positions_PD: Tensor,
    factor: float,
    norm: nn.LayerNorm,
    dropout: nn.Dropout,
) -> Tensor:
    """dropout(LN(factor E[id] + position)) of each token."""
    dtype = _half_type(table.weight)
    if dtype is None:
        x_ND: Tensor = dropout(norm(table(sentences.ids_N) * factor + positions_PD[sentences.position_N]))
        return x_ND
    from manyglot.model.kernels.embedding import Embed

    where = sentences.ids_N, positions_PD, sentences.position_N
    constants = factor, PAD, norm.eps, _dropout(dropout), dtype
    x_ND = _apply(Embed, table.weight, *where, norm.weight, norm.bias, *constants)
    return x_ND


class Branch(NamedTuple):
    """What a sub-layer adds to its input, in parts: a kernel adds them up in passing."""

    y: Tensor
    bias: Tensor | None = None
    term: Tensor | None = None

    def total(self) -> Tensor:
        """The sum of the parts."""
        y = self.y if self.bias is None else self.y + self.bias
        return y if self.term is None else y + self.term


def project(x: Tensor, projection: nn.Linear, term: Tensor | None = None) -> Branch:
    """The last projection of a sub-layer, with a term to add."""
    if not _has_kernels(x):
        return Branch(projection(x), None, term)
    from manyglot.model.kernels.linear import Linear

    y: Tensor = _apply(Linear, x.flatten(0, -2), _half(projection.weight), None, projection.weight)
    y = y.view(*x.shape[:-1], len(projection.weight))
    return Branch(y, projection.bias, _like(term, y))


def project_by_language(x: Tensor, projection: nn.Linear, added: ByLanguage) -> Branch | None:
    """The same with a matrix for each language added to the projection's, where there is a kernel for that."""
    if not _has_kernels(x):
        return None
    y = linear_by_language(x, projection.weight, _half(projection.weight), added)
    return None if y is None else Branch(y, projection.bias)


def feed_forward(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Branch:
    """relu(x W1^T + b1) W2^T + b2."""
    if _only_forward(x, inner.weight):
        hidden_NE = torch._addmm_activation(inner.bias, x.flatten(0, -2), inner.weight.T)
        return Branch(outer(hidden_NE).view_as(x))
    if not _has_kernels(x) or any(width % 8 for width in inner.weight.shape):  # a tile starts at whole 16 bytes
        return Branch(outer(F.relu(inner(x))))
    from manyglot.model.kernels.linear import FeedForward

    weights = inner.weight, inner.bias, outer.weight
    y: Tensor = _apply(FeedForward, x.flatten(0, -2), tuple(_half(weight) for weight in weights), *weights)
    return Branch(y.view_as(x), outer.bias)


class Fork(NamedTuple):
    """States that go several ways; where a kernel made them, it adds up the gradients of all in passing."""

    past: Tensor
    """To the residual sum after a sub-layer."""
    through: Tensor
    """Into the sub-layer's function."""
    guided: Tensor
    """To what guidance makes of them inside the function."""

    @classmethod
    def of(cls, x: Tensor) -> Fork:
        """The same all ways."""
        return cls(x, x, x)


class Norm(NamedTuple):
    """A layer norm, and what guidance adds to its gain and bias for the language of each row."""

    shared: nn.LayerNorm
    terms: NormTerms | None
    target: Target

    def of(self, x_BTD: Tensor) -> Tensor:
        """LN(x)."""
        y_BTD: Tensor
        if self.terms is None:
            y_BTD = self.shared(x_BTD)
            return y_BTD
        gain_LD, bias_LD = self.tables()
        y_BTD = F.layer_norm(x_BTD, self.shared.normalized_shape, eps=self.shared.eps)
        return y_BTD * self.target.take(gain_LD)[:, None] + self.target.take(bias_LD)[:, None]

    def tables(self) -> tuple[Tensor, Tensor]:
        """Gain and bias, of each language where guidance adds to them, row by row in memory."""
        gain, bias = self.shared.weight, self.shared.bias
        if self.terms is None:
            return gain, bias
        return (gain + self.terms.gain_LD).contiguous(), (bias + self.terms.bias_LD).contiguous()

    @property
    def choice(self) -> Choice | None:
        """By which each row takes its gain and bias, if they differ."""
        return None if self.terms is None else self.target.language


def as_states(y: Tensor, x: Tensor) -> Tensor:
    """What was computed from the states x, in the type of states, which is that of the kernels where there are some."""
    return y.to(_passes[-1].dtype or x.dtype if _passes else x.dtype)


def add_norm(x: Tensor, branch: Branch, norm: Norm, dropout: nn.Dropout) -> Fork:
    """LN(x + dropout(y))."""
    eps, choice = norm.shared.eps, norm.choice
    if _only_forward(x, norm.shared.weight) and not dropout.training:
        from manyglot.model.kernels.norm import sum_norm

        return Fork.of(sum_norm(x, branch, *norm.tables(), eps, None if choice is None else choice.index_B))
    in_order = choice is None or choice.order_B is None
    if not (_has_kernels(x) and in_order and branch.bias is not None):
        return Fork.of(as_states(norm.of(x + dropout(branch.total())), x))
    from manyglot.model.kernels.norm import AddNorm

    y, term = (None if each is None else each.flatten(0, -2) for each in (branch.y, branch.term))
    parts = x.flatten(0, -2), y, branch.bias, term
    ways = _apply(AddNorm, *parts, *norm.tables(), eps, _dropout(dropout), choice)
    return Fork(*(way.view_as(x) for way in ways))


class Sight(NamedTuple):
    """Who sees whom among packed sentences."""

    query: PackedSentences
    key: PackedSentences
    groups: TileGroups[Tensor]
    causal: bool = False

    @property
    def fits(self) -> bool:
        """Whether each sentence fits into a tile of a kernel."""
        return fits_tile(max(self.query.max_length, self.key.max_length))


def attend_self(
    x_ND: Tensor, projections: Sequence[nn.Linear], term_ND: Tensor | None, sight: Sight, num_heads: int
) -> Tensor:
    """softmax(q k^T / sqrt(K)) v within each sentence; query, key and value are projections of x, plus the term."""
    weights, biases = _split(projections)
    if _has_kernels(x_ND) and sight.fits:
        from manyglot.model.kernels.attention import SelfAttention
        from manyglot.model.kernels.linear import Linear

        qkv_NC = _apply(Linear, x_ND, _half(*weights), _half(*biases), *weights)
        z_ND: Tensor = _apply(SelfAttention, qkv_NC, *biases, _like(term_ND, x_ND), sight, num_heads)
        return z_ND
    qkv_NC = F.linear(x_ND, torch.cat(weights), torch.cat(biases))
    q, k, v = (x if term_ND is None else x + term_ND for x in qkv_NC.chunk(3, dim=1))
    return _attend(q, k, v, sight, num_heads)


class KeysAndValues(NamedTuple):
    """Key and value of a layer side by side, and where their gradient goes."""

    kv_MC: Tensor
    place: Callable[[Tensor], Tensor] = torch.empty_like


def project_memory(memory_MD: Tensor, layers: Sequence[Sequence[nn.Linear]]) -> list[KeysAndValues] | None:
    """Keys and values for the cross-attentions of all layers in one product, where kernels read them."""
    if not _has_kernels(memory_MD) or _passes[-1].halves is None:
        return None
    from manyglot.model.kernels.linear import Block, LinearForAll

    weights, biases = _split([projection for projections in layers for projection in projections])
    block = Block(len(layers))
    parts = _apply(LinearForAll, memory_MD, _half(*weights), _half(*biases), block, *weights)
    return [KeysAndValues(kv_MC, partial(block.part, i)) for i, kv_MC in enumerate(parts)]


def attend_cross(
    x_ND: Tensor,
    memory_MD: Tensor,
    keys_and_values: KeysAndValues | None,
    projections: Sequence[nn.Linear],
    terms: tuple[Tensor | None, Tensor | None],
    sight: Sight,
    num_heads: int,
) -> Tensor:
    """softmax(q k^T / sqrt(K)) v from each sentence to its source.

    The query is a projection of x, plus the first term; key and value are projections of the memory, plus the second.
    These may have been made already.
    """
    query, *others = projections
    weights, biases = _split(others)
    if _has_kernels(x_ND) and sight.fits:
        from manyglot.model.kernels.attention import CrossAttention
        from manyglot.model.kernels.linear import Linear

        q_ND = _apply(Linear, x_ND, _half(query.weight), _half(query.bias), query.weight)
        if keys_and_values is None:
            keys_and_values = KeysAndValues(_apply(Linear, memory_MD, _half(*weights), _half(*biases), *weights))
        kv_MC, place = keys_and_values
        added = query.bias, *biases, *(_like(term, x_ND) for term in terms)
        z_ND: Tensor = _apply(CrossAttention, q_ND, kv_MC, *added, sight, num_heads, place)
        return z_ND
    term_ND, term_MD = terms
    q_ND, kv_MC = query(x_ND), F.linear(memory_MD, torch.cat(weights), torch.cat(biases))
    q_ND = q_ND if term_ND is None else q_ND + term_ND
    k_MD, v_MD = (x if term_MD is None else x + term_MD for x in kv_MC.chunk(2, dim=1))
    return _attend(q_ND, k_MD, v_MD, sight, num_heads)


def _split(projections: Sequence[nn.Linear]) -> tuple[list[Tensor], list[Tensor]]:
    """Weights and biases."""
    return [p.weight for p in projections], [p.bias for p in projections]


def _like(term: Tensor | None, x: Tensor) -> Tensor | None:
    return None if term is None else term.to(x.dtype)


def _attend(q_ND: Tensor, k_MD: Tensor, v_MD: Tensor, sight: Sight, num_heads: int) -> Tensor:
    """Put the sentences below one another, padded, and attend."""
    q_BHTK = _heads(_padded(q_ND, sight.query), num_heads)
    k_BHSK, v_BHSK = (_heads(_padded(x, sight.key), num_heads) for x in (k_MD, v_MD))
    mask_B11S = None
    if not sight.causal:  # which hides the padding too
        there_M = torch.ones(len(k_MD), 1, dtype=torch.bool, device=k_MD.device)
        mask_B11S = _padded(there_M, sight.key)[:, None, None, :, 0]
    z_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, attn_mask=mask_B11S, is_causal=sight.causal)
    return z_BHTK.transpose(1, 2).flatten(2)[sight.query.sentence_N, sight.query.position_N]


def _padded(x_ND: Tensor, sentences: PackedSentences) -> Tensor:
    place_N = sentences.sentence_N.long() * sentences.max_length + sentences.position_N
    padded = x_ND.new_zeros(sentences.num_sentences * sentences.max_length, x_ND.shape[1])
    return padded.index_copy(0, place_N, x_ND).view(sentences.num_sentences, sentences.max_length, -1)


def _heads(x_BTD: Tensor, num_heads: int) -> Tensor:
    batch, length, width = x_BTD.shape
    return x_BTD.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def cross_entropy(
    hidden_ND: Tensor, weight_VD: Tensor, label_N: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sum of the label-smoothed losses of an output layer, and each token's negative log-likelihood.

    A token whose label is PAD has none.
    """
    dtype, wanted = _half_type(hidden_ND), (label_N, label_smoothing, PAD)
    weight_VD = weight_VD if torch.is_grad_enabled() else weight_VD.detach()  # or its gradient is computed for nobody
    if dtype is not None:
        from manyglot.model.kernels.loss import LinearCrossEntropy

        smoothed, nll_N = _apply(LinearCrossEntropy, hidden_ND.to(dtype), weight_VD, *wanted)
        return smoothed, nll_N
    dtype = product_dtype(hidden_ND)
    smoothed, nll_N = _apply(ChunkedCrossEntropy, hidden_ND.to(dtype), weight_VD.to(dtype), *wanted)
    return smoothed, nll_N


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]
