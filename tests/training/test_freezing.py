"""Frozen parts keep the weights of the model of `init`; what is new in them is trained."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import ManyglotError
from manyglot.model.guidance.adapter import AdapterSettings
from manyglot.model.model_folder import TrainedModel, load_model
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import NewEntries
from manyglot.training.callbacks import StepEvent
from manyglot.training.freezing import EverythingBut, FrozenWeights
from manyglot.workflows.train import dry_run

NO_VALIDATION = {"num_loss_pairs": 0, "num_supervised_sentences": 0, "num_zero_shot_sentences": 0}
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])
PARTS = ("encoder", "decoder", "embeddings", "guidance")


def settings_of(trained: Experiment, run: Path, freeze: Any, **changes: Any) -> dict[str, Any]:
    values = trained.to_dict() | {"run": str(run), "validation": NO_VALIDATION}
    values["init"] = {"model": str(trained.run / "model"), "freeze": freeze}
    values["training"] |= {"max_grad_norm": 0.1, "weight_decay": 0.5, "learning_rate": 0.01, "warmup_steps": 0}
    return {name: value for name, value in values.items() if name not in ("model", "guidance")} | changes


def train(values: Mapping[str, Any]) -> TrainedModel:
    return load_model(manyglot.train(values).model_folder)


def changed_parts(old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> set[str]:
    changed = {name.split(".")[0].split("_")[0] for name in old if not torch.equal(old[name], new[name])}
    return {"embeddings" if name in ("embedding", "output") else name for name in changed}


@pytest.mark.parametrize(
    ("freeze", "is_trained"),
    [
        (["encoder", "embeddings"], {"decoder", "guidance"}),
        ({"everything_but": ["guidance"]}, {"guidance"}),
        ({"everything_but": ["decoder", "embeddings"]}, {"decoder", "embeddings"}),
    ],
)
def test_frozen_parts_keep_their_weights(
    freeze: Any, is_trained: set[str], trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = load_model(trained.run / "model").model
    values = settings_of(trained, tmp_path / "run", freeze, guidance=[{"method": "adapter"}])
    values["init"]["model"] = str(with_adapter(trained, tmp_path))
    old = load_model(Path(values["init"]["model"])).model
    new = train(values).model
    assert changed_parts(old.state_dict(), new.state_dict()) == is_trained
    counts = old.num_parameters_by_part()
    number = sum(n for name, n in counts.items() if part_of(name) in is_trained)
    assert f"{number:,} of {sum(counts.values()):,} parameters are trained" in capsys.readouterr().err


ALL_BUT_GUIDANCE = EverythingBut(everything_but=("guidance",))


@pytest.mark.parametrize(
    ("frozen", "trains_encoder"),
    [
        (FrozenWeights(), True),
        (FrozenWeights(("decoder", "guidance")), True),
        (FrozenWeights(("encoder",)), True),  # the encoder reads the embeddings
        (FrozenWeights(ALL_BUT_GUIDANCE), False),
        (FrozenWeights(ALL_BUT_GUIDANCE, {"embedding.weight": NewEntries(0, (8,))}), True),
        (FrozenWeights(ALL_BUT_GUIDANCE, {"embedding.weight": NewEntries(0, (12,))}), False),  # a tag
    ],
)
def test_frozen_weights_know_if_the_encoder_is_trained(frozen: FrozenWeights, trains_encoder: bool) -> None:
    model = Transformer(ModelSettings(width=4, ffn_width=4, num_heads=1), [AdapterSettings()], 12, 3)
    frozen.apply(model)
    assert frozen.trains_encoder(model) == trains_encoder


def test_a_frozen_encoder_is_not_aligned(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = {"batches": {"max_tokens": 3000}}
    for number, freeze in enumerate(([], {"everything_but": ["guidance"]})):
        values = settings_of(trained, tmp_path / "run", freeze, guidance=[{"method": "adapter"}], **batches)
        dry_run(values)
        printed = capsys.readouterr().err
        assert ("alignment" in printed) == (number == 0)


def part_of(name: str) -> str:
    return "embeddings" if name == "embedding" else name.split(".")[0].split("_")[0]


def with_adapter(trained: Experiment, folder: Path) -> Path:
    values = trained.to_dict() | {"run": str(folder / "old"), "guidance": [{"method": "adapter"}]}
    return manyglot.train(values | {"validation": NO_VALIDATION}).model_folder


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_what_is_new_is_trained_although_all_parts_are_frozen(device: str, trained: Experiment, tmp_path: Path) -> None:
    """A new language has subwords of its own, a tag and guidance; everything else keeps its bits."""
    values = with_new_language(trained, tmp_path, list(PARTS))
    values["training"] |= {"device": device}
    manyglot.prepare(values)
    old, new = load_model(Path(values["init"]["model"])), train(values)
    assert changed_parts(weights_except(old, "embedding", "guidance"), new.model.state_dict()) == set()
    size, code = len(old.vocabulary.subword_model), "qad"
    assert torch.equal(new.model.embedding.weight[:size], old.model.embedding.weight[:size])
    for language in old.vocabulary.languages:
        tags = (
            each.model.embedding.weight[each.vocabulary.tag_id(each.vocabulary.languages.id(language))]
            for each in (old, new)
        )
        assert torch.equal(*tags)
    own = new.vocabulary.subword_model.further_languages[code].ids
    assert new.vocabulary.languages.id(code) == 3
    assert torch.count_nonzero(new.model.embedding.weight[list(own)]) > 0
    adapter = dict(new.model.named_parameters())["guidance.methods.adapter.matrix_LDD"]
    assert torch.equal(adapter[:3], dict(old.model.named_parameters())["guidance.methods.adapter.matrix_LDD"])
    assert adapter[3].count_nonzero() > 0


def with_new_language(trained: Experiment, folder: Path, freeze: Any) -> dict[str, Any]:
    """Return settings of a run in four languages, whose model of `init` has three of them."""
    old = with_adapter(trained, folder)
    values = settings_of(trained, folder / "run", freeze, data=str(folder / "data"))
    values["init"]["model"] = str(old)
    values["corpus"] = values["corpus"] | {"num_languages": 4}
    values["vocabulary"] = {
        "size": 70, "sentencepiece_model": str(old / "subwords.model"), "language_specific": ["qad"]
    }  # fmt: skip
    return values


def weights_except(trained: TrainedModel, *parts: str) -> dict[str, Tensor]:
    return {name: value for name, value in trained.model.state_dict().items() if not name.startswith(parts)}


def test_a_partly_frozen_run_resumes_exactly(trained: Experiment, tmp_path: Path) -> None:
    values = with_new_language(trained, tmp_path, {"everything_but": []})
    manyglot.prepare(values)
    whole = train(values)

    def stop(event: StepEvent) -> None:
        if event.step == 2:
            event.request_stop()

    stopped = values | {"run": str(tmp_path / "stopped")}
    with pytest.raises(ManyglotError, match="Stopped at step 2"):
        manyglot.train(stopped, on_step=stop)
    resumed = train(stopped)
    assert all(torch.equal(value, resumed.model.state_dict()[name]) for name, value in whole.model.state_dict().items())
    assert dry_run(stopped).resume_status.status == "finished"


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        (list(PARTS), "init.freeze: everything is frozen, and nothing is new. Leave a part to train."),
        ({"everything_but": []}, "init.freeze: everything is frozen"),
        (["attention"], "init.freeze: 'attention' is not a part. Known: encoder, decoder, embeddings, guidance."),
        (["encoders"], "init.freeze: 'encoders' is not a part. Did you mean 'encoder'?"),
        ({"everything_but": ["guidanc"]}, "init.freeze: 'guidanc' is not a part. Did you mean 'guidance'?"),
        ({"all_but": ["guidance"]}, "init.freeze: 'all_but' is not known. Known: everything_but."),
        (
            {"everything_but": "guidance"},
            r"such as \[encoder, embeddings\] or {everything_but: \[guidance\]}, not 'guidance'",
        ),
        ("encoder", "init.freeze: give a list of parts, such as .*, not 'encoder'"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    freeze: Any, message: str, trained: Experiment, tmp_path: Path
) -> None:
    with pytest.raises(ManyglotError, match=message) as info:
        manyglot.train(settings_of(trained, tmp_path / "run", freeze))
    assert "\n" not in str(info.value)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_with_frozen_parts_needs_the_old_model(trained: Experiment, tmp_path: Path) -> None:
    old = Path(shutil.copytree(trained.run / "model", tmp_path / "model"))
    values = settings_of(trained, tmp_path / "run", ["encoder"])
    values["init"]["model"] = str(old)

    def stop(event: StepEvent) -> None:
        event.request_stop()

    with pytest.raises(ManyglotError, match="Stopped at step 1"):
        manyglot.train(values, on_step=stop)
    shutil.rmtree(old)
    with pytest.raises(ManyglotError, match=r"init\.model: .*does not exist"):
        manyglot.train(values)
