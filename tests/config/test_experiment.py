from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from manyglot.config.experiment import load_experiment, read_experiment
from manyglot.errors import ManyglotError, SettingsError

ROOT = Path(__file__).parents[2]
MINIMAL = "data: d\nrun: r\ncorpus: {kind: synthetic}\n"


def write(tmp_path: Path, text: str, name: str = "experiment.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "path",
    sorted([*ROOT.glob("src/**/*.yaml"), *ROOT.glob("examples/**/*.yaml")]),
    ids=lambda path: path.name,
)
def test_every_yaml_of_the_repository_is_read(path: Path) -> None:
    is_text_of_a_pack = path.name == "new_language.yaml"  # add-language provides data and run
    read_experiment(path, ["data=data", "run=run"] if is_text_of_a_pack else [])


def test_the_sizes_are_the_papers_and_the_guidance_is_the_recommended_one(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, MINIMAL))
    assert (experiment.model.width, experiment.model.ffn_width, experiment.model.num_heads) == (512, 2048, 8)
    assert (experiment.model.num_encoder_layers, experiment.model.norm) == (6, "post")
    assert (experiment.training.learning_rate, experiment.training.warmup_steps) == (5e-4, 4000)
    assert (experiment.decoding.beam_size, experiment.decoding.length_penalty) == (5, 1.0)
    assert (experiment.vocabulary.size, experiment.batches.temperature) == (64_000, 5.0)
    (adapter,) = experiment.to_dict()["guidance"]
    assert adapter.pop("rank") is None
    assert adapter == {"method": "adapter", "sites": ["dec.ffn"], "residual": True, "placement": "before_residual"}
    assert experiment.training.alignment == "auto"


def test_overrides_are_yaml_values(tmp_path: Path) -> None:
    overrides = ["training.max_steps=7", "guidance=[{method: token, side: target}]", "batches.temperature=null"]
    experiment = read_experiment(write(tmp_path, MINIMAL), overrides)
    assert experiment.training.max_steps == 7
    assert experiment.guidance[0].model_dump() == {"method": "token", "side": "target", "mode": "faithful"}
    assert experiment.batches.temperature is None


def test_an_override_creates_an_optional_section(tmp_path: Path) -> None:
    for given in ("", "training: {alignment: null}\n"):
        experiment = read_experiment(write(tmp_path, MINIMAL + given), ["training.alignment.weight=0.3"])
        assert experiment.training.alignment is not None
        assert experiment.training.alignment.weight == 0.3


def test_a_file_extends_another_and_lists_are_replaced(tmp_path: Path) -> None:
    write(tmp_path, MINIMAL + "training: {max_steps: 5, warmup_steps: 2}\n", "base.yaml")
    experiment = read_experiment(write(tmp_path, "extends: base.yaml\ntraining: {max_steps: 9}\n"))
    assert (experiment.training.max_steps, experiment.training.warmup_steps) == (9, 2)


def test_resolved_settings_read_back_the_same(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, MINIMAL))
    again = write(tmp_path, yaml.safe_dump(experiment.to_dict()), "resolved.yaml")
    assert read_experiment(again) == experiment


def test_norwegian_is_not_a_boolean(tmp_path: Path) -> None:
    text = "data: d\nrun: r\ncorpus: {kind: phrasebook, languages: [en, no], central_language: no}\n"
    experiment = read_experiment(write(tmp_path, text))
    assert experiment.corpus.languages == ("en", "no")  # type: ignore[union-attr]
    assert experiment.corpus.central_language == "no"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: [", "is not valid YAML"),
        ("just words", "should contain settings"),
        ("", "is empty"),
        (MINIMAL + "training: {warmup_step: 3}", "training.warmup_step is not a setting. Did you mean 'warmup_steps'?"),
        (MINIMAL + "trainin: {}", "trainin is not a setting. Did you mean 'training'?"),
        (MINIMAL + "alignment: {}", "alignment is not a setting. Did you mean 'training.alignment'?"),
        (
            MINIMAL + "training: {alignment: true}",
            "training.alignment should contain settings (weight, every_nth_pair), got True.",
        ),
        (MINIMAL + "guidance: [{method: tokn}]", "guidance.method: 'tokn' is not known. Did you mean 'token'?"),
        (MINIMAL + "guidance: [token]", "each entry needs a method"),
        (
            MINIMAL + "guidance: [{method: token, sid: source}]",
            "guidance.token.sid is not a setting. Did you mean 'side'?",
        ),
        (MINIMAL + "guidance: [{method: token, mode: clean}]", "clean needs side: target"),
        (MINIMAL + "model: {width: 30, num_heads: 4}", "must be even and a multiple of num_heads"),
        ("run: r\ncorpus: {kind: synthetic}", "data is required"),
        (
            "data: d\nrun: r\ncorpus: {kind: phrasbook}",
            "corpus.kind: 'phrasbook' is not known. Did you mean 'phrasebook'?",
        ),
        ("extends: experiment.yaml", "extends itself"),
        (MINIMAL + "seed: 1\nseed: 2\n", "'seed' is given twice"),
        (
            MINIMAL + "guidance: null",
            "guidance should be a list of methods, such as [{method: laa}, {method: lee}]; got",
        ),
        (MINIMAL + "training: null", "training should contain settings (max_steps, "),
    ],
)
def test_mistakes_in_a_file_are_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ManyglotError) as caught:
        read_experiment(write(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("override", ["training.max_steps", "=3", "seed.deep=3", "training.max_steps=[1"])
def test_mistakes_in_overrides_are_explained(tmp_path: Path, override: str) -> None:
    with pytest.raises(SettingsError, match="--set"):
        read_experiment(write(tmp_path, MINIMAL + "seed: 2\n"), [override])


def test_a_missing_file_and_a_file_that_is_not_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="There is no file"):
        read_experiment(tmp_path / "nothing.yaml")
    path = tmp_path / "bytes.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not UTF-8"):
        read_experiment(path)
    with pytest.raises(SettingsError, match="is a folder"):
        read_experiment(tmp_path)


def test_an_experiment_has_three_forms(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL)
    expected, values = read_experiment(path, ["seed=3"]), yaml.safe_load(MINIMAL)
    assert load_experiment(str(path), ["seed=3"]) == load_experiment(values, ["seed=3"]) == expected
    assert load_experiment(read_experiment(path), ["seed=3"]) == expected
    assert values == yaml.safe_load(MINIMAL), "the dictionary is not changed"
    with pytest.raises(SettingsError, match="a dictionary of settings, not list"):
        load_experiment([values])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="Did you mean 'seed'"):
        load_experiment(values | {"sed": 1})


def test_what_a_file_extends_is_a_settings_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for base, message in {
        "7": "extends should be the path of a file",
        "pipe": "pipe is not a file",
        "/dev/zero": "/dev/zero is not a file",
        "missing.yaml": "There is no file",
        "loop.yaml": "There is no file",
        "x" * 1000: "whose path is too long",
        "&x base.yaml": "anchors are not allowed",
    }.items():
        with pytest.raises(SettingsError, match=message):
            read_experiment(write(tmp_path, f"extends: {base}\n"))


def test_a_long_chain_of_files_is_refused(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path, f"extends: {number + 1}.yaml\n", f"{number}.yaml")
    write(tmp_path, MINIMAL, "60.yaml")
    with pytest.raises(SettingsError, match="extends more than 50 files"):
        read_experiment(tmp_path / "0.yaml")
    assert read_experiment(tmp_path / "15.yaml").run == Path("r")


def test_mistakes_name_the_file_and_all_missing_settings(tmp_path: Path) -> None:
    path = write(tmp_path, "seed: 3\n")
    with pytest.raises(SettingsError, match=rf"^{path}: data is required but missing, and so are run, corpus\.$"):
        read_experiment(path)
