"""`manyglot prepare`: read a corpus and write the prepared data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from manyglot.argument_types import checks_argument_types
from manyglot.batches.prepare_dataset import prepare_dataset
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment, ExperimentSource, load_experiment
from manyglot.corpus.readers import corpus_languages, resolve_train_directions
from manyglot.progress import print_status
from manyglot.reports.corpus_tables import subword_statistics_table
from manyglot.reports.displayable import Displayable, DisplayPart
from manyglot.vocabulary.subword_model import VocabularySettings

MAX_UNKNOWN_SHARE = 0.01
"""Languages with a larger share of unknown subwords cause a warning."""
MAX_NAMED_LANGUAGES = 5
"""Number of languages that the warning names with their shares."""


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
    dataset = prepare_data(experiment)
    if warning := explain_unknown_subwords(dataset.metadata["subwords"], experiment.vocabulary):
        print_status(f"! {warning}")
    return dataset


def prepare_data(experiment: Experiment) -> PreparationResult:
    """Write the prepared data of an experiment without a warning of unknown subwords."""
    batches = experiment.batches
    if batches.direction_weights or batches.target_weights:  # fail now, not when training starts
        batches.check_weights(resolve_train_directions(corpus_languages(experiment.corpus), experiment.corpus))
    prepare_dataset(experiment.data, experiment.preparation_settings)
    return PreparationResult(experiment.data)


def explain_unknown_subwords(
    counts_by_language: Mapping[str, Mapping[str, int]], vocabulary: VocabularySettings
) -> str | None:
    """Name the languages with many unknown subwords and the remedy, given the subword counts of a dataset."""
    shares = {
        code: counts.get("unknown", 0) / counts["subwords"]
        for code, counts in counts_by_language.items()
        if counts.get("unknown", 0) > MAX_UNKNOWN_SHARE * counts.get("subwords", 0)
    }
    if not shares:
        return None
    largest = sorted(shares, key=lambda code: -shares[code])[:MAX_NAMED_LANGUAGES]
    listed = ", ".join(f"{code} {shares[code]:.1%}" for code in largest)
    more = f" and {len(shares) - len(largest)} more languages" if len(shares) > len(largest) else ""
    if vocabulary.sentencepiece_model is not None and not set(shares) & set(vocabulary.language_specific):
        own = ", ".join([*vocabulary.language_specific, *shares])
        remedy = f"vocabulary.language_specific: [{own}], which gives them subwords of their own"
    else:
        remedy = "vocabulary.byte_fallback: true, or raise vocabulary.character_coverage"
    return f"Many subwords are unknown and will be lost: {listed}{more}. Set {remedy}."
