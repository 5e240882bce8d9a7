"""The dry run predicts what training does."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.batches import plan
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction
from manyglot.folders import locked_folder
from manyglot.training import dry_run, step_timing
from manyglot.training.dry_run import DataSchedule, DirectionExposure, DiskEstimate
from manyglot.workflows import train as workflow
from manyglot.workflows.train import initialize_model
from tests.conftest import tiny_experiment


@pytest.fixture(autouse=True)
def _time_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_timing, "MAX_TIMED_STEPS", 4)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    experiment = tiny_experiment(tmp_path)
    manyglot.prepare(experiment)
    return experiment


def changed(experiment: Experiment, **training: object) -> Experiment:
    return experiment.model_copy(update={"training": experiment.training.model_copy(update=training)})


def loader_of(experiment: Experiment) -> BatchLoader:
    dataset = PreparedDataset(experiment.data)
    tags = initialize_model(experiment, dataset).tags_by_language()
    return BatchLoader(
        dataset.token_store(Split.TRAIN), dataset.train_directions, experiment.batches, tags, experiment.seed
    )


@pytest.mark.parametrize("max_steps", [2, 11, 40])
@pytest.mark.parametrize("guidance", [{"method": "token"}, {"method": "token", "side": "target"}], ids=str)
def test_the_predicted_exposure_matches_the_batches(
    experiment: Experiment, max_steps: int, guidance: dict[str, str]
) -> None:
    """Against a count over all batches, with a direction that is sampled more often than the others."""
    values = experiment.to_dict() | {"guidance": [guidance]}
    values["batches"] |= {"direction_weights": {"qaa>qab": 9}}
    values["training"] |= {"max_steps": max_steps, "gradient_accumulation": 2}
    experiment = Experiment.model_validate(values)
    loader = loader_of(experiment)
    schedule = DataSchedule.from_loader(loader, loader.directions, experiment.training)

    drawn: Counter[Direction] = Counter()
    batches = list(islice(loader.iter_planned_batches(DataPosition()), 2 * max_steps))
    for batch, _ in batches:
        drawn.update(Direction(source, target) for source, target, _ in batch.text_locations())
    last = batches[-1][1]
    assert schedule.num_epochs == pytest.approx(last.epoch + last.next_batch / loader.plan.num_batches(last.epoch))
    for direction, seen in schedule.exposure_by_direction.items():
        assert seen.mean_times_seen == pytest.approx(drawn[direction] / seen.num_pairs)
    store, dataset = loader._collate.store, PreparedDataset(experiment.data)
    symbols = 2 if guidance.get("side") == "target" and loader._collate.target_predicted else 1
    for direction in dataset.train_directions:
        _, targets = store.translation_pairs(*direction)
        assert schedule.exposure_by_direction[direction].num_target_tokens == sum(
            len(store[i]) + symbols for i in targets
        )


def test_a_large_part_of_an_epoch_is_estimated(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    loader, most = loader_of(experiment), loader_of(experiment).plan.num_batches(0)
    counted, reckoned = [], []
    for numbers, limit in ((counted, plan.MAX_COUNTED_SAMPLES), (reckoned, 0)):
        monkeypatch.setattr(plan, "MAX_COUNTED_SAMPLES", limit)
        numbers += [loader.plan.data_in_first_batches(number) for number in (most // 2, most, 2 * most + most // 2)]
    for (epochs, drawn_D), (same, about_D) in zip(counted, reckoned, strict=True):
        assert epochs == same
        assert about_D == pytest.approx(drawn_D, rel=0.3)
    assert counted[1][1].tolist() == reckoned[1][1].tolist() == loader.plan.samples_per_epoch_D.tolist()


def test_the_resume_status_is_reported(experiment: Experiment) -> None:
    run = experiment.run
    assert workflow.dry_run(experiment).resume_status.status == "new"
    shutil.rmtree(manyglot.train(experiment).model_folder)

    def resume_status(experiment: Experiment) -> tuple[str, int]:
        result = workflow.dry_run(experiment)
        return result.resume_status.status + result.resume_status.refusal_reason.removeprefix(
            str(run)
        ), result.num_steps_left

    assert resume_status(changed(experiment, max_steps=10)) == ("resumes", 4)
    (run / "checkpoints" / "step-00000006" / "progress.json").write_text("{}")
    assert resume_status(changed(experiment, max_steps=10)) == ("resumes", 6)
    assert resume_status(changed(experiment, max_steps=3))[0].startswith(
        "refusedtraining.max_steps: the run is already"
    )
    state, left = resume_status(experiment.model_copy(update={"seed": 5}))
    assert state.startswith("refused holds a run with different settings (seed)")
    assert left == 6
    with locked_folder(run):
        assert resume_status(experiment)[0].startswith("refusedAnother process is writing")
    manyglot.train(experiment)
    assert resume_status(experiment) == ("finished", 0)
    assert "is trained to step 6" in resume_status(changed(experiment, max_steps=10))[0]
    elsewhere = experiment.model_copy(update={"run": experiment.data / "dataset.json" / "run"})
    assert resume_status(elsewhere)[0].startswith("refusedCannot write to")


def test_a_dry_run_writes_nothing(experiment: Experiment, tmp_path: Path) -> None:
    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.rglob("*"))}

    before = files()
    workflow.dry_run(experiment)
    assert files() == before
    shutil.rmtree(manyglot.train(experiment).model_folder)
    before = files()
    workflow.dry_run(changed(experiment, max_steps=10))
    assert files() == before


def test_step_timing_and_disk_estimate_match_training(experiment: Experiment) -> None:
    result = workflow.dry_run(experiment)
    assert result.step_timing.device_name == "cpu"
    assert result.step_timing.num_steps == 4
    assert result.step_timing.seconds_per_step > 0
    assert result.step_timing.tokens_per_second > 0
    assert result.step_timing.peak_memory_bytes is not None
    assert result.step_timing.peak_memory_bytes > 10**7
    assert result.to_dict()["estimated_seconds"] == 6 * result.step_timing.seconds_per_step
    manyglot.train(experiment)
    (written, *_) = (experiment.run / "checkpoints").iterdir()
    on_disk = sum(path.stat().st_size for path in written.glob("*.safetensors"))
    assert (
        result.disk.checkpoint_bytes < on_disk < 1.5 * result.disk.checkpoint_bytes
    )  # the file headers are large compared to so small a model
    assert result.disk.needed_bytes == pytest.approx(4 * result.disk.checkpoint_bytes + result.num_parameters * 4)


def test_directions_seen_too_often_or_too_rarely_are_reported() -> None:
    codes = ["de", "fr", "it", "es", "pt", "ro"]
    seen = {Direction("en", code): DirectionExposure(10, 100, mean_times_seen=51.0 + i) for i, code in enumerate(codes)}
    schedule = DataSchedule(
        {**seen, Direction("de", "en"): DirectionExposure(9, 90, mean_times_seen=0.25)}, 100, 1, 10, num_epochs=0.1
    )
    assert schedule.warnings() == [
        "Directions seen more than 50 times: en→ro 56×, en→pt 55×, en→es 54×, en→it 53×, en→fr 52× and 1 more.",
        "Directions seen less than once: de→en 0.25×.",
        "Training ends within the first epoch, after 10.0% of it.",
    ]
    assert (
        DataSchedule({Direction("de", "en"): DirectionExposure(9, 90, 3.0)}, 100, 1, 10, num_epochs=3.0).warnings()
        == []
    )


def test_targets_repeated_with_several_sources_are_reported(experiment: Experiment) -> None:
    """Against a count over all batches into the central language."""
    experiment = changed(experiment, max_steps=200)
    loader = loader_of(experiment)
    schedule = DataSchedule.from_loader(loader, loader.directions, experiment.training)
    central_language = str(PreparedDataset(experiment.data).central_language)
    drawn: Counter[int] = Counter()
    for batch, _ in islice(loader.iter_planned_batches(DataPosition()), 200):
        into_central_language = [target == central_language for _, target, _ in batch.text_locations()]
        drawn.update(batch.target_indices[into_central_language].tolist())
    draws = sorted(number for number in drawn.values() for _ in range(number))
    assert schedule.median_target_repetitions == {central_language: pytest.approx(draws[len(draws) // 2], rel=0.1)}
    (warning,) = [
        each
        for each in replace(schedule, median_target_repetitions={"en": 63.4, "de": 51}).warnings()
        if "memorized" in each
    ]
    assert "into English, the target sentence is seen 63 times or more" in warning


def test_targets_with_one_source_are_only_reported_by_direction(tmp_path: Path) -> None:
    """They are seen often because their directions are, which another warning covers."""
    lines = [f"{word} {number:x} more" for number in range(1000, 1040) for word in ("one", "two", "three")]
    for code, has in (("en", range(120)), ("de", range(60)), ("fr", range(60, 120))):
        for split in ("train", "dev", "test"):
            text = "\n".join(line if i in has else "" for i, line in enumerate(lines))
            (tmp_path / f"{split}.{code}").write_text(text + "\n")
    experiment = tiny_experiment(
        tmp_path, corpus={"kind": "multiway", "path": tmp_path, "central_language": "en"}, vocabulary={"size": 64}
    )
    experiment = changed(experiment, max_steps=2000)
    manyglot.prepare(experiment)
    loader = loader_of(experiment)
    schedule = DataSchedule.from_loader(loader, loader.directions, experiment.training)
    assert schedule.median_target_repetitions == {}
    assert [warning[:34] for warning in schedule.warnings()] == ["Directions seen more than 50 times"]


def test_repetitions_are_estimated_from_a_subsample(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    loader, training = loader_of(experiment), changed(experiment, max_steps=200).training
    exact = DataSchedule.from_loader(loader, loader.directions, training).median_target_repetitions
    for most in (40, 7):
        monkeypatch.setattr(dry_run, "MAX_COUNTED_SENTENCES", most)
        assert DataSchedule.from_loader(loader, loader.directions, training).median_target_repetitions == pytest.approx(
            exact, rel=0.1
        )


def test_a_full_disk_is_reported(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    assert "There is not enough disk space for the checkpoints." in workflow.dry_run(experiment).warnings()
    assert (
        DiskEstimate.for_run(experiment.run / "not" / "there", torch.nn.Linear(2, 2), experiment.training).free_bytes
        == 1
    )
