"""Runs with made-up but plausible numbers, in the real record types: for pages of 6 and of 60 languages."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from babel import Locale

from manyglot.corpus.languages import Languages, directions_of
from manyglot.evaluation.results import DirectionResult, Evaluation, Example

SIX = ("ar", "de", "en", "he", "ja", "sw")
SIXTY = (
    *("af", "ar", "az", "be", "bg", "bn", "bs", "ca", "cs", "cy", "da", "de", "el", "en", "eo", "es", "et", "eu", "fa"),
    *("fi", "fr", "gl", "gu", "he", "hi", "hr", "hu", "hy", "id", "is", "it", "ja", "ka", "kk", "km", "ko", "lt", "lv"),
    *("mk", "mn", "mr", "ms", "my", "nb", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "ta", "th", "tr"),
    *("uk", "ur", "vi"),
)
PLACES = ("DE", "FR", "JP", "EG", "BR", "KE", "IN", "GE")


@cache
def sentence(code: str, number: int) -> str:
    """Some countries, in the language."""
    names = Locale(code).territories
    return " – ".join(str(names[PLACES[(number * 3 + k) % len(PLACES)]]) for k in range(2 + number % 3))


def made_up(codes: Sequence[str], seed: int = 1, on_target: float = 0.5, num_sentences: int = 8) -> Evaluation:
    """A model that is better from and into English, and zero-shot drifts to English or a neighbour."""
    rng = random.Random(seed)
    hard = {code: random.Random(code).uniform(0.2, 1.0) for code in codes}
    directions, examples = [], []
    told: dict[str, dict[str, Counter[str]]] = {"supervised": {}, "zero_shot": {}}
    for d in directions_of(Languages(codes)):
        unseen = "en" not in d
        share = min(
            1.0, max(0.0, rng.gauss(on_target * (0.6 + 0.6 * hard[d.target]), 0.1) if unseen else rng.gauss(0.97, 0.02))
        )
        bleu = max(0.0, 42 * math.sqrt(hard[d.source] * hard[d.target]) * share**1.5 + rng.gauss(0, 1))
        neighbour = codes[(codes.index(d.target) + 1) % len(codes)]
        off = "en" if unseen or neighbour == d.target else neighbour
        directions.append(
            DirectionResult(
                source=d.source,
                target=d.target,
                zero_shot=unseen,
                num_sentences=num_sentences,
                bleu=bleu,
                chrf=min(100.0, bleu * 1.2 + 14),
                language_accuracy=100 * share,
                reference_accuracy=97.5,
                bleu_signature=f"nrefs:1|tok:{'ja-mecab' if d.target == 'ja' else '13a'}",
                open_language_accuracy=100 * share,
                other_language=off if share < 1 else None,
                other_share=80 * (1 - share),
                copy_rate=2 * rng.random() * (1 - share),
                empty_rate=0.1,
                length_ratio=rng.gauss(0.97, 0.04),
                test_set="a test",
            )
        )
        counts = told["zero_shot" if unseen else "supervised"].setdefault(d.target, Counter())
        counts.update(
            {d.target: round(1000 * share), off: round(800 * (1 - share)), neighbour: round(150 * (1 - share)), "": 3}
        )
        for number in range(num_sentences):
            identified = d.target if rng.random() < share else off
            examples.append(
                Example(
                    *d,
                    unseen,
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
        {"decoding": {"beam": 5}, "evaluation": {"tokenizer": "auto"}},
        outputs_in={kind: {code: dict(c.most_common()) for code, c in those.items()} for kind, those in told.items()},
    )


def about(codes: Sequence[str], seed: int = 1) -> dict[str, Any]:
    """A model card with curves."""
    rng = random.Random(seed)
    steps = range(100, 20_001, 100)
    nll = [[step, 1.6 + 6 * math.exp(-step / 1500) + rng.gauss(0, 0.03)] for step in steps]
    dev = [[step, 1.8 + 5 * math.exp(-step / 1600)] for step in steps[9::10]]
    bleu = [[step, 24 * (1 - math.exp(-step / 5000)) + seed] for step in steps[9::10]]
    zero_shot = [[step, 50 + 20 * (1 - math.exp(-step / 3000)) + rng.gauss(0, 3)] for step in steps[9::10]]
    return {
        "model": "runs/made-up/model",
        "languages": list(codes),
        "similarities": {"token": [round(rng.uniform(-0.2, 0.9), 4) for i in range(len(codes)) for _ in range(i)]},
        "num_trained_directions": 2 * len(codes) - 2,
        "num_subwords": 32000,
        "num_parameters": 77_400_000,
        "parameters": {"embedding": 16_400_000, "encoder": 18_900_000, "decoder": 25_200_000, "guidance": 16_900_000},
        "training": {
            "steps": 20000,
            "step": 18000,
            "best_by": "dev_bleu",
            "target_tokens": 655_000_000,
            "seconds": 9000.0,
        },
        "data": {
            "folder": "data/made-up",
            "rows": {"train": 250_000, "dev": 1000, "test": 1000},
            "sentences": {code: random.Random(code).randrange(5_000, 250_000) for code in codes},
        },
        "test": None,
        "curves": {"nll": nll, "dev_nll": dev, "dev_bleu": bleu, "zero_shot_language_accuracy": zero_shot},
        "config": {"seed": 1, "guidance": [{"method": "laa", "sites": ["dec.self", "dec.cross"]}]},
    }
