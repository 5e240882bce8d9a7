"""A model that is shared out has the gradients of a whole one; see test_distributed.py for several processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from manyglot.distributed import DistributedContext
from manyglot.training.sharding import _share_out, gathered, is_sharded, own_part, part_of, place_model, whole_model
from manyglot.training.step import EagerStep, make_step
from tests.conftest import random_batch, tiny_model
from tests.model.guidance.combinations import COMBINATIONS

GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")])


@pytest.fixture
def distributed(device: str, tmp_path: Path) -> Iterator[DistributedContext]:
    """A group of one process, which owns every part."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=0, world_size=1)
    yield DistributedContext(torch.device(device))
    dist.destroy_process_group()


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_the_gradients_are_those_of_the_whole_model(distributed: DistributedContext) -> None:
    """For every guidance; on a GPU through the kernels."""
    dtype, tolerance = (torch.float32, 0.03) if distributed.device.type == "cuda" else (torch.float64, 1e-9)
    for methods in COMBINATIONS.values():
        whole, shared = (tiny_model(methods).to(dtype) for _ in range(2))
        place_model(whole, False, distributed)
        _share_out(shared, distributed)
        place_model(shared, False, distributed)
        assert is_sharded(shared)
        assert type(make_step(shared, 0.1, distributed.device, "auto")) is EagerStep
        losses = []
        for model in (whole, shared):
            step = EagerStep(model, 0.1, distributed.device, "auto")
            for seed in range(2):
                torch.manual_seed(seed)
                losses += [step(part, 0.5) for part in step.pack(random_batch(model, size=9, seed=seed))]
        torch.testing.assert_close(losses[:2], losses[2:], rtol=tolerance, atol=tolerance)
        largest = max(float(p.grad.abs().max()) for p in whole.parameters() if p.grad is not None)
        for mine, theirs in zip(shared.parameters(), whole.parameters(), strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if mine.grad is not None and theirs.grad is not None:
                atol = tolerance * largest  # what halves are rounded to
                torch.testing.assert_close(own_part(mine.grad), theirs.grad, rtol=tolerance, atol=atol)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_what_is_gathered_can_be_shared_out_again(distributed: DistributedContext) -> None:
    model, expected = tiny_model(COMBINATIONS["laa"]), tiny_model(COMBINATIONS["laa"]).state_dict()
    _share_out(model, distributed)
    weights = gathered(model.state_dict(), distributed)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(dict(whole_model(model, distributed).cpu().state_dict()), dict(expected))
    now = model.state_dict()
    model.load_state_dict({name: part_of(2 * weight, now[name]) for name, weight in weights.items()})
    torch.testing.assert_close(gathered(model.state_dict(), distributed), {name: 2 * w for name, w in expected.items()})


def test_one_process_keeps_the_whole_model(capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_model()
    place_model(model, shared=True, distributed=DistributedContext(model.embedding.weight.device))
    assert "nobody to share with" in capsys.readouterr().err
    assert not is_sharded(model)
