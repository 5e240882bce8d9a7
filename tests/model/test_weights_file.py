"""Saving tensors on a full disk, which safetensors reports in an error of its own."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model import weights_file
from manyglot.model.model_folder import load_model
from manyglot.model.weights_file import save_tensors
from tests.model.run_folders import RunMaker
from tests.model.run_folders import make_run as make_run

TENSORS = {"a": torch.zeros(100_000)}
FULL_DISK = "Error while serializing: I/O error: No space left on device (os error 28)"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_an_os_error(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught:
        save_tensors(small_disk / "x", TENSORS)
    assert caught.value.errno == errno.ENOSPC


def test_any_other_failure_is_an_os_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise SafetensorError("something else")

    monkeypatch.setattr(weights_file, "save_file", fail)
    with pytest.raises(OSError, match="something else"):
        save_tensors(tmp_path / "x", TENSORS)


@pytest.mark.parametrize("command", ["train", "average", "export"])
def test_a_model_on_a_full_disk_is_refused_and_written_later(
    command: str, trained: Experiment, make_run: RunMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing remains that looks complete, and the same call succeeds after making room."""
    experiment = trained.model_copy(update={"run": tmp_path / "trained"})
    run = make_run(10, 20)
    output = {"train": experiment.run / "model", "average": tmp_path / "mean", "export": tmp_path / "small"}[command]

    def write() -> None:
        match command:
            case "train":
                manyglot.train(experiment)
            case "average":
                manyglot.average(run, output, last=2)
            case "export":
                manyglot.export(run, output, export_format="manyglot")

    def fill_disk(tensors: object, path: Path, metadata: dict[str, str] | None = None) -> None:
        if output.name in path.parent.name:
            path.write_bytes(b"partial")
            raise SafetensorError(FULL_DISK)
        save_file(tensors, path, metadata)  # type: ignore[arg-type]

    save_file = weights_file.save_file
    with monkeypatch.context() as patch:
        patch.setattr(weights_file, "save_file", fill_disk)
        with pytest.raises(
            FolderError, match=rf"Cannot write {output}: {os.strerror(errno.ENOSPC)}; make room and run"
        ):
            write()
    assert not list(output.parent.glob(f"{output.name}*"))
    write()
    assert load_model(output)
