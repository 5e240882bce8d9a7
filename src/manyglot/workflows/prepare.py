"""`manyglot prepare`: read a corpus and write the prepared data."""

from __future__ import annotations

from manyglot.batches.prepare_dataset import prepare_dataset
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import ExperimentSource, load_experiment
from manyglot.corpus.readers import corpus_languages, resolve_train_directions


def prepare(experiment: ExperimentSource) -> PreparedDataset:
    """Read the corpus of an experiment (an `Experiment`, a YAML file or a dictionary) and write the prepared data."""
    experiment = load_experiment(experiment)
    batches = experiment.batches
    if batches.direction_weights or batches.target_weights:  # fail now, not when training starts
        batches.check_weights(resolve_train_directions(corpus_languages(experiment.corpus), experiment.corpus))
    return prepare_dataset(experiment.data, experiment.preparation_settings)
