"""Write a small file with every fault at every operation, and print how each attempt ended, as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

from tests.faults.injection import Fault, FaultPoint, run_supervised

CONTENT = b"0123456789"


def write_atomically() -> None:
    """Write a file beside its place and rename it; exit with the number of the error, if there is one."""
    try:
        with open("file.unfinished", "wb") as file:
            file.write(CONTENT)
            file.flush()
            os.fsync(file.fileno())
        os.rename("file.unfinished", "file")
    except OSError as error:
        sys.exit(error.errno or 1)


def main(folder: Path) -> None:
    """Try all faults, each in an empty folder."""
    results, counts = {}, Counter[str]()
    folder.mkdir()
    operations = run_supervised(write_atomically, folder).operations
    for operation in operations:
        counts[operation.name] += 1
        for fault in filter(lambda fault: fault.applies_to(operation), Fault):
            shutil.rmtree(folder)
            folder.mkdir()
            outcome = run_supervised(write_atomically, folder, FaultPoint(fault, operation, 1))
            files = {path.name: path.read_text() for path in folder.iterdir()}
            results[f"{fault} {operation}"] = [outcome.exit_code, files]
    print(json.dumps({"operations": list(map(str, operations)), "results": results}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
