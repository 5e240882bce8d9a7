"""The road from end to end, one function for each command: prepare, train, translate, evaluate, describe, export.

The command line only parses arguments and prints; whoever writes Python calls these. Beside `cli.py` and `config.py`
this is the one file that sees all stages; training, translating and evaluating have files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from manyglot.batches.dataset import Dataset
from manyglot.batches.pairs import PairsIndex
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepare import prepare as prepare_dataset
from manyglot.config.experiment import Experiment, read_experiment
from manyglot.config.settings import parse
from manyglot.corpus.inspection import Inspection
from manyglot.corpus.inspection import inspect as inspect_corpus
from manyglot.corpus.languages import Languages
from manyglot.corpus.rows import Split
from manyglot.corpus.sources import languages_of, open_corpus, trained_directions
from manyglot.errors import CorpusError, FolderError, SettingsError, suggest
from manyglot.evaluation.evaluate import Evaluation
from manyglot.exporters.ctranslate2 import export as export_to_ctranslate2
from manyglot.exporters.half import export_half
from manyglot.files import is_empty
from manyglot.model.folder import load_model
from manyglot.model.transformer import Transformer
from manyglot.reports.corpora import Preview
from manyglot.vocabulary.subwords import Subwords
from manyglot.workflows.evaluate import evaluate as evaluate
from manyglot.workflows.evaluate import evaluate_model, write_results
from manyglot.workflows.evaluate import report as report
from manyglot.workflows.train import forecast as forecast
from manyglot.workflows.train import new_model as new_model
from manyglot.workflows.train import over_training as over_training
from manyglot.workflows.train import plot as plot
from manyglot.workflows.train import summarize as summarize
from manyglot.workflows.train import train as train
from manyglot.workflows.translate import translate as translate


def prepare(experiment: Experiment) -> Dataset:
    """Read the corpus and write the dataset folder."""
    batches = experiment.batches
    if batches.weights or batches.into:  # which training would refuse, after all the work
        batches.check_weights(trained_directions(languages_of(experiment.corpus), experiment.corpus))
    return prepare_dataset(experiment.data, experiment.recipe)


def inspect(experiment: Experiment, num_samples: int = 2) -> Inspection:
    """Read the corpus and say what it has and what may be wrong with it; nothing is written."""
    corpus = open_corpus(experiment.corpus)
    return inspect_corpus(corpus, trained_directions(Languages(corpus.languages), experiment.corpus), num_samples)


def preview(experiment: Experiment, temperatures: Sequence[str] = ()) -> Preview:
    """What sampling makes of the directions: of the prepared data, or of the text while there is none."""
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


def _sampling(batches: BatchSettings) -> str:
    """What decides how often a direction is seen, in a few words."""
    temperature = "none" if batches.temperature is None else f"{batches.temperature:g}"
    into = [f"into {code} {times:g} times" for code, times in batches.into.items()]
    return ", ".join(["weights" if batches.weights else f"T = {temperature}", *into])


def _at_temperature(text: str) -> BatchSettings:
    try:
        return parse(BatchSettings, {"temperature": None if text == "none" else float(text)})
    except ValueError:
        raise SettingsError(f"--temperature takes a number above 0 or none; got {text!r}.") from None


def demo(output: Path, overrides: Iterable[str] = ()) -> tuple[Evaluation, Path]:
    """The whole road with the built-in corpus, in minutes; return the scores and the path of the report.

    What an earlier, interrupted demo has done is used again.
    """
    if output.exists() and not is_empty(output) and not (output / "data").is_dir():
        raise FolderError(f"{output} exists and holds something else. Choose another `--output`.")
    overrides = list(overrides)
    if moved := [override for override in overrides if override.partition("=")[0] in ("data", "run")]:
        raise SettingsError(f"--set {moved[0]}: the demo has all its folders below --output. Choose that instead.")
    config = Path(__file__).with_name("demo.yaml")
    experiment = read_experiment(config, overrides).model_copy(update={"data": output / "data", "run": output / "run"})
    prepare(experiment)
    model_folder = train(experiment)
    evaluation, about = evaluate_model(model_folder, experiment.data, zero_shot=True)
    return evaluation, write_results(output, "manyglot demo: a phrasebook", evaluation, about)


def describe(what: Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Layers, guidance, languages and parameters of an experiment's model or of a trained one, and its training."""
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


FORMATS = {"ctranslate2": export_to_ctranslate2, "manyglot": export_half}
"""What a model can be exported to: another engine's format, or a smaller folder of ours."""


def export(
    model_folder: Path,
    output: Path,
    targets: Sequence[str] = (),
    to: str = "ctranslate2",
    quantization: str | None = None,
) -> list[Path]:
    """Write a model in the format of another engine, for some of its target languages; return the folders."""
    if to not in FORMATS:
        raise SettingsError(f"--to: '{to}' is not a format. {suggest(to, FORMATS)}")
    return FORMATS[to](load_model(model_folder), output, targets, quantization)
