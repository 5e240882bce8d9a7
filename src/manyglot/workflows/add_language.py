"""`manyglot add-language`: train a language pack, which adds languages to a model without changing it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import FOLDERS, Experiment
from manyglot.config.overrides import apply_override
from manyglot.config.plain_values import check_plain_values
from manyglot.config.yaml_inheritance import merge_settings, read_yaml
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.readers import CorpusSettings, open_corpus, resolve_train_directions
from manyglot.errors import ChangedSettingsError, FolderError, LanguageError, SettingsError
from manyglot.files import StrPath
from manyglot.model.language_pack import TRAINING_SUFFIX, LanguagePack
from manyglot.model.model_folder import TrainedModel, load_model
from manyglot.model.run_models import load_any_model
from manyglot.model.warm_start import match_languages
from manyglot.progress import format_bytes, print_status
from manyglot.workflows.prepare import prepare_data
from manyglot.workflows.train import train

DEFAULTS: Mapping[str, Any] = {
    "vocabulary": {"size": 4000},
    "training": {
        "learning_rate": 0.002,
        "lr_schedule": "cosine",
        "max_steps": 3000,
        "validate_every": 500,
        "weight_decay": 0.0,
    },
}
"""Settings that differ from those of an experiment. There is little to train, and none of it can harm the model."""
MAX_WARMUP_STEPS, WARMUP_SHARE = 200, 0.1
"""The default warm-up is this share of `max_steps`, but not longer."""
FEW_SENTENCES = 1000
"""Fewer training sentences of a new language cause a warning."""
INHERITED = ("init", "model", "guidance")
"""Sections that the model determines."""


@dataclass(frozen=True)
class AddedLanguages:
    """A language pack. It can be used as the path of its folder."""

    folder: Path
    languages: tuple[str, ...]
    num_parameters: int
    num_bytes: int

    def __fspath__(self) -> str:
        return str(self.folder)

    def __str__(self) -> str:
        return (
            f"{self.folder}: {', '.join(self.languages)}, {self.num_parameters:,} parameters, "
            f"{format_bytes(self.num_bytes)}"
        )


@checks_argument_types
def add_language(
    model: StrPath, text: StrPath | Mapping[str, Any], output: StrPath, overrides: Iterable[str] = ()
) -> AddedLanguages:
    """Train a language pack for the languages of a text that a model does not have.

    The text is a YAML file, or its values, with a section `corpus` as in an experiment: sentences in the new languages
    and their translations into any languages of the model. Other sections of an experiment are optional. Only the
    subwords, tags and guidance of the new languages are trained. The data and the run are kept beside the pack, in
    OUTPUT.training, and an interrupted call resumes.
    """
    folder = Path(output)
    if folder.exists():
        raise FolderError(f"{folder} already exists. Choose another folder, or delete it.")
    original = load_any_model(Path(model))
    experiment, new = _make_experiment(original, text, folder, overrides)
    try:
        trained = _train(experiment, new)
    except ChangedSettingsError as error:
        work, changed = _training_folder(folder), list(error.changed)
        if "training.max_steps" in changed and "training.warmup_steps" in changed:  # the default depends on max_steps
            changed.remove("training.warmup_steps")
        raise FolderError(
            f"{work} is from an earlier call with other text or settings ({', '.join(changed)} changed). Delete "
            f"it, or choose another pack with -o."
        ) from None
    pack = LanguagePack.extract(trained, new, original)
    pack.save(folder)
    num_parameters = sum(tensor.numel() for each in pack.languages.values() for tensor in each.weights.values())
    return AddedLanguages(folder, tuple(new), num_parameters, sum(path.stat().st_size for path in folder.iterdir()))


def _training_folder(pack: Path) -> Path:
    return pack.with_name(pack.name + TRAINING_SUFFIX)


def _train(experiment: Experiment, new: Sequence[str]) -> TrainedModel:
    """Prepare the text and train a copy of the model that has the new languages."""
    counts = prepare_data(experiment).metadata["subwords"]
    for code in new:
        if (number := counts[code].get("sentences", 0)) < FEW_SENTENCES:
            print_status(f"! {code} has only {number:,} training sentences, too few to learn a language.")
    print_status(
        "Training a frozen copy of the model that has the languages of the text. The model itself keeps all languages."
    )
    return load_model(train(experiment).model_folder)


def _make_experiment(
    original: TrainedModel, text: StrPath | Mapping[str, Any], folder: Path, overrides: Iterable[str]
) -> tuple[Experiment, list[str]]:
    """Return the experiment that trains the new languages, and their codes."""
    assert original.folder is not None
    if isinstance(text, Mapping):
        check_plain_values(text)
    values = copy.deepcopy(dict(text)) if isinstance(text, Mapping) else read_yaml(Path(text))
    for override in overrides:
        apply_override(values, override)
    for name in INHERITED:
        if name in values:
            raise SettingsError(f"The section {name} is that of the model. Remove it.")
    work = _training_folder(folder)
    for name in FOLDERS:
        if name in values:
            raise SettingsError(f"A pack is trained in {work}. Remove the setting {name}; -o moves both.")
    subwords = {"sentencepiece_model": str(original.folder / "subwords.model"), "language_specific": []}
    inherited = {
        "data": str(work / "data"),
        "run": str(work / "run"),
        "init": {"model": str(original.folder), "freeze": {"everything_but": []}},
        "vocabulary": subwords,
        "decoding": dict(original.config.get("decoding") or {}),
    }
    values = merge_settings(merge_settings(copy.deepcopy(dict(DEFAULTS)), inherited), values)
    experiment = parse_settings(Experiment, values)
    new, directions = _find_new_languages(original, experiment.corpus)
    if "warmup_steps" not in values["training"]:
        values["training"]["warmup_steps"] = min(MAX_WARMUP_STEPS, int(WARMUP_SHARE * experiment.training.max_steps))
    values["vocabulary"]["language_specific"] = new
    values["corpus"]["train_directions"] = [direction.as_setting() for direction in directions]
    values["init"] = inherited["init"]
    return parse_settings(Experiment, values), new


def _find_new_languages(original: TrainedModel, settings: CorpusSettings) -> tuple[list[str], list[Direction]]:
    """Return the languages that the model does not have, and the directions of the text from and into them."""
    languages, known = Languages(open_corpus(settings).languages), original.vocabulary.languages
    matched = match_languages(languages, known)
    new = [code for code in languages if code not in matched]
    if not new:
        raise LanguageError(
            f"The model has all languages of the text ({_join(languages.codes)}). There is none to add."
        )
    if not matched:
        raise LanguageError(
            f"The text has no language of the model, only {_join(new)}. It must pair the new language with one of them."
        )
    directions = resolve_train_directions(languages, settings)
    return new, [direction for direction in directions if not set(new).isdisjoint(direction)]


def _join(names: Sequence[str], limit: int = 10) -> str:
    return ", ".join(names[:limit]) + ", …" * (len(names) > limit)
