from __future__ import annotations

from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import ManyglotError
from manyglot.model.folder import load_model


def test_a_model_in_half_the_size_is_a_model(trained: Experiment, tmp_path: Path) -> None:
    model, small = trained.run / "model", tmp_path / "small"
    assert manyglot.export(model, small, to="manyglot") == [small]
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (model, small)]
    assert sizes[1] < 0.6 * sizes[0]
    before, after = (load_model(folder) for folder in (model, small))
    assert before.directions == after.directions
    assert before.config == after.config
    for name, tensor in after.model.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, before.model.state_dict()[name].bfloat16().float(), rtol=0, atol=0)
    assert len(manyglot.load(small).translate(["ba to", "to ba"], to="qab")) == 2


def test_what_is_not_for_a_model_folder_is_refused(trained: Experiment, tmp_path: Path) -> None:
    model = trained.run / "model"
    with pytest.raises(ManyglotError, match="--target: a model folder has all languages"):
        manyglot.export(model, tmp_path / "x", ["qab"], to="manyglot")
    with pytest.raises(ManyglotError, match="written in bfloat16, not int8"):
        manyglot.export(model, tmp_path / "x", to="manyglot", quantization="int8")
