"""`manyglot describe`: the shape and the parameters of a model, trained or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from manyglot.config.experiment import read_experiment
from manyglot.corpus.sources import languages_of
from manyglot.errors import SettingsError
from manyglot.files import StrPath
from manyglot.model.folder import load_model
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import Subwords


def describe(what: StrPath, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Layers, guidance, languages and parameters of a model folder, or of the model that a YAML file describes."""
    what = Path(what)
    training: Mapping[str, Any] = {}
    if what.is_dir():
        if overrides:
            raise SettingsError("--set changes an experiment; the model in a folder is as it is.")
        trained = load_model(what)
        model, config, training = trained.model, trained.config, trained.training
        languages, num_subwords = trained.vocabulary.languages, len(trained.vocabulary.subwords)
    else:
        experiment = read_experiment(what, overrides)
        languages, num_subwords = languages_of(experiment.corpus), experiment.vocabulary.size
        if experiment.vocabulary.model is not None:
            num_subwords = len(Subwords.load(experiment.vocabulary.model))
        with torch.device("meta"):
            model = Transformer(experiment.model, experiment.guidance, num_subwords, len(languages))
        config = experiment.resolved()
    parameters = model.num_parameters()
    return {
        "model": config["model"],
        "guidance": config["guidance"],
        "languages": list(languages),
        "num_subwords": num_subwords,
        "parameters": parameters,
        "num_parameters": sum(parameters.values()),
        "training": training,
    }
