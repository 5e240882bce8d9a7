from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, measure_source_lengths
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.model_folder import load_model


@pytest.fixture
def folder(trained: Experiment, tmp_path: Path) -> Path:
    shutil.copytree(trained.run / "model", tmp_path / "model")
    return tmp_path / "model"


def test_the_folder_contains_all_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    documents = {"config.yaml", "languages.json", "training.json", "format.json"}
    assert names == {"model.safetensors", "subwords.model", *documents}
    languages = json.loads((folder / "languages.json").read_text())["languages"]
    assert [(entry["id"], entry["code"]) for entry in languages] == [(0, "qaa"), (1, "qab"), (2, "qac")]
    training = load_model(folder).training_info
    assert (training["steps"], training["best_metric"]) == (6, "dev_nll")


def test_the_folder_stores_the_lengths_of_the_training_text(folder: Path, trained: Experiment) -> None:
    dataset = PreparedDataset(trained.data)
    lengths = load_model(folder).source_lengths
    assert lengths == measure_source_lengths(dataset, dataset.languages)
    assert lengths.sentences_p99 == 1
    assert 1 < lengths.subwords_p99 <= lengths.max_subwords < DEFAULT_SOURCE_LENGTHS.max_subwords


def test_a_folder_of_an_earlier_release_loads(folder: Path) -> None:
    (folder / "training.json").write_text('{"steps": 6}')
    loaded = load_model(folder)
    assert (loaded.training_info, loaded.source_lengths) == ({"steps": 6}, DEFAULT_SOURCE_LENGTHS)
    (folder / "training.json").unlink()
    assert load_model(folder).training_info == {}


@pytest.mark.parametrize("name", ["model.safetensors", "subwords.model", "languages.json"])
def test_an_altered_file_is_rejected_by_name(folder: Path, name: str) -> None:
    """Make a change that only the checksum reveals."""
    content = bytearray((folder / name).read_bytes())
    match name:
        case "model.safetensors":
            content[-2] ^= 1
        case "languages.json":
            content += b"\n"
        case "subwords.model":
            content += b"\x9a\x06\x01x"  # a field that SentencePiece does not know
    (folder / name).write_bytes(content)
    with pytest.raises(FolderError, match=rf"{name} was altered or damaged since it was saved\. Copy the model folder"):
        load_model(folder)
    card = json.loads((folder / "format.json").read_text())
    assert list(card["sha256"]) == ["model.safetensors", "subwords.model", "languages.json"]
    card.pop("sha256")  # as in folders of earlier releases
    (folder / "format.json").write_text(json.dumps(card))
    assert load_model(folder)


@pytest.mark.parametrize("checksums", [{}, [], 7, "sha", {"model.safetensors": 7}])
def test_malformed_checksums_are_rejected(folder: Path, checksums: object) -> None:
    (folder / "format.json").write_text(json.dumps({"format": 1, "sha256": checksums}))
    with pytest.raises(FolderError, match=r"damaged"):
        load_model(folder)


def test_a_newer_format_is_rejected(folder: Path) -> None:
    (folder / "format.json").write_text('{"format": 2}')
    with pytest.raises(FolderError, match=r"has model format 2, but this manyglot reads up to 1. Upgrade manyglot"):
        load_model(folder)


def test_mismatched_weights_are_rejected_before_loading(folder: Path) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model"]["ffn_width"] = 2**18
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(FolderError, match=r"do not fit config.yaml: decoder.0.ffn.inner.bias is F32 \[32\]"):
        load_model(folder)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.yaml", "languages.json", "subwords.model", "format.json"]
)
@pytest.mark.parametrize("damage", ["missing", "truncated", "nonsense"])
def test_a_damaged_folder_is_rejected_in_one_line(folder: Path, name: str, damage: str) -> None:
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"\x00\xff[nonsense")
    with pytest.raises(FolderError) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rest", ["guidance:", "decoding:", "evaluation:", "# settings:end"])
def test_truncated_settings_are_rejected(folder: Path, rest: str) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text[: text.index(rest)])
    with pytest.raises(FolderError, match=r"config\.yaml: incomplete"):
        load_model(folder)


def test_settings_of_earlier_releases_have_no_begin_and_end_lines(folder: Path) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text[text.index("\n") + 1 : text.index("# settings:end")])
    load_model(folder)


def test_weights_have_the_file_mode_of_the_other_files(folder: Path) -> None:
    assert (folder / "model.safetensors").stat().st_mode == (folder / "config.yaml").stat().st_mode


def test_a_folder_without_a_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is not a manyglot model folder"):
        load_model(tmp_path)
