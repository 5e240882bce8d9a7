"""Inject faults into a command and check how it ends, what it leaves behind, and that running it again repairs it."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from manyglot.files import is_empty_folder
from tests.faults.injection import Fault, FaultPoint, Outcome
from tests.faults.workload import Files, FolderState, Reference, copy_folder, read_files, read_state, run_command


@dataclass(frozen=True)
class FaultCase:
    """A command that meets one or more faults, one in each attempt, before an undisturbed attempt."""

    name: str
    points: tuple[FaultPoint, ...]

    def __str__(self) -> str:
        return f"{self.name}: {', then '.join(map(str, self.points))}"


TOLERATED = re.compile(r"evaluate: io-error at \S+\(run/log\.jsonl, reading\)")
"""An unreadable log does not prevent the evaluation of a sound model: the results lack its curves, and say so."""


def all_cases(references: Mapping[str, Reference]) -> list[FaultCase]:
    """Return a case for every fault at every file operation of every command, except those that are tolerated."""
    cases = [FaultCase(name, (point,)) for name, reference in references.items() for point in reference.fault_points()]
    return [case for case in cases if not TOLERATED.match(str(case))]


def repeated_cases(references: Mapping[str, Reference], number: int, seed: int) -> list[FaultCase]:
    """Return random cases whose second attempt, which resumes the first, meets a fault too."""
    rng, first_faults = random.Random(seed), all_cases(references)
    points = {name: [case.points[0] for case in first_faults if case.name == name] for name in references}
    return [
        FaultCase(case.name, (*case.points, rng.choice(points[case.name])))
        for case in (rng.choice(first_faults) for _ in range(number))
    ]


class FaultTester:
    """Runs cases in a folder of its own."""

    def __init__(self, references: Mapping[str, Reference], folder: Path) -> None:
        self.references, self.folder = references, folder
        self._known_problems: dict[tuple[str, FolderState], list[str]] = {}
        """What the next attempt of a command does wrong, by the state of the folder in which it starts."""

    def find_problems(self, case: FaultCase) -> list[str]:
        """Run a case and return what is wrong; empty if all promises hold."""
        try:
            return self._find_problems(case)
        except TimeoutError as error:
            return [str(error)]

    def _find_problems(self, case: FaultCase) -> list[str]:
        reference = self.references[case.name]
        copy_folder(reference.before, self.folder)
        for i, point in enumerate(case.points):
            outcome = run_command(case.name, self.folder, point)
            if not outcome.has_reached_fault:
                if i == 0:
                    return [f"the operation does not occur; exit code {outcome.exit_code}: {outcome.stderr}"]
                break  # the attempt resumed later work
            problems = [
                *_problems_of_ending(outcome, point),
                *_problems_of_published_files(reference, self.folder),
            ]
            if problems:
                return problems
            if outcome.exit_code == 0:
                break
        return self._problems_of_next_attempt(reference)

    def _problems_of_next_attempt(self, reference: Reference) -> list[str]:
        """Check that an undisturbed attempt ends with the undisturbed result. Many faults leave the same state."""
        key = reference.name, read_state(self.folder)
        if key not in self._known_problems:
            self._known_problems[key] = list(_problems_of_next_attempt(reference, self.folder))
        return self._known_problems[key]


def _problems_of_ending(outcome: Outcome, point: FaultPoint) -> Iterator[str]:
    """Check the exit code and the error message. A command may also succeed, if it can do without the operation."""
    if point.fault in (Fault.KILL, Fault.TORN_WRITE):
        if outcome.exit_code != -signal.SIGKILL:
            yield f"exit code {outcome.exit_code} instead of a kill"
    elif outcome.exit_code == 0:
        if "Traceback" in outcome.stderr or "Exception ignored" in outcome.stderr:
            yield f"a traceback with exit code 0: {outcome.stderr}"
    elif outcome.exit_code != 2:
        yield f"exit code {outcome.exit_code}: {outcome.stderr}"
    elif outcome.stderr.count("\n") != 1 or not outcome.stderr.startswith("manyglot: "):
        yield f"not a one-line error: {outcome.stderr}"


def _problems_of_published_files(reference: Reference, folder: Path) -> Iterator[str]:
    """Check that the folders and files that appear at once are complete if they exist."""
    for pattern in reference.command.published:
        for path in folder.glob(pattern):
            name = str(path.relative_to(folder))
            difference = _difference(reference.published.get(name, {}), read_files(path))
            if difference and not is_empty_folder(path):
                yield f"{name} exists but is not complete: {difference}"


def _problems_of_next_attempt(reference: Reference, folder: Path) -> Iterator[str]:
    """Check that an undisturbed attempt ends with the undisturbed result."""
    was_complete = _is_complete(reference, folder)
    outcome = run_command(reference.name, folder)
    if was_complete and reference.command.refuses_existing_output:
        if outcome.exit_code != 2 or "already exists" not in outcome.stderr:
            yield f"the next attempt does not report the existing output: {outcome.exit_code}, {outcome.stderr}"
    elif outcome.exit_code != 0:
        yield f"the next attempt fails with exit code {outcome.exit_code}: {outcome.stderr}"
        return
    if "Traceback" in outcome.stderr:
        yield f"a traceback in the next attempt: {outcome.stderr}"
    if difference := _difference(_expected_files(reference, folder), read_files(folder)):
        yield f"the next attempt has another result: {difference}"


def _is_complete(reference: Reference, folder: Path) -> bool:
    """Whether the final output of the command exists."""
    output = folder / reference.command.published[0]
    return output.exists() and not is_empty_folder(output)


def _expected_files(reference: Reference, folder: Path) -> Files:
    """Return the undisturbed files, and those of old checkpoints that a killed process has not deleted."""
    expected = dict(reference.after)
    for name, files in reference.published.items():
        if fnmatch(name, "run/checkpoints/*") and (folder / name).exists():
            expected |= {f"{name}/{file}": digest for file, digest in files.items()}
    return expected


def _difference(expected: Files, found: Files) -> str:
    """Name the files that differ; empty if none does."""
    return ", ".join(
        f"{name} is {'missing' if name not in found else 'unexpected' if name not in expected else 'different'}"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    )
