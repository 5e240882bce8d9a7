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
from manyglot.files import fsync_path, open_regular_file, report_unwritable, write_file
from manyglot.progress import print_status
from manyglot.training.checkpoint import RunState
from manyglot.training.loss import LossTotals
from manyglot.training.throughput import ThroughputMeter
from manyglot.training.trackers import Tracker, flatten_metrics
from manyglot.training.validation import format_validation_note

NESTED_KEYS = ("into", "directions", "validation")
"""The keys of a line that have mappings. All others have numbers."""
MAX_INTEGER = 2**63
MAX_LINE_BYTES = 2**26
"""Longer lines are damaged. A line of a thousand languages has about 100 KB."""


class TrainingLog:
    """Writes the log of a run and forwards its lines to the trackers.

    Opening the log of a resumed run deletes the lines after the resumed step, and damaged lines. `seconds` is the
    training time since the start of the run; it excludes the time between an interruption and the resumption.
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
        if path.exists() and not path.is_file():
            raise FolderError(f"{path} is not a file. Move it away and run the same command again.")
        earlier_lines = [line for line in read_log(path) if line["step"] <= state.step]
        self.start_time -= earlier_lines[-1].get("seconds", 0.0) if earlier_lines else 0.0
        with report_unwritable(path):
            write_file(path, "".join(json.dumps(line) + "\n" for line in earlier_lines))

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

    def flush_to_disk(self) -> None:
        """Make all lines so far survive a power failure. A checkpoint that is saved afterwards has a complete log."""
        if self.enabled:
            with report_unwritable(self.path):
                fsync_path(self.path)

    def write_line(self, line: Mapping[str, Any]) -> None:
        """Append a line with the elapsed seconds and forward it to the trackers."""
        if not self.enabled:
            return
        line = {**line, "seconds": round(time.monotonic() - self.start_time, 2)}
        with report_unwritable(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for tracker in self.trackers:
            tracker.log_metrics(line["step"], flatten_metrics(line))


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the log of a run; empty if there is no log.

    A truncated last line, left by a killed process, is skipped. So are damaged lines, and a log that cannot be read; a
    message reports them. A damaged log therefore never prevents the use of a model.
    """
    if not path.exists():
        return []
    lines, damaged = [], []
    try:
        with open_regular_file(path) as file:
            for number, text in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=1):
                if (line := _parse_line(text)) is not None:
                    lines.append(line)
                elif text.endswith(b"\n") or len(text) == MAX_LINE_BYTES:
                    damaged.append(number)
    except FolderError as error:
        print_status(f"The log of the run is ignored: {error}")
        return []
    if damaged:
        others = f" and {len(damaged) - 1} other lines are" if len(damaged) > 1 else " is"
        print_status(f"{path}: line {damaged[0]}{others} damaged and skipped.")
    return lines


def _parse_line(text: bytes) -> dict[str, Any] | None:
    """Parse a line of the log; None if it is damaged or incomplete."""
    try:
        line = json.loads(text) if text.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return line if _is_log_line(line) else None


def _is_log_line(line: Any) -> bool:
    """Whether a JSON value has a step, and the keys and types that the readers of a log need."""
    if not isinstance(line, dict) or type(line.get("step")) is not int:
        return False
    if not all(_is_table(value) if key in NESTED_KEYS else _is_number(value) for key, value in line.items()):
        return False
    targets = line.get("into", {}).values()
    is_complete = {"epoch", "batch", "into"} <= line.keys() or "loss" not in line
    return is_complete and all(isinstance(part, dict) and {"nll", "tokens"} <= part.keys() for part in targets)


def _is_table(value: Any) -> bool:
    """Whether a value is a mapping of numbers, or of mappings of numbers."""
    return isinstance(value, dict) and all(
        all(map(_is_number, inner.values())) if isinstance(inner, dict) else _is_number(inner)
        for inner in value.values()
    )


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < MAX_INTEGER)
