"""Compare a model with its exports: translations, BLEU, size, and speed on a CPU.

    python benchmarks/exports.py demo-laa/run/model --data demo-laa/data --targets de fi --sentences 100 --threads 2

Test sentences from random languages are translated into each target language, from token ids to token ids, by the
native beam search and by exports to CTranslate2, ONNX and transformers. The systems take turns, and the speed is the
median over the rounds. Guidance that CTranslate2 and transformers cannot express leaves them out.

Without a model, an untrained one of the paper's base size with the default guidance shows the speed at that size. Its
outputs have the maximum length, ten tokens more than the source.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from manyglot.batches.batch import collate_sources
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
from manyglot.decoding.engine import SearchRequest
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.native_engine import NativeEngine
from manyglot.decoding.translator import Translator, saved_decoding_settings
from manyglot.evaluation.metrics import score_translations
from manyglot.model.folding import FoldingError
from manyglot.model.model_folder import TrainedModel, load_model
from manyglot.model.settings import ModelSettings
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.subword_model import PAD, UNK
from manyglot.workflows.export import EXPORTERS

Search = Callable[[list[list[int]], str], list[Hypothesis]]
"""Translates sentences, given as subword ids, into one language, and returns the best hypothesis of each."""


def native_search(engine: NativeEngine, settings: Any) -> Search:
    """Return the search of the native engine."""

    def search(sources: list[list[int]], code: str) -> list[Hypothesis]:
        languages = [engine.languages.id(code)] * len(sources)
        return [best[0] for best in engine.search(SearchRequest(sources, languages, settings))]

    return search


def ctranslate2_search(folder: Path, settings: Any, threads: int) -> Search:
    """Return the search of the CTranslate2 engine, with one batch per thread."""
    engine = CTranslate2Engine.load(folder, inter_threads=threads, intra_threads=1)

    def search(sources: list[list[int]], code: str) -> list[Hypothesis]:
        languages = [engine.languages.id(code)] * len(sources)
        return [best[0] for best in engine.search(SearchRequest(sources, languages, settings))]

    return search


def onnx_search(folder: Path, settings: Any, threads: int, batch_size: int) -> Search:
    """Return the search of the program in an ONNX export."""
    spec = importlib.util.spec_from_file_location("translate", folder / "translate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    options = module.SessionOptions()
    options.intra_op_num_threads = threads
    program = module.Translator(folder, options)
    program.manifest["decoding"] = settings.model_dump()

    def search(sources: list[list[int]], code: str) -> list[Hypothesis]:
        results = [Hypothesis((), 0.0)] * len(sources)
        for rows in batches(sources, batch_size):
            for i, (score, ids) in zip(rows, program.search([sources[i] for i in rows], code), strict=True):
                results[i] = Hypothesis(tuple(ids), score)
        return results

    return search


def transformers_search(folder: Path, trained: TrainedModel, settings: Any, batch_size: int) -> Search:
    """Return the search of `generate` of transformers, whose ids are ours."""
    from transformers import AutoModelForSeq2SeqLM

    models: dict[Path, Any] = {}
    tags, languages = trained.model.tags_by_language(), trained.vocabulary.languages
    words = range(UNK + 1, len(trained.vocabulary.subword_model))

    def search(sources: list[list[int]], code: str) -> list[Hypothesis]:
        path, tag = folder / code if (folder / code).exists() else folder, tags[languages.id(code)]
        if path not in models:
            models[path] = AutoModelForSeq2SeqLM.from_pretrained(path).eval()
        forced = {"forced_bos_token_id": tag.target[0]} if tag.target else {}
        results = [Hypothesis((), 0.0)] * len(sources)
        for rows in batches(sources, batch_size):
            ids_BS = collate_sources([sources[i] for i in rows], [languages.id(code)] * len(rows), tags)
            limit = settings.max_output_length(ids_BS.shape[1]) + len(tag.target) + 1
            with torch.inference_mode():
                output_BT = models[path].generate(
                    ids_BS, attention_mask=(ids_BS != PAD).long(), max_new_tokens=limit, max_length=None, **forced
                )
            for i, output in zip(rows, output_BT.tolist(), strict=True):
                results[i] = Hypothesis(tuple(each for each in output if each in words), 0.0)
        return results

    return search


def batches(sources: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """Return the indices of sentences of similar length in batches."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def untrained_model(dataset: PreparedDataset) -> TrainedModel:
    """Return a model of base size for the languages of a dataset."""
    torch.manual_seed(1)
    methods = Experiment.model_fields["guidance"].default
    vocabulary = dataset.vocabulary
    model = Transformer(ModelSettings(), methods, len(vocabulary.subword_model), len(vocabulary.languages))
    return TrainedModel(model.eval(), vocabulary, (), {"decoding": {"max_length_factor": 1.0}})


def make_systems(trained: TrainedModel, codes: Sequence[str], folder: Path, options: Any) -> dict[str, Search]:
    """Export the model in every format, print the sizes, and return the searches by name."""
    settings = saved_decoding_settings(trained).model_copy(update={"precision": "float32"})
    exports: dict[str, tuple[str, str | None]] = {
        "CTranslate2 float32": ("ctranslate2", None),
        "CTranslate2 int8": ("ctranslate2", "int8"),
        "ONNX float32": ("onnx", None),
        "ONNX int8": ("onnx", "int8"),
        "transformers": ("transformers", None),
    }
    engine = NativeEngine(trained.model, trained.vocabulary.languages, settings, torch.device("cpu"))
    searches = {"manyglot": native_search(engine, settings)}
    for name, (export_format, quantization) in exports.items():
        path = folder / name.replace(" ", "-")
        if export_format not in EXPORTERS:
            print(f"{name}: this manyglot does not export to it", flush=True)
            continue
        try:
            EXPORTERS[export_format](trained, path, () if export_format == "onnx" else codes, quantization)
        except FoldingError as error:
            print(f"{name}: {error}", flush=True)
            continue
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(f"{name}: {size / 1e6:.1f} MB", flush=True)
        match export_format:
            case "ctranslate2":
                searches[name] = ctranslate2_search(path, settings, options.threads)
            case "onnx":
                searches[name] = onnx_search(path, settings, options.threads, options.batch_size)
            case _:
                searches[name] = transformers_search(path, trained, settings, options.batch_size)
    return searches


def mean_bleu(translator: Translator, found: dict[str, list[Hypothesis]], references: dict[str, list[str]]) -> float:
    """Return the mean BLEU over the target languages."""
    return statistics.mean(
        score_translations(
            translator.vocabulary.decode([each.ids for each in found[code]]), references[code], code
        ).bleu
        for code in references
    )


def main() -> None:
    """Compare all systems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--targets", nargs="*", help="target languages (default: all)")
    parser.add_argument("--sentences", type=int, default=40, help="sentences per target language")
    parser.add_argument("--threads", type=int, default=1, help="threads per system")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32, help="sentences per batch in ONNX and transformers")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dataset = PreparedDataset(options.data)
    trained = untrained_model(dataset) if options.model is None else load_model(options.model)
    translator = Translator.from_trained_model(trained, saved_decoding_settings(trained), torch.device("cpu"))
    codes = options.targets or list(translator.languages)
    rng, rows = random.Random(1), dataset.rows(Split.TEST)
    sources, references = {}, {}
    for code in codes:
        chosen = rng.choices([row for row in rows if row.get(code) and len(row) > 1], k=options.sentences)
        texts = [row[rng.choice([c for c in row if c != code])] for row in chosen]
        sources[code], references[code] = translator.vocabulary.encode(texts), [row[code] for row in chosen]
    times: dict[str, list[float]] = defaultdict(list)
    results: dict[str, dict[str, list[Hypothesis]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        searches = make_systems(trained, codes, Path(folder), options)
        for search in searches.values():  # load everything and allocate memory
            for code in codes:
                search(sources[code][:8], code)
        for _ in range(options.rounds):
            for name, search in searches.items():
                start = time.perf_counter()
                results[name] = {code: search(sources[code], code) for code in codes}
                times[name].append(time.perf_counter() - start)
                print(f"{name}: {times[name][-1]:.1f} s", file=sys.stderr, flush=True)
    ours = [each for code in codes for each in results["manyglot"][code]]
    for name, found in results.items():
        theirs = [each for code in codes for each in found[code]]
        num_different = sum(a.ids != b.ids for a, b in zip(ours, theirs, strict=True))
        differences = [abs(a.score - b.score) for a, b in zip(ours, theirs, strict=True) if a.ids == b.ids and b.score]
        ratio = statistics.median(a / b for a, b in zip(times["manyglot"], times[name], strict=True))
        print(
            f"{name}: {len(ours) / statistics.median(times[name]):.1f} sentences/s ({ratio:.2f} times manyglot), BLEU "
            f"{mean_bleu(translator, found, references):.2f}, {num_different} of {len(ours)} translations differ, "
            f"scores of equal ones by at most {max(differences, default=0):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
