"""Run folders with the given checkpoints, written as training writes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

from manyglot.config.experiment import Experiment
from manyglot.model.model_folder import load_model
from manyglot.training.best_steps import BestStepCriterion, BestSteps, StepScore
from manyglot.training.checkpoint import RunState, save_checkpoint

CRITERION = BestStepCriterion("dev_bleu", {"num_sentences": 5}, {"num_pairs": 9})
RunMaker = Callable[..., Path]


@pytest.fixture
def make_run(trained: Experiment, tmp_path: Path) -> RunMaker:
    """Write an unfinished run whose weights are those of the trained model plus the step."""

    def make(
        *steps: int, best: Sequence[StepScore] = (), name: str = "run", changes: Mapping[str, object] | None = None
    ) -> Path:
        run, original = tmp_path / name, load_model(trained.run / "model")
        run.mkdir()
        config = {**original.config, **(changes or {})}
        (run / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        shutil.copy(trained.run / "data.sha256", run)
        description = type(original.description)(original.vocabulary, original.trained_directions, config)
        for step in steps:
            state = RunState(step=step, best_steps=BestSteps(CRITERION if best else None, tuple(best)))
            weights = weights_of_step(original.model.state_dict(), step)
            save_checkpoint(run / "checkpoints", weights, {}, state, len(steps), description)
        return run

    return make


def weights_of_step(weights: Mapping[str, Tensor], step: int) -> dict[str, Tensor]:
    """Return the weights of the checkpoint of a step."""
    return {name: weight + step * torch.ones_like(weight) / 1024 for name, weight in weights.items()}


def damage(run: Path, step: int, name: str = "model.safetensors") -> None:
    """Damage a file of the checkpoint of a step."""
    path = run / "checkpoints" / f"step-{step:08d}" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
