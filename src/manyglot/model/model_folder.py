"""The model folder: weights, settings, languages and subword model, with a format version. It contains no code.

model.safetensors  the weights
config.yaml        the resolved settings of the experiment
languages.json     the languages with their ids, and the trained directions
training.json      the number of training steps, the step or steps of these weights, the metric that selected them, and
                   the lengths of the training text
subwords.model     the SentencePiece model
format.json        the version of this layout, and the SHA-256 checksums of the files that must not change
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor

import manyglot
from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, SourceLengths
from manyglot.checksums import file_sha256
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.config.yaml_files import format_yaml, parse_yaml
from manyglot.corpus.languages import Direction, Languages, english_language_name
from manyglot.errors import FolderError, LanguageError, SettingsError
from manyglot.files import read_small_file
from manyglot.folders import atomic_folder
from manyglot.model.guidance import GuidanceList
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.model.weights_file import check_header_matches_model, load_weights, read_weights_header
from manyglot.vocabulary.subword_model import MAX_MODEL_BYTES, SubwordModel
from manyglot.vocabulary.vocabulary import Vocabulary

MODEL_FORMAT_VERSION = 1
SETTINGS_BEGIN, SETTINGS_END = "# settings:begin\n", "# settings:end\n"
"""The first and last line of config.yaml, which reveal a truncated file; files of earlier releases have neither."""
CHECKSUMMED_FILES = ("model.safetensors", "subwords.model", "languages.json")
"""Files that are rejected if they changed after saving. Settings may change: decoding uses those in the folder."""
MODEL_FILES = (*CHECKSUMMED_FILES, "config.yaml", "training.json", "format.json")
"""All files of a model. A checkpoint has them too, besides its own."""

MAX_CONFIG_BYTES, MAX_LANGUAGES_BYTES = 2**20, 2**26
"""Size limits of a settings file and of languages.json, which can hold all directions between 1,000 languages."""
MAX_ERROR_CHARS = 300
"""Maximum length of another library's message that is quoted in an error."""


@dataclass(frozen=True)
class ModelDescription:
    """What a model folder holds besides the weights and the training information."""

    vocabulary: Vocabulary
    trained_directions: tuple[Direction, ...]
    """The directions in the training data; all others are zero-shot."""
    config: Mapping[str, Any]
    """The resolved settings of the experiment; `model` and `guidance` rebuild the model."""
    source_lengths: SourceLengths = DEFAULT_SOURCE_LENGTHS
    """The lengths of the training text on the source side."""


@dataclass(frozen=True)
class TrainedModel:
    """A model with its vocabulary, settings and training information."""

    model: Transformer
    vocabulary: Vocabulary
    trained_directions: tuple[Direction, ...]
    """The directions in the training data; all others are zero-shot."""
    config: Mapping[str, Any]
    """The resolved settings of the experiment; `model` and `guidance` rebuild the model."""
    training_info: Mapping[str, Any] = field(default_factory=dict)
    """The number of training `steps`, the `step` of these weights, and the metric that selected it."""
    source_lengths: SourceLengths = DEFAULT_SOURCE_LENGTHS
    """The lengths of the training text on the source side."""
    folder: Path | None = None
    """The folder it was loaded from."""

    @classmethod
    def from_description(
        cls, model: Transformer, description: ModelDescription, training_info: Mapping[str, Any]
    ) -> TrainedModel:
        """Join a model and its description."""
        return cls(
            model,
            description.vocabulary,
            description.trained_directions,
            description.config,
            training_info,
            description.source_lengths,
        )

    @property
    def description(self) -> ModelDescription:
        """Everything but the weights and the training information."""
        return ModelDescription(self.vocabulary, self.trained_directions, self.config, self.source_lengths)


def save_model(folder: Path, trained: TrainedModel, dtype: torch.dtype | None = None) -> None:
    """Write a model folder atomically; `dtype` converts the weights."""
    weights = {name: tensor.cpu().to(dtype) for name, tensor in trained.model.state_dict().items()}
    with atomic_folder(folder) as unfinished:
        write_model_files(unfinished, weights, trained.description, trained.training_info)


def write_model_files(
    folder: Path, weights: Mapping[str, Tensor], description: ModelDescription, training_info: Mapping[str, Any]
) -> dict[str, str]:
    """Write the files of a model into an existing folder; return the checksums of `CHECKSUMMED_FILES`."""
    codes = description.vocabulary.languages.codes
    languages = {
        "languages": [{"id": i, "code": code, "name": english_language_name(code)} for i, code in enumerate(codes)],
        "trained_directions": [list(direction) for direction in description.trained_directions],
    }
    settings = format_yaml(description.config)
    save_file({name: tensor.detach().contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")
    (folder / "config.yaml").write_text(f"{SETTINGS_BEGIN}{settings}{SETTINGS_END}", encoding="utf-8")
    description.vocabulary.subword_model.save(folder / "subwords.model")
    _write_json(folder / "languages.json", languages)
    training = dict(training_info) | {"source_lengths": description.source_lengths.model_dump()}
    _write_json(folder / "training.json", training)
    checksums = {name: file_sha256(folder / name) for name in CHECKSUMMED_FILES}
    metadata = {"format": MODEL_FORMAT_VERSION, "manyglot": manyglot.__version__, "sha256": checksums}
    _write_json(folder / "format.json", metadata)
    return checksums


def load_model(folder: Path) -> TrainedModel:
    """Read a model folder; the model is in evaluation mode.

    The folder may come from an untrusted source: nothing in it is executed, and nothing large is allocated before the
    header of the weights has been checked. Every defect raises a FolderError.
    """
    metadata = _read_format(folder)
    header = read_weights_header(folder / "model.safetensors")
    config = _read_config(folder)
    max_small_file_bytes = 2**20 + 4 * sum(math.prod(shape) for _, shape in header.values())  # relative to the weights
    languages, directions = _read_languages(folder, max_bytes=min(max_small_file_bytes, MAX_LANGUAGES_BYTES))
    training = read_training_info(folder)
    source_lengths = _read_source_lengths(folder, training.pop("source_lengths", None))
    subword_model = SubwordModel.load(folder / "subwords.model", max_bytes=min(max_small_file_bytes, MAX_MODEL_BYTES))
    model = _model_on_meta_device(folder, config, len(subword_model), len(languages), max_layers=len(header))
    check_header_matches_model(header, model, folder / "model.safetensors")
    _check_unaltered(folder, metadata.get("sha256"))
    load_weights(folder / "model.safetensors", model)
    vocabulary = Vocabulary(subword_model, languages)
    return TrainedModel(model.eval(), vocabulary, directions, config, training, source_lengths, folder)


def read_training_info(folder: Path) -> dict[str, Any]:
    """Read training.json; empty for model folders of earlier releases, which do not have it."""
    path = folder / "training.json"
    with _report_damage(path):
        return dict(json.loads(read_small_file(path, MAX_CONFIG_BYTES))) if path.exists() else {}


def _read_source_lengths(folder: Path, values: Any) -> SourceLengths:
    """Return the lengths in training.json. Model folders of earlier releases have none and get the defaults."""
    with _report_damage(folder / "training.json"):
        return DEFAULT_SOURCE_LENGTHS if values is None else parse_settings(SourceLengths, values, "source_lengths")


def _read_config(folder: Path) -> dict[str, Any]:
    """Read the resolved settings."""
    path = folder / "config.yaml"
    with _report_damage(path):
        text = read_small_file(path, MAX_CONFIG_BYTES).decode("utf-8")
        config = parse_yaml(text)
        cut_off = text.startswith(SETTINGS_BEGIN) and f"\n{SETTINGS_END}" not in text
        if cut_off or not isinstance(config, dict) or not {"model", "guidance", "training"} <= config.keys():
            raise ValueError("incomplete")
        return config


def _read_languages(folder: Path, max_bytes: int) -> tuple[Languages, tuple[Direction, ...]]:
    """Read the languages and the trained directions."""
    path = folder / "languages.json"
    with _report_damage(path):
        metadata = json.loads(read_small_file(path, max_bytes))
        codes = [entry["code"] for entry in metadata["languages"]]
        languages = Languages(codes)
        if codes != list(languages) or not codes:
            raise ValueError("the languages are not sorted")
        directions = tuple(Direction(source, target) for source, target in metadata["trained_directions"])
        if not all(source in languages and target in languages for source, target in directions):
            raise ValueError("a trained direction has an unknown language")
        return languages, directions


def _model_on_meta_device(
    folder: Path, config: Mapping[str, Any], num_subwords: int, num_languages: int, max_layers: int
) -> Transformer:
    """Build the model that the settings describe, without weights: nothing is allocated before the file is checked."""
    with _report_damage(folder / "config.yaml"):
        model_config = parse_settings(_ModelConfig, {"model": config["model"], "guidance": config["guidance"]})
        if model_config.model.num_encoder_layers + model_config.model.num_decoder_layers > max_layers:
            raise ValueError(f"more layers than the weights have tensors ({max_layers})")
        with torch.device("meta"):
            return Transformer(model_config.model, model_config.guidance, num_subwords, num_languages)


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    """Convert any error in the content of a file to a one-line FolderError."""
    try:
        yield
    except FolderError:
        raise
    except SettingsError as error:
        raise FolderError(f"{path}: {str(error)[:MAX_ERROR_CHARS]}") from None
    except (LanguageError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, yaml.YAMLError) as error:
        raise FolderError(
            f"The model folder {path.parent} is damaged ({path.name}: {str(error)[:MAX_ERROR_CHARS]})."
        ) from None


class _ModelConfig(Settings):
    """The part of the settings that rebuilds a model."""

    model: ModelSettings
    guidance: GuidanceList


def _check_unaltered(folder: Path, checksums: Any) -> None:
    """Raise a FolderError if a file changed after saving; folders of earlier releases have no checksums."""
    if checksums is None:
        return
    with _report_damage(folder / "format.json"):
        expected = {name: checksums[name] for name in CHECKSUMMED_FILES}
    for name, digest in expected.items():
        if file_sha256(folder / name) != digest:
            raise FolderError(
                f"{folder / name} was altered or damaged since it was saved. Copy the model folder again, or remove "
                f"sha256 from format.json if you changed the file yourself."
            )


def _read_format(folder: Path) -> dict[str, Any]:
    """Read format.json and check the format version."""
    try:
        metadata = dict(json.loads(read_small_file(folder / "format.json", MAX_CONFIG_BYTES)))
        version = metadata["format"]
    except (FolderError, LookupError, RecursionError, TypeError, ValueError):
        nearby = folder / "model", folder.parent / "model"
        models = [path for path in nearby if (path / "format.json").exists()]
        hint = f" Did you mean {models[0]}?" if models and models[0] != folder else ""
        if not models and (folder.parent / "checkpoints").is_dir():
            hint = f" The run is not finished. Give {folder.parent} to use its best checkpoint."
        missing = "is not a manyglot model folder (no readable format.json)" if folder.exists() else "does not exist"
        raise FolderError(f"{folder} {missing}.{hint}") from None
    if not isinstance(version, int) or not 1 <= version <= MODEL_FORMAT_VERSION:
        raise FolderError(
            f"{folder} has model format {reprlib.repr(version)}, but this manyglot reads up to {MODEL_FORMAT_VERSION}. "
            f"Upgrade manyglot to use it."
        )
    return metadata


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
