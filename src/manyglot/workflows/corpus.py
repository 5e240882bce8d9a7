"""`manyglot corpus`: look at a corpus before it is prepared, and make zero-shot test sets from it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyglot.batches.dataset import Dataset
from manyglot.batches.pairs import PairsIndex
from manyglot.batches.plan import BatchSettings
from manyglot.config.experiment import Experiment
from manyglot.config.settings import parse
from manyglot.corpus.inspection import Inspection
from manyglot.corpus.inspection import inspect as inspect_corpus
from manyglot.corpus.languages import Languages
from manyglot.corpus.rows import Split
from manyglot.corpus.sources import make_zero_shot_tests, open_corpus, trained_directions, translations_of
from manyglot.corpus.translations import Translations
from manyglot.corpus.zero_shot import SetFacts
from manyglot.errors import CorpusError, SettingsError
from manyglot.files import StrPath
from manyglot.reports.corpora import Preview


def inspect(experiment: Experiment, num_samples: int = 2) -> Inspection:
    """Read the corpus and report its content and possible defects. Nothing is written."""
    corpus = open_corpus(experiment.corpus)
    return inspect_corpus(corpus, trained_directions(Languages(corpus.languages), experiment.corpus), num_samples)


def preview(experiment: Experiment, temperatures: Sequence[str] = ()) -> Preview:
    """The share of each direction after temperature sampling: of the prepared data, or of the text before `prepare`."""
    if (experiment.data / "dataset.json").exists():
        dataset = Dataset(experiment.data)
        dataset.check_origin(experiment.recipe.as_json())
        index = PairsIndex(dataset.store(Split.TRAIN))
        sizes = {direction: index.size(direction) for direction in dataset.supervised}
    else:
        inspection = inspect(experiment)
        if inspection.errors:
            raise CorpusError(inspection.errors[0])
        pairs = inspection.pairs[Split.TRAIN]
        sizes = {direction: pairs[direction] for direction in sorted(pairs)}
    if not sum(sizes.values()):
        raise CorpusError("The corpus has no training pairs. See `manyglot corpus inspect`.")
    plans = [_at_temperature(text) for text in temperatures] or [experiment.batches]
    return Preview.of(sizes, {_sampling(plan): plan.epoch_counts(sizes) for plan in plans})


def zero_shot(
    experiment: Experiment,
    output: StrPath,
    *,
    drop_leaked: bool = False,
    distinct: bool = False,
    max_sentences: int | None = None,
    supervised: bool = False,
) -> list[SetFacts]:
    """Write test sets for all pairs of languages, aligned through their common pivot sentences.

    Options: `drop_leaked` leaves out sentences that training has seen, `distinct` takes repeated translations once, and
    `supervised` adds the pairs with the pivot.
    """
    return make_zero_shot_tests(experiment.corpus, Path(output), drop_leaked, distinct, max_sentences, supervised)


def translations(experiment: Experiment) -> Translations:
    """Count the translations of each pivot sentence in the training text."""
    return translations_of(experiment.corpus)


def _sampling(batches: BatchSettings) -> str:
    """What decides how often a direction is seen, as an identifier such as `temperature:5,into:en:0.25`."""
    temperature = "none" if batches.temperature is None else f"{batches.temperature:g}"
    into = [f"into:{code}:{times:g}" for code, times in batches.into.items()]
    return ",".join(["weights" if batches.weights else f"temperature:{temperature}", *into])


def _at_temperature(text: str) -> BatchSettings:
    try:
        return parse(BatchSettings, {"temperature": None if text == "none" else float(text)})
    except ValueError:
        raise SettingsError(f"--temperature takes a number above 0 or none; got {text!r}.") from None
