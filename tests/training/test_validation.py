"""Validation while training: what is measured, what is kept, and when a run stops."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import manyglot
from manyglot.batches.dataset import Dataset
from manyglot.batches.loader import Loader, Place
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Split
from manyglot.errors import ManyglotError
from manyglot.model.packing import pack
from manyglot.model.transformer import Transformer
from manyglot.training.best import Sample
from manyglot.training.log import read_log
from manyglot.training.validation import DevLoss, Validation
from manyglot.workflows import train as workflow
from manyglot.workflows.train import new_model
from tests.conftest import packed_loss, tiny_experiment

TRAINING = {"max_steps": 8, "warmup_steps": 3, "checkpoint_every": 4, "validate_every": 1, "log_every": 4}
BLEU = [10.0, 30.0, 20.0, 40.0, 35.0, 34.0, 33.0, 32.0]
"""What a run is said to reach, step by step."""


class Scripted:
    """A measure whose values are known before; it counts the steps by the weights it has seen."""

    names: Sequence[str] = ("dev_bleu",)
    setting = "validation.sentences"

    def __init__(self, values: Sequence[float], steps: Mapping[float, int]) -> None:
        self.values, self.steps = values, steps
        self.sample: Sample = {"num_sentences": 1}

    def describe_sample(self) -> str:
        return "a script"

    def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
        return {"dev_bleu": self.values[self.steps[float(model.embedding.weight.sum())] - 1]}, {}


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[float, int]:
    """The step of some weights, learnt from a run of its own: a measure is not told."""
    found: dict[float, int] = {}

    class Counting(Scripted):
        def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
            found[float(model.embedding.weight.sum())] = len(found) + 1
            return {"dev_bleu": 0.0}, {}

    with monkeypatch.context() as patch:
        patch.setattr(workflow, "_measures", lambda *_: [Counting([], {})])
        manyglot.train(prepared(tmp_path / "counting"))
    return found


def prepared(folder: Path, **changes: object) -> Experiment:
    training = {**TRAINING, **changes.pop("training", {})}  # type: ignore[dict-item]
    experiment = tiny_experiment(folder, training=training, **changes)
    manyglot.prepare(experiment)
    return experiment


def checkpoints(experiment: Experiment) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (experiment.run / "checkpoints").iterdir())


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(one: Path, other: Path) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_best_and_the_last_are_kept_and_the_best_becomes_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    experiment = prepared(tmp_path, training={"keep_best": 2, "keep_checkpoints": 2})
    model = manyglot.train(experiment)
    assert checkpoints(experiment) == [4, 5, 8], "4 and 5 are the best; 5 would be one of the last had it not been"
    assert same(model, experiment.run / "checkpoints" / "step-00000004")
    card = json.loads((model / "training.json").read_text("utf-8"))
    assert card == {"steps": 8, "step": 4, "best_by": "dev_bleu", "value": 40.0, "measured_on": {"num_sentences": 1}}
    assert "The model has the weights of step 4, the best of 8 by dev_bleu (40.00)." in capsys.readouterr().err


def test_without_best_by_the_last_step_becomes_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int]
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    experiment = prepared(tmp_path, training={"best_by": None})
    model = manyglot.train(experiment)
    assert checkpoints(experiment) == [4, 8]
    assert same(model, experiment.run / "checkpoints" / "step-00000008")
    assert json.loads((model / "training.json").read_text("utf-8")) == {"steps": 8, "step": 8, "best_by": None}


@pytest.mark.parametrize(("patience", "ends"), [(1, 3), (2, 6), (3, 7), (None, 8)])
def test_a_run_that_gets_no_better_stops_and_is_finished(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: dict[float, int],
    capsys: pytest.CaptureFixture[str],
    patience: int | None,
    ends: int,
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    experiment = prepared(tmp_path, training={"patience": patience})
    model = manyglot.train(experiment)
    assert read_log(experiment.run / "log.jsonl")[-1]["step"] == ends
    told = capsys.readouterr().err
    assert ("dev_bleu was not better" in told) == (ends < 8)
    manyglot.train(experiment)
    early = ", where it stopped early" if ends < 8 else ""
    assert f"already trained to step {ends}{early}; its model" in capsys.readouterr().err
    shutil.rmtree(model)
    manyglot.train(experiment)
    assert "Going on from" in capsys.readouterr().err
    assert read_log(experiment.run / "log.jsonl")[-1]["step"] == ends, "the model is made again, without training"


@pytest.mark.parametrize("crash_at", range(2, 7))
def test_an_interrupted_run_decides_as_the_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], crash_at: int
) -> None:
    """What is best and how long it waited are those of the checkpoint it goes on from."""

    class Crashing(Scripted):
        def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
            if self.steps[float(model.embedding.weight.sum())] == crash_at:
                raise KeyboardInterrupt
            return super().__call__(model)

    whole, broken = (
        prepared(tmp_path / name, training={"patience": 3, "keep_best": 2}) for name in ("whole", "broken")
    )
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Crashing(BLEU, steps)])
    with pytest.raises(KeyboardInterrupt):
        manyglot.train(broken)
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    expected, got = manyglot.train(whole), manyglot.train(broken)
    assert checkpoints(broken) == checkpoints(whole) == [4, 5, 7]
    assert same(expected, got)
    states = [
        json.loads((e.run / "checkpoints/step-00000007/progress.json").read_text("utf-8")) for e in (whole, broken)
    ]
    assert states[0] == states[1]
    criterion = {"metric": "dev_bleu", "sample": {"num_sentences": 1}}
    assert states[0]["best"] == {"criterion": criterion, "scores": [[4, 40.0], [5, 35.0]], "waited": 3}


def test_a_damaged_best_checkpoint_gives_way_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    experiment = prepared(tmp_path, training={"keep_best": 2})
    model = manyglot.train(experiment)
    for step, expected in ((4, 5), (5, 8)):
        shutil.rmtree(model)
        (experiment.run / f"checkpoints/step-{step:08d}/model.safetensors").write_bytes(b"oops")
        manyglot.train(experiment)
        assert f"step-{step:08d} is damaged and not used" in capsys.readouterr().err
        assert json.loads((model / "training.json").read_text("utf-8"))["step"] == expected


def test_another_measure_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    shutil.rmtree(manyglot.train(prepared(tmp_path, training={"max_steps": 5})))
    other = Scripted(BLEU, steps)
    other.sample = {"num_sentences": 2}
    monkeypatch.setattr(workflow, "_measures", lambda *_: [other])
    model = manyglot.train(prepared(tmp_path))
    assert "(was dev_bleu on num sentences 1); best-step tracking restarts." in capsys.readouterr().err
    assert json.loads((model / "training.json").read_text("utf-8"))["step"] == 6


def measured(experiment: Experiment) -> list[dict[str, Any]]:
    return [line for line in read_log(experiment.run / "log.jsonl") if "validation" in line]


def test_all_is_measured_and_logged_for_each_direction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = prepared(tmp_path, training={"validate_every": 4})
    manyglot.train(experiment)
    names = {"dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf"}
    supervised = {direction.as_setting() for direction in Dataset(experiment.data).supervised}
    for line, step in zip(measured(experiment), (4, 8), strict=True):
        assert line.keys() == {"step", "seconds", "validation", "directions", *names}
        assert line["step"] == step
        directions = line["directions"]
        assert directions.keys() == {*supervised, "qab>qac", "qac>qab"}
        assert all(directions[name].keys() == {"nll", "bleu", "chrf"} for name in supervised)
        accuracies = [directions[name]["language_accuracy"] for name in ("qab>qac", "qac>qab")]
        assert line["zero_shot_language_accuracy"] == sum(accuracies) / 2
        assert line["zero_shot_chrf"] == sum(directions[name]["chrf"] for name in ("qab>qac", "qac>qab")) / 2
        assert line["validation"]["seconds"] > 0
        assert 0 < line["validation"]["share"] < 1
    told = capsys.readouterr().err
    assert "dev_bleu, dev_chrf of 32 of 32 sentences in 4 of 4 directions" in told
    assert "zero_shot_language_accuracy, zero_shot_chrf of 16 of 16 sentences in 2 of 2 directions by character" in told
    assert "Best by dev_bleu." in told
    assert "Validation took " in told
    for name in ("BLEU", "chrF++", "zero-shot LangAcc", "best"):
        assert name in told.split("training 8/8 done")[1], "the note of the progress bar"


def test_validation_changes_nothing_in_the_training(tmp_path: Path) -> None:
    """Neither dropout nor the mode of the model."""
    model = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model["dropout"] = 0.3  # type: ignore[assignment]
    with_it, without = (
        prepared(tmp_path / name, model=model, training={"best_by": None}, validation=validation)
        for name, validation in (("with", {}), ("without", {"pairs": 0, "sentences": 0, "zero_shot_sentences": 0}))
    )
    assert same(manyglot.train(with_it), manyglot.train(without))
    assert measured(with_it)
    assert not measured(without)


def sampled(experiment: Experiment) -> list[object]:
    """What is measured on the dev split: rows by direction, or sentence pairs by batch."""
    dataset = Dataset(experiment.data)
    tags = workflow.new_model(experiment, dataset).tags()
    measures = workflow._measures(experiment, dataset, tags, dataset.supervised, torch.device("cpu"))
    return [
        [list(batch.lines()) for batch, _ in each.batches] if isinstance(each, DevLoss) else each.rows  # type: ignore[attr-defined]
        for each in measures
    ]


def test_runs_are_measured_on_the_same_sentences(tmp_path: Path) -> None:
    """With another seed, and if they draw their training text in other proportions."""
    validation = {"pairs": 10, "sentences": 10, "zero_shot_sentences": 10}
    experiment = prepared(tmp_path, validation=validation, batches={"max_tokens": 50})
    batches = experiment.batches.model_copy(update={"into": {"qaa": 0.1}, "temperature": 1.0})
    other = experiment.model_copy(update={"seed": 2, "batches": batches})
    assert len(sampled(experiment)) == 3
    assert sampled(experiment) == sampled(other)


def test_the_loss_is_that_of_the_whole_dev_split_unless_it_is_a_sample(tmp_path: Path) -> None:
    experiment = prepared(tmp_path)
    dataset = Dataset(experiment.data)
    model = new_model(experiment, dataset).eval()
    batches = experiment.batches.model_copy(update={"max_tokens": 60, "temperature": None})
    loader = Loader(dataset.store(Split.DEV), dataset.supervised, batches, model.tags(), 1)
    scores, directions = DevLoss(loader, 10_000, torch.device("cpu"), "float32")(model)
    every = [batch for batch, _ in islice(loader.batches(Place()), loader.plan.num_batches(0))]
    total = sum(packed_loss(model, pack(batch), 0.0).nll_L.sum().item() for batch in every)
    assert scores["dev_nll"] == pytest.approx(total / sum(batch.num_tokens for batch in every))
    assert set(directions) == set(dataset.supervised)
    assert DevLoss(loader, 10_000, torch.device("cpu"), "float32").sample == {"num_pairs": 32}
    first, _ = next(loader.planned(Place()))
    short = DevLoss(loader, 1, torch.device("cpu"), "float32")
    assert short.sample == {"num_pairs": len(first.source)}
    assert short.describe_sample() == f"{len(first.source)} sentence pairs"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training": {"best_by": "zero_shot_language_accuracy"}, "corpus": {"pivot": None}},
            r"training\.best_by: zero_shot_language_accuracy needs dev text, directions without training",
        ),
        ({"training": {"best_by": "dev_bleu"}, "validation": {"sentences": 0}}, r"validation\.sentences above 0"),
        ({"training": {"patience": 2}, "corpus": {"dev_rows": 0}}, r"training\.patience: .* nothing is measured"),
        ({"training": {"patience": 2, "best_by": None}}, r"training\.patience: .*best_by is null"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_run(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    corpus = {"kind": "synthetic", "num_languages": 3, "train_rows": 60, "dev_rows": 8, "test_rows": 8}
    experiment = prepared(tmp_path, **{**changes, "corpus": {**corpus, **changes.get("corpus", {})}})
    with pytest.raises(ManyglotError, match=message):
        manyglot.train(experiment)
    assert not experiment.run.exists()


def test_validation_that_is_dear_says_what_to_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("manyglot.training.validation.time.monotonic", lambda: next(clock))
    validation = Validation([Scripted([1.0], {0.0: 1})], "auto", None)
    model = torch.nn.Module()
    model.embedding = torch.nn.Embedding.from_pretrained(torch.zeros(1, 1))
    for _ in range(3):
        validation(model)  # type: ignore[arg-type]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1, "it says so once"
    assert "lower validation.sentences or raise training.validate_every" in told[0]
    validation.end()
    assert "of the time" in capsys.readouterr().err


def test_a_model_is_chosen_by_what_is_asked_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    experiment = prepared(tmp_path)
    shutil.rmtree(manyglot.train(experiment))
    capsys.readouterr()
    model = manyglot.train(
        experiment.model_copy(update={"training": experiment.training.model_copy(update={"best_by": None})})
    )
    assert "the weights of step 8, the last" in capsys.readouterr().err
    assert json.loads((model / "training.json").read_text("utf-8"))["step"] == 8


def test_a_run_that_falls_to_zero_at_its_end_has_one_end(tmp_path: Path) -> None:
    """A run that goes on is the uninterrupted one, or refused."""
    experiment = prepared(tmp_path, training={"schedule": "cosine", "max_steps": 4})
    shutil.rmtree(manyglot.train(experiment))
    longer = experiment.model_copy(update={"training": experiment.training.model_copy(update={"max_steps": 6})})
    with pytest.raises(ManyglotError, match=r"other settings \(training\.max_steps\)"):
        manyglot.train(longer)


def test_a_run_that_stops_early_is_logged_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int]
) -> None:
    monkeypatch.setattr(workflow, "_measures", lambda *_: [Scripted(BLEU, steps)])
    experiment = prepared(tmp_path, training={"patience": 2, "log_every": 50})
    manyglot.train(experiment)
    assert [line["step"] for line in read_log(experiment.run / "log.jsonl") if "loss" in line] == [6]
