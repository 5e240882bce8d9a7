"""The model folder: weights, settings, languages and subword model, with a format version. It contains no code.

model.safetensors  the weights
config.yaml        the resolved settings of the experiment
languages.json     the languages with their ids, and the trained directions
training.json      the number of training steps, the step or steps of these weights, the metric that selected them, and
                   the lengths of the training text
subwords.model     the subword model
format.json        the version of this layout, and the seals of the other files (`model_seals.py`)
README.md          the model card, which is not sealed; a checkpoint has none
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from manyglot.batches.source_lengths import DEFAULT_SOURCE_LENGTHS, SourceLengths
from manyglot.checksums import find_altered_sections
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.config.yaml_files import format_yaml, parse_yaml
from manyglot.corpus.languages import Direction, Languages, english_language_name
from manyglot.errors import FolderError, LanguageError, SettingsError
from manyglot.files import MAX_ERROR_CHARS, StrPath, read_text, write_file, write_json
from manyglot.folders import atomic_folder
from manyglot.model.guidance import GuidanceList
from manyglot.model.meta_device import meta_device
from manyglot.model.model_card import CARD_NAME, GroupScore, ModelCard
from manyglot.model.model_seals import (
    CONFIG_NAME,
    FORMAT_NAME,
    REQUIRED_SECTIONS,
    SEALED_FILES,
    ModelSeals,
    read_format_version,
    write_seals,
)
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.model.weights_file import check_header_matches_model, load_weights, read_weights_header, save_tensors
from manyglot.vocabulary.loading import MAX_PARTS_BYTES, load_subword_model
from manyglot.vocabulary.subword_model import SubwordModel
from manyglot.vocabulary.vocabulary import Vocabulary

SETTINGS_END = "# settings:end\n"
"""The last line of config.yaml, which reveals a truncated file."""
MODEL_FILES = (*SEALED_FILES, CONFIG_NAME, FORMAT_NAME)
"""All files of a model. A checkpoint has them too, besides its own."""

MAX_CONFIG_BYTES, MAX_LANGUAGES_BYTES = 2**20, 2**26
"""Size limits of a settings file and of languages.json, which can hold all directions between 1,000 languages."""


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
    targets: tuple[str, ...] | None = None
    """The languages that an imported model can translate into. None stands for all."""


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
    targets: tuple[str, ...] | None = None
    """The languages that an imported model can translate into. None stands for all."""
    folder: Path | None = None
    """The folder it was loaded from."""
    original: TrainedModel | None = None
    """The model without its language packs; None if it has none."""
    pack_folders: tuple[Path, ...] = ()
    """The folders of its language packs."""

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
            description.targets,
        )

    @property
    def description(self) -> ModelDescription:
        """Everything but the weights and the training information."""
        return ModelDescription(
            self.vocabulary, self.trained_directions, self.config, self.source_lengths, self.targets
        )

    def make_card(self, **fields: Any) -> ModelCard:
        """Return the model card; `fields` replace its defaults."""
        languages, fields = self.vocabulary.languages.codes, {"targets": self.targets or ()} | fields
        return ModelCard(self.model, languages, self.trained_directions, self.config, self.training_info, **fields)


def save_model(
    folder: Path, trained: TrainedModel, dtype: torch.dtype | None = None, scores: Sequence[GroupScore] = ()
) -> None:
    """Write a model folder atomically; `dtype` converts the weights, and the model card shows the scores."""
    weights = {name: tensor.cpu().to(dtype) for name, tensor in trained.model.state_dict().items()}
    with atomic_folder(folder) as unfinished:
        write_model_files(unfinished, weights, trained.description, trained.training_info)
        write_file(unfinished / CARD_NAME, trained.make_card(scores=scores).format())


def write_model_files(
    folder: Path, weights: Mapping[str, Tensor], description: ModelDescription, training_info: Mapping[str, Any]
) -> None:
    """Write the files of a model into an existing folder."""
    codes = description.vocabulary.languages.codes
    languages = {
        "languages": [{"id": i, "code": code, "name": english_language_name(code)} for i, code in enumerate(codes)],
        "trained_directions": [list(direction) for direction in description.trained_directions],
    }
    if description.targets not in (None, codes):
        languages["targets"] = list(description.targets or ())
    save_tensors(folder / "model.safetensors", weights)
    write_file(folder / CONFIG_NAME, format_yaml(description.config) + SETTINGS_END)
    description.vocabulary.subword_model.save(folder / "subwords.model")
    write_json(folder / "languages.json", languages)
    training = dict(training_info) | {"source_lengths": description.source_lengths.model_dump()}
    write_json(folder / "training.json", training)
    write_seals(folder, description.config)


def seal_model(folder: StrPath) -> None:
    """Seal a model folder again after a change that you made on purpose. Without it, the change is refused."""
    folder = Path(folder)
    write_seals(folder, _read_config(folder), read_format_version(folder))


def load_model(folder: Path) -> TrainedModel:
    """Read a model folder; the model is in evaluation mode.

    The folder may come from an untrusted source: nothing in it is executed, and nothing large is allocated before the
    header of the weights has been checked. Every defect raises a FolderError.
    """
    seals = ModelSeals.read(folder)
    config = _read_config(folder)
    seals.check_settings(config)
    config = _upgrade_config(config, seals.version)
    header = read_weights_header(folder / "model.safetensors")
    max_small_file_bytes = 2**20 + 4 * sum(math.prod(shape) for _, shape in header.values())  # relative to the weights
    languages, directions, targets = _read_languages(seals, max_bytes=min(max_small_file_bytes, MAX_LANGUAGES_BYTES))
    training, source_lengths = _read_training(seals)
    subword_model = _read_subword_model(seals, max_bytes=min(max_small_file_bytes, MAX_PARTS_BYTES))
    model = _model_on_meta_device(folder, config, len(subword_model), len(languages), max_layers=len(header))
    check_header_matches_model(header, model, folder / "model.safetensors")
    seals.check_file("model.safetensors")
    load_weights(folder / "model.safetensors", model)
    vocabulary = Vocabulary(subword_model, languages)
    return TrainedModel(model.eval(), vocabulary, directions, config, training, source_lengths, targets, folder)


def is_model_folder(path: Path) -> bool:
    """Whether a path is a model folder, rather than a run folder or an export."""
    return (path / FORMAT_NAME).exists()


def verify_model_files(folder: Path) -> None:
    """Raise a FolderError if a file of a model folder is not as it was saved, without loading the model."""
    seals = ModelSeals.read(folder)
    seals.check_settings(_read_config(folder))
    for name in seals.files:
        seals.check_file(name)


def read_training_info(folder: Path) -> dict[str, Any]:
    """Read training.json."""
    return _read_training(ModelSeals.read(folder))[0]


def read_unaltered_settings(folder: Path) -> dict[str, Any]:
    """Read config.yaml; raise a FolderError if any section was changed since it was saved."""
    config = _read_config(folder)
    if find_altered_sections(config, ModelSeals.read(folder).sections):
        raise FolderError(f"{folder / CONFIG_NAME} was edited since the model was saved.")
    return config


def _read_training(seals: ModelSeals) -> tuple[dict[str, Any], SourceLengths]:
    """Return the training information and the lengths of the training text."""
    content = seals.read_file("training.json", MAX_CONFIG_BYTES)
    with _report_damage(seals.folder / "training.json"):
        training = dict(json.loads(content))
        return training, parse_settings(SourceLengths, training.pop("source_lengths"), "source_lengths")


def _read_subword_model(seals: ModelSeals, max_bytes: int) -> SubwordModel:
    seals.read_file("subwords.model", max_bytes)
    return load_subword_model(seals.folder / "subwords.model", max_bytes)


def _read_config(folder: Path) -> dict[str, Any]:
    """Read the resolved settings."""
    path = folder / CONFIG_NAME
    text = read_text(path, MAX_CONFIG_BYTES)
    with _report_damage(path):
        config = parse_yaml(text)
        if not isinstance(config, dict) or not {*REQUIRED_SECTIONS, "training"} <= config.keys():
            raise ValueError("incomplete")
        if not text.endswith(f"\n{SETTINGS_END}"):
            raise ValueError(f"incomplete: its last line should be '{SETTINGS_END.strip()}'")
        return config


def _upgrade_config(config: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the settings of a model folder in the current format."""
    if version > 1 or not isinstance(config["guidance"], list):
        return config
    guidance = [
        {"placement": "after_residual"} | entry
        if isinstance(entry, dict) and entry.get("method") == "adapter"
        else entry
        for entry in config["guidance"]
    ]
    return config | {"guidance": guidance}


def _read_languages(
    seals: ModelSeals, max_bytes: int
) -> tuple[Languages, tuple[Direction, ...], tuple[str, ...] | None]:
    """Read the languages, the trained directions, and the target languages if they are not all languages."""
    content = seals.read_file("languages.json", max_bytes)
    with _report_damage(seals.folder / "languages.json"):
        metadata = json.loads(content)
        codes = [entry["code"] for entry in metadata["languages"]]
        languages = Languages(codes)
        if codes != list(languages) or not codes:
            raise ValueError("the languages are not sorted")
        directions = tuple(Direction(source, target) for source, target in metadata["trained_directions"])
        if not all(source in languages and target in languages for source, target in directions):
            raise ValueError("a trained direction has an unknown language")
        targets = metadata.get("targets")
        if targets is not None and (not targets or not all(target in languages for target in targets)):
            raise ValueError("a target language is unknown")
        return languages, directions, None if targets is None else tuple(targets)


def _model_on_meta_device(
    folder: Path, config: Mapping[str, Any], num_subwords: int, num_languages: int, max_layers: int
) -> Transformer:
    """Build the model that the settings describe, without weights: nothing is allocated before the file is checked."""
    with _report_damage(folder / "config.yaml"):
        model_config = parse_settings(_ModelConfig, {"model": config["model"], "guidance": config["guidance"]})
        if model_config.model.num_encoder_layers + model_config.model.num_decoder_layers > max_layers:
            raise ValueError(f"more layers than the weights have tensors ({max_layers})")
        with meta_device():
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
