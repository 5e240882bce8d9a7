"""The outputs and gradients of the kernels agree with plain PyTorch: on a GPU, or interpreted by Triton."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

GPU = torch.cuda.is_available()
pytest.importorskip("triton")

from manyglot.batches.batch import collate  # noqa: E402
from manyglot.model import kernels, packed_executor  # noqa: E402
from manyglot.model.guidance import METHODS, method_name  # noqa: E402
from manyglot.model.guidance.base import NormTerms  # noqa: E402
from manyglot.model.guidance.language_matmul import LanguageGroups  # noqa: E402
from manyglot.model.half_precision_weights import HalfPrecisionWeights  # noqa: E402
from manyglot.model.kernels.add_norm import AddNorm  # noqa: E402
from manyglot.model.kernels.embedding import FusedEmbeddingNormDropout  # noqa: E402
from manyglot.model.kernels.grouped_matmul import add_to_each_matrix, triton_grouped_matmul  # noqa: E402
from manyglot.model.kernels.kernel_arguments import DropoutMaskParameters, PackedMask  # noqa: E402
from manyglot.model.kernels.linear import (  # noqa: E402
    ConcatenatedGradients,
    ConcatenatedLinear,
    FusedFeedForward,
    MixedPrecisionLinear,
)
from manyglot.model.kernels.linear_cross_entropy import FusedLinearCrossEntropy  # noqa: E402
from manyglot.model.kernels.packed_attention import PackedCrossAttention, PackedSelfAttention  # noqa: E402
from manyglot.model.kernels.partial_sums import reduce_partial_sums  # noqa: E402
from manyglot.model.packed_executor import packed_forward  # noqa: E402
from manyglot.model.packing import pack_batch  # noqa: E402
from manyglot.model.sublayer_io import GuidedNorm, SublayerOutput  # noqa: E402
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings, make_aligned_target_selection  # noqa: E402
from manyglot.training.loss import summed_batch_loss  # noqa: E402
from manyglot.vocabulary.vocabulary import LanguageTags  # noqa: E402
from tests.conftest import random_batch, tiny_model  # noqa: E402
from tests.model.guidance.combinations import COMBINATIONS, LOW_RANK  # noqa: E402

DEVICE = torch.device("cuda" if GPU else "cpu")
DTYPES = [torch.float32, torch.bfloat16] if GPU else [torch.float32]
HEADS = 2


def dropout_mask(share: float, seed: int = 0, site: int = 1) -> DropoutMaskParameters:
    return DropoutMaskParameters(share, torch.tensor([seed], dtype=torch.int32, device=DEVICE), site)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype).requires_grad_()


def agree(mine: Tensor, theirs: Tensor, inputs: list[Tensor], tolerance: float = 0.0) -> None:
    """Compare values, and gradients for random output weights."""
    tolerance = tolerance or (1e-4 if inputs[0].dtype == torch.float32 else 0.03)
    weight = torch.randn(theirs.shape, device=DEVICE)
    results = []
    for y in (mine, theirs):
        results.append([y, *torch.autograd.grad((y.float() * weight).sum(), inputs, retain_graph=True)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=tolerance, atol=tolerance * float(b.detach().abs().max()))


def packed_mask(query: list[int], key: list[int], causal: bool = False, multiple: int = 1) -> PackedMask:
    """The mask of a packed batch with sentences of these lengths."""
    words = [[[5] * (n - 1) for n in lengths] for lengths in (key, query)]
    batch = pack_batch(collate(words[0], words[1], [0] * len(query), [LanguageTags()]), multiple).to(DEVICE)
    if query == key:
        return PackedMask(batch.input, batch.input, batch.decoder_groups, causal)
    return PackedMask(batch.input, batch.source, batch.cross_groups, causal)


def one_by_one(q: Tensor, k: Tensor, v: Tensor, query: list[int], key: list[int], causal: bool) -> Tensor:
    """Attend within each sentence separately."""
    parts = []
    for each in zip(q.split(query), k.split(key), v.split(key), strict=True):
        heads = [x.float().view(len(x), HEADS, -1).transpose(0, 1) for x in each]
        parts.append(F.scaled_dot_product_attention(*heads, is_causal=causal).transpose(0, 1).flatten(1))
    return torch.cat(parts)


def bias_for_gradient(*biases: Tensor) -> Tensor:
    """Concatenated biases that add nothing to the values but receive gradients."""
    return torch.cat([bias - bias.detach() for bias in biases])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 24])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("guided", [False, True])
def test_self_attention(dtype: torch.dtype, width: int, causal: bool, guided: bool) -> None:
    torch.manual_seed(0)
    lengths = [3, 20, 1, 7, 64, 30, 30, 5]
    qkv = random(sum(lengths), 3 * HEADS * width, dtype=dtype)
    biases = [random(HEADS * width) for _ in range(3)]
    term = random(sum(lengths), HEADS * width, dtype=dtype) if guided else None
    mine = PackedSelfAttention.apply(qkv, *biases, term, packed_mask(lengths, lengths, causal), HEADS)
    parts = [x if term is None else x + term for x in (qkv + bias_for_gradient(*biases)).chunk(3, dim=1)]
    theirs = one_by_one(*parts, lengths, lengths, causal)
    agree(mine, theirs, [x for x in (qkv, *biases[::2], term) if x is not None])
    assert not torch.autograd.grad(mine.sum(), biases[1])[0].any(), "a bias of the keys changes nothing"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("guided", ["", "q", "k", "qk"])
@pytest.mark.parametrize("tile", [64, 128])
def test_cross_attention(dtype: torch.dtype, guided: str, tile: int) -> None:
    torch.manual_seed(0)
    query, key, width = [3, 20, 1, 7, tile, 30, 5], [9, 2, 1, tile, 33, 50, 5], HEADS * 16
    q, kv = random(sum(query), width, dtype=dtype), random(sum(key), 2 * width, dtype=dtype)
    term_q = random(sum(query), width, dtype=dtype) if "q" in guided else None
    term_k = random(sum(key), width, dtype=dtype) if "k" in guided else None
    biases = [random(width) for _ in range(3)]
    mine = PackedCrossAttention.apply(q, kv, *biases, term_q, term_k, packed_mask(query, key), HEADS)
    k, v = (x if term_k is None else x + term_k for x in (kv + bias_for_gradient(*biases[1:])).chunk(2, dim=1))
    biased = q + bias_for_gradient(biases[0])
    theirs = one_by_one(biased if term_q is None else biased + term_q, k, v, query, key, False)
    agree(mine, theirs, [x for x in (q, kv, *biases[::2], term_q, term_k) if x is not None])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [32, 24])
@pytest.mark.parametrize("guided", [False, True])
def test_residual_and_norm(dtype: torch.dtype, width: int, guided: bool) -> None:
    torch.manual_seed(0)
    x, y, term = (random(37, width, dtype=dtype) for _ in range(3))
    bias, gain, shift = (random(width) for _ in range(3))
    residual, states, guidance_input = AddNorm.apply(
        x, y, bias, term if guided else None, gain, shift, 1e-5, dropout_mask(0.0)
    )
    total = x.float() + y.float() + bias + (term.float() if guided else 0)
    theirs = F.layer_norm(total, (width,), gain, shift)
    inputs = [x, y, bias, gain, shift, *([term] if guided else [])]
    agree(residual, theirs, inputs)
    agree(states, theirs, inputs)
    agree(2 * residual.float() + states.float().sin(), 2 * theirs + theirs.sin(), inputs)
    agree(
        residual.float() + states.float().sin() + guidance_input.float().cos(),
        theirs + theirs.sin() + theirs.cos(),
        inputs,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [32, 24])
def test_residual_and_norm_by_language(dtype: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyglot.model.kernels.add_norm.GRADIENT_CHUNK_ROWS", 10)
    monkeypatch.setattr("manyglot.model.kernels.add_norm.PROGRAMS_PER_CHUNK", 2)
    torch.manual_seed(0)
    language = torch.tensor([0] * 3 + [2] * 25 + [3] * 9, device=DEVICE)
    x, y, term = (random(37, width, dtype=dtype) for _ in range(3))
    bias, gain, shift = random(width), random(5, width), random(5, width)
    groups = LanguageGroups.from_languages(language, 5, is_sorted=True)
    residual, states, guidance_input = AddNorm.apply(x, y, bias, term, gain, shift, 1e-5, dropout_mask(0.0), groups)
    total = x.float() + y.float() + bias + term.float()
    theirs = F.layer_norm(total, (width,)) * gain[language] + shift[language]
    inputs = [x, y, bias, gain, shift, term]
    agree(residual, theirs, inputs)
    agree(
        residual.float() + states.float().sin() + guidance_input.float().cos(),
        theirs + theirs.sin() + theirs.cos(),
        inputs,
    )


def test_gain_and_bias_tables_are_contiguous() -> None:
    """Kernels need contiguous tables, whatever the strides of a method's terms."""
    terms, target_languages = (
        NormTerms(torch.zeros(8, 3).T, torch.ones(8, 3).T),
        tiny_model().prepare_target_languages(torch.tensor([0])),
    )
    assert all(table.is_contiguous() for table in GuidedNorm(nn.LayerNorm(8), terms, target_languages).gain_and_bias())


def test_dropout_drops_the_given_share_of_values_and_gradients() -> None:
    x, y = torch.zeros(200, 64, device=DEVICE), torch.ones(200, 64, device=DEVICE, requires_grad=True)
    # where everything is one or nothing, the sum before the norm tells what was dropped
    gain, shift = torch.ones(64, device=DEVICE), torch.zeros(64, device=DEVICE)
    places = [dropout_mask(0.25, *each) for each in ((1, 1), (1, 1), (2, 1), (1, 2))]
    outputs = [AddNorm.apply(x, y, shift, None, gain, shift, 1e-5, place)[0] for place in places]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2]), "another seed"
    assert not torch.equal(outputs[0], outputs[3]), "another place in the model"
    keep_mask = outputs[0] > outputs[0].mean(dim=1, keepdim=True)
    assert abs(keep_mask.float().mean() - 0.75) < 0.02
    (gradient,) = torch.autograd.grad((outputs[0] * torch.randn_like(outputs[0])).sum(), y)
    assert torch.equal(gradient != 0, keep_mask)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [32, 24])
def test_embedding(dtype: torch.dtype, width: int) -> None:
    torch.manual_seed(0)
    table, gain, shift = random(11, width), random(width), random(width)
    positions = torch.randn(9, width, device=DEVICE)
    ids = torch.tensor([3, 0, 3, 10, 3, 5, 1], dtype=torch.int32, device=DEVICE)
    position = torch.tensor([0, 1, 2, 3, 0, 1, 8], dtype=torch.int32, device=DEVICE)
    mine = FusedEmbeddingNormDropout.apply(
        table, ids, positions, position, gain, shift, width**0.5, 0, 1e-5, dropout_mask(0.0), dtype
    )
    total = F.embedding(ids.long(), table, padding_idx=0) * width**0.5 + positions[position.long()]
    theirs = F.layer_norm(total, (width,), gain, shift)
    agree(mine, theirs, [table, gain, shift], 1e-4 if dtype == torch.float32 else 0.03)


def test_embedding_with_dropout() -> None:
    table, ones = torch.randn(5, 64, device=DEVICE).requires_grad_(), torch.ones(64, device=DEVICE)
    ids = torch.randint(1, 5, (200,), dtype=torch.int32, device=DEVICE)
    positions, position = torch.zeros(1, 64, device=DEVICE), torch.zeros_like(ids)
    whole, some = (
        FusedEmbeddingNormDropout.apply(
            table, ids, positions, position, ones, 0 * ones, 1.0, 0, 1e-5, dropout_mask(p), torch.float32
        )
        for p in (0, 0.25)
    )
    keep_mask = some != 0
    assert abs(keep_mask.float().mean() - 0.75) < 0.02
    torch.testing.assert_close(some, whole * keep_mask / 0.75)
    weight = torch.randn_like(some)
    for mine, theirs in zip(
        torch.autograd.grad((some * weight).sum(), table),
        torch.autograd.grad((whole * keep_mask / 0.75 * weight).sum(), table),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [[5, 0, 200, 30, 0], [0, 0, 0, 7, 0], [64, 64, 0, 64, 1]])
@pytest.mark.parametrize(("width_in", "width"), [(24, 40), (24, 8), (8, 40)], ids=str)
def test_grouped_matmul(dtype: torch.dtype, transposed: bool, sizes: list[int], width_in: int, width: int) -> None:
    """Includes factors of low rank, whose widths are a fraction of a tile."""
    torch.manual_seed(0)
    x = random(sum(sizes), width_in, dtype=dtype).detach()
    matrix = random(5, *((width, width_in) if transposed else (width_in, width)), dtype=dtype).detach()
    used, ends = matrix.mT if transposed else matrix, torch.tensor(sizes, device=DEVICE).cumsum(0).to(torch.int32)
    theirs = torch.cat([part.float() @ each.float() for part, each in zip(x.split(sizes), used, strict=True)])
    tolerance = 1e-4 if dtype == torch.float32 else 0.03
    torch.testing.assert_close(
        triton_grouped_matmul(x, used, ends).float(), theirs, rtol=tolerance, atol=10 * tolerance
    )


def test_add_to_each_matrix() -> None:
    matrix, weight = torch.randn(3, 70, 80, device=DEVICE), torch.randn(70, 80, device=DEVICE)
    torch.testing.assert_close(add_to_each_matrix(matrix, weight), matrix + weight)


def test_reduce_partial_sums() -> None:
    parts = torch.randn(1300, 3, 30, device=DEVICE)
    torch.testing.assert_close(reduce_partial_sums(parts), parts.sum(dim=0), rtol=1e-4, atol=1e-4)


def rounded(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Round a weight to the kernel's data type; return it in float32 and pass the gradient through."""
    return weight.detach().to(dtype).float() + (weight - weight.detach())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
def test_linear(dtype: torch.dtype, biased: bool) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(16, size, device=DEVICE) for size in (40, 24)]
    x, weights, biases = random(77, 16, dtype=dtype), [a.weight for a in layers], [a.bias for a in layers]
    halves = HalfPrecisionWeights(layers, dtype)
    mine = MixedPrecisionLinear.apply(
        x, halves.concatenated(*weights), halves.concatenated(*biases) if biased else None, *weights
    )
    bias = torch.cat(biases).detach().to(dtype).float() if biased else None
    agree(mine, F.linear(x.float(), torch.cat([rounded(w, dtype) for w in weights]), bias), [x, *weights])


@pytest.mark.parametrize("in_place", [False, True])
def test_joined_linear_layers(in_place: bool) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(16, 24, device=DEVICE) for _ in range(4)]
    x, weights, biases = random(77, 16), [a.weight for a in layers], [a.bias for a in layers]
    halves, block = HalfPrecisionWeights(layers, torch.float32), ConcatenatedGradients(2)
    mine = ConcatenatedLinear.apply(x, halves.concatenated(*weights), halves.concatenated(*biases), block, *weights)
    if in_place:
        mine = [_InPlace.apply(y, partial(block.part_buffer, i)) for i, y in enumerate(mine)]
    theirs = [
        torch.cat([F.linear(x, a.weight, a.bias.detach()) for a in pair], dim=1) for pair in (layers[:2], layers[2:])
    ]
    agree(torch.cat(list(mine), dim=1), torch.cat(theirs, dim=1), [x, *weights])


class _InPlace(torch.autograd.Function):
    """The identity, whose gradient is written into the buffer of its layer."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, place: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.place = place
        return y.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.place(grad).copy_(grad), None


@pytest.mark.parametrize("dtype", DTYPES)
def test_feed_forward(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, inner, bias, outer = random(77, 16, dtype=dtype), random(40, 16), random(40), random(16, 40)
    hidden = F.linear(x.float(), rounded(inner, dtype), rounded(bias, dtype)).relu()
    theirs = F.linear(hidden, rounded(outer, dtype))
    halves = tuple(each.detach().to(dtype) for each in (inner, bias, outer))
    agree(FusedFeedForward.apply(x, halves, inner, bias, outer), theirs, [x, inner, bias, outer])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_output_layer_and_loss(dtype: torch.dtype, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyglot.model.kernels.linear_cross_entropy.MAX_LOGITS_CHUNK_TOKENS", 8)
    monkeypatch.setattr("manyglot.model.kernels.linear_cross_entropy.BLOCK", 32)
    torch.manual_seed(0)
    hidden, weight = random(19, 16, dtype=dtype), random(101, 16)
    label = torch.randint(1, 101, (19,), device=DEVICE)
    label[4] = 0
    smoothed, nll = FusedLinearCrossEntropy.apply(hidden, weight, label, smoothing, 0)
    logits = hidden.float() @ weight.T
    theirs = F.cross_entropy(logits, label, label_smoothing=smoothing, ignore_index=0, reduction="sum")
    agree(smoothed, theirs, [hidden, weight])
    torch.testing.assert_close(
        nll, F.cross_entropy(logits, label, ignore_index=0, reduction="none"), rtol=0.02, atol=0.02
    )


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="no GPU")
@pytest.mark.parametrize("name", COMBINATIONS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_kernels_are_as_exact_as_plain_half_precision(name: str, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the errors of the loss and of every gradient, relative to float32."""
    model = tiny_model(COMBINATIONS[name], norm=norm).float().to(DEVICE)
    batch = pack_batch(random_batch(model, size=40)).to(DEVICE)
    results = []
    for half, have in ((False, False), (True, False), (True, True)):
        monkeypatch.setattr(kernels, "has_triton", lambda have=have: have)
        model.zero_grad()
        torch.manual_seed(0)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss = summed_batch_loss(model, batch, packed_forward(model, batch), 0.1)
        loss.label_smoothed.backward()
        results.append((loss, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}))
    (exact, expected), (_, plain), (fast, got) = results
    torch.testing.assert_close(fast.label_smoothed, exact.label_smoothed, rtol=0.01, atol=0.0)
    torch.testing.assert_close(fast.nll_L, exact.nll_L, rtol=0.01, atol=0.0)
    assert got.keys() == expected.keys()
    whole = torch.cat([gradient.flatten() for gradient in expected.values()]).norm()
    for parameter, gradient in expected.items():
        size = gradient.norm() + 0.01 * whole  # that of a key's bias is zero but for rounding
        mine, theirs = ((each[parameter] - gradient).norm() / size for each in (got, plain))
        assert mine < 2 * theirs + 0.05, f"{parameter}: {mine} against {theirs}"


@pytest.mark.skipif(GPU, reason="the test above is for GPUs")
@pytest.mark.parametrize(
    ("name", "norm"),
    [
        *((method_name(method), "post") for method in METHODS),
        *(("LALT + LEE + LAA", norm) for norm in ("post", "pre")),
        ("LALN + LALT", "pre"),
        *(pytest.param(name, "post", marks=pytest.mark.slow) for name in LOW_RANK),
    ],
)
def test_every_method_trains_with_kernels(name: str, norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float64 model that treats float32 as half precision: states of any other type would not run as kernels.

    The contrastive alignment loss is included if guidance does not affect the encoder.
    """

    def refuse(*_: Any) -> None:
        raise AssertionError("this operation did not run as a kernel")

    monkeypatch.setattr("manyglot.model.kernels.add_norm.PROGRAMS_PER_CHUNK", 2)
    model = tiny_model(COMBINATIONS[name], norm=norm).double()
    alignment = None if model.guidance.affects_encoder else ContrastiveAlignmentSettings(every_nth_pair=2)
    aligned_targets = None if alignment is None else make_aligned_target_selection(model, alignment)
    batch = pack_batch(random_batch(model, size=4), aligned_targets=aligned_targets)

    def loss_and_gradients() -> tuple[Tensor, tuple[Tensor | None, ...]]:
        torch.manual_seed(0)
        total = summed_batch_loss(model, batch, packed_forward(model, batch), 0.1, alignment).objective
        return total, torch.autograd.grad(total, list(model.parameters()), allow_unused=True)

    exact, expected = loss_and_gradients()
    monkeypatch.setattr(kernels, "autocast_kernel_dtype", lambda _: torch.float32)
    monkeypatch.setattr(kernels, "can_use_kernels", lambda x: x.dtype == torch.float32)
    monkeypatch.setattr(packed_executor, "_attend_padded", refuse)
    if norm == "post" and not model.guidance.sublayer_output_sites:  # their hook reads the sum
        monkeypatch.setattr(SublayerOutput, "total", refuse)
    else:  # as autocast does, which there is not in these types
        norm_of = F.layer_norm
        monkeypatch.setattr(F, "layer_norm", lambda x, *rest, **more: norm_of(x.double(), *rest, **more))
    fast, got = loss_and_gradients()
    torch.testing.assert_close(fast.double(), exact.double(), rtol=1e-5, atol=0.0)
    for (parameter, _), mine, theirs in zip(model.named_parameters(), got, expected, strict=True):
        assert (mine is None) == (theirs is None), parameter
        if theirs is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()) + 1e-6)
