"""Validation: what is measured on the dev split while a model learns, and what that costs.

The loss is measured here. Whoever can translate hands in further measures, so that training knows no decoding.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from manyglot.batches.loader import Loader, Place, Planned
from manyglot.batches.store import IntArray
from manyglot.corpus.languages import Direction
from manyglot.devices import Precision, autocast
from manyglot.model.packing import pack
from manyglot.model.transformer import Transformer
from manyglot.progress import say
from manyglot.training.best import Best, BestBy, Criterion, Sample, metric_to_choose_by
from manyglot.training.loss import sentence_losses

MOST = 0.1
"""Share of a run's time above which validation is said to be dear."""
SHORT_NAMES = {
    "dev_nll": "dev",
    "dev_bleu": "BLEU",
    "dev_chrf": "chrF++",
    "zero_shot_language_accuracy": "zero-shot LangAcc",
    "zero_shot_chrf": "zero-shot chrF++",
}
"""For the progress bar."""


class Measure(Protocol):
    """Measures a model on some sentences, the same each time."""

    names: Sequence[str]
    """What it measures."""
    sample: Sample
    """On what: stored in checkpoints and compared when a run resumes."""
    setting: str
    """The setting that makes it cheaper."""

    def describe_sample(self) -> str:
        """The sample in words, for people only."""

    def __call__(self, model: Transformer) -> tuple[Mapping[str, float], Mapping[Direction, Mapping[str, float]]]:
        """What was measured by name, and the same or more of each direction."""


class Validation:
    """Measures a model now and then, says by what its best steps are told, and keeps account of the time."""

    def __init__(self, measures: Sequence[Measure], best_by: BestBy | None, patience: int | None) -> None:
        self.measures = measures
        self.metric = metric_to_choose_by(best_by, [name for each in measures for name in each.names], patience)
        """What tells the best step."""
        self.criterion = _criterion(self.metric, measures)
        """The same and the sample it is measured on."""
        self.start, self.number, self.is_dear = time.monotonic(), 0, False
        self.seconds = [0.0 for _ in measures]

    @property
    def share(self) -> float:
        """Its part of the time since the start."""
        return sum(self.seconds) / (time.monotonic() - self.start)

    def in_words(self) -> str:
        """What is measured on what, and what tells the best step."""
        parts = [f"{', '.join(each.names)} of {each.describe_sample()}" for each in self.measures]
        chosen = f"Best by {self.metric}" if self.metric else "The last step becomes the model"
        return f"{'; '.join(parts) or 'nothing'}. {chosen}."

    def plan(self, every: int) -> dict[str, Any]:
        """The same as plain values; only `description` is for people."""
        measures = [
            {"metrics": list(each.names), "sample": dict(each.sample), "description": each.describe_sample()}
            for each in self.measures
        ]
        return {"every": every, "best_metric": self.metric, "measures": measures}

    def begin(self, best: Best, every: int) -> Best:
        """Say what is measured, and return what the run knows of its best so far, if it is still measured alike."""
        if self.measures:
            say(f"Validation every {every:,} steps: {self.in_words()}")
        self.start = time.monotonic()
        if best.criterion == self.criterion:
            return best
        if best.criterion is not None:
            was = f"{best.criterion.metric} on {_describe(best.criterion.sample)}"
            say(f"The validation metric or its sample changed (was {was}); best-step tracking restarts.")
        return Best(self.criterion)

    def __call__(self, model: Transformer) -> dict[str, Any]:
        """All measurements, the time they took and its share of the run, and what is known of each direction."""
        scores: dict[str, float] = {}
        directions: dict[str, dict[str, float]] = defaultdict(dict)
        before = sum(self.seconds)
        torch.manual_seed(0)  # for what guidance draws at random; each batch of the training has a seed of its own
        model.eval()
        with torch.inference_mode():
            for number, measure in enumerate(self.measures):
                start = time.monotonic()
                found, by_direction = measure(model)
                self.seconds[number] += time.monotonic() - start
                scores.update(found)
                for direction, values in by_direction.items():
                    directions[direction.as_setting()].update(values)
        model.train()
        self.number += 1
        if self.share > MOST and self.number > 1 and not self.is_dear:  # the first is dearer: nothing is learnt yet
            self.is_dear = True
            say(f"Validation takes {self.share:.0%} of the time. {self._advice()}")
        cost = {"seconds": sum(self.seconds) - before, "share": self.share}
        return {**scores, "validation": cost, "directions": directions}

    def value(self, measured: Mapping[str, Any]) -> float:
        """The one that tells the best step; not a number where none does."""
        return float(measured.get(self.metric or "", math.nan))

    def end(self) -> None:
        """Say what it cost."""
        if self.number:
            advice = f" {self._advice()}" if self.share > MOST and not self.is_dear else ""  # or it was given before
            say(f"Validation took {sum(self.seconds):.0f} s, {self.share:.1%} of the time.{advice}")

    def _advice(self) -> str:
        _, dearest = max(zip(self.seconds, self.measures, strict=True), key=lambda pair: pair[0])
        return f"To make it cheaper, lower {dearest.setting} or raise training.validate_every."


def _criterion(metric: str | None, measures: Sequence[Measure]) -> Criterion | None:
    """The metric with the sample of the measure that has it."""
    samples = {name: each.sample for each in measures for name in each.names}
    return None if metric is None else Criterion(metric, samples[metric])


def _describe(sample: Sample) -> str:
    """An earlier sample, of which only the stored values are known."""
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in sample.items())


def note_of(measured: Mapping[str, Any], best: Best) -> str:
    """What was measured, and the best so far, for the progress bar."""
    parts = [f"{short} {measured[name]:.2f}" for name, short in SHORT_NAMES.items() if name in measured]
    if best.scores:
        parts.append(f"best {best.scores[0].value:.2f} at {best.scores[0].step:,}")
    return ", ".join(parts)


class DevLoss:
    """The mean negative log-likelihood of a token of the dev split."""

    names: Sequence[str] = ("dev_nll",)
    setting = "validation.pairs"

    def __init__(self, loader: Loader, most_pairs: int, device: torch.device, precision: Precision) -> None:
        self.directions = loader.directions
        self.device, self.precision = device, precision
        self.batches: list[tuple[Planned, IntArray]] = []
        numbers = {direction: number for number, direction in enumerate(self.directions)}
        pairs = 0
        for batch, after in loader.planned(Place()):
            self.batches.append((batch, np.array([numbers[Direction(*pair)] for *pair, _ in batch.lines()])))
            pairs += len(batch.source)
            if pairs >= most_pairs or after.epoch > 0:
                break
        self.sample: Sample = {"num_pairs": pairs}

    def describe_sample(self) -> str:
        """The sample in words."""
        return f"{self.sample['num_pairs']:,} sentence pairs"

    def __call__(self, model: Transformer) -> tuple[Mapping[str, float], Mapping[Direction, Mapping[str, float]]]:
        """Sums over sentences, by direction."""
        nll_D, tokens_D = np.zeros(len(self.directions)), np.zeros(len(self.directions))
        for planned, direction_B in self.batches:
            with autocast(self.device, self.precision):
                nll_B, tokens_B = sentence_losses(model, pack(planned.load()).to(self.device))
            np.add.at(nll_D, direction_B, nll_B.double().cpu().numpy())
            np.add.at(tokens_D, direction_B, tokens_B.cpu().numpy())
        sums = zip(self.directions, nll_D.tolist(), tokens_D.tolist(), strict=True)
        by_direction = {direction: {"nll": nll / tokens} for direction, nll, tokens in sums if tokens}
        return {"dev_nll": float(nll_D.sum() / tokens_D.sum())}, by_direction
