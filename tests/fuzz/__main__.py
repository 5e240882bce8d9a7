"""`python -m tests.fuzz`: damage files of every kind in thousands of ways and check that nothing goes unnoticed."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

import manyglot
from tests.conftest import tiny_experiment
from tests.fuzz.cases import Failure
from tests.fuzz.originals import write_originals
from tests.fuzz.supervisor import Case, Tally, run_cases
from tests.fuzz.targets import SHARES


def main() -> None:
    """Run the cases of all targets, or of the given ones, and exit with 1 if any fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--mutations", type=int, default=20_000, help="number of cases of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="number of processes")
    parser.add_argument("--target", action="append", choices=list(SHARES), help="only this target; may be repeated")
    parser.add_argument("--case", type=int, help="only this case of one target")
    parser.add_argument("--report", type=Path, help="append each failure to this file")
    arguments = parser.parse_args()
    names = arguments.target or list(SHARES)
    cases = select_cases(names, arguments.mutations, arguments.seed)
    if arguments.case is not None:
        cases = [(names[0], arguments.case)]

    def on_failure(failure: Failure) -> None:
        text = format_failure(failure, with_detail=arguments.case is not None)
        print(text, flush=True)
        if arguments.report is not None:
            with arguments.report.open("a", encoding="utf-8") as file:
                file.write(format_failure(failure, with_detail=True) + "\n")

    tally, started = Tally(on_failure), monotonic()
    memory = Path("/dev/shm")  # cases write small files, and flush them to disk
    with tempfile.TemporaryDirectory(prefix="manyglot-fuzz-", dir=memory if memory.is_dir() else None) as folder:
        experiment = tiny_experiment(Path(folder))
        manyglot.prepare(experiment)
        manyglot.train(experiment)
        originals = Path(folder) / "originals"
        write_originals(originals, experiment)
        run_cases(originals, Path(folder) / "work", arguments.seed, cases, arguments.workers, tally)
    print_summary(tally, monotonic() - started)
    sys.exit(1 if tally.failures else 0)


def select_cases(names: list[str], num_mutations: int, seed: int) -> list[Case]:
    """Distribute the mutations over targets by their shares, in random order."""
    total = sum(SHARES[name] for name in names)
    cases = [(name, i) for name in names for i in range(-(-num_mutations * SHARES[name] // total))]
    random.Random(seed).shuffle(cases)
    return cases


def format_failure(failure: Failure, with_detail: bool) -> str:
    """Describe a failure and how to repeat it."""
    mutation = failure.mutation.encode("ascii", "backslashreplace").decode()
    cause = failure.cause.encode("ascii", "backslashreplace").decode()
    repeat = f"python -m tests.fuzz --seed {failure.seed} --target {failure.target} --case {failure.number}"
    detail = f"\n{failure.detail.encode('ascii', 'backslashreplace').decode()}" if with_detail else ""
    return f"{failure.kind}: {cause}\n  {mutation}\n  {repeat}{detail}"


def print_summary(tally: Tally, seconds: float) -> None:
    """Print the number and speed of the cases of each target, and the failures by cause."""
    print(f"\n{'target':<18}{'cases':>7}{'refused':>9}{'failed':>8}{'per second':>12}")
    failed = Counter(failure.target for failure in tally.failures)
    for name, count in sorted(tally.num_cases.items()):
        speed = count / max(tally.seconds[name], 1e-9)
        print(f"{name:<18}{count:>7}{tally.num_refused[name]:>9}{failed[name]:>8}{speed:>12.1f}")
    causes = Counter(
        (failure.kind, failure.target.removeprefix("forged-"), failure.cause) for failure in tally.failures
    )
    for (kind, target, cause), count in causes.most_common():
        text = cause.encode("ascii", "backslashreplace").decode()
        print(f"{count:>6}  {kind}: {target}: {text}")
    print(f"{tally.num_cases.total()} cases in {seconds:.0f} s, {len(tally.failures)} failures")


if __name__ == "__main__":
    main()
