"""One batch forward and backward: as it comes, or on a GPU as a recording that is played again.

Starting two thousand kernels one by one takes a processor about as long as a GPU needs to run them. A CUDA graph
records them once for each size of a batch; batches are filled up a little, so that there are few sizes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from manyglot.batches.batch import Batch
from manyglot.devices import Precision, autocast, in_half, must_fit
from manyglot.model.kernels import have_kernels
from manyglot.model.packing import PackedBatch, PackedShape, pack, split_by_length
from manyglot.model.transformer import Transformer
from manyglot.training.alignment import AlignmentSettings, aligned_targets
from manyglot.training.loss import batch_loss
from manyglot.training.sharding import is_sharded

MULTIPLE = 1024
"""Batches are filled up to a multiple of so many tokens to be played: one size in a hundred or so of a large batch."""
MOST = 256
"""Recordings that are kept."""
SPARE = 1.04
"""Batches may be so many times as large as one whose memory was measured."""


class Step(Protocol):
    """Adds the gradients of a batch's loss, times a factor, to those that are there."""

    keeps_gradients: bool
    """Whether gradients must stay in their place, to be set to zero and not to nothing."""

    def pack(self, batch: Batch) -> list[PackedBatch]:
        """The batch in the form it is wanted, in one part or several."""

    def __call__(self, parts: Sequence[PackedBatch], factor: float) -> Tensor:
        """Go forward and backward; return the smoothed loss, that of the alignment if there is one and, by target
        language, the negative log-likelihood."""


class PlainStep:
    """Forward and backward as it comes."""

    keeps_gradients = False

    def __init__(
        self,
        model: Transformer,
        label_smoothing: float,
        device: torch.device,
        precision: Precision,
        alignment: AlignmentSettings | None = None,
    ) -> None:
        self.model, self.label_smoothing, self.alignment = model, label_smoothing, alignment
        self.aligned_targets = None if alignment is None else aligned_targets(model, alignment)
        self.device, self.precision = device, precision
        self._begin()

    def _begin(self) -> None:
        """Nothing is needed beforehand."""

    def pack(self, batch: Batch) -> list[PackedBatch]:
        """Without padding."""
        return [pack(batch, aligned=self.aligned_targets)]

    def __call__(self, parts: Sequence[PackedBatch], factor: float) -> Tensor:
        """Go forward and backward."""
        return torch.stack([self._go(part, factor) for part in parts]).sum(dim=0)

    def _go(self, batch: PackedBatch, factor: float) -> Tensor:
        return self._run(batch.to(self.device), torch.tensor(factor, dtype=torch.float32).to(self.device))

    def _run(self, batch: PackedBatch, factor: Tensor) -> Tensor:
        with autocast(self.device, self.precision):
            loss = batch_loss(self.model, batch, self.label_smoothing, self.alignment)
        self._add_gradients(loss.total * factor)
        parts = [part for part in (loss.smoothed, loss.alignment) if part is not None]
        return torch.cat([torch.stack(parts).detach(), loss.nll_L]).double()

    def _add_gradients(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]


@dataclass
class _Recording:
    graph: torch.cuda.CUDAGraph
    batch: PackedBatch
    """The batch that is read; another is written over it."""
    factor: Tensor
    sums: Tensor


class RecordedStep(PlainStep):
    """The same from recordings."""

    keeps_gradients = True

    def _begin(self) -> None:
        """Give gradients their place."""
        self.recordings: OrderedDict[PackedShape, _Recording] = OrderedDict()
        self.arena: torch.cuda.CUDAGraph | None = None
        for parameter in self.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def pack(self, batch: Batch) -> list[PackedBatch]:
        """Without padding, but filled up; sentences that are too long for kernels are a part of their own.

        That part is not aligned: it has few sentences to find one among.
        """
        fitting, *long = split_by_length(batch)
        return [pack(fitting, MULTIPLE, self.aligned_targets), *(pack(part, MULTIPLE) for part in long)]

    def _go(self, batch: PackedBatch, factor: float) -> Tensor:
        """Play the recording of the batch's size. The first goes as it comes, and kernels are compiled."""
        if not batch.shape.fits_tile:
            return super()._go(batch, factor)
        if self.arena is None or not self._has_room(batch.shape):
            return self._first(batch, factor)
        if batch.shape not in self.recordings:
            if len(self.recordings) == MOST:
                self.recordings.popitem(last=False)
            self.recordings[batch.shape] = self._record(batch)
        self.recordings.move_to_end(batch.shape)
        recording = self.recordings[batch.shape]
        recording.batch.buffer.copy_(batch.pinned_buffer(self.device), non_blocking=True)
        recording.factor.fill_(factor)
        recording.graph.replay()
        return recording.sums.clone()

    def _add_gradients(self, loss: Tensor) -> None:
        """All at once in the end: there are hundreds."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        new = zip(parameters, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True)
        pairs = [(p.grad, gradient) for p, gradient in new if p.grad is not None and gradient is not None]
        torch._foreach_add_([old for old, _ in pairs], [gradient for _, gradient in pairs])

    def _first(self, batch: PackedBatch, factor: float) -> Tensor:
        """See how much memory it takes, and give that back to be divided by recordings.

        Those of smaller batches are made again: beside them there would be no room.
        """
        self.recordings.clear()
        self.arena, self.pool, self.measured = None, torch.cuda.graph_pool_handle(), batch.shape
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        with _aside():
            sums = super()._go(batch, factor)
        needed = torch.cuda.max_memory_allocated(self.device) - before
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        self.arena = self._reserve(int(SPARE * needed))
        return sums

    def _has_room(self, shape: PackedShape) -> bool:
        """Whether a batch takes no more memory than there is."""
        return shape.is_within(self.measured, SPARE)

    def _reserve(self, size: int) -> torch.cuda.CUDAGraph:
        """Take memory in one piece, which all recordings divide as they need it.

        Otherwise each would take many pieces of sizes of its own, which no other could use, and in the end they would
        hold several times the memory of one.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            torch.empty(size, dtype=torch.uint8, device=self.device)[:1].zero_()
        return graph

    def _record(self, batch: PackedBatch) -> _Recording:
        copy, factor = batch.to(self.device), torch.zeros((), device=self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            sums = self._run(copy, factor)
        return _Recording(graph, copy, factor, sums)


@contextmanager
def _aside() -> Iterator[None]:
    """On a stream of its own, as a recording is made: what is set up there does not depend on the main one."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield
    main.wait_stream(side)


def must_fit_step(device: torch.device) -> AbstractContextManager[None]:
    """Say in a line that a step of training does not fit into memory."""
    instead = "Lower batches.max_tokens and raise training.accumulation by as much, or share the model out"
    return must_fit(device, "A step", f"{instead} (training.shard)")


def make_step(
    model: Transformer,
    label_smoothing: float,
    device: torch.device,
    precision: Precision,
    alignment: AlignmentSettings | None = None,
) -> Step:
    """Recorded where there are kernels and the model is in one piece, plain elsewhere."""
    recorded = device.type == "cuda" and have_kernels() and in_half(device, precision) and not is_sharded(model)
    return (RecordedStep if recorded else PlainStep)(model, label_smoothing, device, precision, alignment)
