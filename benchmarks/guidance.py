"""Measure what guidance costs in training: a step on the same batch without guidance and with each method.

    python benchmarks/guidance.py                    # LAA at dec.self, both matrix products, compiled
    python benchmarks/guidance.py --other-methods    # all other methods
    python benchmarks/guidance.py --systems "laa, grouped"    # one system
    python benchmarks/guidance.py --device cpu --tokens 2048 --vocabulary 8000 --no-compile

LAA (language-aware attention) can compute its matrix products in two ways, `grouped` and `gathered`. By default a step
has 65,536 target tokens. It is the forward pass, the label-smoothed loss, the backward pass and the optimizer. The
systems take turns in rounds of a few steps; the median round is reported. Memory is the peak of a step minus the memory
in use before the model was created.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from manyglot.devices import autocast, find_device
from manyglot.model.guidance import parse_method_settings
from manyglot.model.guidance.laa import LAA
from manyglot.model.guidance.language_matmul import gathered_matmul, grouped_matmul
from manyglot.model.padded_executor import PaddedLayout
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD

LAA_PRODUCTS = {"laa, grouped": grouped_matmul, "laa, gathered": gathered_matmul}
LAA_SYSTEMS: dict[str, list[dict[str, object]]] = {
    "none": [],
    **{name: [{"method": "laa", "init_gain": 1.0}] for name in LAA_PRODUCTS},
}
OTHER_SYSTEMS: dict[str, list[dict[str, object]]] = {
    "none": [],
    "lee dec.cross, dec.self": [{"method": "lee"}],
    "laa dec.self, dec.cross": [{"method": "laa", "init_gain": 1.0, "sites": ["dec.self", "dec.cross"]}],
    "laa dec.self + lee": [{"method": "laa", "init_gain": 1.0}, {"method": "lee"}],
    "adapter dec.ffn": [{"method": "adapter"}],
    "laln + lalt": [{"method": "laln"}, {"method": "lalt"}],
}


@dataclass
class StepCost:
    """Time and memory of a step of one system."""

    name: str
    milliseconds: float
    tokens_per_second: float
    memory_gib: float | None
    relative_extra_time: float
    """Extra time as a share of the step without guidance."""
    relative_extra_memory: float | None


class Candidate:
    """A model with its optimizer and training step."""

    def __init__(
        self, name: str, methods: list[dict[str, object]], options: argparse.Namespace, device: torch.device
    ) -> None:
        torch.manual_seed(0)
        self.name, self.device, self.precision = name, device, options.precision
        settings = ModelSettings(num_encoder_layers=options.layers, num_decoder_layers=options.layers)
        guidance = [parse_method_settings(settings) for settings in methods]
        self.model = Transformer(settings, guidance, options.vocabulary, options.languages).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
        for module in self.model.modules():
            if isinstance(module, LAA) and name in LAA_PRODUCTS:
                module.matmul = LAA_PRODUCTS[name]
        self.loss: Callable[..., Tensor] = torch.compile(self._loss) if options.compile else self._loss
        self.rounds: list[float] = []

    def _loss(self, source_BS: Tensor, input_BT: Tensor, label_BT: Tensor, lang_B: Tensor) -> Tensor:
        layout = PaddedLayout(source_BS, sorted_by_language=True)
        logits_BTV = self.model.logits(self.model(source_BS, input_BT, lang_B, layout).decoded)
        return F.cross_entropy(logits_BTV.flatten(0, 1), label_BT.flatten(), label_smoothing=0.1, ignore_index=PAD)

    def step(self, batch: tuple[Tensor, ...]) -> None:
        """Run the forward pass, the backward pass and the optimizer."""
        with autocast(self.device, self.precision):
            loss = self.loss(*batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def time_round(self, batch: tuple[Tensor, ...], num_steps: int) -> None:
        """Time some steps and record the seconds per step."""
        _synchronize(self.device)
        start = time.perf_counter()
        for _ in range(num_steps):
            self.step(batch)
        _synchronize(self.device)
        self.rounds.append((time.perf_counter() - start) / num_steps)


def make_batch(options: argparse.Namespace, device: torch.device) -> tuple[Tensor, ...]:
    """Make random sentences of equal length, sorted by random languages like a training batch."""
    rng = torch.Generator().manual_seed(1)
    size, length = options.tokens // options.length, options.length
    source_BS, label_BT = (torch.randint(3, options.vocabulary, (size, length), generator=rng) for _ in range(2))
    start_B1 = torch.full((size, 1), EOS)
    lang_B = torch.randint(options.languages, (size,), generator=rng).sort().values
    return tuple(t.to(device) for t in (source_BS, torch.cat([start_B1, label_BT[:, :-1]], dim=1), label_BT, lang_B))


def measure_step_costs(options: argparse.Namespace) -> list[StepCost]:
    """Build and warm up every candidate, then time them in turns."""
    device = find_device(options.device)
    batch = make_batch(options, device)
    candidates, memory = [], []
    for name, methods in (OTHER_SYSTEMS if options.other_methods else LAA_SYSTEMS).items():
        if name != "none" and options.systems and name not in options.systems:
            continue
        before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
        candidate = Candidate(name, methods, options, device)
        for _ in range(options.warmup):
            candidate.step(batch)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            candidate.step(batch)
            memory.append((torch.cuda.max_memory_allocated() - before) / 2**30)
        candidates.append(candidate)
        print(f"{name}: ready", file=sys.stderr, flush=True)
    for _ in range(options.rounds):
        for candidate in candidates:
            candidate.time_round(batch, options.steps)
    seconds = [statistics.median(candidate.rounds) for candidate in candidates]
    return [
        StepCost(
            name=candidate.name,
            milliseconds=1000 * s,
            tokens_per_second=batch[0].numel() / s,
            memory_gib=memory[i] if memory else None,
            relative_extra_time=s / seconds[0] - 1,
            relative_extra_memory=memory[i] / memory[0] - 1 if memory else None,
        )
        for i, (candidate, s) in enumerate(zip(candidates, seconds, strict=True))
    ]


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=65_536, help="target tokens per step")
    parser.add_argument("--length", type=int, default=32, help="tokens per sentence")
    parser.add_argument("--languages", type=int, default=59)
    parser.add_argument("--vocabulary", type=int, default=64_000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument(
        "--other-methods", action="store_true", help="measure the other methods instead of LAA's two matrix products"
    )
    parser.add_argument("--systems", nargs="+", help="measure only these systems, and none (without guidance)")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="steps per round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure_step_costs(options)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{options.tokens:,} tokens per step, {options.languages} languages")
    print(f"{'':<24} {'ms':>9} {'tokens/s':>10} {'GiB':>7} {'time':>8} {'memory':>8}")
    for row in rows:
        gib, more = (
            ("–", "–") if row.memory_gib is None else (f"{row.memory_gib:.2f}", f"{row.relative_extra_memory:+.1%}")
        )
        print(
            f"{row.name:<24} {row.milliseconds:>9.1f} {row.tokens_per_second:>10,.0f} {gib:>7} "
            f"{row.relative_extra_time:>+8.1%} {more:>8}"
        )


if __name__ == "__main__":
    main()
