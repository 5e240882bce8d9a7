"""Fully sharded data parallel training (FSDP2): each process holds a shard of every weight, gradient and moment.

The weights of a layer are gathered for its forward and backward pass and freed afterward. Checkpoints and validation
use the full model, so a run can resume with or without sharding.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from manyglot.distributed import DistributedContext
from manyglot.model.transformer import Transformer
from manyglot.progress import print_status


def move_or_shard_model(model: Transformer, fsdp: bool, distributed: DistributedContext) -> None:
    """Move the full model to the device of this process, or shard it over all processes; set training mode."""
    if fsdp and distributed.world_size == 1:
        print_status("training.fsdp has no effect with a single process, which holds the full model.")
    elif fsdp:
        _apply_fsdp(model, distributed)
    model.to(distributed.device).train()


def _apply_fsdp(model: Transformer, distributed: DistributedContext) -> None:
    """Shard the model layer by layer, so that no device ever holds all of it."""
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # only matters for in-place changes
    mesh = init_device_mesh(distributed.device.type, (distributed.world_size,))
    for layer in (*model.encoder, *model.decoder):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)  # the output layer reuses the embeddings
    for module in model.modules():
        if isinstance(module, FSDPModule):  # sum, not average: the loss is already divided by all tokens
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def is_sharded(model: nn.Module) -> bool:
    """Whether FSDP shards the model."""
    return isinstance(model, FSDPModule)


def local_shard(tensor: Tensor) -> Tensor:
    """Return the shard of a tensor that this process holds; an unsharded tensor is returned unchanged."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def shard_like(full: Tensor, like: Tensor) -> Tensor:
    """Shard a full tensor in the same way as another. Scalars are replicated."""
    if not isinstance(like, DTensor) or full.dim() == 0:
        return full.to(like.device)
    sharded = distribute_tensor(full.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
    return torch.empty_like(like, requires_grad=False).copy_(sharded)  # a view would keep the full tensor in memory


def gather_full_tensors_on_main(tensors: Mapping[str, Tensor], distributed: DistributedContext) -> dict[str, Tensor]:
    """Gather full tensors on the main process; others get an empty dict. A collective: all processes must call it."""
    full_tensors = {}
    for name, tensor in tensors.items():
        value = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if distributed.is_main:
            full_tensors[name] = value.cpu() if isinstance(tensor, DTensor) else value
    return full_tensors


def gather_model_on_main(model: Transformer, distributed: DistributedContext) -> Transformer:
    """Return a full model that the main process can use alone: a copy if the model is sharded.

    A collective: all processes must call it. On the other processes a copy has no weights.
    """
    if not is_sharded(model):
        return model
    weights, copy = gather_full_tensors_on_main(model.state_dict(), distributed), model.on_meta_device()
    if distributed.is_main:
        copy.load_state_dict(weights, assign=True)
        copy.to(distributed.device)
    return copy
