"""`manyglot corpus`: inspect or split a corpus before preparation, build zero-shot test sets, verify prepared data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyglot.batches.pair_index import PairIndex
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment, read_corpus_settings
from manyglot.corpus.base import Split
from manyglot.corpus.inspection import CorpusInspection, inspect_splits
from manyglot.corpus.languages import Languages
from manyglot.corpus.readers import (
    CorpusSettings,
    count_corpus_translations,
    make_zero_shot_sets,
    open_corpus,
    resolve_train_directions,
)
from manyglot.corpus.splitting import SplitStatistics, write_splits
from manyglot.corpus.translation_counts import TranslationCounts
from manyglot.corpus.unsplit_text import group_corpus, group_files
from manyglot.corpus.zero_shot_sets import ZeroShotSetStatistics
from manyglot.errors import CorpusError, SettingsError
from manyglot.files import StrPath
from manyglot.progress import progress_counter
from manyglot.reports.corpus_tables import SamplingPreview


def inspect_corpus(experiment: Experiment | CorpusSettings, num_samples: int = 2) -> CorpusInspection:
    """Read the corpus and report its content and possible defects, without writing anything."""
    settings = experiment.corpus if isinstance(experiment, Experiment) else experiment
    corpus = open_corpus(settings)
    return inspect_splits(corpus, resolve_train_directions(Languages(corpus.languages), settings), num_samples)


def preview_sampling(experiment: Experiment, temperatures: Sequence[str] = ()) -> SamplingPreview:
    """Compute the share of each direction in an epoch, for the given temperatures or for the batch settings.

    The numbers come from the prepared data if it exists, otherwise from the text.
    """
    if (experiment.data / "dataset.json").exists():
        dataset = PreparedDataset(experiment.data)
        dataset.check_provenance(experiment.preparation_settings.to_dict())
        index = PairIndex(dataset.token_store(Split.TRAIN))
        sizes = {direction: index.num_pairs(direction) for direction in dataset.train_directions}
    else:
        inspection = inspect_corpus(experiment)
        if inspection.read_errors:
            raise CorpusError(inspection.read_errors[0])
        pairs = inspection.num_pairs[Split.TRAIN]
        sizes = {direction: pairs[direction] for direction in sorted(pairs)}
    if not sum(sizes.values()):
        raise CorpusError("The corpus has no training pairs. See `manyglot corpus inspect`.")
    variants = [_batch_settings_at(temperature) for temperature in temperatures] or [experiment.batches]
    counts = {_sampling_id(settings): settings.pair_counts_per_epoch(sizes) for settings in variants}
    return SamplingPreview.from_counts(sizes, counts)


def build_zero_shot_sets(
    experiment: Experiment,
    output: StrPath,
    *,
    drop_leaked: bool = False,
    deduplicate_translations: bool = False,
    max_sentences_per_pair: int | None = None,
    include_supervised: bool = False,
) -> list[ZeroShotSetStatistics]:
    """Write test sets for all language pairs, aligned through their common sentences in the central language.

    `drop_leaked` drops sentences that training has seen, `deduplicate_translations` keeps one copy of each repeated
    translation, and `include_supervised` adds the pairs with the central language.
    """
    return make_zero_shot_sets(
        experiment.corpus,
        Path(output),
        drop_leaked,
        deduplicate_translations,
        max_sentences_per_pair,
        include_supervised,
    )


def split_corpus(
    inputs: Sequence[StrPath],
    output: StrPath,
    *,
    num_dev: int = 1000,
    num_test: int = 1000,
    seed: int = 1,
    columns: Sequence[str] = (),
) -> SplitStatistics:
    """Split text into line-aligned train, dev and test files that share no sentence, and return their sizes.

    `inputs` are line-aligned files named by their languages, one table, or the YAML file of an experiment, whose
    training text is split. `columns` names the columns of a TSV file without a header.
    """
    paths = [Path(path) for path in inputs]
    if len(paths) == 1 and paths[0].suffix in (".yaml", ".yml"):
        if columns:
            raise SettingsError(f"--columns: set corpus.columns in {paths[0]} instead.")
        groups = group_corpus(open_corpus(read_corpus_settings(paths[0])))
    else:
        groups = group_files(paths, columns)
    return write_splits(Path(output), groups, num_dev, num_test, seed)


def count_translations(experiment: Experiment) -> TranslationCounts:
    """Count the translations of each sentence of the central language in the training text."""
    return count_corpus_translations(experiment.corpus)


def verify_dataset(data: StrPath) -> PreparedDataset:
    """Verify the sizes and checksums of all files of prepared data; raise an error that names a damaged file."""
    dataset = PreparedDataset(Path(data))
    with progress_counter("verifying", "MB", total=dataset.num_bytes // 10**6) as progress:
        num_bytes = 0

        def advance(amount: int) -> None:
            nonlocal num_bytes
            progress.advance((num_bytes + amount) // 10**6 - num_bytes // 10**6)
            num_bytes += amount

        dataset.verify(on_bytes=advance)
    return dataset


def _sampling_id(batches: BatchSettings) -> str:
    """Return an identifier of the sampling settings, such as `temperature:5,target_weight:en:0.25`."""
    temperature = "none" if batches.temperature is None else f"{batches.temperature:g}"
    target_weights = [f"target_weight:{code}:{weight:g}" for code, weight in batches.target_weights.items()]
    base = "direction_weights" if batches.direction_weights else f"temperature:{temperature}"
    return ",".join([base, *target_weights])


def _batch_settings_at(text: str) -> BatchSettings:
    try:
        return parse_settings(BatchSettings, {"temperature": None if text == "none" else float(text)})
    except ValueError:
        raise SettingsError(f"--temperature takes a number above 0 or none; got {text!r}.") from None
