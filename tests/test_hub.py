"""Models on the hub, in the layout of its cache and without a network."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError, ManyglotError
from manyglot.hub import resolve_model

huggingface_hub = pytest.importorskip("huggingface_hub")
REVISION = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_" + "secret" * 6


@pytest.fixture
def cache(trained: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of huggingface_hub after the download of `someone/tiny`, which has a model and a copy in a folder."""
    cache = tmp_path / "home" / "hub"
    repository = cache / "models--someone--tiny"
    snapshot = repository / "snapshots" / REVISION
    for folder in (snapshot, snapshot / "copy", repository / "blobs", repository / "refs"):
        folder.mkdir(parents=True)
    for number, path in enumerate(sorted((trained.run / "model").iterdir())):
        (repository / "blobs" / f"{number:040x}").write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(f"../../blobs/{number:040x}")
        (snapshot / "copy" / path.name).symlink_to(f"../../../blobs/{number:040x}")
    (repository / "refs" / "main").write_text(REVISION)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return cache


@pytest.mark.parametrize(
    "name",
    [
        "hf://someone/tiny",
        "hf:/someone/tiny",
        f"hf://someone/tiny@{REVISION}",
        "hf://someone/tiny@main",
        "hf://someone/tiny/copy",
    ],
)
def test_a_cached_model_translates_without_a_network(cache: Path, trained: Experiment, name: str) -> None:
    model = manyglot.load(name)
    source = "dapu"
    assert model.translate(source, to="qab") == manyglot.load(trained.run / "model").translate(source, to="qab")


def test_commands_that_read_a_model_take_its_name(cache: Path) -> None:
    environment = os.environ | {"HF_HOME": str(cache.parent), "HF_HUB_OFFLINE": "1", "HF_TOKEN": TOKEN}
    for name, code in (("hf://someone/tiny", 0), ("hf://someone/else", 2)):
        command = [sys.executable, "-m", "manyglot", "describe", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert TOKEN not in done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert "hf://someone/else is not in the cache, and the hub cannot be reached" in done.stderr


@pytest.mark.parametrize("name", ["hf://tiny", "hf://a/b/c/d", "hf://", "hf://a b/c", "hf://a/b@", "hf://../etc/x/y"])
def test_a_malformed_name_is_rejected(name: str) -> None:
    with pytest.raises(FolderError, match=r"should look like hf://owner/name"):
        resolve_model(name)


@pytest.mark.parametrize("error", ["GatedRepoError", "RepositoryNotFoundError", "RevisionNotFoundError", "OSError"])
def test_errors_never_quote_the_request(
    error: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Failure(getattr(huggingface_hub.errors, error, OSError)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.args = (f"Authorization: Bearer {TOKEN}",)

    def fail(*_: object, **__: object) -> None:
        raise Failure

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with caplog.at_level(logging.DEBUG), pytest.raises(FolderError) as raised:
        resolve_model("hf://someone/tiny@v1")
    assert "hf://someone/tiny@v1 " in str(raised.value)
    assert TOKEN not in str(raised.value) + caplog.text
    assert "\n" not in str(raised.value)


def test_without_huggingface_hub_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ManyglotError, match=r"pip install 'manyglot\[hub\]'"):
        resolve_model("hf://someone/tiny")


def test_other_paths_are_local(tmp_path: Path) -> None:
    assert resolve_model(str(tmp_path)) == resolve_model(tmp_path) == tmp_path
