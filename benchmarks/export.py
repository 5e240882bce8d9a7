"""Measure how far a model and its CTranslate2 exports agree, and their speed on a CPU.

    python benchmarks/export.py demo-laa/run/model --data demo-laa/data --quantization int8

Translates test sentences from random languages into each target language, with the native beam search and with exports
in float32 and in the given quantization. Prints the share of translations that are equal token for token, the largest
difference of their scores, the mean BLEU over the target languages, and the sentences per second.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from manyglot.batches.batch import collate_sources
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.decoding.beam_search import BeamSearch
from manyglot.decoding.ctranslate2.engine import CTranslate2Engine
from manyglot.decoding.engine import SearchRequest
from manyglot.decoding.hypothesis import Hypothesis
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator, saved_decoding_settings
from manyglot.evaluation.metrics import score_translations
from manyglot.exporters.ctranslate2 import export_to_ctranslate2
from manyglot.model.model_folder import load_model
from manyglot.model.transformer import Transformer

SearchResults = list[list[Hypothesis]]


def search_natively(
    model: Transformer, sources: list[list[int]], languages: list[int], settings: DecodingSettings
) -> SearchResults:
    """Search with the native beam search, in batches of similar length."""
    search = BeamSearch(model, settings)
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    results: SearchResults = [[] for _ in sources]
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        targets = [languages[i] for i in rows]
        source_BS = collate_sources([sources[i] for i in rows], targets, search.tags)
        for i, hypotheses in zip(rows, search.search(SearchBatch(source_BS, targets)), strict=True):
            results[i] = hypotheses
    return results


def run_timed(name: str, function: Callable[[], SearchResults]) -> SearchResults:
    """Run a search and print its speed."""
    start = time.perf_counter()
    results = function()
    print(f"{name}: {len(results) / (time.perf_counter() - start):.0f} sentences/s")
    return results


def print_agreement(name: str, ours: SearchResults, theirs: SearchResults) -> None:
    """Print how often the best hypothesis, and all hypotheses, agree, and the largest difference of scores."""
    best_equal = [a[0].ids == b[0].ids for a, b in zip(ours, theirs, strict=True)]
    all_equal = [[h.ids for h in a] == [h.ids for h in b] for a, b in zip(ours, theirs, strict=True)]
    score_differences = [
        abs(a[0].score - b[0].score) for a, b, same in zip(ours, theirs, best_equal, strict=True) if same
    ]
    best_share, all_share = (sum(equal) / len(equal) for equal in (best_equal, all_equal))
    print(
        f"{name}: {sum(best_equal)} of {len(best_equal)} translations equal ({best_share:.2%}), all hypotheses in "
        f"{all_share:.2%}, scores differ by at most {max(score_differences, default=0):.1e}"
    )


def main() -> None:
    """Compare the native engine with the exported models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--targets", nargs="*", help="target languages (default: all)")
    parser.add_argument("--sentences", type=int, default=40, help="sentences per target language")
    parser.add_argument("--quantization", default="int8")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="threads per engine")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    trained = load_model(options.model)
    settings = saved_decoding_settings(trained).with_beam_size_and_scaled_batch(options.beam_size)
    translator = Translator.from_trained_model(trained, settings, torch.device("cpu"))
    codes = options.targets or list(translator.languages)
    rng, rows = random.Random(1), PreparedDataset(options.data).rows(Split.TEST)
    pairs = [
        (row[rng.choice([c for c in row if c != code])], row[code], code)
        for code in codes
        for row in rng.choices([r for r in rows if r.get(code)], k=options.sentences)
    ]
    texts, references, targets = zip(*pairs, strict=True)
    sources, languages = translator.vocabulary.encode(texts), [translator.languages.id(code) for code in targets]
    request = SearchRequest(sources, languages, settings)
    ours = run_timed("manyglot", lambda: search_natively(trained.model, sources, languages, settings))
    results = {"manyglot": ours}
    for quantization in (None, options.quantization):
        name = f"ctranslate2 {quantization or 'float32'}"
        with tempfile.TemporaryDirectory() as folder:
            export_to_ctranslate2(trained, Path(folder) / "model", codes, quantization)
            engine = CTranslate2Engine.load(Path(folder) / "model", inter_threads=1, intra_threads=options.threads)
            results[name] = run_timed(name, lambda engine=engine: engine.search(request))
            print_agreement(name, ours, results[name])
    for name, hypotheses in results.items():
        print(f"{name}: BLEU {mean_bleu(translator, hypotheses, references, targets):.2f}")


def mean_bleu(
    translator: Translator, results: SearchResults, references: Sequence[str], targets: Sequence[str]
) -> float:
    """Return the mean BLEU over the target languages."""
    outputs = translator.vocabulary.decode([hypotheses[0].ids for hypotheses in results])
    scores = []
    for code in Counter(targets):
        rows = [i for i, target in enumerate(targets) if target == code]
        scores.append(score_translations([outputs[i] for i in rows], [references[i] for i in rows], code).bleu)
    return sum(scores) / len(scores)


if __name__ == "__main__":
    main()
