"""Attention against a plain twin: one sentence, one head, one position at a time."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from manyglot.model.attention import CrossAttention, MultiHeadAttention, SelfAttention
from manyglot.model.executor import EncoderMemory, Executor
from manyglot.model.guidance.base import CombinedGuidance, HookPoint, Site, TargetLanguages
from manyglot.model.guidance.language_matmul import LanguageGroups
from manyglot.model.padded_executor import PaddedDecoderExecutor, PaddedEncoderExecutor
from manyglot.model.sublayer_io import SublayerInput
from manyglot.vocabulary.subword_model import PAD

NONE = CombinedGuidance({})
WIDTH, HEADS = 12, 3


def reference(attention: MultiHeadAttention, x_TD: Tensor, memory_SD: Tensor, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(K)) v as explicit loops."""
    width = WIDTH // HEADS
    rows = []
    for i, x_D in enumerate(x_TD):
        seen_SD = memory_SD[: i + 1] if causal else memory_SD
        heads = []
        for h in range(HEADS):
            columns = slice(h * width, (h + 1) * width)
            q_K = (attention.query.weight @ x_D + attention.query.bias)[columns]
            k_SK = torch.stack([(attention.key.weight @ m + attention.key.bias)[columns] for m in seen_SD])
            v_SK = torch.stack([(attention.value.weight @ m + attention.value.bias)[columns] for m in seen_SD])
            weight_S = torch.softmax(k_SK @ q_K / math.sqrt(width), dim=0)
            heads.append(weight_S @ v_SK)
        rows.append(attention.output.weight @ torch.cat(heads) + attention.output.bias)
    return torch.stack(rows)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_outputs_and_gradients_match_the_naive_attention(kind: str) -> None:
    torch.manual_seed(0)
    attention_type = CrossAttention if kind == "cross" else SelfAttention
    attention = attention_type(HookPoint(Site.ENC_SELF, 0), WIDTH, HEADS).double()
    x_BTD = torch.randn(3, 5, WIDTH, dtype=torch.float64, requires_grad=True)
    memory_BSD = torch.randn(3, 4, WIDTH, dtype=torch.float64, requires_grad=True) if kind == "cross" else None
    lengths = [2, 4, 3] if kind == "cross" else [5, 3, 4]
    ids_BS = torch.ones(3, 4 if kind == "cross" else 5, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids_BS[row, length:] = PAD
    mask = None if kind == "decoder" else (ids_BS != PAD)[:, None, None, :]
    target_languages = TargetLanguages(
        LanguageGroups.from_languages(torch.zeros(3, dtype=torch.long), 1), torch.zeros(3, WIDTH)
    )

    inputs = [x_BTD, *attention.parameters()] + ([memory_BSD] if memory_BSD is not None else [])
    executor: Executor = PaddedEncoderExecutor(NONE, target_languages, mask)
    if kind != "encoder":
        executor = PaddedDecoderExecutor(
            NONE, target_languages, EncoderMemory(x_BTD if memory_BSD is None else memory_BSD, None, mask)
        )
    fast_BTD = attention(SublayerInput.from_states(x_BTD), executor).total()
    plain, fast = [], []
    for row, length in enumerate(lengths):
        own_TD = x_BTD[row] if kind == "cross" else x_BTD[row, :length]
        seen_SD = own_TD if memory_BSD is None else memory_BSD[row, :length]
        plain.append(reference(attention, own_TD, seen_SD, causal=kind == "decoder"))
        fast.append(fast_BTD[row, : len(own_TD)])
    torch.testing.assert_close(torch.cat(fast), torch.cat(plain))
    weight = torch.randn_like(torch.cat(plain))
    gradients = [
        torch.autograd.grad((torch.cat(each) * weight).sum(), inputs, retain_graph=True) for each in (fast, plain)
    ]
    for fast_gradient, plain_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(fast_gradient, plain_gradient)
