"""Grouped and gathered products agree with one product per sentence."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from manyglot.model.guidance import language_matmul
from manyglot.model.guidance.language_matmul import (
    LanguageGroups,
    LanguageMatmul,
    LanguageMatrices,
    gathered_matmul,
    grouped_matmul,
)

NUM_LANGUAGES, WIDTH = 4, 6
rows = st.lists(st.integers(0, NUM_LANGUAGES - 1), min_size=1, max_size=9)


def one_by_one(x_BTD: Tensor, matrix_LDD: Tensor, index: list[int]) -> Tensor:
    return torch.stack([x_TD @ matrix_LDD[i] for x_TD, i in zip(x_BTD, index, strict=True)])


@pytest.mark.parametrize("matmul", [gathered_matmul, grouped_matmul])
@pytest.mark.parametrize("transposed", [False, True])
@given(index=rows, length=st.integers(1, 4))
def test_products_match_one_product_per_sentence(
    matmul: LanguageMatmul, transposed: bool, index: list[int], length: int
) -> None:
    torch.manual_seed(0)
    x_BTD = torch.randn(len(index), length, WIDTH, dtype=torch.float64, requires_grad=True)
    matrix_LDD = torch.randn(NUM_LANGUAGES, WIDTH, WIDTH, dtype=torch.float64, requires_grad=True)
    used_LDD = matrix_LDD.mT if transposed else matrix_LDD
    got = matmul(x_BTD, used_LDD, LanguageGroups.from_languages(torch.tensor(index), NUM_LANGUAGES))
    expected = one_by_one(x_BTD, used_LDD, index)
    torch.testing.assert_close(got, expected)
    weight = torch.randn_like(got)
    for mine, theirs in zip(
        *(torch.autograd.grad((y * weight).sum(), (x_BTD, matrix_LDD)) for y in (got, expected)), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [[5, 0, 200, 30], [0, 0, 0, 7], [64, 64, 0, 64]])
def test_grouped_kernel_matmul(transposed: bool, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Includes cases where one language has most of the tokens and others have none."""
    monkeypatch.setattr(language_matmul, "GRADIENT_CHUNK_TOKENS", 32)
    torch.manual_seed(0)
    x_ND = torch.randn(sum(sizes), 16, dtype=torch.bfloat16, requires_grad=True)
    matrix_LDD = torch.randn(len(sizes), 16, 16, dtype=torch.bfloat16, requires_grad=True)
    used_LDD = matrix_LDD.mT if transposed else matrix_LDD
    groups = LanguageGroups.from_languages(
        torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)), len(sizes), is_sorted=True
    )
    got = language_matmul._grouped_kernel_matmul(x_ND, used_LDD, groups)
    expected = torch.cat([x.float() @ m.float() for x, m in zip(x_ND.split(sizes), used_LDD, strict=True)])
    weight = torch.randn_like(expected)
    for mine, theirs in zip(
        (got, *torch.autograd.grad((got * weight).sum(), (x_ND, matrix_LDD))),
        (expected, *torch.autograd.grad((expected * weight).sum(), (x_ND, matrix_LDD))),
        strict=True,
    ):
        torch.testing.assert_close(
            mine.float(), theirs.float(), rtol=0.02, atol=0.02 * float(theirs.detach().abs().max())
        )


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("sizes", [[5, 0, 200, 30], [0, 0, 0, 7], [64, 64, 0, 64]])
def test_fused_language_linear(sizes: list[int], is_sorted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_matmul, "GRADIENT_CHUNK_TOKENS", 32)
    monkeypatch.setattr(language_matmul, "_supports_grouped_kernel", lambda x, matrix: True)
    torch.manual_seed(0)
    half = torch.bfloat16
    x_N1D = torch.randn(sum(sizes), 1, 16, dtype=half, requires_grad=True)
    weight_ED = torch.randn(24, 16, requires_grad=True)
    matrix_LED = torch.randn(len(sizes), 24, 16, dtype=half, requires_grad=True)
    index_N = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    index_N = index_N if is_sorted else index_N[torch.randperm(len(index_N))]
    groups = LanguageGroups.from_languages(index_N, len(sizes), is_sorted=is_sorted)
    got = language_matmul.try_fused_language_linear(
        x_N1D, weight_ED, weight_ED.detach().to(half), LanguageMatrices(matrix_LED, groups)
    )
    assert got is not None
    both_LED = weight_ED + matrix_LED.float()
    expected = x_N1D.float() @ both_LED[index_N].mT
    weight, inputs = torch.randn_like(expected), (x_N1D, weight_ED, matrix_LED)
    for mine, theirs in zip(
        (got, *torch.autograd.grad((got * weight).sum(), inputs)),
        (expected, *torch.autograd.grad((expected * weight).sum(), inputs)),
        strict=True,
    ):
        torch.testing.assert_close(
            mine.float(), theirs.float(), rtol=0.02, atol=0.02 * float(theirs.detach().abs().max())
        )


@pytest.mark.parametrize("order", [[0, 1, 1, 2], [2, 1, 0, 1]])
def test_gradients_of_a_shared_table_are_accumulated(order: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial gradients are accumulated in place, also if the tokens must be sorted first."""
    monkeypatch.setattr(language_matmul, "_supports_grouped_kernel", lambda x, matrix: True)
    torch.manual_seed(0)
    x_N1D, matrix_LDD = torch.randn(4, 1, 8, dtype=torch.bfloat16), torch.randn(3, 8, 8, dtype=torch.bfloat16)
    matrix_LDD.requires_grad_()
    groups, taken = LanguageGroups.from_languages(torch.tensor(order), 3, is_sorted=order == sorted(order)), []
    take = language_matmul.GradientAccumulator.pop_sum
    monkeypatch.setattr(
        language_matmul.GradientAccumulator, "pop_sum", lambda self: taken.append(take(self)) or taken[-1]
    )
    uses = [grouped_matmul(x_N1D, matrix_LDD, groups) for _ in range(3)]
    (gradient,) = torch.autograd.grad(sum(use.float().sum() for use in uses), matrix_LDD)
    assert len(taken) == 1, "one gradient for all uses"
    expected = torch.zeros(3, 8).index_add_(0, torch.tensor(order), x_N1D[:, 0].float())[:, :, None].expand(3, 8, 8)
    torch.testing.assert_close(gradient.float(), 3 * expected, rtol=0.05, atol=0.05)


@given(index=rows)
def test_language_groups(index: list[int]) -> None:
    groups = LanguageGroups.from_languages(torch.tensor(index), NUM_LANGUAGES)
    assert groups.sort_order_B is not None
    assert groups.groups_of_sorted_rows().lang_B.tolist() == sorted(index)
    assert groups.group_end_L.tolist() == [sum(i <= language for i in index) for language in range(NUM_LANGUAGES)]
    assert groups.groups_of_sorted_rows().sort_order_B is None
    turned = groups.select(torch.arange(len(index)).flip(0))
    assert turned.lang_B.tolist() == index[::-1]
    assert turned.group_end_L.tolist() == groups.group_end_L.tolist()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_uses_one_kernel_for_all_languages() -> None:
    torch.manual_seed(0)
    index = torch.randint(59, (200,), device="cuda")
    x_BTD = torch.randn(200, 7, 512, device="cuda", requires_grad=True)
    matrix_LDD = (torch.randn(59, 512, 512, device="cuda") / 512**0.5).requires_grad_()
    groups = LanguageGroups.from_languages(index, 59)
    weight = torch.randn_like(x_BTD)
    results = []
    for matmul in (gathered_matmul, grouped_matmul):
        with torch.autocast("cuda", torch.bfloat16):
            y = matmul(x_BTD, matrix_LDD, groups)
        gradients = torch.autograd.grad((y.float() * weight).sum(), (x_BTD, matrix_LDD))
        results.append((y.detach().float(), *gradients))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.02, atol=0.02 * float(theirs.abs().max()))


@pytest.mark.parametrize("transposed", [False, True])
def test_unused_outputs_do_not_affect_accumulated_gradients(transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient covers exactly the uses that contribute to the loss, also in a second backward pass."""
    monkeypatch.setattr(language_matmul, "_supports_grouped_kernel", lambda x, matrix: True)
    torch.manual_seed(0)
    x_N1D, table = torch.randn(4, 1, 8, dtype=torch.bfloat16), torch.randn(3, 8, 8, dtype=torch.bfloat16)
    table.requires_grad_()
    index = torch.tensor([0, 1, 1, 2])
    groups = LanguageGroups.from_languages(index, 3, is_sorted=True)
    matrix = table.mT if transposed else table
    first, unused, last = (grouped_matmul((n + 1) * x_N1D, matrix, groups).float().sum() for n in range(3))
    assert unused.requires_grad
    expected = torch.autograd.grad((4 * x_N1D @ matrix[index]).float().sum(), table)[0]
    for _ in range(2):
        (gradient,) = torch.autograd.grad(first + last, table, retain_graph=True)
        torch.testing.assert_close(gradient.float(), expected.float(), rtol=0.05, atol=0.05)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_chained_uses_of_a_table_sum_their_gradients() -> None:
    torch.manual_seed(0)
    index = torch.randint(5, (300,), device="cuda").sort().values
    groups = LanguageGroups.from_languages(index, 5, is_sorted=True)
    x = torch.randn(300, 1, 64, device="cuda", dtype=torch.bfloat16)
    table = (torch.randn(5, 64, 64, device="cuda") / 8).bfloat16().requires_grad_()
    y = grouped_matmul(grouped_matmul(x, table, groups), table.mT, groups)
    y = grouped_matmul(y, table, groups).float()
    plain = x
    for used in (table, table.mT, table):
        plain = plain @ used[index]
    weight = torch.randn_like(y)
    mine, theirs = (torch.autograd.grad((each * weight).sum(), table)[0].float() for each in (y, plain.float()))
    torch.testing.assert_close(mine, theirs, rtol=0.05, atol=0.05 * float(theirs.abs().max()))
