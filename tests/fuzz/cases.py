"""One case of a fuzzer: copy undamaged input, damage it, use it, and judge the outcome.

A case succeeds if the damage is refused with a short one-line `ManyglotError`, or if the outcome is the undamaged one,
or one that the target explains. Anything else is a failure: another exception, another outcome, native code that
writes to stderr, a hang, or too much memory.
"""

from __future__ import annotations

import gc
import io
import os
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from manyglot.errors import ManyglotError
from tests.fuzz.folder_mutations import copy_folder, outside_file

MAX_SECONDS = 10
MAX_GROWTH_BYTES, ALLOCATION_LIMIT_BYTES = 2**30, 3 * 2**29
MAX_MESSAGE_CHARS = 500
OUTSIDE_CONTENT = b"A file outside the folder\n"
Outcome = Mapping[str, Any]
"""What a user observes, by name, such as the weights and the translations of a model."""


class Target(Protocol):
    """Something to fuzz. `input` is a folder that `mutate` damages and `use` reads."""

    name: str

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage the input and return a description."""
        ...

    def use(self, folder: Path) -> Outcome:
        """Use the input as a user would; raise a ManyglotError to refuse it."""
        ...

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Return why an outcome is wrong, or an empty string if it is undamaged, or what the user asked for."""
        ...


@dataclass(frozen=True)
class Failure:
    """A case that went wrong."""

    target: str
    number: int
    seed: int
    mutation: str
    kind: str
    """What went wrong: exception, silent change, message, native output, hang, memory or crash."""
    cause: str
    """One line that is the same for failures with the same cause."""
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


class Hang(BaseException):
    """A case took too long. No `except Exception` catches it."""


@dataclass(frozen=True)
class CaseResult:
    """What happened to a case."""

    refused: bool
    failure: Failure | None = None


def run_case(
    target: Target,
    original: Path,
    work: Path,
    seed: int,
    number: int,
    undamaged: Outcome,
    announce: Callable[[str], object] = lambda mutation: None,
) -> CaseResult:
    """Run one case in a copy of the undamaged input; call `announce` with the mutation before the input is used."""
    rng = random.Random(f"{seed}/{target.name}/{number}")
    copy_folder(original, work)
    outside = outside_file(work)
    outside.write_bytes(OUTSIDE_CONTENT)
    mutation = target.mutate(work, rng)
    announce(mutation)
    reset_peak_memory()
    before = current_memory()
    refused, problem = _use_and_judge(target, work, mutation, undamaged)
    growth = peak_memory() - before
    if problem is None and outside.read_bytes() != OUTSIDE_CONTENT:
        problem = _Problem("silent change", "a file outside the folder")
    if problem is None and growth > MAX_GROWTH_BYTES:
        problem = _Problem("memory", f"the memory grows by {growth / 2**20:,.0f} MiB")
    if growth > 2**28:
        gc.collect()
    if problem is None:
        return CaseResult(refused)
    return CaseResult(refused, Failure(target.name, number, seed, mutation, *problem))


class _Problem(NamedTuple):
    kind: str
    cause: str
    detail: str = ""


def _use_and_judge(target: Target, work: Path, mutation: str, undamaged: Outcome) -> tuple[bool, _Problem | None]:
    """Use damaged input; return whether it is refused, and the problem."""
    try:
        with time_limit(MAX_SECONDS), _memory_limit(), _quiet() as native_stderr:
            try:
                outcome = target.use(work)
            except ManyglotError as error:
                outcome = {"refusal": error}
            written = native_stderr()
            errors = [value for value in outcome.values() if isinstance(value, ManyglotError)]
            if written:
                return bool(errors), _Problem("native output", f"native code writes {written[:100]!r}", written)
            if problem := next(filter(None, map(_judge_message, errors)), None):
                return True, problem
            reason = "" if "refusal" in outcome else target.explain(work, mutation, undamaged, outcome)
            return bool(errors), _Problem("silent change", reason) if reason else None
    except Hang:
        return False, _Problem("hang", _innermost_frame(), traceback.format_exc()[-6000:])
    except MemoryError:
        return False, _Problem("memory", f"MemoryError at {_innermost_frame()}", traceback.format_exc()[-6000:])
    except Exception as error:
        cause = f"{type(error).__name__} at {_innermost_frame()}"
        return False, _Problem("exception", cause, traceback.format_exc()[-6000:])


def differing_parts(undamaged: Outcome, outcome: Outcome) -> list[str]:
    """Return the names of the parts of an outcome that differ."""
    return sorted(
        name for name in undamaged.keys() | outcome.keys() if undamaged.get(name, ...) != outcome.get(name, ...)
    )


def _judge_message(error: ManyglotError) -> _Problem | None:
    message = str(error)
    if len(message) > MAX_MESSAGE_CHARS:
        return _Problem(
            "message", f"an error above {MAX_MESSAGE_CHARS} characters from {_raising_frame(error)}", message
        )
    if "\n" in message or not message.strip() or any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in message):
        cause = f"an error with control characters or surrogates from {_raising_frame(error)}"
        return _Problem("message", cause, repr(message))
    return None


def _innermost_frame() -> str:
    """Return the innermost line of manyglot in the current exception."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [frame for frame in frames if "/src/manyglot/" in frame.filename] or list(frames)
    return f"{ours[-1].filename.rpartition('/src/')[2]}:{ours[-1].lineno} ({ours[-1].name})"


def _raising_frame(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/src/')[2]}:{frame.lineno} ({frame.name})"


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise `Hang` if the block takes longer."""

    def stop(signum: int, frame: Any) -> None:
        raise Hang

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _memory_limit() -> Iterator[None]:
    """Let allocations fail long before the machine runs out of memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status_bytes("VmSize") + ALLOCATION_LIMIT_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _quiet() -> Iterator[Any]:
    """Hide what Python prints, turn warnings into errors, and collect what native code writes to stderr."""
    with (
        os.fdopen(os.memfd_create("stderr"), "w+b") as capture,
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        saved = os.dup(2)
        os.dup2(capture.fileno(), 2)
        try:
            yield lambda: os.pread(capture.fileno(), 4096, 0).decode("utf-8", "replace")
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def reset_peak_memory() -> None:
    """Make the current memory the peak of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Return the peak of the resident memory in bytes."""
    return _status_bytes("VmHWM")


def current_memory() -> int:
    """Return the resident memory in bytes."""
    return _status_bytes("VmRSS")


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
