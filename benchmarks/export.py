"""How far an exported model agrees with the one it was made of, and how fast both are on a CPU.

    python benchmarks/export.py demo-laa/run/model --data demo-laa/data --quantization int8

Translates sentences of the test split from random languages into each target language: with our beam search, and with
the model exported in float32 and as asked. Prints the share of translations that are equal token for token, the largest
difference of their scores, the mean BLEU of the target languages, and sentences a second.
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

from manyglot.batches.batch import tag_sources
from manyglot.batches.dataset import Dataset
from manyglot.corpus.rows import Split
from manyglot.decoding.beam import BeamSearch, DecodingSettings, Hypothesis
from manyglot.decoding.ctranslate2.engine import ExportedEngine
from manyglot.decoding.engine import SearchRequest
from manyglot.decoding.search_batch import SearchBatch
from manyglot.decoding.translator import Translator, trained_settings
from manyglot.evaluation.scores import score
from manyglot.exporters.ctranslate2 import export
from manyglot.model.folder import load_model
from manyglot.model.transformer import Transformer

Found = list[list[Hypothesis]]


def native(model: Transformer, sources: list[list[int]], languages: list[int], settings: DecodingSettings) -> Found:
    """Our beam search, in batches of similar lengths."""
    search = BeamSearch(model, settings)
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    found: Found = [[] for _ in sources]
    for start in range(0, len(order), 64):
        rows = order[start : start + 64]
        targets = [languages[i] for i in rows]
        source_BS = tag_sources([sources[i] for i in rows], targets, search.tags)
        for i, hypotheses in zip(rows, search.search(SearchBatch(source_BS, targets)), strict=True):
            found[i] = hypotheses
    return found


def timed(name: str, function: Callable[[], Found]) -> Found:
    """Run it and print how many sentences it did in a second."""
    start = time.perf_counter()
    found = function()
    print(f"{name}: {len(found) / (time.perf_counter() - start):.0f} sentences/s")
    return found


def compare(name: str, ours: Found, theirs: Found) -> None:
    """Print how often the best hypotheses and all of them are equal, and how far the scores are apart."""
    best = [a[0].ids == b[0].ids for a, b in zip(ours, theirs, strict=True)]
    whole = [[h.ids for h in a] == [h.ids for h in b] for a, b in zip(ours, theirs, strict=True)]
    apart = [abs(a[0].score - b[0].score) for a, b, same in zip(ours, theirs, best, strict=True) if same]
    print(
        f"{name}: {sum(best)} of {len(best)} translations equal ({sum(best) / len(best):.2%}), all hypotheses in "
        f"{sum(whole) / len(whole):.2%}, scores apart by {max(apart, default=0):.1e} at most"
    )


def main() -> None:
    """Compare native and exported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--targets", nargs="*", help="target languages; all if not given")
    parser.add_argument("--sentences", type=int, default=40, help="for each target language")
    parser.add_argument("--quantization", default="int8")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of each engine")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    trained = load_model(options.model)
    settings = trained_settings(trained).with_beam(options.beam)
    translator = Translator.of(trained, settings, torch.device("cpu"))
    codes = options.targets or list(translator.languages)
    rng, rows = random.Random(1), Dataset(options.data).rows(Split.TEST)
    pairs = [
        (row[rng.choice([c for c in row if c != code])], row[code], code)
        for code in codes
        for row in rng.choices([r for r in rows if r.get(code)], k=options.sentences)
    ]
    texts, references, targets = zip(*pairs, strict=True)
    sources, languages = translator.vocabulary.encode(texts), [translator.languages.id(code) for code in targets]
    request = SearchRequest(sources, languages, settings)
    ours = timed("manyglot", lambda: native(trained.model, sources, languages, settings))
    found = {"manyglot": ours}
    for quantization in (None, options.quantization):
        name = f"ctranslate2 {quantization or 'float32'}"
        with tempfile.TemporaryDirectory() as folder:
            export(trained, Path(folder) / "model", codes, quantization)
            engine = ExportedEngine.load(Path(folder) / "model", inter_threads=1, intra_threads=options.threads)
            found[name] = timed(name, lambda engine=engine: engine.search(request))
            compare(name, ours, found[name])
    for name, hypotheses in found.items():
        print(f"{name}: BLEU {bleu(translator, hypotheses, references, targets):.2f}")


def bleu(translator: Translator, found: Found, references: Sequence[str], targets: Sequence[str]) -> float:
    """The mean over the target languages."""
    outputs = translator.vocabulary.decode([hypotheses[0].ids for hypotheses in found])
    each = []
    for code in Counter(targets):
        rows = [i for i, target in enumerate(targets) if target == code]
        each.append(score([outputs[i] for i in rows], [references[i] for i in rows], code).bleu)
    return sum(each) / len(each)


if __name__ == "__main__":
    main()
