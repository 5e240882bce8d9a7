from __future__ import annotations

from pathlib import Path

import pytest
import torch

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import ManyglotError
from manyglot.model.model_folder import load_model


def test_a_bfloat16_export_is_a_model_folder(trained: Experiment, tmp_path: Path) -> None:
    model, small = trained.run / "model", tmp_path / "small"
    assert manyglot.export(model, small, export_format="manyglot") == [small]
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (model, small)]
    assert sizes[1] < 0.6 * sizes[0]
    before, after = (load_model(folder) for folder in (model, small))
    assert before.trained_directions == after.trained_directions
    assert before.config == after.config
    for name, tensor in after.model.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, before.model.state_dict()[name].bfloat16().float(), rtol=0, atol=0)
    assert len(manyglot.load(small).translate(["ba to", "to ba"], to="qab")) == 2


def test_options_of_other_formats_are_refused(trained: Experiment, tmp_path: Path) -> None:
    model = trained.run / "model"
    with pytest.raises(ManyglotError, match="--target: a model folder always has all languages"):
        manyglot.export(model, tmp_path / "x", ["qab"], export_format="manyglot")
    with pytest.raises(ManyglotError, match="always writes bfloat16, not int8"):
        manyglot.export(model, tmp_path / "x", export_format="manyglot", quantization="int8")
