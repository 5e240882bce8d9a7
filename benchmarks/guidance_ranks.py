"""Measure parameters, memory and step time of low-rank guidance by number of languages.

    python benchmarks/guidance_ranks.py                 # adapters, 60, 200 and 1,000 languages
    python benchmarks/guidance_ranks.py --method laa
    python benchmarks/guidance_ranks.py --device cpu --tokens 2048 --vocabulary 8000 --rounds 5 --steps 1

A step is a step of `manyglot train` on one packed batch of random sentences in random languages: forward and backward
pass, clipping and fused AdamW, without alignment. Memory counts the weights and the optimizer state of the guidance.
Gradients need as much as the weights again. For each number of languages, the systems take turns. The script reports
the median round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass

import torch

from manyglot.batches.batch import Batch, collate
from manyglot.config.base_settings import parse_settings
from manyglot.devices import find_device
from manyglot.model.guidance import parse_method_settings
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.training.step import make_forward_backward_step
from manyglot.training.trainer import TrainingSettings, clip_and_step_optimizer, make_optimizer
from manyglot.vocabulary.vocabulary import LanguageTags

NO_GUIDANCE = "none"
FULL_MATRICES = "full"


@dataclass(frozen=True)
class RankCost:
    """The cost of the guidance of one system."""

    num_languages: int
    matrices: str
    """The rank of the matrices, `full`, or `none` for a model without guidance."""
    num_parameters: int
    memory_bytes: int
    """The weights and the optimizer state of the guidance."""
    milliseconds: float
    relative_extra_time: float
    """Extra time as a share of the step without guidance."""


class System:
    """A model with its optimizer and training step."""

    def __init__(
        self, matrices: str, num_languages: int, options: argparse.Namespace, device: torch.device, batch: Batch
    ) -> None:
        torch.manual_seed(0)
        self.matrices, self.device, self.rounds = matrices, device, list[float]()
        rank = None if matrices == FULL_MATRICES else matrices
        methods = [] if matrices == NO_GUIDANCE else [{"method": options.method, "rank": rank and int(rank)}]
        sizes = {"num_encoder_layers": options.layers, "num_decoder_layers": options.layers, "width": options.width}
        model_settings = parse_settings(ModelSettings, sizes)
        guidance = [parse_method_settings(method) for method in methods]
        self.model = Transformer(model_settings, guidance, options.vocabulary, num_languages).to(device).train()
        self.settings = parse_settings(TrainingSettings, {"alignment": None, "precision": options.precision})
        self.optimizer = make_optimizer(self.model, self.settings)
        self.run = make_forward_backward_step(
            self.model, self.settings.label_smoothing, device, self.settings.precision
        )
        self.parts = self.run.pack(batch)
        self.loss_factor = 1 / batch.num_target_tokens

    def step(self) -> None:
        """Run the forward pass, the backward pass and the optimizer."""
        for part in self.parts:
            self.run(part, self.loss_factor)
        clip_and_step_optimizer(
            self.model, self.optimizer, self.settings, 1, keep_gradient_buffers=self.run.keeps_gradient_buffers
        )

    def time_round(self, num_steps: int) -> None:
        """Time some steps and record the seconds per step."""
        _synchronize(self.device)
        start = time.perf_counter()
        for _ in range(num_steps):
            self.step()
        _synchronize(self.device)
        self.rounds.append((time.perf_counter() - start) / num_steps)

    def num_guidance_bytes(self) -> int:
        """Return the size of the guidance's weights and of their optimizer state, after a step."""
        parameters = list(self.model.guidance.parameters())
        state = [value for parameter in parameters for value in self.optimizer.state[parameter].values()]
        return sum(tensor.nbytes for tensor in (*parameters, *state))


def make_batch(options: argparse.Namespace, num_languages: int) -> Batch:
    """Make random sentences of equal length in random languages."""
    rng = torch.Generator().manual_seed(1)
    size, length = options.tokens // options.length, options.length - 1  # the end symbol is a token too
    source, target = (torch.randint(3, options.vocabulary, (size, length), generator=rng).tolist() for _ in range(2))
    languages = torch.randint(num_languages, (size,), generator=rng).tolist()
    return collate(source, target, languages, [LanguageTags()] * num_languages)


def measure(options: argparse.Namespace, num_languages: int, device: torch.device) -> list[RankCost]:
    """Build and warm up every system, then time them in turns."""
    batch, systems = make_batch(options, num_languages), []
    for matrices in (NO_GUIDANCE, *options.matrices):
        systems.append(System(matrices, num_languages, options, device, batch))
        for _ in range(options.warmup):
            systems[-1].step()
        print(f"{num_languages} languages, {matrices}: ready", file=sys.stderr, flush=True)
    for _ in range(options.rounds):
        for system in systems:
            system.time_round(options.steps)
    seconds = [statistics.median(system.rounds) for system in systems]
    return [
        RankCost(
            num_languages,
            system.matrices,
            sum(parameter.numel() for parameter in system.model.guidance.parameters()),
            system.num_guidance_bytes(),
            1000 * median,
            median / seconds[0] - 1,
        )
        for system, median in zip(systems, seconds, strict=True)
    ]


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--method", default="adapter", choices=["adapter", "laa"])
    parser.add_argument("--languages", type=int, nargs="+", default=[60, 200, 1000])
    parser.add_argument("--matrices", nargs="+", default=[FULL_MATRICES, "64", "16", "4"], help="ranks, or full")
    parser.add_argument("--tokens", type=int, default=65_536, help="target tokens per step")
    parser.add_argument("--length", type=int, default=32, help="tokens per sentence")
    parser.add_argument("--vocabulary", type=int, default=64_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="steps per round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = find_device(options.device)
    rows = [row for num_languages in options.languages for row in measure(options, num_languages, device)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{options.tokens:,} tokens per step, {options.method}, width {options.width}")
    print(f"{'languages':>9} {'matrices':>8} {'parameters':>12} {'MB':>8} {'ms':>9} {'time':>8}")
    for row in rows:
        print(
            f"{row.num_languages:>9,} {row.matrices:>8} {row.num_parameters:>12,} {row.memory_bytes / 1e6:>8,.1f} "
            f"{row.milliseconds:>9.1f} {row.relative_extra_time:>+8.1%}"
        )


if __name__ == "__main__":
    main()
