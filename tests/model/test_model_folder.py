from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, measure_source_lengths
from manyglot.config.experiment import Experiment
from manyglot.errors import FolderError
from manyglot.model.guidance.adapter import AdapterSettings
from manyglot.model.model_folder import load_model, save_model, seal_model
from manyglot.model.model_seals import SEALED_FILES, ModelSeals
from manyglot.model.transformer import Transformer


@pytest.fixture
def folder(trained: Experiment, tmp_path: Path) -> Path:
    shutil.copytree(trained.run / "model", tmp_path / "model")
    return tmp_path / "model"


def test_the_folder_contains_all_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    documents = {"config.yaml", "languages.json", "training.json", "format.json"}
    assert names == {"model.safetensors", "subwords.model", "README.md", *documents}
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


@pytest.mark.parametrize("name", ["model.safetensors", "subwords.model", "languages.json", "training.json"])
def test_an_altered_file_is_rejected_by_name(folder: Path, name: str) -> None:
    """Make a change that only the checksum reveals."""
    content = bytearray((folder / name).read_bytes())
    if name.endswith("json"):
        content[-1:] = b" "
    else:
        content[-2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(FolderError, match=rf"{name} was altered or damaged since it was saved\. Copy the model folder"):
        load_model(folder)
    if name != "subwords.model":
        seal_model(folder)
        assert load_model(folder), "changed on purpose"


@pytest.mark.parametrize("change", ["removed", "added"])
@pytest.mark.parametrize("name", SEALED_FILES)
def test_a_change_of_size_is_noticed_without_reading(folder: Path, name: str, change: str) -> None:
    if change == "removed":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    problem = "is missing" if change == "removed" else "was altered or damaged"
    with pytest.raises(FolderError, match=f"{name} {problem}"):
        ModelSeals.read(folder)


@pytest.mark.parametrize(
    ("section", "old", "new"),
    [
        ("model", "num_heads: 2", "num_heads: 1"),
        ("guidance", "side: source", "side: target"),
        ("vocabulary", "size: 120", "size: 121"),
    ],
)
def test_settings_that_decide_what_the_model_computes_are_sealed(
    folder: Path, section: str, old: str, new: str
) -> None:
    text = (folder / "config.yaml").read_text()
    assert text.count(old) == 1
    (folder / "config.yaml").write_text(text.replace(old, new))
    with pytest.raises(FolderError, match=rf"config\.yaml: the section {section} was changed since .*Undo the change"):
        load_model(folder)
    seal_model(folder)
    assert load_model(folder), "changed on purpose"


def test_other_settings_may_be_edited(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("beam_size: 2", "beam_size: 7"))
    assert load_model(folder).config["decoding"]["beam_size"] == 7
    assert capsys.readouterr().err == f"{folder / 'config.yaml'} was edited since the model was saved (decoding).\n"


@pytest.mark.parametrize("kind", ["files", "settings"])
@pytest.mark.parametrize("damage", ["removed", "one removed", "list", "text", "one damaged"])
def test_removed_or_damaged_seals_are_noticed(folder: Path, kind: str, damage: str) -> None:
    metadata = json.loads((folder / "format.json").read_text())
    name = next(iter(metadata[kind]))
    match damage:
        case "removed":
            del metadata[kind]
        case "one removed":
            del metadata[kind]["model.safetensors" if kind == "files" else "model"]
        case "one damaged":
            metadata[kind][name] = {"size": 7} if kind == "files" else "0"
        case _:
            metadata[kind] = [] if damage == "list" else "sha"
    (folder / "format.json").write_text(json.dumps(metadata))
    with pytest.raises(FolderError, match=r"format\.json is damaged: the checksum.* missing.*\. Copy the model folder"):
        load_model(folder)


def test_the_removed_seal_of_any_section_is_noticed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = json.loads((folder / "format.json").read_text())
    del metadata["settings"]["seed"]
    (folder / "format.json").write_text(json.dumps(metadata))
    load_model(folder)
    assert "config.yaml was edited since the model was saved (seed)." in capsys.readouterr().err
    del metadata["settings"]["vocabulary"]
    (folder / "format.json").write_text(json.dumps(metadata))
    with pytest.raises(FolderError, match="the section vocabulary was changed"):
        load_model(folder)


def test_a_newer_format_is_rejected(folder: Path) -> None:
    (folder / "format.json").write_text('{"format": 3}')
    with pytest.raises(FolderError, match=r"has model format 3, but this manyglot reads up to 2. Upgrade manyglot"):
        load_model(folder)


@pytest.mark.parametrize(("version", "placement"), [(1, "after_residual"), (2, "before_residual")])
def test_adapters_of_format_1_come_after_the_residual(folder: Path, version: int, placement: str) -> None:
    """Format 1 was written before adapters had a placement, whose default differs from what they did."""
    trained = load_model(folder)
    adapter = AdapterSettings()
    model = Transformer(trained.model.settings, [adapter], len(trained.vocabulary.subword_model), 3)
    without_placement = adapter.model_dump(mode="json", exclude={"placement"})
    config = {**trained.config, "guidance": [without_placement]}
    save_model(folder.with_name("adapter"), replace(trained, model=model, config=config))
    metadata = json.loads((folder.with_name("adapter") / "format.json").read_text())
    (folder.with_name("adapter") / "format.json").write_text(json.dumps(metadata | {"format": version}))
    seal_model(folder.with_name("adapter"))
    loaded = load_model(folder.with_name("adapter"))
    assert loaded.model.methods == (AdapterSettings(placement=placement),)


def test_mismatched_weights_are_rejected_before_loading(folder: Path) -> None:
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("ffn_width: 32", "ffn_width: 262144"))
    seal_model(folder)
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


def test_weights_have_the_file_mode_of_the_other_files(folder: Path) -> None:
    assert (folder / "model.safetensors").stat().st_mode == (folder / "config.yaml").stat().st_mode


def test_a_folder_without_a_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is not a manyglot model folder"):
        load_model(tmp_path)
