"""What the language check brings and costs, on zero-shot sentences of a model that drifts.

    python benchmarks/language_check.py demo-run/run/model --data demo-run/data

Language accuracy is told by profiles of the training text, also where the check uses py3langid. BLEU is the mean over
the target languages.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from manyglot.batches.dataset import Dataset
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Split
from manyglot.decoding.off_target import OffTargetCounts
from manyglot.decoding.translator import Translator
from manyglot.evaluation.scores import score
from manyglot.langid.identifier import Identifier, identify_with
from manyglot.langid.loading import load_identifier
from manyglot.langid.tools import Py3Langid
from manyglot.model.folder import load_model

Test = tuple[str, str, str]
"""A sentence, its reference and the target language."""


def drawn(dataset: Dataset, trained: Sequence[Direction], number: int) -> list[Test]:
    """Test sentences of random zero-shot directions."""
    rng, rows = random.Random(2), dataset.rows(Split.TEST)
    directions = [direction for direction in dataset.directions if direction not in trained]
    every = [(row[d.source], row[d.target], d.target) for d in directions for row in rows if {*d} <= row.keys()]
    return rng.sample(every, min(number, len(every)))


def measure(name: str, translator: Translator, tests: Sequence[Test], judge: Identifier) -> None:
    """Translate, and print a row of the table."""
    texts, references, targets = map(list, zip(*tests, strict=True))
    start = time.perf_counter()
    outputs = translator.translate(texts, targets)
    seconds = time.perf_counter() - start
    right = [judge.identify(output) == judge.label(code) for output, code in zip(outputs, targets, strict=True)]
    bleu = []
    for code in sorted(set(targets)):
        rows = [i for i, target in enumerate(targets) if target == code]
        bleu.append(score([outputs[i] for i in rows], [references[i] for i in rows], code).bleu)
    off_target = translator.off_target_filter
    tallies: list[OffTargetCounts] = list(off_target.counts.values()) if off_target else []
    off, replaced = sum(t.off_target for t in tallies), sum(t.replaced for t in tallies)
    share, mean = 100 * sum(right) / len(right), sum(bleu) / len(bleu)
    print(f"| {name} | {off or ''} | {replaced or ''} | {share:.1f}% | {mean:.1f} | {seconds:.1f} s |", flush=True)


def main() -> None:
    """Translate with and without the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset, trained = Dataset(options.data), load_model(options.model).directions
    translator, tests = Translator.load(options.model, device="cpu"), drawn(dataset, trained, options.sentences)
    profile = load_identifier("profile", dataset.languages, partial(dataset.sentences, Split.TRAIN))
    general = Py3Langid(dataset.languages)
    print("| check | off target | replaced | in the right language | BLEU | time |\n|---|---|---|---|---|---|")
    translator.translate([tests[0][0]], tests[0][2])  # the first call takes longer
    measure("none", translator, tests, profile)
    measure("none, a beam of 10", translator.with_settings(beam=10), tests, profile)
    measure("py3langid", translator.with_off_target_filter(identify_with(general)), tests, profile)
    measure("profiles", translator.with_off_target_filter(identify_with(profile)), tests, profile)


if __name__ == "__main__":
    main()
