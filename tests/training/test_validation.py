"""Validation during training: metrics, best checkpoints and early stopping."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.model.packing import pack_batch
from manyglot.model.transformer import Transformer
from manyglot.training.best_steps import SampleId
from manyglot.training.training_log import read_log
from manyglot.training.validation import DevLossEvaluator, Validator
from manyglot.workflows import train as workflow
from manyglot.workflows.train import initialize_model
from tests.conftest import packed_loss, tiny_experiment

TRAINING = {"max_steps": 8, "warmup_steps": 3, "checkpoint_every": 4, "validate_every": 1, "log_every": 4}
BLEU = [10.0, 30.0, 20.0, 40.0, 35.0, 34.0, 33.0, 32.0]
"""The scripted score of each step."""


class ScriptedEvaluator:
    """An evaluator with predefined scores. It recognizes the step from the sum of the embeddings."""

    metric_names: Sequence[str] = ("dev_bleu",)
    cost_setting = "validation.num_supervised_sentences"

    def __init__(self, values: Sequence[float], steps: Mapping[float, int]) -> None:
        self.values, self.steps = values, steps
        self.sample_id: SampleId = {"num_sentences": 1}

    def describe_dev_sample(self) -> str:
        return "a script"

    def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
        return {"dev_bleu": self.values[self.steps[float(model.embedding.weight.sum())] - 1]}, {}


class ScriptedLossEvaluator(ScriptedEvaluator):
    """An evaluator with predefined losses."""

    metric_names: Sequence[str] = ("dev_nll",)

    def __init__(self, values: Sequence[float], steps: Mapping[float, int], num_pairs: int = 9) -> None:
        super().__init__(values, steps)
        self.sample_id = {"num_pairs": num_pairs}

    def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
        return {"dev_nll": super().__call__(model)[0]["dev_bleu"]}, {}


NOISE = [0.2, 0.9, 0.18, 0.17, 0.4, 0.3, 0.1, 0.2]
LOSSES = [7.0, 6.0, 5.5, 5.0, 5.2, 5.1, 5.3, 5.4]
"""Scores within chance, and losses that are best in step 4."""


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[float, int]:
    """Map the sum of the embeddings to the step, learned from a separate run: evaluators do not get the step."""
    step_by_weight_sum: dict[float, int] = {}

    class Counting(ScriptedEvaluator):
        def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
            step_by_weight_sum[float(model.embedding.weight.sum())] = len(step_by_weight_sum) + 1
            return {"dev_bleu": 0.0}, {}

    with monkeypatch.context() as patch:
        patch.setattr(workflow, "_make_dev_evaluators", lambda *_: [Counting([], {})])
        manyglot.train(prepared(tmp_path / "counting"))
    return step_by_weight_sum


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


def test_the_best_step_becomes_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    experiment = prepared(tmp_path, training={"keep_best_checkpoints": 2, "keep_last_checkpoints": 2})
    model = manyglot.train(experiment).model_folder
    assert checkpoints(experiment) == [4, 5, 8], "4 and 5 are the best steps"
    assert same(model, experiment.run / "checkpoints" / "step-00000004")
    card = json.loads((model / "training.json").read_text("utf-8"))
    assert card.pop("source_lengths")
    assert card == {
        "steps": 8,
        "step": 4,
        "best_metric": "dev_bleu",
        "value": 40.0,
        "measured_on": {"num_sentences": 1},
    }
    assert "The model has the weights of step 4 of 8, the best by dev_bleu (40.00)." in capsys.readouterr().err


def test_without_a_best_metric_the_last_step_becomes_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int]
) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    experiment = prepared(tmp_path, training={"best_metric": None})
    model = manyglot.train(experiment).model_folder
    assert checkpoints(experiment) == [4, 8]
    assert same(model, experiment.run / "checkpoints" / "step-00000008")
    training = json.loads((model / "training.json").read_text("utf-8"))
    assert training.pop("source_lengths")
    assert training == {"steps": 8, "step": 8, "best_metric": None}


@pytest.mark.parametrize(("patience", "ends"), [(1, 3), (2, 6), (3, 7), (None, 8)])
def test_a_run_without_improvement_stops_early(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: dict[float, int],
    capsys: pytest.CaptureFixture[str],
    patience: int | None,
    ends: int,
) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    experiment = prepared(tmp_path, training={"patience": patience})
    model = manyglot.train(experiment).model_folder
    assert read_log(experiment.run / "log.jsonl")[-1]["step"] == ends
    stderr = capsys.readouterr().err
    assert ("dev_bleu has not improved" in stderr) == (ends < 8)
    manyglot.train(experiment)
    early = ", where it stopped early" if ends < 8 else ""
    assert f"already trained to step {ends}{early}; its model" in capsys.readouterr().err
    shutil.rmtree(model)
    manyglot.train(experiment)
    assert "Resuming from" in capsys.readouterr().err
    assert read_log(experiment.run / "log.jsonl")[-1]["step"] == ends, "the model is written again without training"


@pytest.mark.parametrize("crash_at", range(2, 7))
def test_an_interrupted_run_selects_the_same_best_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], crash_at: int
) -> None:
    """The best steps and the patience counter come from the checkpoint."""

    class Crashing(ScriptedEvaluator):
        def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
            if self.steps[float(model.embedding.weight.sum())] == crash_at:
                raise KeyboardInterrupt
            return super().__call__(model)

    whole, broken = (
        prepared(tmp_path / name, training={"patience": 3, "keep_best_checkpoints": 2}) for name in ("whole", "broken")
    )
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [Crashing(BLEU, steps)])
    with pytest.raises(KeyboardInterrupt):
        manyglot.train(broken)
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    expected, got = manyglot.train(whole).model_folder, manyglot.train(broken).model_folder
    assert checkpoints(broken) == checkpoints(whole) == [4, 5, 7]
    assert same(expected, got)
    states = [
        json.loads((e.run / "checkpoints/step-00000007/progress.json").read_text("utf-8")) for e in (whole, broken)
    ]
    assert states[0] == states[1]
    criterion = {"metric": "dev_bleu", "sample_id": {"num_sentences": 1}, "loss_sample_id": None}
    assert states[0]["best_steps"] == {
        "criterion": criterion,
        "scores": [[4, "dev_bleu", 40.0], [5, "dev_bleu", 35.0]],
        "num_validations_without_improvement": 3,
    }


@pytest.mark.parametrize("crash_at", [None, 5])
def test_the_loss_selects_the_best_step_while_bleu_is_within_chance(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: dict[float, int],
    capsys: pytest.CaptureFixture[str],
    crash_at: int | None,
) -> None:
    """It also decides which checkpoints are kept and when to stop, in a resumed run too."""

    class Crashing(ScriptedLossEvaluator):
        def __call__(self, model: Transformer) -> tuple[dict[str, float], dict[Direction, dict[str, float]]]:
            if self.steps[float(model.embedding.weight.sum())] == crash_at:
                raise KeyboardInterrupt
            return super().__call__(model)

    experiment = prepared(tmp_path, training={"patience": 3, "keep_best_checkpoints": 2, "keep_last_checkpoints": 1})
    for evaluator in (Crashing, ScriptedLossEvaluator) if crash_at else (ScriptedLossEvaluator,):
        scripted = [evaluator(LOSSES, steps), ScriptedEvaluator(NOISE, steps)]
        monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_, evaluators=scripted: evaluators)
        with pytest.raises(KeyboardInterrupt) if evaluator is Crashing else nullcontext():
            manyglot.train(experiment)
    assert checkpoints(experiment) == [4, 6, 7]
    assert same(experiment.run / "model", experiment.run / "checkpoints" / "step-00000004")
    card = json.loads((experiment.run / "model" / "training.json").read_text("utf-8"))
    del card["source_lengths"]
    assert card == {"steps": 7, "step": 4, "best_metric": "dev_nll", "value": 5.0, "measured_on": {"num_pairs": 9}}
    stderr = capsys.readouterr().err
    assert "dev_bleu selects the best step, or dev_nll up to a dev_bleu of 2." in stderr
    assert "best dev 5.00 at 4" in stderr
    assert "Stopped at step 7: dev_nll has not improved for 3 validations." in stderr
    assert "step 4 of 7, the best by dev_nll (5.00); dev_bleu was never above chance." in stderr


@pytest.mark.parametrize(("bleu", "expected_step", "restarts"), [(NOISE, 6, True), (BLEU, 4, False)])
def test_a_changed_loss_sample_matters_only_while_the_loss_selects(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: dict[float, int],
    capsys: pytest.CaptureFixture[str],
    bleu: list[float],
    expected_step: int,
    restarts: bool,
) -> None:
    for max_steps, num_pairs in ((5, 9), (8, 8)):
        scripted = [ScriptedLossEvaluator(LOSSES, steps, num_pairs), ScriptedEvaluator(bleu, steps)]
        monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_, evaluators=scripted: evaluators)
        model = manyglot.train(prepared(tmp_path, training={"max_steps": max_steps})).model_folder
        step = json.loads((model / "training.json").read_text("utf-8"))["step"]
        shutil.rmtree(model)
    assert step == expected_step
    message = "(was dev_bleu on num sentences 1; dev_nll on num pairs 9); best-step tracking restarts."
    assert (message in capsys.readouterr().err) == restarts


def test_a_damaged_best_checkpoint_is_replaced_by_the_next_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    experiment = prepared(tmp_path, training={"keep_best_checkpoints": 2})
    model = manyglot.train(experiment).model_folder
    for step, expected in ((4, 5), (5, 8)):
        shutil.rmtree(model)
        (experiment.run / f"checkpoints/step-{step:08d}/model.safetensors").write_bytes(b"oops")
        manyglot.train(experiment)
        assert f"step-{step:08d} is damaged and skipped" in capsys.readouterr().err
        assert json.loads((model / "training.json").read_text("utf-8"))["step"] == expected


def test_a_changed_sample_restarts_best_step_tracking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    shutil.rmtree(manyglot.train(prepared(tmp_path, training={"max_steps": 5})).model_folder)
    other = ScriptedEvaluator(BLEU, steps)
    other.sample_id = {"num_sentences": 2}
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [other])
    model = manyglot.train(prepared(tmp_path)).model_folder
    assert "(was dev_bleu on num sentences 1); best-step tracking restarts." in capsys.readouterr().err
    assert json.loads((model / "training.json").read_text("utf-8"))["step"] == 6


def measured(experiment: Experiment) -> list[dict[str, Any]]:
    return [line for line in read_log(experiment.run / "log.jsonl") if "validation" in line]


def test_all_metrics_are_logged_for_each_direction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = prepared(tmp_path, training={"validate_every": 4})
    manyglot.train(experiment)
    names = {"dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf"}
    supervised = {direction.as_setting() for direction in PreparedDataset(experiment.data).train_directions}
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
    stderr = capsys.readouterr().err
    assert "dev_bleu, dev_chrf on 32 of 32 sentences in 4 of 4 directions" in stderr
    assert (
        "zero_shot_language_accuracy, zero_shot_chrf on 16 of 16 sentences in 2 of 2 directions, identified by char"
        in stderr
    )
    assert "dev_bleu selects the best step, or dev_nll up to a dev_bleu of 2." in stderr
    assert "Validation took " in stderr
    for name in ("BLEU", "chrF++", "zero-shot LangAcc", "best"):
        assert name in stderr.split("training 8/8 done")[1], "the progress note"


def test_validation_does_not_affect_training(tmp_path: Path) -> None:
    """Neither the random state nor the training mode."""
    model = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model["dropout"] = 0.3  # type: ignore[assignment]
    with_it, without = (
        prepared(tmp_path / name, model=model, training={"best_metric": None}, validation=validation)
        for name, validation in (
            ("with", {}),
            ("without", {"num_loss_pairs": 0, "num_supervised_sentences": 0, "num_zero_shot_sentences": 0}),
        )
    )
    assert same(manyglot.train(with_it).model_folder, manyglot.train(without).model_folder)
    assert measured(with_it)
    assert not measured(without)


def sampled(experiment: Experiment) -> list[object]:
    """Return the sample of each evaluator: rows by direction, or sentence pairs by batch."""
    dataset = PreparedDataset(experiment.data)
    tags = workflow.initialize_model(experiment, dataset).tags_by_language()
    evaluators = workflow._make_dev_evaluators(experiment, dataset, tags, dataset.train_directions, torch.device("cpu"))
    samples: list[object] = []
    for evaluator in evaluators:
        if isinstance(evaluator, DevLossEvaluator):
            samples.append([list(batch.text_locations()) for batch, _ in evaluator.batches])
        else:
            samples.append(evaluator.rows_by_direction)  # type: ignore[attr-defined]
    return samples


def test_runs_are_validated_on_the_same_sentences(tmp_path: Path) -> None:
    """Also with another seed and other sampling weights."""
    validation = {"num_loss_pairs": 10, "num_supervised_sentences": 10, "num_zero_shot_sentences": 10}
    experiment = prepared(tmp_path, validation=validation, batches={"max_tokens": 50})
    batches = experiment.batches.model_copy(update={"target_weights": {"qaa": 0.1}, "temperature": 1.0})
    other = experiment.model_copy(update={"seed": 2, "batches": batches})
    assert len(sampled(experiment)) == 3
    assert sampled(experiment) == sampled(other)


def test_the_dev_loss_covers_the_whole_split_or_a_sample(tmp_path: Path) -> None:
    experiment = prepared(tmp_path)
    dataset = PreparedDataset(experiment.data)
    model = initialize_model(experiment, dataset).eval()
    batches = experiment.batches.model_copy(update={"max_tokens": 60, "temperature": None})
    loader = BatchLoader(dataset.token_store(Split.DEV), dataset.train_directions, batches, model.tags_by_language(), 1)
    scores, directions = DevLossEvaluator(loader, 10_000, torch.device("cpu"), "float32")(model)
    every = [batch for batch, _ in islice(loader.iter_batches(DataPosition()), loader.plan.num_batches(0))]
    total = sum(packed_loss(model, pack_batch(batch), 0.0).nll_L.sum().item() for batch in every)
    assert scores["dev_nll"] == pytest.approx(total / sum(batch.num_target_tokens for batch in every))
    assert set(directions) == set(dataset.train_directions)
    assert DevLossEvaluator(loader, 10_000, torch.device("cpu"), "float32").sample_id == {"num_pairs": 32}
    first, _ = next(loader.iter_planned_batches(DataPosition()))
    short = DevLossEvaluator(loader, 1, torch.device("cpu"), "float32")
    assert short.sample_id == {"num_pairs": len(first.source_indices)}
    assert short.describe_dev_sample() == f"{len(first.source_indices)} sentence pairs"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training": {"best_metric": "zero_shot_language_accuracy"}, "corpus": {"central_language": None}},
            r"training\.best_metric: zero_shot_language_accuracy needs dev text, zero-shot directions",
        ),
        (
            {"training": {"best_metric": "dev_bleu"}, "validation": {"num_supervised_sentences": 0}},
            r"validation\.num_supervised_sentences above 0",
        ),
        (
            {"training": {"patience": 2}, "corpus": {"dev_rows": 0}},
            r"training\.patience: .* computes no metric",
        ),
        ({"training": {"patience": 2, "best_metric": None}}, r"training\.patience: .*best_metric is null"),
    ],
)
def test_unavailable_metrics_are_refused_before_the_run(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    corpus = {"kind": "synthetic", "num_languages": 3, "train_rows": 60, "dev_rows": 8, "test_rows": 8}
    experiment = prepared(tmp_path, **{**changes, "corpus": {**corpus, **changes.get("corpus", {})}})
    with pytest.raises(ManyglotError, match=message):
        manyglot.train(experiment)
    assert not experiment.run.exists()


def test_expensive_validation_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("manyglot.training.validation.time.monotonic", lambda: next(clock))
    validation = Validator([ScriptedEvaluator([1.0], {0.0: 1})], "auto", None)
    model = torch.nn.Module()
    model.embedding = torch.nn.Embedding.from_pretrained(torch.zeros(1, 1))
    for _ in range(3):
        validation(model)  # type: ignore[arg-type]
    stderr = capsys.readouterr().err.splitlines()
    assert len(stderr) == 1, "one message"
    assert "lower validation.num_supervised_sentences or raise training.validate_every" in stderr[0]
    validation.report_time()
    assert "of the run time" in capsys.readouterr().err


def test_the_current_best_metric_selects_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    experiment = prepared(tmp_path)
    shutil.rmtree(manyglot.train(experiment).model_folder)
    capsys.readouterr()
    model = manyglot.train(
        experiment.model_copy(update={"training": experiment.training.model_copy(update={"best_metric": None})})
    ).model_folder
    assert "the weights of the last step, 8" in capsys.readouterr().err
    assert json.loads((model / "training.json").read_text("utf-8"))["step"] == 8


def test_a_schedule_that_decays_to_zero_fixes_max_steps(tmp_path: Path) -> None:
    """A resumed run equals the uninterrupted run, or it is refused."""
    experiment = prepared(tmp_path, training={"lr_schedule": "cosine", "max_steps": 4})
    shutil.rmtree(manyglot.train(experiment).model_folder)
    longer = experiment.model_copy(update={"training": experiment.training.model_copy(update={"max_steps": 6})})
    with pytest.raises(ManyglotError, match=r"different settings \(training\.max_steps\)"):
        manyglot.train(longer)


def test_an_early_stop_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[float, int]) -> None:
    monkeypatch.setattr(workflow, "_make_dev_evaluators", lambda *_: [ScriptedEvaluator(BLEU, steps)])
    experiment = prepared(tmp_path, training={"patience": 2, "log_every": 50})
    manyglot.train(experiment)
    assert [line["step"] for line in read_log(experiment.run / "log.jsonl") if "loss" in line] == [6]
