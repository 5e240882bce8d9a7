"""Measures the hooks of guidance methods as affine maps x A + b, for one target language.

For one language every hook is an affine function of a token's states. Zeros and unit vectors reveal A and b, so neither
folding nor an export needs code for each method.

Shape letters: T rows, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from manyglot.errors import ManyglotError
from manyglot.model.guidance.base import Guidance, HookPoint, TargetLanguages
from manyglot.model.transformer import Transformer


class FoldingError(ManyglotError):
    """The guidance of a model cannot be folded into plain weights."""


@dataclass(frozen=True)
class AffineMap:
    """x A + b."""

    a_DD: Tensor
    b_D: Tensor

    def then(self, other: AffineMap) -> AffineMap:
        """Return this map followed by another."""
        return AffineMap(self.a_DD @ other.a_DD, self.b_D @ other.a_DD + other.b_D)

    def has_matrix(self, ignore_diagonal: bool = False) -> bool:
        """Whether A is not the identity; with `ignore_diagonal`, whether it is not diagonal."""
        off_DD = self.a_DD - torch.diag(self.a_DD.diagonal() if ignore_diagonal else torch.ones_like(self.b_D))
        return bool(off_DD.abs().max() > 1e-12 * (1 + self.b_D.abs().max()))  # tolerates rounding


class HookProbe:
    """Measures the hooks of a model's methods as affine maps, for one language."""

    def __init__(self, model: Transformer, language: int) -> None:
        self.methods, self.language = dict(model.guidance.named_methods()), language
        device = model.embedding.weight.device
        width = model.settings.width
        self.target_languages: TargetLanguages = model.prepare_target_languages(torch.tensor([language], device=device))
        self.identity = AffineMap(
            torch.eye(width, dtype=torch.float64, device=device),
            torch.zeros(width, dtype=torch.float64, device=device),
        )

    def measure_change(self, hook: str, point: HookPoint) -> tuple[str, AffineMap]:
        """The affine map of `pre_sublayer` or `post_sublayer` by all methods, and the names of those that act."""
        names, total = [], self.identity
        for name, method in self._methods_with(hook):
            measured = self._measure_hook(name, partial(getattr(method, hook), point))
            assert measured is not None, "hooks that change states always return states"
            if measured.has_matrix() or measured.b_D.any():
                names.append(name)
                total = total.then(measured)
        return " and ".join(names), total

    def measure_term(self, hook: str, *point: HookPoint) -> AffineMap | None:
        """Return the sum of the terms that the methods add, or None."""
        total = None
        for name, method in self._methods_with(hook):
            measured = self._measure_hook(name, partial(getattr(method, hook), *point))
            if measured is not None:
                total = measured if total is None else AffineMap(total.a_DD + measured.a_DD, total.b_D + measured.b_D)
        return total

    def _methods_with(self, hook: str) -> Iterable[tuple[str, Guidance]]:
        """Iterate over the methods that implement a hook."""
        for name, method in self.methods.items():
            if getattr(type(method), hook) is not getattr(Guidance, hook):
                yield name, method

    def _measure_hook(self, name: str, hook: Callable[[Tensor, TargetLanguages], Tensor | None]) -> AffineMap | None:
        """Measure A and b of x A + b from zeros and unit vectors; two further rows verify that the hook is affine.

        The last row alone must give the same result, because a hook may not mix positions.
        """
        eye_DD = self.identity.a_DD
        ramp_D = torch.linspace(-2, 3, len(eye_DD)).to(eye_DD)
        check_2D = torch.stack([ramp_D, -100 * ramp_D])
        x_1TD = torch.cat([torch.zeros_like(eye_DD[:1]), eye_DD, check_2D])[None]
        y_1TD = hook(x_1TD, self.target_languages)
        if y_1TD is None:
            return None
        y_TD = y_1TD[0]
        b_D, a_DD = y_TD[0], y_TD[1:-2] - y_TD[0]
        if not torch.allclose(check_2D @ a_DD + b_D, y_TD[-2:], rtol=1e-9, atol=1e-9 * float(y_TD.abs().max())):
            raise FoldingError(f"{name} cannot be folded: it is not an affine function of the states.")
        alone_11D = hook(x_1TD[:, -1:], self.target_languages)
        if alone_11D is None or not torch.allclose(alone_11D[0, 0], y_TD[-1], rtol=1e-9, atol=1e-9):
            raise FoldingError(
                f"{name} cannot be folded: its hooks do not depend on the states of a single token alone."
            )
        return AffineMap(a_DD, b_D)
