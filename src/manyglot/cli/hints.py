"""Parts of the hints that suggest the next command."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def command_name() -> str:
    """Return how to invoke this program: `manyglot` if it is on the PATH, otherwise as it was invoked now."""
    if shutil.which("manyglot"):
        return "manyglot"
    return sys.argv[0] if Path(sys.argv[0]).name == "manyglot" else f"{sys.executable} -m manyglot"


def format_override_options(overrides: Sequence[str]) -> str:
    """Format the `--set` options of this command for the next one."""
    return "".join(f" --set {shlex.quote(override)}" for override in overrides)
