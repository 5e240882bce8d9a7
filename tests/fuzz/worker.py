"""A worker process of the fuzzer: runs cases and prints a JSON line before and after each of them."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path

from manyglot.config.experiment import read_experiment
from tests.fuzz.cases import Outcome, run_case
from tests.fuzz.folder_mutations import copy_folder
from tests.fuzz.targets import make_targets, original_folder


def main(originals: Path, work: Path, seed: int) -> None:
    """Run the cases that standard input names, one `TARGET NUMBER` per line."""
    faulthandler.enable(open(work / "crash.txt", "w"))  # noqa: SIM115 (open until the process ends)
    output = os.fdopen(os.dup(1), "w", buffering=1)
    targets = make_targets(read_experiment(originals / "experiment.yaml"))
    undamaged: dict[str, Outcome] = {}
    for line in sys.stdin:
        name, number = line.split()
        target, original, copy = targets[name], original_folder(originals, name), work / "input"
        if name not in undamaged:
            copy_folder(original, copy)
            undamaged[name] = target.use(copy)

        def announce(mutation: str) -> None:
            print(json.dumps({"mutation": mutation}), file=output)

        result = run_case(target, original, copy, seed, int(number), undamaged[name], announce)
        failure = None if result.failure is None else result.failure.to_dict()
        print(json.dumps({"refused": result.refused, "failure": failure}), file=output)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
