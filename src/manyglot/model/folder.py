"""The model folder: weights, settings, languages and subwords, with a format version and nothing that can execute.

model.safetensors  the weights
config.yaml        the resolved settings of the experiment
languages.json     the languages and their ids, and the directions of the training
training.json      how many steps it was trained for, and which step's weights these are, and why
subwords.model     the SentencePiece model
format.json        the version of this layout
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import manyglot
from manyglot.corpus.languages import Direction, Languages, name_of
from manyglot.errors import FolderError, SettingsError
from manyglot.folders import written_whole
from manyglot.model.guidance import GuidanceList
from manyglot.model.layers import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.settings import Settings, parse
from manyglot.vocabulary.subwords import Subwords
from manyglot.vocabulary.vocabulary import Vocabulary

FORMAT = 1


@dataclass(frozen=True)
class TrainedModel:
    """A model with what is needed to use it and to judge it."""

    model: Transformer
    vocabulary: Vocabulary
    directions: tuple[Direction, ...]
    """The directions it was trained on; all others are zero-shot."""
    config: Mapping[str, Any]
    """The resolved experiment, of which `model` and `guidance` rebuild the model."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """The `steps` it was trained for, the `step` whose weights these are, and what that was chosen by."""


def save_model(folder: Path, trained: TrainedModel) -> None:
    """Write a model folder."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in trained.model.state_dict().items()}
    codes = trained.vocabulary.languages.codes
    languages = {
        "languages": [{"id": i, "code": code, "name": name_of(code)} for i, code in enumerate(codes)],
        "trained_directions": [list(direction) for direction in trained.directions],
    }
    settings = yaml.safe_dump(dict(trained.config), sort_keys=False, allow_unicode=True)
    with written_whole(folder) as unfinished:
        save_file(weights, unfinished / "model.safetensors")
        (unfinished / "config.yaml").write_text(settings, encoding="utf-8")
        trained.vocabulary.subwords.save(unfinished / "subwords.model")
        _write_json(unfinished / "languages.json", languages)
        _write_json(unfinished / "training.json", dict(trained.training))
        _write_json(unfinished / "format.json", {"format": FORMAT, "manyglot": manyglot.__version__})


def load_model(folder: Path) -> TrainedModel:
    """Read a model folder; the model is in evaluation mode."""
    _check_format(folder)
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
        if not isinstance(config, dict) or not {"model", "guidance", "training"} <= config.keys():
            raise ValueError("config.yaml is incomplete")
        card = json.loads((folder / "languages.json").read_text("utf-8"))
        codes = [entry["code"] for entry in card["languages"]]
        languages = Languages(codes)
        if codes != list(languages):
            raise ValueError("the languages are not in order")
        directions = tuple(Direction(source, target) for source, target in card["trained_directions"])
        training = read_training(folder)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise FolderError(f"The model folder {folder} is damaged ({error}).") from None
    vocabulary = Vocabulary(Subwords.load(folder / "subwords.model"), languages)
    try:
        shape = parse(_Shape, {"model": config["model"], "guidance": config["guidance"]})
    except SettingsError as error:
        raise FolderError(f"{folder}/config.yaml: {error}") from None
    with torch.device("meta"):  # shapes only: nothing is allocated before the file is known to fit
        model = Transformer(shape.model, shape.guidance, len(vocabulary.subwords), len(languages))
    _check_weights(folder / "model.safetensors", model)
    weights = load_file(folder / "model.safetensors")
    if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
        raise FolderError(f"The weights in {folder} are not all numbers.")
    model.load_state_dict(weights, assign=True)
    return TrainedModel(model.eval(), vocabulary, directions, config, training)


def read_training(folder: Path) -> dict[str, Any]:
    """What a model folder says of its training; those of earlier releases say nothing."""
    path = folder / "training.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


class _Shape(Settings):
    """The part of the settings that rebuilds a model."""

    model: ModelSettings
    guidance: GuidanceList


def _check_format(folder: Path) -> None:
    try:
        version = json.loads((folder / "format.json").read_text("utf-8"))["format"]
    except (OSError, ValueError, KeyError, TypeError):
        inside = folder / "model"
        hint = f" Did you mean {inside}?" if (inside / "format.json").exists() else ""
        if not folder.exists() and (folder.parent / "checkpoints").is_dir():
            hint = f" The run in {folder.parent} is not finished; `manyglot train` goes on with it."
        missing = "is not a manyglot model folder (no readable format.json)" if folder.exists() else "does not exist"
        raise FolderError(f"{folder} {missing}.{hint}") from None
    if not isinstance(version, int) or not 1 <= version <= FORMAT:
        raise FolderError(
            f"{folder} has model format {version} and this manyglot reads up to {FORMAT}. Upgrade manyglot to use it."
        )


def _check_weights(path: Path, model: Transformer) -> None:
    """Compare names and shapes in the file's header with the model that the settings describe."""
    expected = {name: ["F32", *tensor.shape] for name, tensor in model.state_dict().items()}
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            found = {name: [part.get_dtype(), *part.get_shape()] for name, part in slices.items()}
    except (OSError, SafetensorError) as error:
        raise FolderError(f"The weights {path} cannot be read ({error}).") from None
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise FolderError(
                f"The weights {path} do not fit config.yaml: {name} is {found.get(name, 'missing')}, "
                f"expected {expected.get(name, 'nothing')}."
            )


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
