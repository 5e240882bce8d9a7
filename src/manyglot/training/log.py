"""The log of a run: one JSON line for each measurement."""

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
from manyglot.training.loss import Sums
from manyglot.training.speed import Speed
from manyglot.training.trackers import Tracker, flat
from manyglot.training.validation import note_of


class Log:
    """One JSON line for each measurement; lines after the step a run resumes from are forgotten.

    `seconds` counts from the beginning of the run, without the time between its processes.
    """

    def __init__(
        self,
        path: Path,
        state: RunState,
        languages: Languages,
        speed: Speed,
        trackers: Sequence[Tracker] = (),
        writes: bool = True,
    ) -> None:
        self.path, self.languages, self.writes = path, languages, writes
        self.speed, self.trackers, self.began = speed, trackers, time.monotonic()
        self.learnt, self.measured = "", note_of({}, state.best)
        if not writes:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [line for line in read_log(path) if line["step"] <= state.step]
        self.began -= kept[-1].get("seconds", 0.0) if kept else 0.0
        new = path.with_suffix(".unfinished")
        new.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        new.replace(path)

    def training(self, state: RunState, sums: Sums, learning_rate: float) -> None:
        """Write the mean loss since the last line, and keep it for the progress bar."""
        tokens, speed = sum(sums.tokens), self.speed.lap(sums)
        mfu = f", MFU {speed['mfu']:.0%}" if "mfu" in speed else ""
        aligned = {} if sums.alignment is None else {"alignment": sums.alignment / tokens}
        too = "".join(f", {name} {value:.3f}" for name, value in aligned.items())
        self.learnt = f"loss {sums.loss / tokens:.3f}{too}, {speed['tokens_per_second']:,.0f} tokens/s{mfu}"
        self.learnt += f", lr {learning_rate:.2g}"
        by_language = zip(self.languages, sums.nll, sums.tokens, strict=True)
        self.write(
            {
                "step": state.step,
                "epoch": state.place.epoch,
                "batch": state.place.batch,
                "loss": sums.loss / tokens,
                "nll": sum(sums.nll) / tokens,
                **aligned,
                "learning_rate": learning_rate,
                **speed,
                "into": {code: {"nll": nll / number, "tokens": number} for code, nll, number in by_language if number},
            }
        )

    def validation(self, state: RunState, measured: Mapping[str, Any]) -> None:
        """Write what was measured, and keep it for the progress bar."""
        self.measured = note_of(measured, state.best)
        self.write({"step": state.step, **measured})

    @property
    def note(self) -> str:
        """The latest figures for the progress bar: a line for training, and one for validation."""
        return "\n".join(filter(None, (self.learnt, self.measured)))

    def paused(self) -> AbstractContextManager[None]:
        """Leave out of the speed what is not training."""
        return self.speed.paused()

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line, with the time, and show it to the trackers."""
        if not self.writes:
            return
        line = {**line, "seconds": round(time.monotonic() - self.began, 2)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for tracker in self.trackers:
            tracker.show(line["step"], flat(line))


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, none if there is no log; a last line that a kill cut short is left out."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [_read_line(line, path, number) for number, line in enumerate(lines, start=1) if line.endswith("\n")]


def _read_line(text: str, path: Path, number: int) -> dict[str, Any]:
    try:
        line: dict[str, Any] = json.loads(text)
        int(line["step"])
    except (ValueError, KeyError, TypeError):
        raise FolderError(f"{path}, line {number} is damaged. Delete it to go on without it.") from None
    return line
