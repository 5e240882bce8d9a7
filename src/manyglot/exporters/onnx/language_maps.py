"""The guidance of all target languages as tables, from which a graph gathers the rows of its languages.

For one language every hook is an affine function x A + b (see `model/hook_probe.py`), whatever the method. The tables
hold A and b of each language. They are measured in float64 and rounded once.

Shape letters: D model width, L languages.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from manyglot.errors import ManyglotError
from manyglot.model.guidance.base import HookPoint
from manyglot.model.hook_probe import AffineMap, HookProbe
from manyglot.model.transformer import Transformer

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LanguageMaps:
    """x A + b with an A and a b for each language."""

    matrix_LDD: FloatArray | None
    """A; None if it is the identity for all languages."""
    bias_LD: FloatArray | None
    """b; None if it is zero for all languages."""

    @classmethod
    def from_maps(cls, maps: Iterable[AffineMap], always_matrix: bool = False) -> LanguageMaps:
        """Join the maps of all languages."""
        matrices, biases, has_matrix = [], [], always_matrix
        for each in maps:
            has_matrix |= each.has_matrix()
            matrices.append(to_numpy(each.a_DD))
            biases.append(to_numpy(each.b_D))
        bias_LD = np.stack(biases)
        return cls(np.stack(matrices) if has_matrix else None, bias_LD if bias_LD.any() else None)


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
        guided = copy.deepcopy(model).double().eval()
        self._probes = [HookProbe(guided, language) for language in range(model.num_languages)]

    @torch.no_grad()
    def change(self, hook: str, point: HookPoint) -> LanguageMaps | None:
        """Return the maps of `pre_sublayer` or `post_sublayer`; None if they change nothing."""
        maps = LanguageMaps.from_maps(probe.measure_change(hook, point)[1] for probe in self._probes)
        return None if maps.matrix_LDD is None and maps.bias_LD is None else maps

    @torch.no_grad()
    def term(self, hook: str, *point: HookPoint) -> LanguageMaps | None:
        """Return the maps of a hook that returns a term; None if there is no term."""
        terms = [probe.measure_term(hook, *point) for probe in self._probes]
        measured = [term for term in terms if term is not None]
        assert len(measured) in (0, len(terms)), "a hook returns a term for all languages or for none"
        return LanguageMaps.from_maps(measured, always_matrix=True) if measured else None

    @torch.no_grad()
    def gains_and_biases(self, point: HookPoint, norm: nn.LayerNorm) -> tuple[FloatArray, FloatArray] | None:
        """Return the gain and bias of a norm for each language; None if all languages share them."""
        terms = [method.norm_terms(point) for method in self._probes[0].methods.values()]
        measured = [each for each in terms if each is not None]
        if not measured:
            return None
        gain_LD = norm.weight.double() + torch.stack([each.gain_LD.double() for each in measured]).sum(dim=0)
        bias_LD = norm.bias.double() + torch.stack([each.bias_LD.double() for each in measured]).sum(dim=0)
        return to_numpy(gain_LD), to_numpy(bias_LD)


def to_numpy(tensor: torch.Tensor) -> Any:
    """Return a float32 array on the CPU."""
    return tensor.detach().float().cpu().contiguous().numpy()
