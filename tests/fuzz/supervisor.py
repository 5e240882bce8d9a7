"""Runs cases in worker processes. A worker that crashes or hangs is replaced, and its case is a failure."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from tests.fuzz.cases import MAX_SECONDS, Failure

STARTUP_SECONDS = 120
PROGRESS_EVERY = 1000
REPOSITORY = Path(__file__).parents[2]
Case = tuple[str, int]
"""The name of a target and the number of a case."""
_Answer = dict[str, Any]


@dataclass
class Tally:
    """The results of all workers."""

    on_failure: Callable[[Failure], None]
    num_cases: Counter[str] = field(default_factory=Counter)
    num_refused: Counter[str] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    failures: list[Failure] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, target: str, seconds: float, refused: bool, failure: Failure | None) -> None:
        """Count a case."""
        with self.lock:
            self.num_cases[target] += 1
            self.num_refused[target] += refused
            self.seconds[target] += seconds
            if self.num_cases.total() % PROGRESS_EVERY == 0:
                print(f"{self.num_cases.total():,} cases, {len(self.failures)} failures", flush=True)
            if failure is not None:
                self.failures.append(failure)
                self.on_failure(failure)


def run_cases(originals: Path, scratch: Path, seed: int, cases: Sequence[Case], num_workers: int, tally: Tally) -> None:
    """Run the cases in parallel and add their results to the tally."""
    threads = [
        threading.Thread(target=_run_in_worker, args=(originals, scratch / f"worker-{i}", seed, part, tally))
        for i in range(num_workers)
        if (part := list(cases[i::num_workers]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run_in_worker(originals: Path, work: Path, seed: int, cases: list[Case], tally: Tally) -> None:
    """Run cases in a worker process, and start another one after each crash."""
    work.mkdir(parents=True, exist_ok=True)
    while cases:
        num_done = _run_until_crash(originals, work, seed, cases, tally)
        cases = cases[num_done:]


def _run_until_crash(originals: Path, work: Path, seed: int, cases: list[Case], tally: Tally) -> int:
    """Return the number of cases that are done, the crashed one included."""
    with _Worker(originals, work, seed) as worker:
        for number, case in enumerate(cases):
            worker.send(f"{case[0]} {case[1]}\n")
            start = worker.read_line(STARTUP_SECONDS)
            started = monotonic()
            result = worker.read_line(2 * MAX_SECONDS + 5) if start else None
            if result is None:
                failure: Failure | None = _crash(worker.process, work, seed, case, start)
                tally.add(case[0], monotonic() - started, False, failure)
                return number + 1
            failure = None if result["failure"] is None else Failure(**result["failure"])
            tally.add(case[0], monotonic() - started, result["refused"], failure)
        return len(cases)


class _Worker:
    """A worker process, to which lines are sent and which answers with JSON lines."""

    def __init__(self, originals: Path, work: Path, seed: int) -> None:
        self._buffer = b""
        with (work / "stderr.txt").open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", str(originals), str(work), str(seed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=REPOSITORY,
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"},
                bufsize=0,
            )

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, line: str) -> None:
        """Send a line; a dead worker is noticed when its answer is read."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(line.encode())

    def read_line(self, max_seconds: float) -> _Answer | None:
        """Return the next answer, or None if the worker dies or does not answer in time."""
        assert self.process.stdout is not None
        deadline = monotonic() + max_seconds
        while b"\n" not in self._buffer:
            if not select.select([self.process.stdout], [], [], max(0.0, deadline - monotonic()))[0]:
                return None
            received = os.read(self.process.stdout.fileno(), 2**16)
            if not received:
                return None
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: _Answer = json.loads(line)
        return answer


def _crash(
    process: subprocess.Popen[bytes], work: Path, seed: int, case: Case, start: dict[str, Any] | None
) -> Failure:
    """Describe a worker that died or stopped answering."""
    try:
        process.wait(timeout=5)
        kind, cause = "crash", f"the process ends with code {process.returncode}"
    except subprocess.TimeoutExpired:
        kind, cause = "hang", "native code does not return"
    if start is None:
        cause += " before the case starts"
    traces = [(work / name).read_text("utf-8", "replace") for name in ("crash.txt", "stderr.txt")]
    frame = next((line.strip() for line in traces[0].splitlines() if "/src/manyglot/" in line), "")
    cause += f" at {frame.rpartition('/src/')[2]}" if frame else ""
    return Failure(
        case[0], case[1], seed, start["mutation"] if start else "unknown", kind, cause, "\n".join(traces)[-4000:]
    )
