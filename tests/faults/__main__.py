"""Inject every fault at every file operation of every command: `make faults`.

Prints the number of cases and every failure. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path

from tests.faults.durability import find_unflushed_files
from tests.faults.fault_cases import FaultCase, FaultTester, all_cases, repeated_cases
from tests.faults.injection import why_unavailable
from tests.faults.workload import COMMANDS, Reference, make_references, preload


def main() -> int:
    """Run the cases that the options select."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"default: {' '.join(COMMANDS)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose description contains this text")
    parser.add_argument("--sample", type=int, help="number of random cases; default: all")
    parser.add_argument("--repeated", type=int, default=300, help="number of random cases with two faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="number of processes")
    options = parser.parse_args()
    if reason := why_unavailable():
        print(f"Faults cannot be injected: {reason}.")
        return 1
    preload()
    memory = Path("/dev/shm")  # writing and flushing files takes no time there
    with tempfile.TemporaryDirectory(
        prefix="manyglot-faults-", dir=memory if os.access(memory, os.W_OK) else None
    ) as temporary:
        folder, names = Path(temporary), options.commands or list(COMMANDS)
        references = make_references(folder, names)
        selected = {name: references[name] for name in names}
        cases = all_cases(selected)
        print_counts(cases)
        cases += repeated_cases(selected, options.repeated, options.seed)
        cases = [case for case in sample_evenly(cases, options.seed) if options.only in str(case)][: options.sample]
        is_durable = check_durability(selected)
        is_repaired = run_cases(cases, references, folder, options.jobs)
    return 0 if is_durable and is_repaired else 1


def print_counts(cases: Sequence[FaultCase]) -> None:
    """Print the number of cases of each command and fault."""
    counts = Counter((case.name, case.points[0].fault) for case in cases)
    for name in dict.fromkeys(case.name for case in cases):
        row = ", ".join(f"{count} {fault}" for (command, fault), count in counts.items() if command == name)
        print(f"{name}: {row}")


def sample_evenly(cases: Sequence[FaultCase], seed: int) -> Iterator[FaultCase]:
    """Yield the cases in random order, with the commands in turn."""
    by_command: dict[str, list[FaultCase]] = {}
    for case in random.Random(seed).sample(cases, len(cases)):
        by_command.setdefault(case.name, []).append(case)
    return filter(None, chain.from_iterable(zip_longest(*by_command.values())))


def check_durability(references: Mapping[str, Reference]) -> bool:
    """Print what the undisturbed commands do not flush to disk; return whether there is nothing."""
    unflushed = [
        f"{name}: {problem}"
        for name, reference in references.items()
        for problem in find_unflushed_files(reference.operations)
    ]
    for problem in unflushed:
        print(f"FAILED {problem}")
    return not unflushed


def run_cases(cases: Sequence[FaultCase], references: Mapping[str, Reference], folder: Path, num_jobs: int) -> bool:
    """Run cases in several processes and print the failures; return whether there are none."""
    start, num_failed = time.monotonic(), 0
    with multiprocessing.get_context("fork").Pool(num_jobs, _init_worker, (references, folder)) as pool:
        for number, (case, problems) in enumerate(pool.imap_unordered(_run_case, cases), start=1):
            if problems:
                num_failed += 1
                print(f"FAILED {case}", *problems, sep="\n    ", flush=True)
            if number % 200 == 0:
                print(f"{number} of {len(cases)} cases, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(cases)} cases, {num_failed} failed, {time.monotonic() - start:.0f} s")
    return num_failed == 0


_worker_state: dict[str, FaultTester] = {}


def _init_worker(references: Mapping[str, Reference], folder: Path) -> None:
    """Create what a worker needs for all its cases."""
    _worker_state["tester"] = FaultTester(references, folder / f"work-{os.getpid()}")


def _run_case(case: FaultCase) -> tuple[FaultCase, list[str]]:
    return case, _worker_state["tester"].find_problems(case)


if __name__ == "__main__":
    sys.exit(main())
