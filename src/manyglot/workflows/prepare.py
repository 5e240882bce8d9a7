"""`manyglot prepare`: read a corpus and write the prepared data."""

from __future__ import annotations

from collections.abc import Iterator

from manyglot.argument_types import checks_argument_types
from manyglot.batches.prepare_dataset import prepare_dataset
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import ExperimentSource, load_experiment
from manyglot.corpus.readers import corpus_languages, resolve_train_directions
from manyglot.reports.corpus_tables import subword_statistics_table
from manyglot.reports.displayable import Displayable, DisplayPart


class PreparationResult(Displayable, PreparedDataset):
    """The prepared dataset. Its `repr` and a notebook show the text and the subwords of each language."""

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield the number of rows and a table of the languages."""
        rows = ", ".join(f"{count:,} {split}" for split, count in self.metadata["rows"].items())
        yield f"{self.folder}: {rows} rows in {len(self.languages)} languages"
        yield subword_statistics_table(self.metadata["subwords"])


@checks_argument_types
def prepare(experiment: ExperimentSource) -> PreparationResult:
    """Read the corpus of an experiment (an `Experiment`, a YAML file or a dictionary) and write the prepared data."""
    experiment = load_experiment(experiment)
    batches = experiment.batches
    if batches.direction_weights or batches.target_weights:  # fail now, not when training starts
        batches.check_weights(resolve_train_directions(corpus_languages(experiment.corpus), experiment.corpus))
    prepare_dataset(experiment.data, experiment.preparation_settings)
    return PreparationResult(experiment.data)
