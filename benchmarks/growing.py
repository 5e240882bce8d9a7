"""Add three languages to a model in four ways, and compare them with joint training of all languages.

    python benchmarks/growing.py TEXT WORK             # about 3 hours on one core
    python benchmarks/growing.py TEXT WORK --scale 0.1 # a tenth of the steps

TEXT has line-aligned files `train.de`, `dev.de`, `test.de`, …. Only rows whose English sentence has at most 8 words are
used. A model of six languages is trained from and into English. Then Portuguese (whose relatives the model knows),
Turkish (which has none in it) and Hebrew (a script of its own) are added:

packs      a language pack for each
fine-tuned all parameters, on text in the new languages only
mixed      all parameters, on text in all languages
joint      a model of all nine languages from the start, with as many updates as the model and its packs together
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import manyglot
from manyglot.corpus.languages import Direction

OLD, NEW = ("de", "es", "fr", "it", "ru"), ("pt", "tr", "he")
MAX_ENGLISH_WORDS = 8
SENTENCES_PER_DIRECTION = 200
MODEL = {"width": 128, "ffn_width": 512, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0}
BASE_STEPS, JOINT_STEPS, MIXED_STEPS = 6384, 14384, 2000
PACK_STEPS = {"pt": 3000, "tr": 2000, "he": 3000}


def write_short_rows(text: Path, folder: Path) -> None:
    """Write the rows whose English sentence is short and has a translation."""
    folder.mkdir(parents=True)
    codes = ("en", *OLD, *NEW)
    for split in ("train", "dev", "test"):
        lines = {code: (text / f"{split}.{code}").read_text("utf-8").split("\n") for code in codes}
        rows = [
            row
            for row in zip(*(lines[code] for code in codes), strict=True)
            if 0 < len(row[0].split()) <= MAX_ENGLISH_WORDS and any(row[1:])
        ]
        for code, column in zip(codes, zip(*rows, strict=True), strict=True):
            (folder / f"{split}.{code}").write_text("".join(f"{line}\n" for line in column), "utf-8")


class Experiments:
    """The trainings, in one folder. A finished one is not repeated."""

    def __init__(self, work: Path, scale: float) -> None:
        self.work, self.scale = work, scale

    def corpus(self, codes: Iterable[str], **more: Any) -> dict[str, Any]:
        """Return the settings of a corpus in English and other languages."""
        languages = ["en", *codes]
        return {
            "kind": "multiway",
            "path": str(self.work / "text"),
            "central_language": "en",
            "languages": languages,
        } | more

    def train(self, name: str, corpus: Mapping[str, Any], steps: int, rate: float, **more: Any) -> Path:
        """Train a model; return its folder."""
        experiment = {
            "data": str(self.work / name / "data"),
            "run": str(self.work / name / "run"),
            "corpus": corpus,
            "vocabulary": {"size": 6000},
            "batches": {"max_tokens": 1500, "temperature": 5, "bucket_by": "longer"},
            "training": self.training(steps, learning_rate=rate, label_smoothing=0.1),
            "validation": {"num_supervised_sentences": 300, "num_zero_shot_sentences": 100},
        } | more
        manyglot.prepare(experiment)
        return manyglot.train(experiment).model_folder

    def training(self, steps: int, **more: Any) -> dict[str, Any]:
        """Return the settings of a training, with fewer steps if the scale says so."""
        steps = max(4, int(steps * self.scale))
        validate_every = max(2, steps // 4)
        return {"max_steps": steps, "warmup_steps": min(400, steps // 4), "lr_schedule": "cosine"} | more | {
            "validate_every": validate_every, "checkpoint_every": validate_every
        }  # fmt: skip

    def add_language(self, model: Path, code: str) -> Path:
        """Train a language pack; return its folder."""
        pack = self.work / f"{code}.pack"
        text = {
            "corpus": self.corpus([code]),
            "batches": {"max_tokens": 1500, "bucket_by": "longer"},
            "training": self.training(
                PACK_STEPS[code], learning_rate=0.002, warmup_steps=max(1, int(200 * self.scale))
            ),
            "validation": {"num_supervised_sentences": 200, "num_zero_shot_sentences": 0},
        }
        return pack if pack.exists() else manyglot.add_language(model, text, pack).folder

    def evaluate(self, name: str, model: Path, data: str, packs: Iterable[Path] = ()) -> dict[Direction, float]:
        """Return the BLEU of all directions."""
        folder = self.work / f"scores-{name}"
        limit = [f"evaluation.max_sentences_per_direction={SENTENCES_PER_DIRECTION}"]
        if not folder.exists():
            manyglot.evaluate(
                model, self.work / data / "data", zero_shot=True, output=folder, overrides=limit, packs=packs
            )
        results = json.loads((folder / "results.json").read_text("utf-8"))["directions"]
        return {Direction(each["source"], each["target"]): each["bleu"] for each in results}


def direction_groups() -> Iterator[tuple[str, list[Direction]]]:
    """Yield the rows of the table."""
    for code in NEW:
        yield f"en→{code}", [Direction("en", code)]
        yield f"{code}→en", [Direction(code, "en")]
        yield f"{code}→old, zero-shot", [Direction(code, old) for old in OLD]
        yield f"old→{code}, zero-shot", [Direction(old, code) for old in OLD]
    yield "new→new, zero-shot", [Direction(a, b) for a in NEW for b in NEW if a != b]
    yield "en→old", [Direction("en", old) for old in OLD]
    yield "old→en", [Direction(old, "en") for old in OLD]
    yield "old→old, zero-shot", [Direction(a, b) for a in OLD for b in OLD if a != b]


def main() -> None:
    """Train, evaluate and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies all numbers of steps")
    arguments = parser.parse_args()
    runs = Experiments(arguments.work, arguments.scale)
    if not (runs.work / "text").exists():
        write_short_rows(arguments.text, runs.work / "text")
    base = runs.train("base", runs.corpus(OLD), BASE_STEPS, 0.003, model=MODEL)
    packs = [runs.add_language(base, code) for code in NEW]
    subwords = {"sentencepiece_model": str(base / "subwords.model"), "language_specific": [*NEW], "size": 4000}
    further: dict[str, Any] = {"init": {"model": str(base)}, "vocabulary": subwords}
    new_directions = [f"{a}>{b}" for code in NEW for a, b in ((code, "en"), ("en", code))]
    only_new = runs.corpus([*OLD, *NEW], train_directions=new_directions)
    tuned = runs.train("fine-tuned", only_new, MIXED_STEPS, 0.001, **further)
    mixed = runs.train("mixed", runs.corpus([*OLD, *NEW]), MIXED_STEPS, 0.001, **further)
    joint = runs.train("joint", runs.corpus([*OLD, *NEW]), JOINT_STEPS, 0.003, model=MODEL)
    columns = {
        "before": runs.evaluate("before", base, "base"),
        "packs": runs.evaluate("packs", base, "joint", packs),
        "joint": runs.evaluate("joint", joint, "joint"),
        "mixed": runs.evaluate("mixed", mixed, "joint"),
        "fine-tuned": runs.evaluate("fine-tuned", tuned, "joint"),
    }
    print(f"| directions | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, directions in direction_groups():
        cells = [
            f"{fmean(bleu[d] for d in directions):.1f}" if bleu.keys() >= set(directions) else ""
            for bleu in columns.values()
        ]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
