"""The training log, `log.jsonl`: one JSON line for each interval of training and for each validation."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from manyglot.corpus.languages import Languages
from manyglot.errors import FolderError
from manyglot.training.checkpoint import RunState
from manyglot.training.loss import LossTotals
from manyglot.training.throughput import ThroughputMeter
from manyglot.training.trackers import Tracker, flatten_metrics
from manyglot.training.validation import format_validation_note


class TrainingLog:
    """Writes the log of a run and forwards its lines to the trackers.

    Opening the log of a resumed run deletes the lines after the resumed step. `seconds` is the training time since the
    start of the run; it excludes the time between an interruption and the resumption.
    """

    def __init__(
        self,
        path: Path,
        state: RunState,
        languages: Languages,
        throughput: ThroughputMeter,
        trackers: Sequence[Tracker] = (),
        enabled: bool = True,
    ) -> None:
        self.path, self.languages, self.enabled = path, languages, enabled
        self.throughput, self.trackers, self.start_time = throughput, trackers, time.monotonic()
        self.training_note, self.validation_note = "", format_validation_note({}, state.best_steps)
        if not enabled:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        earlier_lines = [line for line in read_log(path) if line["step"] <= state.step]
        self.start_time -= earlier_lines[-1].get("seconds", 0.0) if earlier_lines else 0.0
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text("".join(json.dumps(line) + "\n" for line in earlier_lines), encoding="utf-8")
        unfinished.replace(path)

    def log_training(self, state: RunState, totals: LossTotals, learning_rate: float) -> None:
        """Write the mean losses per target token since the last line, and show them on the progress bar."""
        num_tokens, speed = sum(totals.target_tokens_by_language), self.throughput.measure_and_restart(totals)
        mfu = f", MFU {speed['mfu']:.0%}" if "mfu" in speed else ""
        alignment = (
            {} if totals.contrastive_alignment is None else {"alignment": totals.contrastive_alignment / num_tokens}
        )
        alignment_note = "".join(f", {name} {value:.3f}" for name, value in alignment.items())
        loss = f"loss {totals.label_smoothed / num_tokens:.3f}{alignment_note}"
        self.training_note = f"{loss}, {speed['tokens_per_second']:,.0f} tokens/s{mfu}, lr {learning_rate:.2g}"
        by_language = zip(self.languages, totals.nll_by_language, totals.target_tokens_by_language, strict=True)
        self.write_line(
            {
                "step": state.step,
                "epoch": state.data_position.epoch,
                "batch": state.data_position.next_batch,
                "loss": totals.label_smoothed / num_tokens,
                "nll": sum(totals.nll_by_language) / num_tokens,
                **alignment,
                "learning_rate": learning_rate,
                **speed,
                "into": {code: {"nll": nll / num, "tokens": num} for code, nll, num in by_language if num},
            }
        )

    def log_validation(self, state: RunState, scores: Mapping[str, Any]) -> None:
        """Write the scores of a validation, and show them on the progress bar."""
        self.validation_note = format_validation_note(scores, state.best_steps)
        self.write_line({"step": state.step, **scores})

    @property
    def progress_note(self) -> str:
        """The text beside the progress bar: a line for training and one for validation."""
        return "\n".join(filter(None, (self.training_note, self.validation_note)))

    def pause_throughput(self) -> AbstractContextManager[None]:
        """Exclude the time spent in the block from the throughput."""
        return self.throughput.pause()

    def write_line(self, line: Mapping[str, Any]) -> None:
        """Append a line with the elapsed seconds and forward it to the trackers."""
        if not self.enabled:
            return
        line = {**line, "seconds": round(time.monotonic() - self.start_time, 2)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for tracker in self.trackers:
            tracker.log_metrics(line["step"], flatten_metrics(line))


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the log of a run; empty if there is no log. A truncated last line, left by a killed process, is skipped."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [_read_line(line, path, number) for number, line in enumerate(lines, start=1) if line.endswith("\n")]


def _read_line(text: str, path: Path, number: int) -> dict[str, Any]:
    try:
        line: dict[str, Any] = json.loads(text)
        int(line["step"])
    except (ValueError, KeyError, TypeError):
        raise FolderError(f"{path}, line {number} is damaged. Delete the line to continue.") from None
    return line
