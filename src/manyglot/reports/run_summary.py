"""A finished training run in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyglot.corpus.languages import english_language_name
from manyglot.progress import format_duration
from manyglot.reports.training_history import TrainingHistory, metric_title


@dataclass(frozen=True)
class RunSummary:
    """Totals and final values of a training log."""

    num_steps: int
    epoch: int
    """The epoch of the last batch, counted from 1."""
    num_target_tokens: int
    seconds: float
    tokens_per_second: float
    """Average speed of training, without validations."""
    last_loss: float
    last_validation: dict[str, float]
    """The metrics of the last validation."""
    highest_loss_targets: dict[str, float]
    """The three target languages with the highest final loss, and that loss."""

    @classmethod
    def from_log(cls, log: Sequence[Mapping[str, Any]]) -> RunSummary | None:
        """Summarize a log; return None if it has no training record."""
        history = TrainingHistory(log)
        if not history.training_records:
            return None
        last, tokens = history.training_records[-1], history.num_target_tokens
        training_seconds = sum(
            sum(part["tokens"] for part in line["into"].values()) / line["tokens_per_second"]
            for line in history.training_records
            if line.get("tokens_per_second")
        )
        final_values = {key: history.metric_curve(key).y[-1:] for key in history.validation_metric_names}
        return cls(
            num_steps=last["step"],
            epoch=last["epoch"] + (last["batch"] > 0),
            num_target_tokens=tokens,
            seconds=log[-1].get("seconds", 0.0),
            tokens_per_second=tokens / training_seconds if training_seconds else 0.0,
            last_loss=last["loss"],
            last_validation={key: float(values[0]) for key, values in final_values.items() if len(values)},
            highest_loss_targets=history.highest_loss_targets(3),
        )

    def __str__(self) -> str:
        dev = "".join(f", {metric_title(key)} {value:.4g}" for key, value in self.last_validation.items())
        worst = ", ".join(f"{english_language_name(code)} {nll:.2f}" for code, nll in self.highest_loss_targets.items())
        return (
            f"{self.num_steps:,} steps, the last in epoch {self.epoch} (counted from 1), "
            f"{self.num_target_tokens:,} target tokens in {format_duration(self.seconds)}, "
            f"{self.tokens_per_second:,.0f} tokens/s\n"
            f"last loss {self.last_loss:.3f} (smoothed){dev}\n"
            f"highest loss into {worst}"
        )
