"""The model folder: weights, settings, languages and subwords, with a format version and nothing that can execute.

model.safetensors  the weights
config.yaml        the resolved settings of the experiment
languages.json     the languages and their ids
subwords.model     the SentencePiece model
format.json        the version of this layout
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import manyglot
from manyglot.corpus.languages import Languages, name_of
from manyglot.errors import FolderError
from manyglot.folders import written_whole
from manyglot.model.guidance import read_method
from manyglot.model.layers import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.settings import parse
from manyglot.vocabulary.subwords import Subwords
from manyglot.vocabulary.vocabulary import Vocabulary

FORMAT = 1


def save_model(folder: Path, model: Transformer, vocabulary: Vocabulary, config: Mapping[str, Any]) -> None:
    """Write a model folder; `config` is the resolved experiment, of which `model` and `guidance` rebuild the model."""
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items()}
    languages = [{"id": i, "code": code, "name": name_of(code)} for i, code in enumerate(vocabulary.languages)]
    settings = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
    with written_whole(folder) as unfinished:
        save_file(weights, unfinished / "model.safetensors")
        (unfinished / "config.yaml").write_text(settings, encoding="utf-8")
        vocabulary.subwords.save(unfinished / "subwords.model")
        _write_json(unfinished / "languages.json", {"languages": languages})
        _write_json(unfinished / "format.json", {"format": FORMAT, "manyglot": manyglot.__version__})


def load_model(folder: Path) -> tuple[Transformer, Vocabulary, dict[str, Any]]:
    """Read a model folder: the model in evaluation mode, its vocabulary and the settings it was trained with."""
    _check_format(folder)
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
        entries = json.loads((folder / "languages.json").read_text("utf-8"))["languages"]
        languages = Languages(entry["code"] for entry in entries)
        if [entry["code"] for entry in entries] != list(languages) or not isinstance(config, dict):
            raise ValueError("languages are not in order")
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise FolderError(f"The model folder {folder} is damaged ({error}).") from None
    vocabulary = Vocabulary(Subwords.load(folder / "subwords.model"), languages)
    settings = parse(ModelSettings, config.get("model", {}), where="model")
    guidance = [read_method(values) for values in config.get("guidance", [])]
    with torch.device("meta"):  # shapes only: nothing is allocated before the file is known to fit
        model = Transformer(settings, guidance, len(vocabulary.subwords), len(languages))
    _check_weights(folder / "model.safetensors", model)
    model.load_state_dict(load_file(folder / "model.safetensors"), assign=True)
    return model.eval(), vocabulary, config


def _check_format(folder: Path) -> None:
    try:
        version = json.loads((folder / "format.json").read_text("utf-8"))["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise FolderError(f"{folder} is not a manyglot model folder (no readable format.json).") from None
    if not isinstance(version, int) or not 1 <= version <= FORMAT:
        raise FolderError(
            f"{folder} has model format {version} and this manyglot reads up to {FORMAT}. Upgrade manyglot to use it."
        )


def _check_weights(path: Path, model: Transformer) -> None:
    """Compare names and shapes in the file's header with the model that the settings describe."""
    expected = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (not a dict)
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
