"""A run as its log tells it: curves over steps or tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
NAMES = {
    "dev_nll": "dev loss",
    "dev_bleu": "dev BLEU",
    "dev_chrf": "dev chrF++",
    "zero_shot_chrf": "zero-shot chrF++",
    "tokens_per_second": "tokens/s",
}


class Curve(NamedTuple):
    """Points from left to right."""

    x: FloatArray
    y: FloatArray

    def thinned(self, most: int) -> Curve:
        """At most so many points, each the mean of its neighbours."""
        if len(self.x) <= most:
            return self
        return Curve(*(np.array([part.mean() for part in np.array_split(each, most)]) for each in self))

    def end(self) -> float:
        """The mean of the last tenth, which does not hang on a single line of the log."""
        return float(self.y[-math.ceil(len(self.y) / 10) :].mean())


class History:
    """The lines of a log, those of the training and those of measurements apart."""

    def __init__(self, log: Sequence[Mapping[str, Any]], by_tokens: bool = False) -> None:
        self.training = [line for line in log if "loss" in line]
        self.measured = [line for line in log if "loss" not in line]
        self.by_tokens = by_tokens
        tokens = [sum(part["tokens"] for part in line.get("into", {}).values()) for line in self.training]
        self.num_tokens = sum(tokens)
        self._steps = np.array([0, *(line["step"] for line in self.training)])
        self._tokens = np.cumsum([0, *tokens])

    @property
    def metrics(self) -> list[str]:
        """The names of what is measured now and then, such as dev_nll."""
        found = {key: None for line in self.measured for key, value in line.items() if isinstance(value, int | float)}
        return [key for key in found if key not in ("step", "seconds")]

    @cached_property
    def into(self) -> dict[str, Curve]:
        """The negative log-likelihood of a token, by target language."""
        points: dict[str, list[tuple[int, float]]] = {}
        for line in self.training:
            for code, part in line.get("into", {}).items():
                points.setdefault(code, []).append((line["step"], part["nll"]))
        return {code: self._curve(points[code]) for code in sorted(points)}

    def curve(self, key: str) -> Curve:
        """A number of the log, such as learning_rate or dev_nll."""
        return self._curve([(line["step"], line[key]) for line in [*self.training, *self.measured] if key in line])

    def worst(self, number: int) -> dict[str, float]:
        """The languages with the highest loss in the end, the highest first."""
        ends = {code: curve.end() for code, curve in self.into.items()}
        return dict(sorted(ends.items(), key=lambda item: -item[1])[:number])

    def _curve(self, points: Sequence[tuple[int, float]]) -> Curve:
        x, y = np.array(points, dtype=np.float64).reshape(-1, 2).T
        if self.by_tokens:
            x = np.interp(x, self._steps, self._tokens)
        return Curve(x, y)


def spoken(key: str) -> str:
    """The name of a number of the log, for people."""
    return NAMES.get(key, key.replace("zero_shot", "zero-shot").replace("_", " "))
