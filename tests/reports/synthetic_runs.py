"""Synthetic runs with plausible numbers, in the real record types, for reports of 6 and of 60 languages."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
from babel import Locale

from manyglot.corpus.languages import Direction, Languages, enumerate_directions
from manyglot.evaluation.metrics import BleuChrfScorer
from manyglot.evaluation.results import DirectionResult, Evaluation
from manyglot.evaluation.sentence_statistics import SentenceStatistics
from manyglot.evaluation.translation_examples import TranslationExample

SIX = ("ar", "de", "en", "he", "ja", "sw")
SIXTY = (
    *("af", "ar", "az", "be", "bg", "bn", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "eo", "es", "et", "eu", "fa"),
    *("fi", "fr", "gl", "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "kk", "km", "ko", "lt", "lv"),
    *("mk", "mn", "mr", "ms", "my", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "ta", "th", "tr"),
    *("uk", "ur", "vi"),
)
COUNTRIES = ("DE", "FR", "JP", "EG", "BR", "KE", "IN", "GE")


@cache
def sentence(code: str, number: int) -> str:
    """Return a list of countries in the language."""
    names = Locale(code).territories
    return " – ".join(str(names[COUNTRIES[(number * 3 + k) % len(COUNTRIES)]]) for k in range(2 + number % 3))


def synthetic_evaluation(
    codes: Sequence[str], seed: int = 1, on_target: float = 0.5, num_sentences: int = 8
) -> Evaluation:
    """Evaluate a model that is good from and into English, and often off-target in zero-shot directions."""
    rng = random.Random(seed)
    quality = {code: random.Random(code).uniform(0.2, 1.0) for code in codes}
    directions, examples = [], []
    counts_by_group: dict[str, dict[str, Counter[str]]] = {"supervised": {}, "zero_shot": {}}
    for d in enumerate_directions(Languages(codes)):
        zero_shot = "en" not in d
        share = min(
            1.0,
            max(
                0.0, rng.gauss(on_target * (0.6 + 0.6 * quality[d.target]), 0.1) if zero_shot else rng.gauss(0.97, 0.02)
            ),
        )
        bleu = max(0.0, 42 * math.sqrt(quality[d.source] * quality[d.target]) * share**1.5 + rng.gauss(0, 1))
        neighbor = codes[(codes.index(d.target) + 1) % len(codes)]
        off_target = "en" if zero_shot or neighbor == d.target else neighbor
        directions.append(
            DirectionResult(
                source=d.source,
                target=d.target,
                zero_shot=zero_shot,
                num_sentences=num_sentences,
                bleu=bleu,
                chrf=min(100.0, bleu * 1.2 + 14),
                language_accuracy=100 * share,
                reference_language_accuracy=97.5,
                bleu_signature=f"nrefs:1|tok:{'ja-mecab' if d.target == 'ja' else '13a'}",
                unrestricted_language_accuracy=100 * share,
                top_off_target_language=off_target if share < 1 else None,
                top_off_target_rate=80 * (1 - share),
                copy_rate=2 * rng.random() * (1 - share),
                empty_rate=0.1,
                length_ratio=rng.gauss(0.97, 0.04),
                test_set_fingerprint="a test",
            )
        )
        counts = counts_by_group["zero_shot" if zero_shot else "supervised"].setdefault(d.target, Counter())
        counts.update(
            {
                d.target: round(1000 * share),
                off_target: round(800 * (1 - share)),
                neighbor: round(150 * (1 - share)),
                "": 3,
            }
        )
        for number in range(num_sentences):
            identified = d.target if rng.random() < share else off_target
            examples.append(
                TranslationExample(
                    *d,
                    zero_shot,
                    sentence(d.source, number),
                    sentence(identified, number),
                    sentence(d.target, number),
                    identified,
                )
            )
    return Evaluation(
        directions,
        examples,
        "py3langid, among the languages of the data",
        "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.5.1",
        "en",
        {"decoding": {"beam_size": 5}, "evaluation": {"bleu_tokenizer": "auto"}},
        output_language_counts={
            group: {code: dict(counts.most_common()) for code, counts in by_target.items()}
            for group, by_target in counts_by_group.items()
        },
    )


def evaluation_without_text(codes: Sequence[str]) -> Evaluation:
    """Return an evaluation of another system in all directions, without sentences and statistics."""
    rng = random.Random(1)
    directions = [
        DirectionResult(
            *d,
            zero_shot=None,
            num_sentences=100,
            bleu=100 * (share := rng.random()),
            chrf=20 + 60 * share,
            language_accuracy=100 * share,
            reference_language_accuracy=98.0,
            bleu_signature="nrefs:1|tok:13a",
            top_off_target_language="en",
            top_off_target_rate=50 * (1 - share),
            test_set_fingerprint="a test",
        )
        for d in enumerate_directions(Languages(codes))
    ]
    return Evaluation(directions, [], "pycld2:restricted", "nrefs:1|nc:6|nw:2", None, {"evaluation": {}})


def with_statistics(evaluation: Evaluation) -> Evaluation:
    """Add the sentence statistics of the examples, as if the identifier recognized every reference."""
    scorer, statistics = BleuChrfScorer("13a"), {}
    by_target = groupby(sorted(evaluation.examples, key=lambda e: e.target), key=lambda e: e.target)
    for target, group in ((target, list(group)) for target, group in by_target):
        references = list(dict.fromkeys(e.reference for e in group))
        ngrams = scorer.index_references(references, target)
        counts = ngrams.count_matches([e.output for e in group], [references.index(e.reference) for e in group])
        labels = np.array([e.identified_language for e in group])
        for source in dict.fromkeys(e.source for e in group):
            chosen = np.array([i for i, e in enumerate(group) if e.source == source])
            statistics[Direction(source, target)] = SentenceStatistics(
                fingerprints_N=np.arange(len(chosen), dtype=np.uint64),
                bleu_counts_NS=counts.bleu_counts_NS[chosen],
                chrf_counts_NS=counts.chrf_counts_NS[chosen],
                identified_languages_N=labels[chosen],
                flags_NF=np.array([[True, False, False, False]] * len(chosen)),
            )
    return replace(evaluation, statistics={d.direction: statistics[d.direction] for d in evaluation.directions})


def make_system_facts(codes: Sequence[str], seed: int = 1) -> dict[str, Any]:
    """Make facts about a system, with learning curves."""
    rng = random.Random(seed)
    steps = range(100, 20_001, 100)
    nll = [[step, 1.6 + 6 * math.exp(-step / 1500) + rng.gauss(0, 0.03)] for step in steps]
    dev = [[step, 1.8 + 5 * math.exp(-step / 1600)] for step in steps[9::10]]
    bleu = [[step, 24 * (1 - math.exp(-step / 5000)) + seed] for step in steps[9::10]]
    zero_shot = [[step, 50 + 20 * (1 - math.exp(-step / 3000)) + rng.gauss(0, 3)] for step in steps[9::10]]
    return {
        "model": "runs/synthetic/model",
        "languages": list(codes),
        "similarities": {"token": [round(rng.uniform(-0.2, 0.9), 4) for i in range(len(codes)) for _ in range(i)]},
        "num_trained_directions": 2 * len(codes) - 2,
        "num_subwords": 32000,
        "num_parameters": 77_400_000,
        "parameters": {"embedding": 16_400_000, "encoder": 18_900_000, "decoder": 25_200_000, "guidance": 16_900_000},
        "training": {
            "steps": 20000,
            "step": 18000,
            "best_metric": "dev_bleu",
            "target_tokens": 655_000_000,
            "seconds": 9000.0,
        },
        "data": {
            "folder": "data/synthetic",
            "rows": {"train": 250_000, "dev": 1000, "test": 1000},
            "sentences": {code: random.Random(code).randrange(5_000, 250_000) for code in codes},
        },
        "test": None,
        "curves": {"nll": nll, "dev_nll": dev, "dev_bleu": bleu, "zero_shot_language_accuracy": zero_shot},
        "config": {"seed": 1, "guidance": [{"method": "laa", "init_gain": 1.0, "sites": ["dec.self", "dec.cross"]}]},
    }
