"""Training starts from the weights of another model, of manyglot or imported, and resumes without it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import manyglot
from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment, load_experiment, resolve_init
from manyglot.corpus.base import Split
from manyglot.errors import ManyglotError
from manyglot.model.model_card import CARD_NAME
from manyglot.model.model_folder import load_model
from manyglot.model.packing import pack_batch
from manyglot.model.run_models import list_checkpoints
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import copy_weights
from manyglot.training.callbacks import StepEvent
from manyglot.workflows.train import dry_run, initialize_model
from tests.conftest import packed_loss
from tests.importers.random_checkpoints import write_checkpoint

NO_VALIDATION = {"num_loss_pairs": 0, "num_supervised_sentences": 0, "num_zero_shot_sentences": 0}
NUMBERS = {"de": "eins zwei drei vier fünf", "en": "one two three four five", "ka": "ერთი ორი სამი ოთხი ხუთი"}


def started_from(trained: Experiment, model: Path, run: Path, **changes: Any) -> dict[str, Any]:
    """Return the settings of a run on the same data that starts from a model and states nothing about its own."""
    values = trained.to_dict() | {"run": str(run), "init": {"model": str(model)}, "validation": NO_VALIDATION}
    return {name: value for name, value in values.items() if name not in ("model", "guidance")} | changes


def test_the_first_loss_is_that_of_the_old_model(trained: Experiment, tmp_path: Path) -> None:
    experiment, old = resolve_init(load_experiment(started_from(trained, trained.run, tmp_path / "run", seed=2)))
    assert old is not None
    assert (experiment.model, experiment.guidance) == (trained.model, trained.guidance)
    dataset = PreparedDataset(experiment.data)
    model = initialize_model(experiment, dataset).eval()
    store, tags = dataset.token_store(Split.TRAIN), model.tags_by_language()
    loader = BatchLoader(store, dataset.train_directions, experiment.batches, tags, seed=1)
    batch = pack_batch(next(iter(loader.iter_planned_batches(DataPosition())))[0].load())

    def loss(model: Transformer) -> torch.Tensor:
        return packed_loss(model, batch, 0.1).to_vector()

    assert not torch.equal(loss(model), loss(old.model))
    copy_weights(old, model, dataset.vocabulary, "old")
    assert torch.equal(loss(model), loss(old.model))


def test_a_run_resumes_exactly_without_the_old_model(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Path(shutil.copytree(trained.run / "model", tmp_path / "old"))
    whole = manyglot.train(started_from(trained, old, tmp_path / "whole"))
    assert "3 copied (qaa, qab, qac), 0 new, 0 dropped" in capsys.readouterr().err
    values = started_from(trained, old, tmp_path / "run")

    def stop(event: StepEvent) -> None:
        if event.step == 3:
            event.request_stop()

    with pytest.raises(ManyglotError, match="Stopped at step 3"):
        manyglot.train(values, on_step=stop)
    shutil.rmtree(old)
    assert dry_run(values).resume_status.status == "resumes"
    assert manyglot.describe(values).model["width"] == trained.model.width
    for changed in ({"init": {"model": str(trained.run)}}, {"init": None}):
        with pytest.raises(ManyglotError, match=r"holds a run with different settings .*init"):
            manyglot.train(values | changed)
    resumed = manyglot.train(load_experiment(values))
    assert "Starting from" not in capsys.readouterr().err.split("Stopped at step 3")[-1].split("Resuming")[-1]
    weights, expected = (load_model(result.model_folder).model.state_dict() for result in (resumed, whole))
    assert all(torch.equal(weight, expected[name]) for name, weight in weights.items())
    assert "started from the weights of `old` (license: see" in (resumed.model_folder / CARD_NAME).read_text("utf-8")
    config = load_model(resumed.model_folder).config
    assert config["init"]["model"] == str(old)
    assert config["model"] == trained.to_dict()["model"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": {"model": "nowhere"}}, "init.model: nowhere does not exist"),
        ({"init": {}}, "init.model is required"),
        ({"init": "nowhere"}, r"init should contain settings \(model, freeze\)"),
        ({"model": {"width": 32}}, "model.width is 32, but 16 in .*Remove model.width"),
        ({"model": {"positions": "learned", "max_positions": 128}}, "model.positions is learned, but sinusoidal in"),
        ({"model": {"num_decoder_layers": 2}}, "model.num_decoder_layers is 2, but 1 in"),
        ({"model": {"norm": "pre", "dropout": 0.2}}, "model.norm is pre, but post in"),
        ({"guidance": []}, "an empty list does not tell the model its target language"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    changes: dict[str, Any], message: str, trained: Experiment, tmp_path: Path
) -> None:
    values = started_from(trained, trained.run / "model", tmp_path / "run") | changes
    with pytest.raises(ManyglotError, match=message) as info:
        manyglot.train(values)
    assert "\n" not in str(info.value)
    assert not list(tmp_path.iterdir())


def test_dropout_and_guidance_may_differ(trained: Experiment, tmp_path: Path) -> None:
    """So may languages and subwords."""
    values = started_from(trained, trained.run, tmp_path / "run", data=str(tmp_path / "data"))
    values["corpus"] = {"kind": "synthetic", "num_languages": 4, "train_rows": 60, "dev_rows": 8, "test_rows": 8}
    values |= {"vocabulary": {"size": 100}, "model": {"dropout": 0.3}, "guidance": [{"method": "adapter"}]}
    manyglot.prepare(values)
    model = load_model(manyglot.train(values).model_folder)
    assert len(model.vocabulary.languages) == 4
    assert (model.model.settings.dropout, model.model.settings.width) == (0.3, 16)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_imported_model_is_trained_on_own_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    text = tmp_path / "text"
    text.mkdir()
    for code, numbers in NUMBERS.items():
        words = numbers.split()
        rows = [" ".join(words[(i // 5**j) % 5] for j in range(3)) for i in range(125)]
        for split, lines in {"train": rows[:100], "dev": rows[100:110], "test": rows[110:]}.items():
            (text / f"{split}.{code}").write_text("\n".join(lines) + "\n", "utf-8")
    write_checkpoint("nllb", tmp_path / "nllb", [*NUMBERS.values()] * 3, size=80)
    imported = manyglot.import_model(tmp_path / "nllb", tmp_path / "model")
    values = {
        "data": str(tmp_path / "data"),
        "run": str(tmp_path / "run"),
        "init": {"model": str(imported)},
        "corpus": {"kind": "multiway", "path": str(text), "languages": ["de", "en", "ka"], "central_language": "en"},
        "vocabulary": {"sentencepiece_model": str(imported / "subwords.model")},
        "batches": {"max_tokens": 400},
        "training": {"max_steps": 20, "warmup_steps": 2, "learning_rate": 0.002},
        "validation": NO_VALIDATION,
    }
    manyglot.prepare(values)
    losses: list[float] = []
    result = manyglot.train(values, on_step=lambda event: losses.append(event.loss))
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    printed = capsys.readouterr().err
    assert "3 copied (de from deu_Latn, en from eng_Latn, ka from kat_Geor), 0 new, 1 dropped (zho_Hans)" in printed
    assert "0 new (mean of old subwords), 0 new (random: unknown characters), 0 dropped" in printed
    assert len(list_checkpoints(tmp_path / "run" / "checkpoints")) == 1
    model = manyglot.load(result, device="cpu").with_settings(max_length=5)
    assert len(model.translate(["eins zwei"], to="ka", source="de")) == 1
