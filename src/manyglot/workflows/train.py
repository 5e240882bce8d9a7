"""`manyglot train`: train a model, resume a run, or forecast what training would need (`--dry-run`)."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from manyglot.batches.dataset import Dataset
from manyglot.batches.loader import Loader
from manyglot.batches.pairs import PairsIndex
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Split
from manyglot.corpus.sources import open_corpus
from manyglot.decoding.translator import Translator
from manyglot.devices import find_device
from manyglot.distributed import DistributedContext, distributed_context, num_processes
from manyglot.errors import FolderError, ManyglotError, SettingsError, Stopped
from manyglot.evaluation.sample import DEV_SEED, translated_measures
from manyglot.model.folder import TrainedModel, load_model, save_model
from manyglot.model.transformer import Transformer
from manyglot.progress import say
from manyglot.reports.summary import Summary
from manyglot.training.alignment import aligned_targets, pairs_in_words
from manyglot.training.checkpoint import RunState, load_best
from manyglot.training.claim import check_run, check_writable, claimed_run
from manyglot.training.forecast import Beginning, Course, Disk, Forecast
from manyglot.training.log import read_log
from manyglot.training.loop import is_finished, last_state, make_optimizer
from manyglot.training.loop import train as train_model
from manyglot.training.memory import check_memory, shortage
from manyglot.training.sharding import place_model, whole_model
from manyglot.training.trackers import check_trackers
from manyglot.training.trial import try_out
from manyglot.training.validation import DevLoss, Measure, Validation
from manyglot.vocabulary.vocabulary import Tags


def train(experiment: Experiment) -> Path:
    """Train a model on the prepared data and return its folder; an interrupted run goes on where it was.

    Under torchrun all processes train it together.
    """
    with distributed_context(experiment.training.device) as distributed:
        return _train(experiment, distributed)


def forecast(experiment: Experiment) -> Forecast:
    """What `train` would do, how long it would take and what it would need; nothing is written.

    On a machine whose memory is too small, so that training would be refused, all but the time is told.
    """
    if num_processes() > 1:
        raise SettingsError("--dry-run is for one process. Start it without torchrun.")
    settings, device, run = experiment.training, find_device(experiment.training.device), experiment.run
    dataset, model, loader = _material(experiment)
    validation = _validation(experiment, dataset, model.tags(), loader.directions, device)
    too_large = shortage(model, loader, settings, DistributedContext(device))
    place_model(model, settings.shard, DistributedContext(device))
    optimizer, state = make_optimizer(model, settings), RunState()
    try:
        check_trackers(settings.trackers)
        check_run(run, experiment, dataset.digest())
        check_writable(run)
        if (done := _trained_to(experiment)) is not None:
            beginning = Beginning(str(run), "finished", done)
        else:
            state = last_state(run, model, optimizer, settings)
            over = is_finished(state, settings)
            beginning = Beginning(str(run), "finished" if over else "resumes" if state.step else "new", state.step)
    except ManyglotError as error:
        beginning = Beginning(str(run), "refused", reason=str(error))
    trial = None
    if too_large is None:
        trial = try_out(model, optimizer, loader, state, settings, experiment.seed, device)
    else:
        beginning = Beginning(str(run), "refused", reason=too_large)
    disk = Disk.of(run, model, settings)
    course = Course.of(loader, dataset.supervised, settings)
    plan = validation.plan(settings.validate_every)
    return Forecast(beginning, course, sum(model.num_parameters().values()), trial, disk, plan)


def _material(experiment: Experiment) -> tuple[Dataset, Transformer, Loader]:
    """What a training begins with: the data, an untrained model, the batches."""
    dataset = Dataset(experiment.data)
    dataset.check_origin(experiment.recipe.as_json())
    _warn_of_changed_text(experiment, dataset)
    model = new_model(experiment, dataset)
    store, alignment = dataset.store(Split.TRAIN), experiment.training.alignment
    loader = Loader(store, dataset.supervised, experiment.batches, model.tags(), experiment.seed)
    if alignment is not None:
        aligned_targets(model, alignment)  # which refuses some guidance
        say(pairs_in_words(alignment, loader.plan.counts_D.sum() / loader.plan.num_batches(0)))
    return dataset, model, loader


def _train(experiment: Experiment, distributed: DistributedContext) -> Path:
    dataset, model, loader = _material(experiment)
    settings = experiment.training
    validation = _validation(experiment, dataset, model.tags(), loader.directions, distributed.device)
    claim = experiment.run, experiment, dataset.digest()
    check_trackers(settings.trackers)
    check_run(*claim)  # after all that can be wrong with the settings, and by all processes, so that all end alike
    distributed.wait()
    model_folder = experiment.run / "model"
    if (done := _trained_to(experiment)) is not None:
        early = ", where it stopped early" if done < settings.max_steps else ""
        say(f"{experiment.run} is already trained to step {done}{early}; its model is {model_folder}.")
        if early:
            say(f"To train on, delete {model_folder} and raise training.patience.")
        return model_folder
    check_memory(model, loader, settings, distributed)
    with claimed_run(*claim) if distributed.is_main else nullcontext():
        state = train_model(model, loader, settings, experiment.run, experiment.seed, validation, distributed)
        if not is_finished(state, settings):
            raise Stopped(f"Stopped at step {state.step:,}, which is saved. Run the same command to go on.")
        directions = tuple(loader.directions)
        whole = whole_model(model, distributed)
        if distributed.is_main:
            training = _choose_weights(experiment.run, whole, state, validation)
            trained = TrainedModel(whole, dataset.vocabulary, directions, experiment.resolved(), training)
            save_model(model_folder, trained)
        distributed.wait()
    return model_folder


def _trained_to(experiment: Experiment) -> int | None:
    """The last step of a run that has its model; one that should go on beyond its end is refused."""
    model_folder = experiment.run / "model"
    if not model_folder.exists():
        return None
    trained = load_model(model_folder)
    asked_for = int(trained.config["training"]["max_steps"])
    done = int(trained.training.get("steps", asked_for))
    if experiment.training.max_steps > done == asked_for:
        raise FolderError(f"{experiment.run} is trained to step {done}. To train on, delete {model_folder} first.")
    return done


def _choose_weights(run: Path, model: Transformer, state: RunState, validation: Validation) -> dict[str, Any]:
    """Give the model the weights of the best step, or leave it those of the last; say and return which."""
    criterion = state.best.criterion if state.best.criterion == validation.criterion else None  # or it has changed
    best = None if criterion is None else load_best(run / "checkpoints", model, state.best)
    if best is None or criterion is None:
        say(f"The model has the weights of step {state.step:,}, the last.")
        return {"steps": state.step, "step": state.step, "best_by": None}
    metric, sample = criterion.metric, dict(criterion.sample)
    say(f"The model has the weights of step {best.step:,}, the best of {state.step:,} by {metric} ({best.value:.2f}).")
    return {"steps": state.step, "step": best.step, "best_by": metric, "value": best.value, "measured_on": sample}


def _warn_of_changed_text(experiment: Experiment, dataset: Dataset) -> None:
    """Say so if the text is not what the data was prepared from; it need not be there any more."""
    try:
        text = open_corpus(experiment.corpus).fingerprint()
    except ManyglotError:
        return
    if text != dataset.card["origin"]["text"]:
        say(f"The text has changed since {dataset.folder} was prepared. Delete it and prepare again to use the new.")


def _validation(
    experiment: Experiment, dataset: Dataset, tags: list[Tags], trained: list[Direction], device: torch.device
) -> Validation:
    """What is measured while a model learns, and by what its best step is told."""
    measures = _measures(experiment, dataset, tags, trained, device)
    return Validation(measures, experiment.training.best_by, experiment.training.patience)


def _measures(
    experiment: Experiment, dataset: Dataset, tags: list[Tags], trained: list[Direction], device: torch.device
) -> list[Measure]:
    """What is measured on the dev split while a model learns; a corpus without one is trained without."""
    store, settings = dataset.store(Split.DEV), experiment.validation
    measures: list[Measure] = []
    if settings.pairs and any(map(PairsIndex(store).size, trained)):
        batches = experiment.batches.model_copy(update={"temperature": None, "weights": {}, "into": {}})
        loader = Loader(store, trained, batches, tags, DEV_SEED)
        measures.append(DevLoss(loader, settings.pairs, device, experiment.training.precision))
    decoding = experiment.decoding.with_beam(1).model_copy(update={"via": None})

    def translator(model: Transformer) -> Translator:
        return Translator.of(TrainedModel(model, dataset.vocabulary, tuple(trained), {}), decoding, device)

    identifier = experiment.evaluation.identifier
    measures += translated_measures(dataset, trained, settings, identifier, translator)
    if not measures and (settings.pairs or settings.sentences or settings.zero_shot_sentences):
        say("The corpus has no dev text in the directions of the training: training without validation.")
    return measures


def new_model(experiment: Experiment, dataset: Dataset) -> Transformer:
    """An untrained model for a dataset, the same for the same seed."""
    torch.manual_seed(experiment.seed)
    vocabulary = dataset.vocabulary
    return Transformer(experiment.model, experiment.guidance, len(vocabulary.subwords), len(vocabulary.languages))


def summarize(run: Path) -> Summary | None:
    """How a training ended, by its log; None where there is none."""
    return Summary.of(read_log(run / "log.jsonl"))
