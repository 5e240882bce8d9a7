"""Measure training throughput: whole steps on real text, from the loader to the optimizer, compared with other systems.

    python benchmarks/training.py --data data/mix60-prepared                 # one GPU: 65,536 target tokens a step
    python benchmarks/training.py --data data/mix60-prepared --device cpu --tokens 4096 --steps 5

Tokens are predicted target tokens, without padding and without source tokens. Systems:

- `token_src`, `laa` (at dec.self), `lee`, `adapter`, `laln_lalt` and `random_laa` (with a token), as `manyglot train`
  runs them
- `plain`: token_src without the Triton kernels
- `hf`: the M2M100 of transformers in the same size, if it is installed; not compiled. Its batches are bucketed by
  length, so that they have almost no padding, and are small enough for its logits to fit into memory.

MFU (model FLOPs utilization) divides the FLOPs of the model's matrix products by the speed of a large matrix product,
which is measured here.

Systems that run as `manyglot train` does are warmed up one after the other. Then they are timed alternately, one round
of steps each, in alternating order, so that thermal or power limits affect all of them equally. The other systems run
alone. GPU events measure the time, so the CPU does not wait at the end of a round. Rounds that captured a CUDA graph
are ignored if other rounds exist, because a long training run eventually captures no new graphs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peers import make_m2m100

from manyglot.batches.loader import BatchLoader, DataPosition, PlannedBatch
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.devices import autocast, find_device
from manyglot.distributed import DistributedContext
from manyglot.model import kernels
from manyglot.model.guidance import parse_method_settings
from manyglot.model.settings import ModelSettings
from manyglot.model.training_cost import training_flops
from manyglot.model.transformer import Transformer
from manyglot.training.contrastive_alignment import ContrastiveAlignmentSettings
from manyglot.training.loss_meter import LossMeter
from manyglot.training.step import CudaGraphStep, make_forward_backward_step
from manyglot.training.trainer import TrainingSettings, accumulate_and_all_reduce_gradients, clip_and_step_optimizer
from manyglot.vocabulary.subword_model import PAD

SYSTEMS: dict[str, list[dict[str, object]]] = {
    "token_src": [{"method": "token", "side": "source"}],
    "laa": [{"method": "laa", "init_gain": 1.0}],
    "plain": [{"method": "token", "side": "source"}],
    "lee": [{"method": "lee"}],
    "adapter": [{"method": "adapter"}],
    "adapter_aligned": [{"method": "adapter"}],
    "laln_lalt": [{"method": "laln"}, {"method": "lalt"}],
    "random_laa": [{"method": "random_laa", "init_gain": 1.0}, {"method": "token", "side": "source"}],
}
KERNELS_BY_PART = {
    "attention": ("_attention_forward", "_attention_backward", "flash", "fmha", "sdpa"),
    "residual and norm": ("_add_", "_embedding_", "layer_norm", "dropout"),
    "loss": ("_cross_entropy",),
    "optimizer": ("FusedAdam", "fused_adam", "multi_tensor"),
    "products": ("gemm", "nvjet", "cutlass", "cublas", "splitK", "ampere_", "sm90_", "grouped"),
    "product and ReLU": ("_relu_backward",),
}
"""Substrings of kernel names by part of the step; the first match counts."""


@dataclass
class SystemResult:
    """The result of one system."""

    name: str
    tokens_per_second: float
    milliseconds: float
    tokens_per_step: float
    mfu: float | None
    memory_gib: float | None
    padding: float
    """The share of computed positions that hold no token."""
    first_step_seconds: float
    num_rounds: int
    """The number of rounds that count."""
    parts: dict[str, float]
    """Milliseconds per step on the device, by part."""


class ManyglotSystem:
    """A manyglot model, trained as `manyglot train` does."""

    def __init__(self, name: str, dataset: PreparedDataset, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(0)
        vocabulary = dataset.vocabulary
        guidance = [parse_method_settings(method) for method in SYSTEMS[name]]
        self.model = Transformer(
            ModelSettings(), guidance, len(vocabulary.subword_model), len(vocabulary.languages)
        ).to(device)
        self.settings = TrainingSettings(device=options.device, precision=options.precision)
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), betas=(0.9, 0.98), weight_decay=1e-4, fused=True)
        alignment = ContrastiveAlignmentSettings() if name.endswith("_aligned") else None
        self.training_step = make_forward_backward_step(self.model, 0.1, device, options.precision, alignment)
        self.step, self.loss_meter, self.distributed = 0, LossMeter(Path()), DistributedContext(device)

    def update(self, batch: PlannedBatch) -> None:
        """Train one step."""
        self.step += 1
        loss_vector = accumulate_and_all_reduce_gradients(
            self.model, self.training_step, [batch], self.distributed, seed=0, step=self.step
        )
        self.loss_meter.add_update(self.step, [batch], loss_vector)
        keep = self.training_step.keeps_gradient_buffers
        clip_and_step_optimizer(self.model, self.optimizer, self.settings, self.step, keep_gradient_buffers=keep)


class HuggingFaceSystem:
    """The same architecture in transformers, with its own loss and padded batches."""

    def __init__(self, dataset: PreparedDataset, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(0)
        self.model = make_m2m100(dataset).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
        self.device, self.precision = device, options.precision

    def update(self, planned: PlannedBatch) -> None:
        """Train one step."""
        batch = planned.load()
        source_BS, input_BT, label_BT = (
            ids.to(self.device) for ids in (batch.source_BS, batch.input_BT, batch.label_BT)
        )
        with autocast(self.device, self.precision):
            logits = self.model(
                input_ids=source_BS,
                attention_mask=source_BS != PAD,
                decoder_input_ids=input_BT,
                use_cache=False,
            ).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), label_BT.flatten(), label_smoothing=0.1, ignore_index=PAD
            )
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


@contextmanager
def without_kernels(disabled: bool) -> Iterator[None]:
    """Disable the Triton kernels during the block."""
    original = kernels.has_triton
    if disabled:
        kernels.has_triton = lambda: False  # type: ignore[assignment]
    yield
    kernels.has_triton = original


class TimedRound(NamedTuple):
    """Steps that are timed together."""

    seconds: Callable[[], float]
    num_tokens: int
    has_known_shapes: bool
    """Whether no CUDA graph was captured."""


class TimedSystem:
    """A system with its batches and its timed rounds."""

    def __init__(self, name: str, dataset: PreparedDataset, options: argparse.Namespace) -> None:
        self.name, self.device = name, find_device(options.device)
        reserved_before = _reserved_memory(self.device)
        with without_kernels(name == "plain"):
            self.system: Any = (HuggingFaceSystem if name == "hf" else partial(ManyglotSystem, name))(
                dataset, options, self.device
            )
        tags = Transformer.tags_by_language(self.system.model) if name != "hf" else _source_tags(dataset)
        size, bucket_by = options.tokens, options.bucket_by
        if name == "hf":
            size, bucket_by = min(size, options.hf_tokens), "both"
        self.batches = _batches(dataset, tags, size, bucket_by)
        self.first_step_seconds = self._warm_up(options.warmup)
        self.memory_gib = (torch.cuda.max_memory_reserved() - reserved_before) / 2**30 if self._on_gpu else None
        self.rounds: list[TimedRound] = []
        self.done: list[PlannedBatch] = []

    @property
    def _on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def _warm_up(self, num_steps: int) -> float:
        """Train until no new CUDA graph is captured for `num_steps` steps; return the seconds of the first step."""
        uses_graphs = isinstance(getattr(self.system, "training_step", None), CudaGraphStep)
        num_steps = num_steps if uses_graphs else min(num_steps, 5)
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        self.update(next(self.batches))
        _synchronize(self.device)
        first_step_seconds = time.perf_counter() - start
        steps_since_capture, num_graphs = 0, self._num_graphs()
        while steps_since_capture < num_steps:
            self.update(next(self.batches))
            is_unchanged = self._num_graphs() == num_graphs
            steps_since_capture, num_graphs = steps_since_capture + 1 if is_unchanged else 0, self._num_graphs()
        _synchronize(self.device)
        return first_step_seconds

    def _num_graphs(self) -> int:
        """The number of captured CUDA graphs."""
        return len(getattr(getattr(self.system, "training_step", None), "graphs", ()))

    def update(self, batch: PlannedBatch) -> None:
        """Train one step."""
        with without_kernels(self.name == "plain"):
            self.system.update(batch)

    def time_round(self, num_steps: int) -> None:
        """Time a round of steps."""
        start, num_tokens, num_graphs = _record_time(self.device), 0, self._num_graphs()
        for batch in itertools.islice(self.batches, num_steps):
            self.update(batch)
            num_tokens += int(batch.num_target_tokens_by_language().sum())
            self.done.append(batch)
        self.rounds.append(
            TimedRound(
                _elapsed_seconds(start, _record_time(self.device)),
                num_tokens,
                has_known_shapes=self._num_graphs() == num_graphs,
            )
        )

    def result(self, peak_flops: float | None) -> SystemResult:
        """Profile a few more steps and return the result."""
        _synchronize(self.device)
        counted = [timed for timed in self.rounds if timed.has_known_shapes] or self.rounds
        seconds_per_token = statistics.median(timed.seconds() / timed.num_tokens for timed in counted)
        tokens_per_step = sum(timed.num_tokens for timed in self.rounds) / len(self.done)
        flops_per_step = statistics.mean(_training_flops(self.system.model, batch) for batch in self.done)
        profiled = list(itertools.islice(self.batches, 3))
        return SystemResult(
            name=self.name,
            tokens_per_second=1 / seconds_per_token,
            milliseconds=1000 * seconds_per_token * tokens_per_step,
            tokens_per_step=tokens_per_step,
            mfu=flops_per_step / tokens_per_step / seconds_per_token / peak_flops if peak_flops else None,
            memory_gib=self.memory_gib,
            padding=statistics.mean(_padding(self.system, batch) for batch in profiled),
            first_step_seconds=self.first_step_seconds,
            num_rounds=len(counted),
            parts=_milliseconds_by_part(self, profiled) if self._on_gpu else {},
        )


def _batches(dataset: PreparedDataset, tags: Any, size: int, bucket_by: Any) -> Iterator[PlannedBatch]:
    """Yield batches with about `size` target tokens on average, whatever the tags."""

    def planned(max_tokens: int) -> Iterator[PlannedBatch]:
        settings = BatchSettings(max_tokens=max_tokens, bucket_by=bucket_by)
        loader = BatchLoader(dataset.token_store(Split.TRAIN), dataset.train_directions, settings, tags, seed=1)
        return (batch for batch, _ in loader.iter_planned_batches(DataPosition()))

    sampled_sizes = [int(batch.num_target_tokens_by_language().sum()) for batch in itertools.islice(planned(size), 10)]
    return planned(round(size * size / statistics.mean(sampled_sizes)))


def time_alternately(
    systems: list[TimedSystem], options: argparse.Namespace, peak_flops: float | None
) -> list[SystemResult]:
    """Time the systems one round each, in alternating order, and print the results."""
    for round_number in range(options.rounds):
        for system in systems if round_number % 2 == 0 else systems[::-1]:
            system.time_round(options.steps)
    rows = []
    for system in systems:
        rows.append(system.result(peak_flops))
        print(_format_row(rows[-1]), flush=True)
    return rows


def _source_tags(dataset: PreparedDataset) -> Any:
    from manyglot.vocabulary.vocabulary import LanguageTags

    return [LanguageTags(source=(dataset.vocabulary.tag_id(i),)) for i in range(len(dataset.languages))]


def _training_flops(model: Any, planned: PlannedBatch) -> int:
    """Return the FLOPs of the matrix products of a step."""
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else model.embedding
    target = int(planned.num_target_tokens_by_language().sum())
    return training_flops(ModelSettings(), embedding.num_embeddings, planned.num_source_tokens(), target)


def _padding(system: Any, planned: PlannedBatch) -> float:
    """Return the share of positions of a batch that hold no token."""
    batch = planned.load()
    sides = batch.source_BS, batch.input_BT
    num_tokens = sum(int((side != PAD).sum()) for side in sides)
    if isinstance(system, ManyglotSystem):
        packed = system.training_step.pack(batch)
        return 1 - num_tokens / sum(len(part.source.ids_N) + len(part.input.ids_N) for part in packed)
    return 1 - num_tokens / sum(side.numel() for side in sides)


def measured_peak_flops(device: torch.device) -> float | None:
    """Measure the FLOP/s of a large matrix product on this device; None on a CPU."""
    if device.type != "cuda":
        return None
    a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    _synchronize(device)
    start = time.perf_counter()
    for _ in range(20):
        a @ b
    _synchronize(device)
    return 20 * 2 * 8192**3 / (time.perf_counter() - start)


def _milliseconds_by_part(timed_system: TimedSystem, batches: list[PlannedBatch]) -> dict[str, float]:
    """Return the milliseconds per step on the device, by part."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for batch in batches:
            timed_system.update(batch)
        torch.cuda.synchronize()
    parts: Counter[str] = Counter()
    for event in profiler.key_averages():
        part = next((p for p, names in KERNELS_BY_PART.items() if any(name in event.key for name in names)), "other")
        parts[part] += event.self_device_time_total / 1000 / len(batches)
    return {name: round(value, 2) for name, value in parts.most_common()}


def _record_time(device: torch.device) -> Any:
    """Return the time on a CPU, or an event that records it after the queued kernels on a GPU."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _elapsed_seconds(start: Any, end: Any) -> Callable[[], float]:
    """Return a function that gives the seconds between two times; call it after synchronizing."""
    return (lambda: end - start) if isinstance(start, float) else (lambda: start.elapsed_time(end) / 1000)


def _reserved_memory(device: torch.device) -> int:
    """Return the memory that PyTorch has reserved on the device."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Parse the options, run the benchmark and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=65_536, help="mean target tokens per step")
    parser.add_argument(
        "--bucket-by", choices=["longer", "both", "none"], help="default: none on a GPU, otherwise longer"
    )
    parser.add_argument("--systems", nargs="+", default=["token_src", "laa", "plain", "hf"])
    parser.add_argument("--hf-tokens", type=int, default=32_768, help="maximum target tokens per step of hf")
    parser.add_argument(
        "--warmup", type=int, default=30, help="consecutive steps without a new CUDA graph before timing starts"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20, help="steps per round")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    options.bucket_by = options.bucket_by or ("none" if find_device(options.device).type == "cuda" else "longer")
    dataset, peak_flops = PreparedDataset(options.data), measured_peak_flops(find_device(options.device))
    print(
        f"batches of {options.tokens:,} tokens"
        + (f", {peak_flops / 1e12:.0f} TFLOP/s in a matrix product" if peak_flops else "")
    )
    print(HEADER)
    alone = [name for name in options.systems if name in ("plain", "hf")]
    together = [name for name in options.systems if name not in alone]
    rows = []
    for names in ([together] if together else []) + [[name] for name in alone]:
        try:
            systems = [TimedSystem(name, dataset, options) for name in names]
            rows += time_alternately(systems, options, peak_flops)
        except ImportError as error:
            print(f"{', '.join(names)}: skipped, {error}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


COLUMNS = {"": 12, "tokens/s": 10, "ms/step": 9, "tokens": 8, "MFU": 6, "GiB": 6, "padding": 8, "first step": 11}
HEADER = " ".join(f"{name:>{width}}" for name, width in (COLUMNS | {"rounds": 7}).items())


def _format_row(row: SystemResult) -> str:
    mfu, gib = ("–" if x is None else f"{x:{form}}" for x, form in ((row.mfu, ".1%"), (row.memory_gib, ".1f")))
    line = (
        f"{row.name:<12} {row.tokens_per_second:>10,.0f} {row.milliseconds:>9.1f} {row.tokens_per_step:>8,.0f} "
        f"{mfu:>6} {gib:>6} {row.padding:>8.1%} {row.first_step_seconds:>9.1f} s "
        f"{row.num_rounds:>7}"
    )
    parts = ", ".join(f"{part} {ms:.1f}" for part, ms in row.parts.items())
    return f"{line}\n    {parts}" if parts else line


if __name__ == "__main__":
    main()
