"""`manyglot prepare`: read a corpus and write the prepared data."""

from __future__ import annotations

from manyglot.batches.dataset import Dataset
from manyglot.batches.prepare import prepare as prepare_dataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.sources import languages_of, trained_directions


def prepare(experiment: Experiment) -> Dataset:
    """Read the corpus and write the dataset folder."""
    batches = experiment.batches
    if batches.weights or batches.into:  # check before all the work: training would refuse them
        batches.check_weights(trained_directions(languages_of(experiment.corpus), experiment.corpus))
    return prepare_dataset(experiment.data, experiment.recipe)
