"""`manyglot describe`: the architecture and parameter counts of a model, trained or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from manyglot.argument_types import checks_argument_types
from manyglot.config.experiment import ExperimentSource, load_experiment, resolve_init
from manyglot.corpus.readers import corpus_languages
from manyglot.errors import SettingsError
from manyglot.hub import is_hub_name
from manyglot.model.meta_device import meta_device
from manyglot.model.run_models import load_any_model
from manyglot.model.transformer import Transformer
from manyglot.reports.displayable import Displayable, DisplayPart
from manyglot.reports.result_parts import model_description_parts
from manyglot.vocabulary.loading import load_subword_model


@dataclass(frozen=True, repr=False)
class ModelSummary(Displayable):
    """The architecture, languages and parameters of a model."""

    model: Mapping[str, Any]
    """The model settings."""
    guidance: Sequence[Mapping[str, Any]]
    """The guidance settings."""
    languages: Sequence[str]
    num_subwords: int
    parameters: Mapping[str, int]
    """Number of parameters by part."""
    num_parameters: int
    training: Mapping[str, Any] = field(default_factory=dict)
    """The step or steps of the weights and the metric that selected them; empty for an untrained model."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield layers, guidance, languages and a table of the parameters."""
        return model_description_parts(self.to_dict())


@checks_argument_types
def describe(source: ExperimentSource, overrides: Iterable[str] = ()) -> ModelSummary:
    """Describe a trained model, or the model of an experiment: layers, guidance, languages and parameters.

    A trained model is a model folder, a run folder or a checkpoint. An experiment is an `Experiment`, a YAML file or a
    dictionary.
    """
    training_info: Mapping[str, Any] = {}
    if isinstance(source, str | PathLike) and (is_hub_name(source) or Path(source).is_dir()):
        if overrides:
            raise SettingsError("--set applies to the YAML file of an experiment, not to a model folder. Remove it.")
        trained = load_any_model(Path(source))
        model, config, training_info = trained.model, trained.config, trained.training_info
        languages, num_subwords = trained.vocabulary.languages, len(trained.vocabulary.subword_model)
    else:
        experiment, _ = resolve_init(load_experiment(source, overrides))
        languages, num_subwords = corpus_languages(experiment.corpus), experiment.vocabulary.size
        if experiment.vocabulary.sentencepiece_model is not None:
            num_subwords = len(load_subword_model(experiment.vocabulary.sentencepiece_model))
        with meta_device():
            model = Transformer(experiment.model, experiment.guidance, num_subwords, len(languages))
        config = experiment.to_dict()
    parameters = model.num_parameters_by_part()
    return ModelSummary(
        model=config["model"],
        guidance=config["guidance"],
        languages=list(languages),
        num_subwords=num_subwords,
        parameters=parameters,
        num_parameters=sum(parameters.values()),
        training=training_info,
    )
