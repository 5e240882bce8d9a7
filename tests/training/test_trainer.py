from __future__ import annotations

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import DATASET_KIND, PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.distributed import DistributedContext
from manyglot.errors import ManyglotError
from manyglot.model.packing import pack_batch
from manyglot.sealed_json import read_sealed_json, write_sealed_json
from manyglot.training import trainer
from manyglot.training.schedule import learning_rate_at_step
from manyglot.training.step import EagerStep
from manyglot.training.training_log import read_log
from manyglot.training.validation import Validator
from manyglot.workflows.train import initialize_model
from tests.conftest import packed_loss, tiny_experiment, tiny_model

SMALL = {"width": 16, "ffn_width": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
TRAINING = {"max_steps": 9, "warmup_steps": 3, "checkpoint_every": 4, "validate_every": 3, "log_every": 1}


def prepared(folder: Path, **changes: object) -> Experiment:
    experiment = tiny_experiment(folder, model={**SMALL, "dropout": 0.3}, **changes)
    manyglot.prepare(experiment)
    return experiment


def losses(experiment: Experiment) -> list[tuple[int, float, float | None]]:
    lines = read_log(experiment.run / "log.jsonl")
    return [(line["step"], line.get("loss", line.get("dev_nll")), line.get("alignment")) for line in lines]


@pytest.mark.parametrize(("gradient_accumulation", "alignment"), [(1, None), (3, None), (3, {"every_nth_pair": 2})])
@pytest.mark.parametrize("crash_at", [3, 6, 9])
@pytest.mark.parametrize("log_every", [1, 3])
def test_an_interrupted_run_equals_the_uninterrupted_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crash_at: int,
    gradient_accumulation: int,
    alignment: dict[str, int] | None,
    log_every: int,
) -> None:
    """Bit for bit, with dropout: the weights and every line of the log."""
    training = {
        **TRAINING,
        "gradient_accumulation": gradient_accumulation,
        "alignment": alignment,
        "log_every": log_every,
    }
    guidance = [{"method": "adapter" if alignment else "token"}]
    whole, broken = (prepared(tmp_path / name, guidance=guidance, training=training) for name in ("whole", "broken"))
    manyglot.train(whole)

    validate = Validator.__call__
    calls = iter(range(3, 100, 3))

    def fail_once(*arguments: object) -> object:
        if next(calls) == crash_at:
            raise KeyboardInterrupt
        return validate(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Validator, "__call__", fail_once)
        with pytest.raises(KeyboardInterrupt):
            manyglot.train(broken)
    manyglot.train(broken)

    expected, got = (load_file(e.run / "model" / "model.safetensors") for e in (whole, broken))
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    assert losses(broken) == losses(whole)


def test_a_truncated_last_log_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"ste')
    assert read_log(path) == [{"step": 1}, {"step": 2}]


def test_training_learns_and_logs(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "max_steps": 40, "learning_rate": 0.01, "validate_every": 20})
    manyglot.train(experiment)
    log = read_log(experiment.run / "log.jsonl")
    training = [line for line in log if "loss" in line]
    assert [line["step"] for line in training] == list(range(1, 41))
    assert training[-1]["loss"] < training[0]["loss"] - 0.5
    assert {"epoch", "nll", "learning_rate", "tokens_per_second"} <= training[0].keys()
    assert [line["step"] for line in log if "dev_nll" in line] == [20, 40]


def test_the_optimizer_has_the_settings_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Remembered(torch.optim.AdamW):
        def __init__(self, *arguments: object, **settings: object) -> None:
            super().__init__(*arguments, **settings)  # type: ignore[arg-type]
            made.append(settings)

    monkeypatch.setattr(torch.optim, "AdamW", Remembered)
    training = {**TRAINING, "adam_betas": [0.8, 0.95], "weight_decay": 0.3}
    experiment = prepared(tmp_path, training=training)
    manyglot.train(experiment)
    assert made == [{"betas": (0.8, 0.95), "weight_decay": 0.3, "fused": True}]
    rates = [line["learning_rate"] for line in read_log(experiment.run / "log.jsonl") if "loss" in line]
    assert rates == [learning_rate_at_step("inverse_square_root", step, 5e-4, 3, 9) for step in range(1, 10)]


def test_gradients_are_clipped(tmp_path: Path) -> None:
    model = tiny_model()
    for max_grad_norm, expected in ((None, 4.0), (1.0, 1.0)):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        assert model.embedding.weight.grad is not None
        model.embedding.weight.grad[5, 3] = 4.0
        seen: list[float] = []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        optimizer.register_step_pre_hook(lambda *_: seen.append(float(model.embedding.weight.grad.norm())))  # type: ignore[union-attr] # noqa: B023
        trainer.clip_and_step_optimizer(model, optimizer, trainer.TrainingSettings(max_grad_norm=max_grad_norm), step=1)
        assert seen == [pytest.approx(expected)]


def test_a_non_finite_loss_is_reported_with_its_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "max_steps": 9})
    monkeypatch.setattr(trainer, "learning_rate_at_step", lambda *_: 1e38)
    with pytest.raises(
        ManyglotError, match=r"NaN or infinite at step 2 \(\d+ sentence pairs, most of them q.*→q"
    ) as error:
        manyglot.train(experiment)
    path = experiment.run / "not-a-number-2.json"
    assert str(path) in str(error.value)
    pairs = json.loads(path.read_text("utf-8"))["pairs"]
    rows = PreparedDataset(experiment.data).rows(Split.TRAIN)
    assert all(source != target and {source, target} <= rows[line - 1].keys() for source, target, line in pairs)


def test_the_log_has_the_loss_of_each_target_language(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, training=TRAINING)
    manyglot.train(experiment)
    for line in read_log(experiment.run / "log.jsonl"):
        if "loss" in line:
            parts = line["into"].values()
            assert line["into"].keys() <= {"qaa", "qab", "qac"}
            tokens = sum(part["tokens"] for part in parts)
            assert sum(part["nll"] * part["tokens"] for part in parts) / tokens == pytest.approx(line["nll"])


def test_non_finite_weights_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "max_steps": 1})
    monkeypatch.setattr(trainer, "learning_rate_at_step", lambda *_: 1e38)
    with pytest.raises(ManyglotError, match="NaN or infinite after step 1"):
        manyglot.train(experiment)
    assert not (experiment.run / "model").exists()
    assert not list((experiment.run / "checkpoints").glob("*"))


def test_a_run_does_not_resume_with_different_data(tmp_path: Path) -> None:
    experiment = prepared(tmp_path)
    shutil.rmtree(manyglot.train(experiment).model_folder)
    metadata = read_sealed_json(experiment.data / "dataset.json", DATASET_KIND)
    write_sealed_json(experiment.data / "dataset.json", DATASET_KIND, metadata | {"dropped": {"other": "data"}})
    with pytest.raises(ManyglotError, match="trained on different data"):
        manyglot.train(experiment)


def test_accumulated_batches_equal_one_larger_batch(tmp_path: Path) -> None:
    """The gradients of two batches, weighted by their tokens, equal those of one combined batch."""
    experiment = prepared(tmp_path)
    dataset = PreparedDataset(experiment.data)
    model = initialize_model(experiment, dataset).double().eval()
    loader = BatchLoader(
        dataset.token_store(Split.TRAIN), dataset.train_directions, experiment.batches, model.tags_by_language(), 1
    )
    planned = [batch for batch, _ in islice(loader.iter_planned_batches(DataPosition()), 2)]
    one, two = (batch.load() for batch in planned)
    assert [batch.num_target_tokens_by_language().sum() for batch in planned] == [
        one.num_target_tokens,
        two.num_target_tokens,
    ]
    settings, device = experiment.training, torch.device("cpu")
    step = EagerStep(model, settings.label_smoothing, device, "float32")
    trainer.accumulate_and_all_reduce_gradients(model, step, planned, DistributedContext(device), seed=1, step=1)
    got = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    total = sum(packed_loss(model, pack_batch(batch), settings.label_smoothing).label_smoothed for batch in (one, two))
    (total / (one.num_target_tokens + two.num_target_tokens)).backward()  # type: ignore[union-attr]
    assert got.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(got[name], parameter.grad)


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "checkpoint_every": 1, "keep_last_checkpoints": 2})
    manyglot.train(experiment)
    checkpoint_names = sorted(path.name for path in (experiment.run / "checkpoints").iterdir())
    assert checkpoint_names == ["step-00000008", "step-00000009"]


def test_equal_seeds_give_equal_runs(tmp_path: Path) -> None:
    runs = [prepared(tmp_path / str(i), seed=seed) for i, seed in enumerate((1, 1, 2))]
    for run in runs:
        manyglot.train(run)
    assert losses(runs[0]) == losses(runs[1]) != losses(runs[2])


def test_a_finished_run_is_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = prepared(tmp_path)
    manyglot.train(experiment)
    before = losses(experiment)
    manyglot.train(experiment)
    assert "already trained to step 6" in capsys.readouterr().err
    assert losses(experiment) == before


def test_a_run_with_different_settings_is_refused(tmp_path: Path) -> None:
    experiment = prepared(tmp_path)
    manyglot.train(experiment)
    with pytest.raises(ManyglotError, match=r"different settings \(seed, "):
        manyglot.train(
            tiny_experiment(
                tmp_path,
                model={**SMALL, "dropout": 0.3},
                seed=5,
                training={**TRAINING, "max_steps": 10, "checkpoint_every": 2},
            )
        )


def test_settings_that_do_not_affect_the_weights_may_change(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, training=TRAINING)
    manyglot.train(experiment)
    training = experiment.training.model_copy(update={"log_every": 7, "device": "cpu"})
    decoding = experiment.decoding.model_copy(update={"beam_size": 1})
    changed = experiment.model_copy(update={"training": training, "decoding": decoding})
    assert manyglot.train(changed).model_folder == experiment.run / "model"


def test_settings_may_change_before_the_first_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = {**TRAINING, "max_steps": 60, "checkpoint_every": 50}
    experiment = prepared(tmp_path, training=training)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "learning_rate_at_step", lambda *_: 1e30)
        with pytest.raises(ManyglotError, match="NaN or infinite"):
            manyglot.train(experiment)
    manyglot.train(prepared(tmp_path, training={**training, "learning_rate": 1e-3, "max_steps": 2}))


def test_refused_settings_create_no_run(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match=r"batches\.max_tokens: 5 is smaller"):
        manyglot.train(prepared(tmp_path, batches={"max_tokens": 5}))
    assert not (tmp_path / "run").exists()


def test_a_run_can_be_extended(tmp_path: Path) -> None:
    """An extended run equals a run that was longer from the start."""
    longer = {**TRAINING, "max_steps": 9}
    manyglot.train(prepared(tmp_path / "at once", training=longer))
    short = prepared(tmp_path / "in two", training={**TRAINING, "max_steps": 5})
    model = manyglot.train(short).model_folder
    with pytest.raises(ManyglotError, match=r"is trained to step 5\. To continue training, delete"):
        manyglot.train(prepared(tmp_path / "in two", training=longer))
    shutil.rmtree(model)
    with pytest.raises(ManyglotError, match="already at step 5, beyond 4"):
        manyglot.train(prepared(tmp_path / "in two", training={**TRAINING, "max_steps": 4}))
    manyglot.train(prepared(tmp_path / "in two", training=longer))
    one, two = (load_file(tmp_path / name / "run/model/model.safetensors") for name in ("at once", "in two"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    experiment = prepared(tmp_path)
    experiment.run.mkdir()
    (experiment.run / "thesis.txt").write_text("years of work")
    with pytest.raises(ManyglotError, match="is not a run folder"):
        manyglot.train(experiment)
    assert [path.name for path in experiment.run.iterdir()] == ["thesis.txt"]


def test_missing_prepared_data_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match="Run `manyglot prepare` first"):
        manyglot.train(tiny_experiment(tmp_path))
    assert not (tmp_path / "run").exists()


def test_data_prepared_with_different_settings_is_refused(tmp_path: Path) -> None:
    prepared(tmp_path)
    with pytest.raises(ManyglotError, match=r"other text or settings \(vocabulary changed\)"):
        manyglot.train(tiny_experiment(tmp_path, vocabulary={"size": 121}))


def test_a_corpus_without_dev_text_is_trained_without_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = prepared(tmp_path, corpus={"kind": "synthetic", "train_rows": 60, "dev_rows": 0})
    manyglot.train(experiment)
    assert "no dev text" in capsys.readouterr().err
    assert all("dev_nll" not in line for line in read_log(experiment.run / "log.jsonl"))


def test_a_non_finite_loss_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "max_steps": 60})
    monkeypatch.setattr(trainer, "learning_rate_at_step", lambda *_: 1e30)
    with pytest.raises(ManyglotError, match="The loss is NaN or infinite at step"):
        manyglot.train(experiment)


def test_a_missing_device_is_refused(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "device": "cuda:77"})
    with pytest.raises(ManyglotError, match="'cuda:77' does not exist on this machine"):
        manyglot.train(experiment)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_bfloat16_on_a_gpu_learns(tmp_path: Path) -> None:
    experiment = prepared(tmp_path, training={**TRAINING, "max_steps": 40, "learning_rate": 0.01, "device": "cuda"})
    manyglot.train(experiment)
    training = [line["loss"] for line in read_log(experiment.run / "log.jsonl") if "loss" in line]
    assert training[-1] < training[0] - 0.5
