"""What LAA costs in training: one step of the same batch without it and with each of its implementations, in one run.

    python benchmarks/laa.py                    # the paper's size on a GPU: 65,536 tokens a step, compiled, bfloat16
    python benchmarks/laa.py --device cpu --tokens 1024 --no-compile

A step is the forward pass, the label-smoothed loss, the backward pass and the optimizer. The implementations take
turns, several rounds of a few steps each, and the median round counts. Memory is the peak of a step above what was
there before the model was made.
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
from manyglot.model.guidance import read_method
from manyglot.model.layers import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subwords import EOS, PAD

NONE = "without LAA"


@dataclass
class Measured:
    """One row of the result."""

    name: str
    milliseconds: float
    tokens_per_second: float
    memory_gib: float | None
    more_time: float
    """Share of the step without LAA."""
    more_memory: float | None


class Candidate:
    """A model, its optimizer and a step of training."""

    def __init__(self, name: str, options: argparse.Namespace, device: torch.device) -> None:
        torch.manual_seed(0)
        self.name, self.device, self.precision = name, device, options.precision
        methods = [] if name == NONE else [{"method": "laa", "implementation": name, "sites": options.sites}]
        settings = ModelSettings(num_encoder_layers=options.layers, num_decoder_layers=options.layers)
        guidance = [read_method(each) for each in methods]
        self.model = Transformer(settings, guidance, options.vocabulary, options.languages).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)
        compiled = options.compile and name != "reference"  # sentence by sentence is no graph
        self.loss: Callable[..., Tensor] = torch.compile(self._loss) if compiled else self._loss
        self.rounds: list[float] = []

    def _loss(self, source_BS: Tensor, input_BT: Tensor, label_BT: Tensor, lang_B: Tensor) -> Tensor:
        logits_BTV = self.model(source_BS, input_BT, lang_B)
        return F.cross_entropy(logits_BTV.flatten(0, 1), label_BT.flatten(), label_smoothing=0.1, ignore_index=PAD)

    def step(self, batch: tuple[Tensor, ...]) -> None:
        """Forward, backward, optimizer."""
        with autocast(self.device, self.precision):
            loss = self.loss(*batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def round(self, batch: tuple[Tensor, ...], steps: int) -> None:
        """Time some steps."""
        _wait(self.device)
        start = time.perf_counter()
        for _ in range(steps):
            self.step(batch)
        _wait(self.device)
        self.rounds.append((time.perf_counter() - start) / steps)


def make_batch(options: argparse.Namespace, device: torch.device) -> tuple[Tensor, ...]:
    """Random sentences of one length into random languages, not in order."""
    rng = torch.Generator().manual_seed(1)
    size, length = options.tokens // options.length, options.length
    source_BS, label_BT = (torch.randint(3, options.vocabulary, (size, length), generator=rng) for _ in range(2))
    start_B1 = torch.full((size, 1), EOS)
    lang_B = torch.randint(options.languages, (size,), generator=rng)
    return tuple(t.to(device) for t in (source_BS, torch.cat([start_B1, label_BT[:, :-1]], dim=1), label_BT, lang_B))


def measure(options: argparse.Namespace) -> list[Measured]:
    """Build and warm up every candidate, then let them take turns."""
    device = find_device(options.device)
    batch = make_batch(options, device)
    candidates, memory = [], []
    for name in [NONE, *options.implementations]:
        before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
        candidate = Candidate(name, options, device)
        for _ in range(options.warmup if name != "reference" else 1):
            candidate.step(batch)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            candidate.step(batch)
            memory.append((torch.cuda.max_memory_allocated() - before) / 2**30)
        candidates.append(candidate)
        print(f"{name}: ready", file=sys.stderr, flush=True)
    for _ in range(options.rounds):
        for candidate in candidates:
            if candidate.name != "reference":
                candidate.round(batch, options.steps)
            elif not candidate.rounds:  # too slow for more than one
                candidate.round(batch, 1)
    seconds = [statistics.median(candidate.rounds) for candidate in candidates]
    return [
        Measured(
            name=candidate.name,
            milliseconds=1000 * s,
            tokens_per_second=batch[0].numel() / s,
            memory_gib=memory[i] if memory else None,
            more_time=s / seconds[0] - 1,
            more_memory=memory[i] / memory[0] - 1 if memory else None,
        )
        for i, (candidate, s) in enumerate(zip(candidates, seconds, strict=True))
    ]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=65_536, help="target tokens a step")
    parser.add_argument("--length", type=int, default=32, help="tokens of a sentence")
    parser.add_argument("--languages", type=int, default=59)
    parser.add_argument("--vocabulary", type=int, default=64_000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--sites", nargs="+", default=["dec.self"])
    parser.add_argument("--implementations", nargs="+", default=["grouped", "gathered", "reference"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="steps of a round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{options.tokens:,} tokens a step, {options.languages} languages, LAA at {' '.join(options.sites)}")
    print(f"{'':<12} {'ms':>9} {'tokens/s':>10} {'GiB':>7} {'time':>8} {'memory':>8}")
    for row in rows:
        gib, more = ("–", "–") if row.memory_gib is None else (f"{row.memory_gib:.2f}", f"{row.more_memory:+.1%}")
        print(
            f"{row.name:<12} {row.milliseconds:>9.1f} {row.tokens_per_second:>10,.0f} {gib:>7} "
            f"{row.more_time:>+8.1%} {more:>8}"
        )


if __name__ == "__main__":
    main()
