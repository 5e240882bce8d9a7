"""One batch forward and backward: eagerly, or on a GPU as a CUDA graph.

Launching two thousand kernels one by one takes a CPU about as long as a GPU needs to run them. A CUDA graph captures
them once for each batch shape. Batches are padded slightly, so that only a few shapes occur.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manyglot.batches.batch import Batch
from manyglot.config.precision import Precision
from manyglot.devices import autocast, report_out_of_memory, uses_bfloat16
from manyglot.model import kernels
from manyglot.model.packed_executor import PackedLayout
from manyglot.model.packing import PackedBatch, PackedShape, pack_batch, split_by_tile_fit
from manyglot.model.transformer import Transformer
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings, make_aligned_target_selection
from manyglot.training.fsdp import is_sharded
from manyglot.training.loss import summed_batch_loss

TOKEN_MULTIPLE = 1024
"""Batches are padded to a multiple of this many tokens, about 1% of a large batch, to limit the number of graphs."""
MAX_CUDA_GRAPHS = 256
"""Number of captured graphs to keep. The least recently used graph is evicted."""
MEMORY_HEADROOM = 1.04
"""Maximum size of a graph's batch, relative to the batch whose memory was measured."""


class ForwardBackwardStep(Protocol):
    """Forward and backward pass of one batch: adds the gradients, times a factor, to those of the parameters."""

    keeps_gradient_buffers: bool
    """Whether gradient tensors must stay allocated: zero them in place instead of setting them to None."""

    def pack(self, batch: Batch) -> list[PackedBatch]:
        """Pack a batch into one or more parts; each of them is a call of the step."""

    def __call__(self, batch: PackedBatch, loss_factor: float) -> Tensor:
        """Run forward and backward on a part; return its loss vector (`BatchLoss.to_vector`), summed over tokens."""


class EagerStep:
    """Forward and backward pass that launches each kernel separately."""

    keeps_gradient_buffers = False

    def __init__(
        self,
        model: Transformer,
        label_smoothing: float,
        device: torch.device,
        precision: Precision,
        alignment: ContrastiveAlignmentSettings | None = None,
    ) -> None:
        self.model, self.label_smoothing, self.alignment = model, label_smoothing, alignment
        self.aligned_targets = None if alignment is None else make_aligned_target_selection(model, alignment)
        self.device, self.precision = device, precision

    def pack(self, batch: Batch) -> list[PackedBatch]:
        """Pack all sentences into one part."""
        return [pack_batch(batch, aligned_targets=self.aligned_targets)]

    def __call__(self, batch: PackedBatch, loss_factor: float | Tensor) -> Tensor:
        """Run forward and backward; return the loss vector."""
        batch, loss_factor = batch.to(self.device), torch.as_tensor(loss_factor, dtype=torch.float32).to(self.device)
        with autocast(self.device, self.precision):
            layout = PackedLayout(self.model, batch)
            hidden = self.model(batch.encoded.ids_N, batch.input.ids_N, batch.lang_B, layout)
            loss = summed_batch_loss(self.model, batch, hidden, self.label_smoothing, self.alignment)
        self._add_gradients(loss.objective * loss_factor)
        return loss.to_vector()

    def _add_gradients(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]


@dataclass
class _CapturedGraph:
    graph: torch.cuda.CUDAGraph
    batch: PackedBatch
    """Static input of the graph. Each batch is copied into it before a replay."""
    loss_factor: Tensor
    loss_vector: Tensor


class CudaGraphStep(EagerStep):
    """Forward and backward pass replayed from CUDA graphs, one for each batch shape."""

    keeps_gradient_buffers = True

    def __init__(
        self,
        model: Transformer,
        label_smoothing: float,
        device: torch.device,
        precision: Precision,
        alignment: ContrastiveAlignmentSettings | None = None,
    ) -> None:
        super().__init__(model, label_smoothing, device, precision, alignment)
        self.graphs: OrderedDict[PackedShape, _CapturedGraph] = OrderedDict()
        self.memory_reservation: torch.cuda.CUDAGraph | None = None
        for parameter in self.model.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def pack(self, batch: Batch) -> list[PackedBatch]:
        """Pack and pad the sentences. Sentences too long for the kernels form a second part.

        The second part has no contrastive alignment loss because it has too few sentences.
        """
        fitting, *long = split_by_tile_fit(batch)
        return [
            pack_batch(fitting, TOKEN_MULTIPLE, self.aligned_targets),
            *(pack_batch(part, TOKEN_MULTIPLE) for part in long),
        ]

    def __call__(self, batch: PackedBatch, loss_factor: float | Tensor) -> Tensor:
        """Replay the graph of the batch shape. The first batch runs eagerly, which also compiles the kernels."""
        if not batch.shape.fits_tile:
            return super().__call__(batch, loss_factor)
        if self.memory_reservation is None or not self._fits_reservation(batch.shape):
            return self._run_eagerly_and_reserve(batch, loss_factor)
        if batch.shape not in self.graphs:
            if len(self.graphs) == MAX_CUDA_GRAPHS:
                self.graphs.popitem(last=False)
            self.graphs[batch.shape] = self._capture(batch)
        self.graphs.move_to_end(batch.shape)
        graph = self.graphs[batch.shape]
        graph.batch.buffer.copy_(batch.pinned_buffer(self.device), non_blocking=True)
        graph.loss_factor.fill_(loss_factor)
        graph.graph.replay()
        return graph.loss_vector.clone()

    def _add_gradients(self, loss: Tensor) -> None:
        """Add the gradients of all parameters in one fused operation; there are hundreds of them."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        gradients = zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True)
        pairs = [(p.grad, gradient) for p, gradient in gradients if p.grad is not None and gradient is not None]
        torch._foreach_add_([old for old, _ in pairs], [gradient for _, gradient in pairs])

    def _run_eagerly_and_reserve(self, batch: PackedBatch, loss_factor: float | Tensor) -> Tensor:
        """Run eagerly, measure the peak memory and reserve as much for the graphs.

        Existing graphs of smaller batches are discarded to free their memory, and captured again when needed.
        """
        self.graphs.clear()
        self.memory_reservation, self.pool, self.measured_shape = None, torch.cuda.graph_pool_handle(), batch.shape
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        with _on_side_stream():
            loss_vector = super().__call__(batch, loss_factor)
        needed = torch.cuda.max_memory_allocated(self.device) - before
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        self.memory_reservation = self._reserve_memory(int(MEMORY_HEADROOM * needed))
        return loss_vector

    def _fits_reservation(self, shape: PackedShape) -> bool:
        """Whether a batch fits into the reserved memory."""
        return shape.fits_activation_memory_of(self.measured_shape, MEMORY_HEADROOM)

    def _reserve_memory(self, size: int) -> torch.cuda.CUDAGraph:
        """Reserve one block of memory that all graphs share.

        Otherwise each graph would reserve blocks of its own sizes that no other graph can reuse, and together they
        would take several times the memory of one graph.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            torch.empty(size, dtype=torch.uint8, device=self.device)[:1].zero_()
        return graph

    def _capture(self, batch: PackedBatch) -> _CapturedGraph:
        static_batch, loss_factor = batch.to(self.device), torch.zeros((), device=self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            loss_vector = super().__call__(static_batch, loss_factor)
        return _CapturedGraph(graph, static_batch, loss_factor, loss_vector)


@contextmanager
def _on_side_stream() -> Iterator[None]:
    """Run the block on a separate stream, as graph capture does, so that its setup ignores the main stream."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield
    main.wait_stream(side)


def report_step_out_of_memory(device: torch.device) -> AbstractContextManager[None]:
    """Turn an out-of-memory error of a training step into a one-line message with advice."""
    advice = "Lower batches.max_tokens and raise training.gradient_accumulation in proportion, or shard the model"
    return report_out_of_memory(device, "A step", f"{advice} (training.fsdp)")


def make_forward_backward_step(
    model: Transformer,
    label_smoothing: float,
    device: torch.device,
    precision: Precision,
    alignment: ContrastiveAlignmentSettings | None = None,
) -> ForwardBackwardStep:
    """Make a CUDA-graph step if the GPU kernels apply and the model is not sharded, otherwise an eager step."""
    use_cuda_graphs = kernels.runs_kernels(device) and uses_bfloat16(device, precision) and not is_sharded(model)
    return (CudaGraphStep if use_cuda_graphs else EagerStep)(model, label_smoothing, device, precision, alignment)
