"""What is kept in small files of the systems that were compared on mix60.

A system's folder has `mix60/` and `ntrex/`, outputs of `manyglot evaluate --zero-shot --output`, `probe.json`, of
`manyglot probe --json`, and the run's `log.jsonl`; `ntrex.2/` and so on may be the same with another `decoding.seed`,
for a system that draws at random. `token_src.s2` is Token_src with another seed.

Of a system are kept `mix60/SYSTEM.csv`, a row for each direction and test set, `mix60/SYSTEM.json`: its settings, its
training and what was probed, and `mix60/SYSTEM.alike.json`: how similar each two languages are to it, from
`mix60/about.json` in the folder, or where an earlier release wrote that, from `model/`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from manyglot.evaluation.results import DirectionResult, Evaluation
from manyglot.reports.page_data import Run

KEPT = Path(__file__).parent / "mix60"
SYSTEMS = {
    "token_tgt": "Token_tgt",
    "token_src": "Token_src",
    "lee_4_5": "LEE_4,5",
    "lee_2_5": "LEE_2,5",
    "laa_dec_self": "LAA_dec.self",
    "laa_dec_self_cross": "LAA_dec.self,cros",
    "laa_dec_self_lee_4_5": "LAA_dec.self + LEE_4,5",
    "adapter_dec": "Adapter_dec",
    "laln_lalt": "LALN + LALT",
    "random_laa_token_src": "LAA^R_dec.self + Token_src",
}
"""In the order of the tables, with their names in the paper."""
ATTEMPTS = {
    "laa_zero_dec_self_lee_4_5": "LAA_dec.self (gain 0) + LEE_4,5",
    "adapter_dec_aligned": "Adapter_dec, aligned",
    "adapter_dec_aligned_strongly": "Adapter_dec, aligned, weight 0.3",
    "adapter_dec_dropout": "Adapter_dec, dropout 0.2",
    "laa_dec_self_lee_4_5_denoising": "LAA_dec.self + LEE_4,5, denoising",
}
"""What goes beyond it."""
NAMES = SYSTEMS | ATTEMPTS
FIELDS = ("num_sentences", "bleu", "chrf", "language_accuracy", "reference_accuracy", "copy_rate", "length_ratio")
CURVES = ("dev_bleu", "zero_shot_language_accuracy")
TESTS = {"mix60": "its own test split", "ntrex": "NTREX"}


class Direction(NamedTuple):
    """A direction of a test set."""

    test: str
    source: str
    target: str


PARTS = {
    "En→XX": lambda d: d.source == "en",
    "XX→En": lambda d: d.target == "en",
    "All": lambda d: "en" in (d.source, d.target),
    "Zero-shot": lambda d: "en" not in (d.source, d.target),
}


class Kept:
    """What is kept of a system."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """Its settings, its training and what was probed."""
        about: dict[str, Any] = json.loads((KEPT / f"{self.name}.json").read_text("utf-8"))
        return about

    @cached_property
    def scores(self) -> Mapping[Direction, Mapping[str, float]]:
        """Of each direction of each test set."""
        with (KEPT / f"{self.name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {
            Direction(row["test"], row["source"], row["target"]): {key: float(row[key]) for key in FIELDS if row[key]}
            for row in rows
        }

    def mean(self, test: str, part: str, key: str) -> float:
        """Over the directions of a part of a test set."""
        found = [s[key] for d, s in self.scores.items() if d.test == test and PARTS[part](d) and key in s]
        return fmean(found)

    def wins(self, other: Kept, test: str, part: str) -> float:
        """Percent of the directions in which BLEU is strictly above another system's."""
        chosen = [d for d in self.scores if d.test == test and PARTS[part](d)]
        return 100 * fmean(self.scores[d]["bleu"] > other.scores[d]["bleu"] for d in chosen)


def keep(folder: Path) -> None:
    """Keep what is needed of a system's folder."""
    rows, about = [], json.loads((folder / "mix60" / "about.json").read_text("utf-8"))
    outputs_in: Mapping[str, Any] = {}
    for test in TESTS:
        results = json.loads((folder / test / "results.json").read_text("utf-8"))
        for each in results["directions"]:
            values = {key: each[key] if isinstance(each[key], int) else _short(each[key]) for key in FIELDS}
            rows.append({"test": test, "source": each["source"], "target": each["target"], **values})
        outputs_in = outputs_in or results["outputs_in"]
    config = {
        key: about["config"][key]
        for key in ("guidance", "model", "batches", "training", "seed")
        if key in about["config"]
    }
    kept = {
        "num_parameters": about["num_parameters"],
        "training": about["training"],
        **{key: about["curves"][key] for key in CURVES},
        "dev_nll": about["curves"]["dev_nll"],
        "losses": losses(folder / "log.jsonl"),
        "draws": draws(folder),
        "config": config,
        "chrf_signature": results["chrf_signature"],
        "bleu_signatures": sorted({each["bleu_signature"] for each in results["directions"]}),
        "identifier": results["identifier"],
        "outputs_in": outputs_in,
        "sentences": about["data"]["sentences"],
        "probe": json.loads((folder / "probe.json").read_text("utf-8")),
    }
    KEPT.mkdir(exist_ok=True)
    with (KEPT / f"{folder.name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["test", "source", "target", *FIELDS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (KEPT / f"{folder.name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if alike := similarities(folder, about):
        text = json.dumps({"languages": about["languages"], "similarities": alike}, separators=(",", ":"))
        (KEPT / f"{folder.name}.alike.json").write_text(text + "\n", encoding="utf-8")


def runs() -> list[Run]:
    """What is kept of the systems on their own test split, as a report takes it; the reference is the first."""
    found = [system for system in systems() if "." not in system.name]
    sentences = next(filter(None, (system.about.get("sentences") for system in found)), {})
    return [_run(system, sentences) for system in found]


def _run(system: Kept, sentences: Mapping[str, int]) -> Run:
    path, kept = KEPT / f"{system.name}.alike.json", system.about
    alike = json.loads(path.read_text("utf-8")) if path.exists() else {"languages": sorted(sentences)}
    directions = [_result(d, scores) for d, scores in system.scores.items() if d.test == "mix60"]
    judged = kept["identifier"], kept["chrf_signature"], "en", {}
    about = {
        **alike,
        "model": system.name,
        "num_trained_directions": sum(not each.zero_shot for each in directions),
        "num_subwords": 32_000,
        "num_parameters": kept["num_parameters"],
        "parameters": {},
        "training": kept["training"],
        "data": {"folder": "mix60", "rows": {}, "sentences": sentences},
    }
    evaluation = Evaluation(directions, [], *judged, outputs_in=kept.get("outputs_in", {}))
    return Run(label(system), evaluation, lambda _: (), about)


def _result(direction: Direction, scores: Mapping[str, float]) -> DirectionResult:
    unknown = {"language_accuracy": None, "reference_accuracy": None, "bleu_signature": ""}
    known = unknown | dict(scores) | {"num_sentences": int(scores["num_sentences"])}
    zero_shot = PARTS["Zero-shot"](direction)
    return DirectionResult(source=direction.source, target=direction.target, zero_shot=zero_shot, **known)


def losses(log: Path) -> dict[str, dict[str, float]]:
    """At the end of a training, on its own text and on the dev text: into English, and the mean into the others."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    train = next(line["into"] for line in reversed(lines) if "into" in line)
    dev = next(line["directions"] for line in reversed(lines) if "directions" in line)
    into = [(code, "train", each["nll"]) for code, each in train.items()]
    into += [(name.partition(">")[2], "dev", each["nll"]) for name, each in dev.items() if "nll" in each]
    return {
        part: {
            kind: round(fmean(nll for code, of, nll in into if of == kind and (code == "en") == english), 4)
            for kind in ("train", "dev")
        }
        for part, english in (("en", True), ("others", False))
    }


def draws(folder: Path) -> list[dict[str, float]]:
    """BLEU on NTREX by part with each seed of decoding, if there are several."""
    paths = [folder / "ntrex", *sorted(folder.glob("ntrex.[0-9]*"))]
    found = []
    for path in paths if len(paths) > 1 else []:
        directions = json.loads((path / "results.json").read_text("utf-8"))["directions"]
        of = {part: [d["bleu"] for d in directions if chosen(_direction(d))] for part, chosen in PARTS.items()}
        found.append({part: round(fmean(values), 4) for part, values in of.items()})
    return found


def _direction(result: Mapping[str, Any]) -> Direction:
    return Direction("ntrex", result["source"], result["target"])


def similarities(folder: Path, about: Mapping[str, Any]) -> dict[str, list[float]]:
    """Of each two languages by representation: those beside the scores, or those of `model/` in the folder."""
    if "similarities" in about or not (folder / "model").exists():
        return {method: pairs for method, pairs in about.get("similarities", {}).items() if pairs}
    from manyglot.probing.representations import read_models
    from manyglot.reports.language_places import pairs_of

    found = read_models([str(folder / "model")], None)
    assert all(list(each.codes) == about["languages"] for each in found)
    return {each.method: pairs for each in found if (pairs := pairs_of(each.values))}


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def systems() -> list[Kept]:
    """Those that are kept, in the order of the tables, each with its other seeds after it."""
    order = list(NAMES)
    names = sorted(path.stem for path in KEPT.glob("*.csv"))
    return sorted((Kept(name) for name in names), key=lambda system: order.index(system.name.partition(".s")[0]))


def label(system: Kept) -> str:
    """Its name in the paper, or ours."""
    name, _, seed = system.name.partition(".s")
    return NAMES.get(name, name) + (f", seed {seed}" if seed else "")
