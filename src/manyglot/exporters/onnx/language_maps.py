"""The guidance of all target languages as tables, from which a graph gathers the rows of its languages.

For one language every hook is an affine function x A + b (see `model/hook_probe.py`), whatever the method. The tables
hold A and b of each language. They are measured in float64 and rounded once. If A, or A minus the identity, has a low
rank for all languages, the tables hold two thin factors instead.

Shape letters: D model width, L languages, R rank, C random columns.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyglot.errors import ManyglotError
from manyglot.model.guidance.base import HookPoint
from manyglot.model.hook_probe import AffineMap, HookProbe
from manyglot.model.transformer import Transformer

FloatArray = npt.NDArray[np.float32]
MAX_FACTOR_ERROR = 1e-9
"""Maximum error of a product of factors, relative to the largest value of the matrix: less than float32 can express."""


@dataclass(frozen=True)
class LanguageMaps:
    """x A + b with an A and a b for each language."""

    matrices: tuple[FloatArray, ...]
    """The matrices by which x is multiplied, one after the other, with an entry per language: A, or two thin factors if
    A has a low rank. Empty if A is the identity for all languages."""
    adds_input: bool
    """Whether x is added to the product, so that A is the product plus the identity."""
    bias_LD: FloatArray | None
    """b; None if it is zero for all languages."""

    @classmethod
    def from_changes(cls, maps: Iterable[AffineMap]) -> LanguageMaps | None:
        """Join the maps of a hook that changes states; return None if no language changes them."""
        joined = cls._from_maps(maps, adds_input=True)
        return joined if joined.matrices or joined.bias_LD is not None else None

    @classmethod
    def from_terms(cls, maps: Iterable[AffineMap]) -> LanguageMaps:
        """Join the maps of a hook that returns a term."""
        return cls._from_maps(maps, adds_input=False)

    @classmethod
    def _from_maps(cls, maps: Iterable[AffineMap], adds_input: bool) -> LanguageMaps:
        joined, biases, has_matrix = _JoinedMatrices(adds_input), [], not adds_input
        for each in maps:  # one language at a time: the matrices of all are large in float64
            has_matrix |= each.has_matrix()
            joined.append(each.a_DD)
            biases.append(to_numpy(each.b_D))
        bias_LD = np.stack(biases)
        matrices, adds_input = joined.stack() if has_matrix else ((), adds_input)
        return cls(matrices, adds_input, bias_LD if bias_LD.any() else None)


class _JoinedMatrices:
    """Collects a matrix per language, as thin factors while all of them have a low rank."""

    def __init__(self, adds_input: bool) -> None:
        self.adds_input = adds_input
        self._factors: list[tuple[Tensor, Tensor]] = []
        self._full: list[FloatArray] = []

    def append(self, a_DD: Tensor) -> None:
        """Add the matrix of the next language."""
        identity_DD = torch.eye(len(a_DD)).to(a_DD) * self.adds_input
        factors = None if self._full else factorize(a_DD - identity_DD)
        if factors is not None:
            self._factors.append(factors)
            return
        self._full += [to_numpy(identity_DD + left_DR @ right_RD) for left_DR, right_RD in self._factors]
        self._factors.clear()
        self._full.append(to_numpy(a_DD))

    def stack(self) -> tuple[tuple[FloatArray, ...], bool]:
        """Return the matrices or factors of all languages, and whether x must be added to the product."""
        if self._full:
            return (np.stack(self._full),), False
        rank = max(1, *(left_DR.shape[1] for left_DR, _ in self._factors))
        lefts = [F.pad(left_DR, (0, rank - left_DR.shape[1])) for left_DR, _ in self._factors]
        rights = [F.pad(right_RD, (0, 0, 0, rank - len(right_RD))) for _, right_RD in self._factors]
        return (to_numpy(torch.stack(lefts)), to_numpy(torch.stack(rights))), self.adds_input


def factorize(a_DD: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return thin matrices whose product is A, or None if the rank of A is not below half of its width.

    The columns of A G, where G has a few random columns, span those of A if its rank is small enough (Halko et al.
    2011). Their number is doubled until they do.
    """
    width, num_columns, rng = len(a_DD), 8, torch.Generator().manual_seed(0)
    tolerance = MAX_FACTOR_ERROR * float(a_DD.abs().max())
    while num_columns < width:
        random_DC = torch.randn(width, num_columns, generator=rng, dtype=a_DD.dtype).to(a_DD.device)
        basis_DC = torch.linalg.qr(a_DD @ random_DC).Q
        u_CC, s_C, v_CD = torch.linalg.svd(basis_DC.T @ a_DD, full_matrices=False)
        scale_R = s_C[s_C > tolerance].sqrt()
        left_DR, right_RD = (basis_DC @ u_CC)[:, : len(scale_R)] * scale_R, scale_R[:, None] * v_CD[: len(scale_R)]
        if float((left_DR @ right_RD - a_DD).abs().max()) <= 2 * tolerance:
            return (left_DR, right_RD) if 2 * len(scale_R) < width else None
        num_columns *= 2
    return None


class GuidanceMaps:
    """Measures the hooks of a model for all its languages."""

    @torch.no_grad()
    def __init__(self, model: Transformer) -> None:
        for name, method in model.guidance.named_methods():
            if method.uses_random_language:
                raise ManyglotError(
                    f"{name} cannot be exported to ONNX: it uses a random language for each sentence. Use the model "
                    f"folder."
                )
        self._guided = copy.deepcopy(model).double().eval()

    @torch.no_grad()
    def change(self, hook: str, point: HookPoint) -> LanguageMaps | None:
        """Return the maps of `pre_sublayer` or `post_sublayer`; None if they change nothing."""
        return LanguageMaps.from_changes(probe.measure_change(hook, point)[1] for probe in self._probes())

    @torch.no_grad()
    def term(self, hook: str, *point: HookPoint) -> LanguageMaps | None:
        """Return the maps of a hook that returns a term; None if there is no term."""
        terms = (probe.measure_term(hook, *point) for probe in self._probes())
        if (first := next(terms)) is None:  # a hook returns a term for all languages or for none
            return None
        return LanguageMaps.from_terms(chain([first], (term for term in terms if term is not None)))

    @torch.no_grad()
    def gains_and_biases(self, point: HookPoint, norm: nn.LayerNorm) -> tuple[FloatArray, FloatArray] | None:
        """Return the gain and bias of a norm for each language; None if all languages share them."""
        terms = [method.norm_terms(point) for _, method in self._guided.guidance.named_methods()]
        measured = [each for each in terms if each is not None]
        if not measured:
            return None
        gain_LD = norm.weight.double() + torch.stack([each.gain_LD.double() for each in measured]).sum(dim=0)
        bias_LD = norm.bias.double() + torch.stack([each.bias_LD.double() for each in measured]).sum(dim=0)
        return to_numpy(gain_LD), to_numpy(bias_LD)

    def _probes(self) -> Iterator[HookProbe]:
        return (HookProbe(self._guided, language) for language in range(self._guided.num_languages))


def to_numpy(tensor: torch.Tensor) -> Any:
    """Return a float32 array on the CPU."""
    return tensor.detach().float().cpu().contiguous().numpy()
