"""What became of a training, in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyglot.corpus.languages import name_of
from manyglot.progress import duration
from manyglot.reports.history import History, spoken


@dataclass(frozen=True)
class Summary:
    """The end of a log."""

    steps: int
    epoch: int
    """The one that the last batch is of; the first is 1."""
    target_tokens: int
    seconds: float
    tokens_per_second: float
    """While it trained, measurements left out."""
    loss: float
    dev: dict[str, float]
    """The last measurements."""
    worst: dict[str, float]
    """The negative log-likelihood into the three worst languages."""

    @classmethod
    def of(cls, log: Sequence[Mapping[str, Any]]) -> Summary | None:
        """None of a log without a line of training."""
        history = History(log)
        if not history.training:
            return None
        last, tokens, speed = history.training[-1], history.num_tokens, history.curve("tokens_per_second").y
        parts = [sum(part["tokens"] for part in line["into"].values()) for line in history.training]
        return cls(
            steps=last["step"],
            epoch=last["epoch"] + (last["batch"] > 0),
            target_tokens=tokens,
            seconds=log[-1].get("seconds", 0.0),
            tokens_per_second=tokens / float((parts / speed).sum()),
            loss=last["loss"],
            dev={key: float(history.curve(key).y[-1]) for key in history.metrics},
            worst=history.worst(3),
        )

    def __str__(self) -> str:
        dev = "".join(f", {spoken(key)} {value:.4g}" for key, value in self.dev.items())
        worst = ", ".join(f"{name_of(code)} {nll:.2f}" for code, nll in self.worst.items())
        return (
            f"{self.steps:,} steps to epoch {self.epoch}, {self.target_tokens:,} target tokens in "
            f"{duration(self.seconds)}, {self.tokens_per_second:,.0f} tokens/s\n"
            f"last loss {self.loss:.3f} (smoothed){dev}\n"
            f"highest loss into {worst}"
        )
