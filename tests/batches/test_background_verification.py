from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from manyglot.batches import background_verification
from manyglot.batches.background_verification import verified_in_background
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.devices import find_device
from manyglot.distributed import DistributedContext
from manyglot.errors import FolderError, SettingsError

ALONE = DistributedContext(find_device("cpu"))


@pytest.fixture
def damaged(dataset: PreparedDataset, tmp_path: Path) -> PreparedDataset:
    shutil.copytree(dataset.folder, tmp_path / "data")
    path = tmp_path / "data" / "store" / "train" / "tokens.npy"
    path.write_bytes(path.read_bytes()[:-2] + (7).to_bytes(2, "little"))
    return PreparedDataset(tmp_path / "data")


def test_an_intact_dataset_passes(dataset: PreparedDataset) -> None:
    with verified_in_background(PreparedDataset(dataset.folder), ALONE) as verification:
        verification.raise_if_damaged()
        assert not verification.found_damage


def test_damage_is_raised_when_training_asks(damaged: PreparedDataset) -> None:
    with (
        pytest.raises(FolderError, match=r"tokens\.npy is damaged \(its checksum is wrong\)"),
        verified_in_background(damaged, ALONE) as verification,
    ):
        verification.raise_if_damaged()
    assert verification.found_damage


def test_damage_explains_other_errors_but_not_mistakes(damaged: PreparedDataset, dataset: PreparedDataset) -> None:
    with pytest.raises(FolderError, match="checksum is wrong"), verified_in_background(damaged, ALONE):
        raise IndexError("out of bounds")
    with pytest.raises(IndexError), verified_in_background(dataset, ALONE):
        raise IndexError("a bug")
    with pytest.raises(SettingsError), verified_in_background(damaged, ALONE):
        raise SettingsError("A mistake.")


def test_the_verification_is_cancelled_at_the_end(
    dataset: PreparedDataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started, release = threading.Event(), threading.Event()

    def wait(self: object, num_bytes: int) -> None:
        started.set()
        release.wait(10)
        stop_if_cancelled(self, num_bytes)

    stop_if_cancelled = background_verification.BackgroundVerification._stop_if_cancelled
    monkeypatch.setattr(background_verification.BackgroundVerification, "_stop_if_cancelled", wait)
    monkeypatch.setattr(background_verification, "QUIET_SECONDS", 0.01)
    fresh = PreparedDataset(dataset.folder)
    with verified_in_background(fresh, ALONE) as verification:
        assert started.wait(10)
        threading.Timer(0.1, release.set).start()
        verification.raise_if_damaged()
    assert "Waiting until the checksums" in capsys.readouterr().err
    release.clear()
    started.clear()
    unread = PreparedDataset(dataset.folder)
    with verified_in_background(unread, ALONE) as verification:
        assert started.wait(10)
        verification._is_cancelled = True
        release.set()
    assert not verification._thread.is_alive()
    assert not verification.found_damage
    assert len(unread._verified) < len(fresh._verified)


def test_other_processes_do_not_read(damaged: PreparedDataset) -> None:
    with verified_in_background(damaged, DistributedContext(find_device("cpu"), rank=1)) as verification:
        assert not verification._thread.is_alive()
        verification.raise_if_damaged()


class _OneProcessFoundDamage(DistributedContext):
    def any_process(self, flag: bool) -> bool:
        return True


def test_all_processes_stop_if_the_main_process_finds_damage(dataset: PreparedDataset) -> None:
    secondary = _OneProcessFoundDamage(find_device("cpu"), rank=1, world_size=2)
    with (
        pytest.raises(FolderError, match=r"data is damaged\. The main process names the file"),
        verified_in_background(dataset, secondary) as verification,
    ):
        verification.raise_if_damaged()
