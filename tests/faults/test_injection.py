from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.usefixtures("fault_injection")
def test_every_fault_happens_where_it_should(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.injected_writer", str(tmp_path / "folder")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    opened, written, flushed = (f"{name}(file.unfinished)" for name in ("openat", "write", "fsync"))
    renamed, whole, half = "rename(file)", "0123456789", "01234"
    assert found["operations"] == [opened, written, flushed, renamed]
    failed, full, killed = errno.EIO, errno.ENOSPC, -signal.SIGKILL
    assert found["results"] == {
        f"full-disk {opened}": [full, {}],
        f"io-error {opened}": [failed, {}],
        f"kill {opened}": [killed, {}],
        f"full-disk {written}": [full, {"file.unfinished": half}],
        f"io-error {written}": [failed, {"file.unfinished": whole}],  # Python writes again when it closes the file
        f"kill {written}": [killed, {"file.unfinished": ""}],
        f"torn-write {written}": [killed, {"file.unfinished": half}],
        f"full-disk {flushed}": [full, {"file.unfinished": whole}],
        f"io-error {flushed}": [failed, {"file.unfinished": whole}],
        f"kill {flushed}": [killed, {"file.unfinished": whole}],
        f"full-disk {renamed}": [full, {"file.unfinished": whole}],
        f"io-error {renamed}": [failed, {"file.unfinished": whole}],
        f"kill {renamed}": [killed, {"file.unfinished": whole}],
    }
