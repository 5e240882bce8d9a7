"""The training history of a run from its log: curves over steps or tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
METRIC_TITLES = {
    "dev_nll": "dev loss",
    "dev_bleu": "dev BLEU",
    "dev_chrf": "dev chrF++",
    "zero_shot_chrf": "zero-shot chrF++",
    "tokens_per_second": "tokens/s",
}


class Curve(NamedTuple):
    """Points in the order of x."""

    x: FloatArray
    y: FloatArray

    def downsample(self, max_points: int) -> Curve:
        """Return a curve of at most `max_points` points, each the mean of consecutive points."""
        if len(self.x) <= max_points:
            return self
        return Curve(*(np.array([part.mean() for part in np.array_split(axis, max_points)]) for axis in self))

    def mean_of_last_tenth(self) -> float:
        """Return the mean of the last tenth of the points, so that no single line of the log determines it."""
        return float(self.y[-math.ceil(len(self.y) / 10) :].mean())


class TrainingHistory:
    """The training records and validation records of a log."""

    def __init__(self, log: Sequence[Mapping[str, Any]], by_tokens: bool = False) -> None:
        self.training_records = [line for line in log if "loss" in line]
        self.validation_records = [line for line in log if "loss" not in line]
        self.by_tokens = by_tokens
        tokens = [sum(part["tokens"] for part in line.get("into", {}).values()) for line in self.training_records]
        self.num_target_tokens = sum(tokens)
        self._steps = np.array([0, *(line["step"] for line in self.training_records)])
        self._tokens = np.cumsum([0, *tokens])

    @property
    def validation_metric_names(self) -> list[str]:
        """The metrics of the validations, such as dev_nll."""
        keys = {
            key: None
            for line in self.validation_records
            for key, value in line.items()
            if isinstance(value, int | float)
        }
        return [key for key in keys if key not in ("step", "seconds") and self.has_metric(key)]

    @cached_property
    def nll_by_target(self) -> dict[str, Curve]:
        """The mean negative log-likelihood per token, by target language."""
        points: dict[str, list[tuple[int, float]]] = {}
        for line in self.training_records:
            for code, part in line.get("into", {}).items():
                points.setdefault(code, []).append((line["step"], part["nll"]))
        curves = {code: self._curve_from_points(points[code]) for code in sorted(points)}
        return {code: curve for code, curve in curves.items() if len(curve.x)}

    def metric_curve(self, key: str) -> Curve:
        """Return the curve of a logged number, such as learning_rate or dev_nll; empty if the log has none."""
        return self._curve_from_points(
            [(line["step"], line[key]) for line in [*self.training_records, *self.validation_records] if key in line]
        )

    def has_metric(self, key: str) -> bool:
        """Whether the log has a finite value of this number."""
        return len(self.metric_curve(key).x) > 0

    def highest_loss_targets(self, num_languages: int) -> dict[str, float]:
        """Return the target languages with the highest final loss, highest first, with that loss."""
        ends = {code: curve.mean_of_last_tenth() for code, curve in self.nll_by_target.items()}
        return dict(sorted(ends.items(), key=lambda item: -item[1])[:num_languages])

    def _curve_from_points(self, points: Sequence[tuple[int, float]]) -> Curve:
        """Return the points as a curve, without those that are not finite: a loss may have diverged."""
        x, y = np.array([point for point in points if math.isfinite(point[1])], dtype=np.float64).reshape(-1, 2).T
        if self.by_tokens:
            x = np.interp(x, self._steps, self._tokens)
        return Curve(x, y)


def metric_title(key: str) -> str:
    """Return the display name of a logged number."""
    return METRIC_TITLES.get(key, key.replace("zero_shot", "zero-shot").replace("_", " "))
