"""Sharded models against full ones in a single process; test_distributed.py covers several processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from manyglot.distributed import DistributedContext
from manyglot.training.fsdp import (
    _apply_fsdp,
    gather_full_tensors_on_main,
    gather_model_on_main,
    is_sharded,
    local_shard,
    move_or_shard_model,
    shard_like,
)
from manyglot.training.step import EagerStep, make_forward_backward_step
from tests.conftest import random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS
from tests.model.variants import VARIANTS

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])


@pytest.fixture
def distributed(device: str, tmp_path: Path) -> Iterator[DistributedContext]:
    """A process group of one process, which holds every shard."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=0, world_size=1)
    yield DistributedContext(torch.device(device))
    dist.destroy_process_group()


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_sharded_and_full_models_have_equal_gradients(distributed: DistributedContext) -> None:
    """For every guidance method and variant of the model; on a GPU with the kernels."""
    dtype, tolerance = (torch.float32, 0.03) if distributed.device.type == "cuda" else (torch.float64, 1e-9)
    variants = [(COMBINATIONS["LAA + Token_tgt"], {"norm": "post", **values}) for values in VARIANTS.values()]
    for methods, changes in [*((methods, {"norm": "post"}) for methods in COMBINATIONS.values()), *variants]:
        whole, sharded = (tiny_model(methods, **changes).to(dtype) for _ in range(2))
        move_or_shard_model(whole, False, distributed)
        _apply_fsdp(sharded, distributed)
        move_or_shard_model(sharded, False, distributed)
        assert is_sharded(sharded)
        assert type(make_forward_backward_step(sharded, 0.1, distributed.device, "auto")) is EagerStep
        losses = []
        for model in (whole, sharded):
            step = EagerStep(model, 0.1, distributed.device, "auto")
            for seed in range(2):
                torch.manual_seed(seed)
                losses += [step(part, 0.5) for part in step.pack(random_batch(model, size=9, seed=seed))]
        torch.testing.assert_close(losses[:2], losses[2:], rtol=tolerance, atol=tolerance)
        largest = max(float(p.grad.abs().max()) for p in whole.parameters() if p.grad is not None)
        for mine, theirs in zip(sharded.parameters(), whole.parameters(), strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if mine.grad is not None and theirs.grad is not None:
                atol = tolerance * largest  # the rounding error of half precision
                torch.testing.assert_close(local_shard(mine.grad), theirs.grad, rtol=tolerance, atol=atol)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_gathered_weights_can_be_sharded_again(distributed: DistributedContext) -> None:
    model, expected = tiny_model(COMBINATIONS["laa"]), tiny_model(COMBINATIONS["laa"]).state_dict()
    _apply_fsdp(model, distributed)
    weights = gather_full_tensors_on_main(model.state_dict(), distributed)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(dict(gather_model_on_main(model, distributed).cpu().state_dict()), dict(expected))
    now = model.state_dict()
    model.load_state_dict({name: shard_like(2 * weight, now[name]) for name, weight in weights.items()})
    torch.testing.assert_close(
        gather_full_tensors_on_main(model.state_dict(), distributed), {name: 2 * w for name, w in expected.items()}
    )


def test_a_single_process_keeps_the_full_model(capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_model()
    move_or_shard_model(model, fsdp=True, distributed=DistributedContext(model.embedding.weight.device))
    assert "no effect with a single process" in capsys.readouterr().err
    assert not is_sharded(model)
