"""Decoding speed: beam search over real sentences with manyglot and other toolkits.

    python benchmarks/decoding.py --data data/mix60-prepared --sentences 10000              # one GPU
    python benchmarks/decoding.py --data data/mix60-prepared --device cpu --sentences 64    # two cores

The models have the paper's base size. They are untrained, because the speed of a decoding step does not depend on the
weights. All systems write outputs of the maximum length: the source length plus ten. Only the tokens of the best output
count.

Systems:
- `laa+lee`: language-aware attention (LAA) and language embedding embodiment (LEE), many target languages at once
- `adapter`: adapters before the residual, manyglot's default guidance, many target languages at once
- `token_src`: a token before the source, many target languages at once
- `folded`: LAA and LEE folded into plain weights, one target language
- `greedy`: beam size 1
- `ctranslate2:float32`, `ctranslate2:int8`: LAA and LEE exported to CTranslate2 for one target language
- `hf`: M2M100 of transformers in the same size, on sentences sorted by length in batches of `--hf-sentences`

The suffix `:bf16` selects bfloat16, which `manyglot translate` uses on a GPU and on CPUs with bfloat16 instructions.

With `--model`, a trained model replaces the untrained ones, and `hf` ends each sentence at that model's output length.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers import make_m2m100

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.decoding.engine import SearchRequest
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.settings import DecodingSettings
from manyglot.devices import find_device
from manyglot.model.folding import fold_guidance
from manyglot.model.guidance import parse_method_settings
from manyglot.model.model_folder import load_model
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import EOS, PAD

GUIDANCE: dict[str, list[dict[str, object]]] = {
    "laa+lee": [{"method": "laa", "init_gain": 1.0}, {"method": "lee"}],
    "adapter": [{"method": "adapter"}],
    "token_src": [{"method": "token", "side": "source"}],
}


CPU_SYSTEMS = [
    "laa+lee",
    "laa+lee:bf16",
    "adapter:bf16",
    "folded",
    "folded:bf16",
    "ctranslate2:float32",
    "ctranslate2:int8",
    "hf",
    "hf:bf16",
]
GPU_SYSTEMS = ["laa+lee:bf16", "folded:bf16", "token_src:bf16", "greedy:bf16", "hf"]


@dataclass
class BenchmarkRow:
    """The figures of one system."""

    name: str
    tokens_per_second: float
    sentences_per_second: float
    one_sentence_milliseconds: float
    seconds: float
    first_seconds: float
    """Duration of the first pass on a GPU, which compiles kernels and captures graphs. There is none on a CPU."""


TranslateAndCount = Callable[[list[list[int]], list[int]], int]
"""Takes sources and target language ids, and returns the number of output tokens."""


def make_model(guidance: list[dict[str, object]], dataset: PreparedDataset, options: argparse.Namespace) -> Transformer:
    """Return the trained model of `--model`, or an untrained one."""
    if options.model is not None:
        return load_model(options.model).model.eval()
    torch.manual_seed(0)
    vocabulary, methods = dataset.vocabulary, [parse_method_settings(each) for each in guidance]
    return Transformer(ModelSettings(), methods, len(vocabulary.subword_model), len(vocabulary.languages)).eval()


def native_system(
    name: str, dataset: PreparedDataset, options: argparse.Namespace, settings: DecodingSettings
) -> TranslateAndCount:
    """Return a function that translates with the native engine."""
    vocabulary, (system, _, precision) = dataset.vocabulary, name.partition(":")
    model = make_model(GUIDANCE.get(system, GUIDANCE["laa+lee"]), dataset, options)
    if system == "folded":
        model = fold_guidance(model, 0)
    settings = settings.with_beam_size_and_scaled_batch(1) if system == "greedy" else settings
    settings = settings.model_copy(update={"precision": "bfloat16" if precision else "float32"})
    engine = NativeEngine(model, vocabulary.languages, settings, find_device(options.device))

    def translate(sources: list[list[int]], languages: list[int]) -> int:
        languages = [0] * len(sources) if system == "folded" else languages[: len(sources)]
        results = engine.search(SearchRequest(sources, languages, settings, num_hypotheses=1))
        return sum(len(hypotheses[0].ids) + 1 for hypotheses in results)

    return translate


def exported_system(
    name: str, dataset: PreparedDataset, options: argparse.Namespace, settings: DecodingSettings
) -> TranslateAndCount:
    """Return a function that translates with an export to CTranslate2."""
    from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
    from manyglot.exporters.ctranslate2 import export_to_ctranslate2
    from manyglot.model.model_folder import TrainedModel

    vocabulary, quantization = dataset.vocabulary, name.partition(":")[2]
    model = make_model(GUIDANCE["laa+lee"], dataset, options)
    with tempfile.TemporaryDirectory() as folder:
        export_to_ctranslate2(
            TrainedModel(model, vocabulary, (), {}),
            Path(folder) / "model",
            [vocabulary.languages.codes[0]],
            None if quantization == "float32" else quantization,
        )
        engine = CTranslate2Engine.load(Path(folder) / "model", options.device)

    def translate(sources: list[list[int]], languages: list[int]) -> int:
        results = engine.search(SearchRequest(sources, [0] * len(sources), settings, num_hypotheses=1))
        return sum(len(hypotheses[0].ids) + 1 for hypotheses in results)

    return translate


def hugging_face_system(
    name: str, dataset: PreparedDataset, options: argparse.Namespace, settings: DecodingSettings
) -> TranslateAndCount:
    """Return a function that translates with the same architecture in transformers."""
    from transformers import LogitsProcessor

    torch.manual_seed(0)
    device = find_device(options.device)
    model = make_m2m100(dataset).to(device).eval()
    model = model.to(torch.bfloat16) if device.type == "cuda" or name == "hf:bf16" else model

    class EndAtMaxLength(LogitsProcessor):  # type: ignore[misc]
        """Ends each sentence at its maximum length."""

        def __init__(self, max_lengths: list[int]) -> None:
            self.max_length_N = torch.tensor(max_lengths, device=device).repeat_interleave(settings.beam_size)

        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            is_ending = (input_ids.shape[1] > self.max_length_N)[:, None]
            only_eos = torch.full_like(scores, -torch.inf)
            only_eos[:, EOS] = 0
            return torch.where(is_ending, only_eos, scores)

    @torch.inference_mode()
    def translate(sources: list[list[int]], languages: list[int]) -> int:
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        tokens = 0
        for start in range(0, len(order), options.hf_sentences):
            rows = [[*sources[i], EOS] for i in order[start : start + options.hf_sentences]]
            max_lengths = [
                options.output_lengths.get(tuple(row[:-1]), settings.max_output_length(len(row))) for row in rows
            ]
            ids = torch.full((len(rows), max(map(len, rows))), PAD)
            for i, row in enumerate(rows):
                ids[i, : len(row)] = torch.tensor(row)
            ids = ids.to(device)
            model.generate(
                input_ids=ids,
                attention_mask=ids != PAD,
                num_beams=settings.beam_size,
                max_new_tokens=max(max_lengths) + 1,
                length_penalty=settings.length_penalty,
                logits_processor=[EndAtMaxLength(max_lengths)],
            )
            tokens += sum(max_lengths) + len(max_lengths)
        return tokens

    return translate


class TimedSystem:
    """A system with its timings."""

    def __init__(
        self, name: str, dataset: PreparedDataset, options: argparse.Namespace, texts: list[list[int]]
    ) -> None:
        settings = DecodingSettings(beam_size=options.beam_size, max_length_factor=1.0, max_length=1000)
        if options.model is not None:
            settings = DecodingSettings(beam_size=options.beam_size)
        make = {"hf": hugging_face_system, "ctranslate2": exported_system}.get(name.partition(":")[0], native_system)
        self.name, self.texts, self.translate = name, texts, make(name, dataset, options, settings)
        self.languages = [i % len(dataset.languages) for i in range(len(texts))]
        self.translate(texts[:: max(1, len(texts) // 8)], self.languages[:8] * len(texts))
        start = time.perf_counter()
        if find_device(options.device).type == "cuda" and name != "hf":
            self.translate(texts, self.languages)
        self.first_seconds = time.perf_counter() - start
        self.tokens, self.seconds = 0, list[float]()

    def run_round(self) -> None:
        """Translate all sentences and record the time."""
        start = time.perf_counter()
        self.tokens = self.translate(self.texts, self.languages)
        self.seconds.append(time.perf_counter() - start)

    def one_sentence_seconds(self, num_repeats: int) -> float:
        """Return the median time to translate one sentence of median length."""
        middle, seconds = sorted(self.texts, key=len)[len(self.texts) // 2], []
        self.translate([middle], self.languages[:1])
        for _ in range(num_repeats):
            begin = time.perf_counter()
            self.translate([middle], self.languages[:1])
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds)

    def to_row(self, num_repeats: int) -> BenchmarkRow:
        """Return the median figures."""
        seconds = statistics.median(self.seconds)
        speed = self.tokens / seconds, len(self.texts) / seconds
        return BenchmarkRow(
            self.name, *speed, 1000 * self.one_sentence_seconds(num_repeats), seconds, self.first_seconds
        )


def benchmark_interleaved(
    names: list[str], dataset: PreparedDataset, options: argparse.Namespace, texts: list[list[int]]
) -> Iterator[BenchmarkRow]:
    """Time the systems in alternating rounds, so that other load on the machine affects all of them equally."""
    systems = []
    for name in names:
        try:
            systems.append(TimedSystem(name, dataset, options, texts))
        except ImportError as error:
            print(f"{name}: skipped ({error})")
    for _ in range(options.rounds):
        for system in systems:
            system.run_round()
    for system in systems:
        yield system.to_row(options.single_repeats)


def output_lengths(
    dataset: PreparedDataset, options: argparse.Namespace, texts: list[list[int]]
) -> dict[tuple[int, ...], int]:
    """Return the output length of the trained model for each sentence."""
    model = make_model([], dataset, options)
    settings = DecodingSettings(beam_size=options.beam_size)
    engine = NativeEngine(model, dataset.languages, settings, find_device(options.device))
    languages = [i % len(dataset.languages) for i in range(len(texts))]
    results = engine.search(SearchRequest(texts, languages, settings, num_hypotheses=1))
    return {tuple(text): len(hypotheses[0].ids) for text, hypotheses in zip(texts, results, strict=True)}


def sample_sentences(dataset: PreparedDataset, num_sentences: int) -> list[list[int]]:
    """Sample training sentences uniformly, because only their lengths matter."""
    store = dataset.token_store(Split.TRAIN)
    indices = np.random.default_rng(0).choice(len(store), num_sentences, replace=False)
    return [store[int(i)].tolist() for i in indices]


def main() -> None:
    """Time the systems and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--model", type=Path, help="a model folder with the dataset's vocabulary")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--hf-sentences", type=int, default=32, help="batch size of hf")
    parser.add_argument("--single-repeats", type=int, default=3, help="number of times to translate one sentence alone")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of times to translate all sentences; systems alternate on a CPU"
    )
    parser.add_argument(
        "--systems", nargs="+", help=f"default: on a CPU {' '.join(CPU_SYSTEMS)}; on a GPU {' '.join(GPU_SYSTEMS)}"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    on_gpu = find_device(options.device).type == "cuda"
    dataset = PreparedDataset(options.data)
    texts = sample_sentences(dataset, options.sentences)
    print(f"{len(texts):,} sentences of {statistics.mean(map(len, texts)):.1f} subwords, beam size {options.beam_size}")
    print(f"{'':<20} {'tokens/s':>10} {'sentences/s':>12} {'1 sentence':>11} {'seconds':>9} {'first':>7}")
    options.output_lengths = output_lengths(dataset, options, texts) if options.model is not None else {}
    names = options.systems or (GPU_SYSTEMS if on_gpu else CPU_SYSTEMS)
    rows: list[Any] = []
    for group in [[name] for name in names] if on_gpu else [names]:
        for row in benchmark_interleaved(group, dataset, options, texts):
            rows.append(row)
            print(
                f"{row.name:<20} {row.tokens_per_second:>10,.0f} {row.sentences_per_second:>12,.1f} "
                f"{row.one_sentence_milliseconds:>8.1f} ms {row.seconds:>9.2f} {row.first_seconds:>7.1f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
