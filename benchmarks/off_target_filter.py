"""Measure the benefit and cost of the off-target filter on zero-shot test sentences.

    python benchmarks/off_target_filter.py demo-run/run/model --data demo-run/data

Language accuracy is always measured with profiles of the training text, even if the filter uses py3langid. BLEU is the
mean over the target languages.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction
from manyglot.decoding.off_target import OffTargetCounts
from manyglot.decoding.translator import Translator
from manyglot.evaluation.metrics import score_translations
from manyglot.langid.external_identifiers import Py3LangidIdentifier
from manyglot.langid.identifier import LanguageIdentifier, make_off_target_detector
from manyglot.langid.loading import load_identifier
from manyglot.model.model_folder import load_model

TestSentence = tuple[str, str, str]
"""A sentence, its reference and the target language."""


def sample_zero_shot_tests(
    dataset: PreparedDataset, trained: Sequence[Direction], num_sentences: int
) -> list[TestSentence]:
    """Sample test sentences from all zero-shot directions."""
    rng, rows = random.Random(2), dataset.rows(Split.TEST)
    directions = [direction for direction in dataset.all_directions if direction not in trained]
    candidates = [(row[d.source], row[d.target], d.target) for d in directions for row in rows if {*d} <= row.keys()]
    return rng.sample(candidates, min(num_sentences, len(candidates)))


def print_row(name: str, translator: Translator, tests: Sequence[TestSentence], identifier: LanguageIdentifier) -> None:
    """Translate the test sentences and print one row of the table."""
    texts, references, targets = map(list, zip(*tests, strict=True))
    start = time.perf_counter()
    outputs = translator.translate(texts, targets)
    seconds = time.perf_counter() - start
    is_on_target = [
        identifier.identify(output) == identifier.label_for(code) for output, code in zip(outputs, targets, strict=True)
    ]
    bleu = []
    for code in sorted(set(targets)):
        rows = [i for i, target in enumerate(targets) if target == code]
        bleu.append(score_translations([outputs[i] for i in rows], [references[i] for i in rows], code).bleu)
    off_target = translator.off_target_filter
    counts: list[OffTargetCounts] = list(off_target.counts_by_language.values()) if off_target else []
    off, replaced = sum(t.num_off_target for t in counts), sum(t.num_replaced for t in counts)
    share, mean = 100 * sum(is_on_target) / len(is_on_target), sum(bleu) / len(bleu)
    print(f"| {name} | {off or ''} | {replaced or ''} | {share:.1f}% | {mean:.1f} | {seconds:.1f} s |", flush=True)


def main() -> None:
    """Translate with and without the filter, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset, trained = PreparedDataset(options.data), load_model(options.model).trained_directions
    translator, tests = (
        Translator.load(options.model, device="cpu"),
        sample_zero_shot_tests(dataset, trained, options.sentences),
    )
    profile = load_identifier("profile", dataset.languages, partial(dataset.sentences, Split.TRAIN))
    general = Py3LangidIdentifier(dataset.languages)
    print("| filter | off target | replaced | LangAcc | BLEU | time |\n|---|---|---|---|---|---|")
    translator.translate([tests[0][0]], tests[0][2])  # the first call takes longer
    print_row("none", translator, tests, profile)
    print_row("none, beam size 10", translator.with_settings(beam_size=10), tests, profile)
    print_row("py3langid", translator.with_off_target_filter(make_off_target_detector(general)), tests, profile)
    print_row("profiles", translator.with_off_target_filter(make_off_target_detector(profile)), tests, profile)


if __name__ == "__main__":
    main()
