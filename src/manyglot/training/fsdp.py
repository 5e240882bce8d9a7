"""A model shared out among the processes (FSDP2): each keeps a part of every weight, gradient and moment.

A layer is put together when it is its turn, forward and backward, and taken apart again. What is saved and measured is
whole, so a checkpoint does not tell whether its run was shared out, and the run may go on either way.
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
    """Put a model where it is trained: whole on every device, or shared out among them."""
    if fsdp and distributed.world_size == 1:
        print_status("training.fsdp: one process has nobody to share with, and keeps the whole model.")
    elif fsdp:
        _apply_fsdp(model, distributed)
    model.to(distributed.device).train()


def _apply_fsdp(model: Transformer, distributed: DistributedContext) -> None:
    """Leave each process its part, a layer after the other, so that no device needs to hold them all."""
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")  # a trap for in-place changes only
    mesh = init_device_mesh(distributed.device.type, (distributed.world_size,))
    for layer in (*model.encoder, *model.decoder):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)  # the output layer needs the embeddings again
    for module in model.modules():
        if isinstance(module, FSDPModule):  # the loss is divided by all the tokens already: gradients are summed
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def is_sharded(model: nn.Module) -> bool:
    """Whether a model is shared out."""
    return isinstance(model, FSDPModule)


def local_shard(tensor: Tensor) -> Tensor:
    """What this process has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def shard_like(full: Tensor, like: Tensor) -> Tensor:
    """A whole tensor shared out as another one is; a single number is nobody's part, so all have it."""
    if not isinstance(like, DTensor) or full.dim() == 0:
        return full.to(like.device)
    sharded = distribute_tensor(full.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
    return torch.empty_like(like, requires_grad=False).copy_(sharded)  # a view would keep the whole in memory


def gather_full_tensors(tensors: Mapping[str, Tensor], distributed: DistributedContext) -> dict[str, Tensor]:
    """Whole tensors for the process that leads, nothing for the others; all must ask together."""
    full_tensors = {}
    for name, tensor in tensors.items():
        value = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if distributed.is_main:
            full_tensors[name] = value.cpu() if isinstance(tensor, DTensor) else value
    return full_tensors


def gather_full_model(model: Transformer, distributed: DistributedContext) -> Transformer:
    """A model that the process that leads can use alone: a copy if it is shared out; all must ask together."""
    if not is_sharded(model):
        return model
    weights, copy = gather_full_tensors(model.state_dict(), distributed), model.without_weights()
    if distributed.is_main:
        copy.load_state_dict(weights, assign=True)
        copy.to(distributed.device)
    return copy
