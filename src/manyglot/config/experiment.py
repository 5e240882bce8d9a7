"""The settings of an experiment, read from one YAML file."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from manyglot.argument_types import checks_argument_types
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepare_dataset import PreparationSettings
from manyglot.config.base_settings import CHANGEABLE_ON_RESUME, Settings, parse_settings
from manyglot.config.overrides import apply_override
from manyglot.config.plain_values import check_plain_values
from manyglot.config.yaml_inheritance import read_yaml
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.readers import CorpusSettings
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import SettingsError
from manyglot.evaluation.dev_evaluators import ValidationSettings
from manyglot.evaluation.evaluator import EvaluationSettings
from manyglot.files import StrPath
from manyglot.model.guidance import GuidanceList, check_target_language_conveyed
from manyglot.model.guidance.adapter import AdapterSettings
from manyglot.model.model_folder import TrainedModel
from manyglot.model.settings import ModelSettings
from manyglot.model.warm_start import check_same_architecture
from manyglot.training.run_folder import is_started, read_saved_settings
from manyglot.training.trainer import TrainingSettings
from manyglot.training.warm_start import InitSettings
from manyglot.vocabulary.subword_model import VocabularySettings

FOLDERS = ("data", "run")
"""The folders of an experiment. Those of a language pack are beside the pack."""


class Experiment(Settings):
    """All settings of an experiment, from the text to the scores."""

    data: Annotated[Path, CHANGEABLE_ON_RESUME]
    """Folder of the prepared data, which `prepare` writes and `train` and `evaluate` read."""
    run: Annotated[Path, CHANGEABLE_ON_RESUME]
    """Folder of this run: checkpoints, log and the trained model."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of the initial weights, of dropout and of the order of the data."""
    corpus: CorpusSettings
    """The text and the directions to train on."""
    cleaning: CleaningSettings = CleaningSettings()
    """Which sentences and pairs are dropped."""
    vocabulary: VocabularySettings = VocabularySettings()
    """The subword model."""
    batches: BatchSettings = BatchSettings()
    """How sentence pairs are sampled and put into batches."""
    init: InitSettings | None = None
    """The model whose weights training starts from. null starts from random weights."""
    model: ModelSettings = ModelSettings()
    """The architecture of the Transformer."""
    guidance: Annotated[GuidanceList, AfterValidator(check_target_language_conveyed)] = (AdapterSettings(),)
    """Guidance methods, which indicate the target language to the model."""
    training: TrainingSettings = TrainingSettings()
    """Optimization, checkpoints and early stopping."""
    validation: Annotated[ValidationSettings, CHANGEABLE_ON_RESUME] = ValidationSettings()
    """Metrics on dev text during training."""
    decoding: Annotated[DecodingSettings, CHANGEABLE_ON_RESUME] = DecodingSettings()
    """Beam search, sampling and pivoting."""
    evaluation: Annotated[EvaluationSettings, CHANGEABLE_ON_RESUME] = EvaluationSettings()
    """Metrics and language identification on test text."""

    @model_validator(mode="after")
    def _guidance_fits_the_model(self) -> Experiment:
        if self.init is None:  # otherwise `model` and `guidance` may still have to be inherited
            for method in self.guidance:
                method.check_width(self.model.width)
        return self

    @property
    def preparation_settings(self) -> PreparationSettings:
        """The settings that determine the prepared data."""
        return PreparationSettings(corpus=self.corpus, vocabulary=self.vocabulary, cleaning=self.cleaning)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, defaults included, as plain values."""
        return self.model_dump(mode="json")

    def stated_values(self) -> dict[str, Any]:
        """Return `to_dict` without the settings that the experiment inherits from the model of `init`."""
        values = self.to_dict()
        if self.init is not None:
            values["model"] = self.model.model_dump(mode="json", exclude_unset=True)
            if "guidance" not in self.model_fields_set:
                del values["guidance"]
        return values

    def with_inherited_settings(self, config: Mapping[str, Any]) -> Experiment:
        """Return a copy that has the settings of another model where it states none of its own."""
        values, inherited = self.stated_values(), {"guidance": config.get("guidance")}
        model = config.get("model")
        values["model"] = (model if isinstance(model, Mapping) else {}) | values["model"]
        return parse_settings(Experiment, inherited | values)


ExperimentSource = Experiment | StrPath | Mapping[str, Any]
"""An experiment, the path of its YAML file, or its settings as a dictionary."""


def load_experiment(source: ExperimentSource, overrides: Iterable[str] = ()) -> Experiment:
    """Return an experiment from any of its forms, with `key=value` overrides applied."""
    if isinstance(source, str | PathLike):
        return read_experiment(source, overrides)
    if not isinstance(source, Experiment | Mapping):
        given = type(source).__name__
        raise SettingsError(f"An experiment is an Experiment, a YAML file or a dictionary of settings, not {given}.")
    if isinstance(source, Mapping):
        check_plain_values(source)
    values = source.stated_values() if isinstance(source, Experiment) else copy.deepcopy(dict(source))
    for override in overrides:
        apply_override(values, override)
    return parse_settings(Experiment, values)


@checks_argument_types
def read_experiment(path: StrPath, overrides: Iterable[str] = ()) -> Experiment:
    """Read a YAML file, apply `key=value` overrides, and validate the settings."""
    overrides = tuple(overrides)
    values = _read_values(path, overrides)
    hint = " For a language pack, use `manyglot add-language`." if _is_text_of_a_pack(values) else ""
    return _parse_file(values, path, overrides, hint)


def read_corpus_settings(path: StrPath, overrides: Iterable[str] = ()) -> CorpusSettings:
    """Read the section `corpus` from the YAML file of an experiment, or from that of a language pack.

    The file of a pack has neither `data` nor `run`. All sections are validated.
    """
    overrides = tuple(overrides)
    values = _read_values(path, overrides)
    folders = dict.fromkeys(FOLDERS, "") if _is_text_of_a_pack(values) else {}
    return _parse_file(values | folders, path, overrides).corpus


def _read_values(path: StrPath, overrides: Iterable[str]) -> dict[str, Any]:
    values = read_yaml(Path(path))
    for override in overrides:
        apply_override(values, override)
    return values


def _is_text_of_a_pack(values: Mapping[str, Any]) -> bool:
    """Whether settings describe text without the folders of an experiment."""
    return "corpus" in values and values.keys().isdisjoint(FOLDERS)


def _parse_file(values: Mapping[str, Any], path: StrPath, overrides: Sequence[str], hint: str = "") -> Experiment:
    try:
        return parse_settings(Experiment, values)
    except SettingsError as error:
        origin = "" if overrides else f"{path}: "  # the mistake may be in the overrides
        raise SettingsError(f"{origin}{error}{hint}") from None


def resolve_init(experiment: Experiment) -> tuple[Experiment, TrainedModel | None]:
    """Return the experiment with the settings that it inherits, and the model of `init` if training needs it.

    A run that has started inherits its own settings, and does not need the model of `init` unless something is frozen.
    """
    if experiment.init is None:
        return experiment, None
    if is_started(experiment.run):
        initial_model = experiment.init.load_model() if experiment.init.freezes_something else None
        return experiment.with_inherited_settings(read_saved_settings(experiment.run)), initial_model
    initial = experiment.init.load_model()
    stated = experiment.stated_values()["model"]
    check_same_architecture(stated, initial.model.settings, str(experiment.init.model))
    return experiment.with_inherited_settings(initial.config), initial
