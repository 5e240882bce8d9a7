"""Store and load the results of the systems compared on mix60, in small files.

Input: one folder per system, with `mix60/` and `ntrex/` (outputs of `manyglot evaluate --zero-shot --output`),
`probe.json` (output of `manyglot probe --json`) and the run's `log.jsonl`. For a system that decodes at random,
`ntrex.2/` and so on repeat `ntrex/` with other values of `decoding.seed`. `token_src.s2` is Token_src trained with
another seed.

Stored for each system:

- `mix60/SYSTEM.csv`: one row per direction and test set;
- `mix60/SYSTEM.json`: settings, training statistics and probe results;
- `mix60/SYSTEM.similarities.json`: the similarity of every pair of languages, from `mix60/about.json` in the folder,
  or computed from `model/` if `about.json` has none.
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
from manyglot.reports.report_run import ReportRun

STORED_RESULTS = Path(__file__).parent / "mix60"
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
"""The systems of the paper, in the order of the tables, with their names in the paper."""
OUR_SYSTEMS = {
    "laa_zero_dec_self_lee_4_5": "LAA_dec.self (gain 0) + LEE_4,5",
    "adapter_dec_aligned": "Adapter_dec, aligned",
    "adapter_dec_before_residual_aligned": "Adapter_dec before the residual, aligned",
    "laa_zero_dec_self_lee_4_5_aligned": "LAA_dec.self (gain 0) + LEE_4,5, aligned",
    "adapter_dec_aligned_strongly": "Adapter_dec, aligned, weight 0.3",
    "adapter_dec_dropout": "Adapter_dec, dropout 0.2",
    "laa_dec_self_lee_4_5_denoising": "LAA_dec.self + LEE_4,5, denoising",
}
"""Systems that are not in the paper."""
ALL_SYSTEMS = SYSTEMS | OUR_SYSTEMS
SCORE_COLUMNS = (
    "num_sentences",
    "bleu",
    "chrf",
    "language_accuracy",
    "reference_language_accuracy",
    "copy_rate",
    "length_ratio",
)
DEV_METRICS = ("dev_bleu", "zero_shot_language_accuracy")
TEST_SETS = {"mix60": "mix60", "ntrex": "NTREX"}


class Direction(NamedTuple):
    """A direction of a test set."""

    test_set: str
    source: str
    target: str


DIRECTION_GROUPS = {
    "En→XX": lambda d: d.source == "en",
    "XX→En": lambda d: d.target == "en",
    "All": lambda d: "en" in (d.source, d.target),
    "Zero-shot": lambda d: "en" not in (d.source, d.target),
}


class StoredSystem:
    """The stored results of one system."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """Settings, training statistics and probe results."""
        metadata: dict[str, Any] = json.loads((STORED_RESULTS / f"{self.name}.json").read_text("utf-8"))
        return metadata

    @cached_property
    def scores(self) -> Mapping[Direction, Mapping[str, float]]:
        """The scores of each direction of each test set."""
        with (STORED_RESULTS / f"{self.name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {
            Direction(row["test_set"], row["source"], row["target"]): {
                key: float(row[key]) for key in SCORE_COLUMNS if row[key]
            }
            for row in rows
        }

    def mean(self, test_set: str, group: str, key: str) -> float:
        """Return the unweighted mean of a score over a group of directions of a test set."""
        is_member = DIRECTION_GROUPS[group]
        return fmean(s[key] for d, s in self.scores.items() if d.test_set == test_set and is_member(d) and key in s)

    def win_rate(self, other: StoredSystem, test_set: str, group: str) -> float:
        """Return the percentage of directions in which BLEU is strictly higher than the other system's."""
        members = [d for d in self.scores if d.test_set == test_set and DIRECTION_GROUPS[group](d)]
        return 100 * fmean(self.scores[d]["bleu"] > other.scores[d]["bleu"] for d in members)


def store_results(folder: Path) -> None:
    """Store the results found in the folder of a system."""
    rows, about = [], json.loads((folder / "mix60" / "about.json").read_text("utf-8"))
    output_language_counts: Mapping[str, Any] = {}
    for test_set in TEST_SETS:
        results = json.loads((folder / test_set / "results.json").read_text("utf-8"))
        for result in results["directions"]:
            values = {
                key: result[key] if isinstance(result[key], int) else _format_number(result[key])
                for key in SCORE_COLUMNS
            }
            rows.append({"test_set": test_set, "source": result["source"], "target": result["target"], **values})
        output_language_counts = output_language_counts or results["output_language_counts"]
    config = {
        key: about["config"][key]
        for key in ("guidance", "model", "batches", "training", "seed")
        if key in about["config"]
    }
    metadata = {
        "num_parameters": about["num_parameters"],
        "training": about["training"],
        **{key: about["curves"][key] for key in DEV_METRICS},
        "dev_nll": about["curves"]["dev_nll"],
        "losses": final_losses(folder / "log.jsonl"),
        "bleu_by_decoding_seed": bleu_by_decoding_seed(folder),
        "config": config,
        "chrf_signature": results["chrf_signature"],
        "bleu_signatures": sorted({result["bleu_signature"] for result in results["directions"]}),
        "identifier_signature": results["identifier_signature"],
        "output_language_counts": output_language_counts,
        "sentences": about["data"]["sentences"],
        "probe": json.loads((folder / "probe.json").read_text("utf-8")),
    }
    STORED_RESULTS.mkdir(exist_ok=True)
    with (STORED_RESULTS / f"{folder.name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["test_set", "source", "target", *SCORE_COLUMNS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(metadata, indent=1, ensure_ascii=False)
    (STORED_RESULTS / f"{folder.name}.json").write_text(text + "\n", encoding="utf-8")
    if by_method := similarities_by_method(folder, about):
        text = json.dumps({"languages": about["languages"], "similarities": by_method}, separators=(",", ":"))
        (STORED_RESULTS / f"{folder.name}.similarities.json").write_text(text + "\n", encoding="utf-8")


def report_runs() -> list[ReportRun]:
    """Return the systems, evaluated on the mix60 test split, as runs of an HTML report, the reference first."""
    first_seeds = [system for system in stored_systems() if "." not in system.name]
    sentences = next(filter(None, (system.metadata.get("sentences") for system in first_seeds)), {})
    return [_report_run(system, sentences) for system in first_seeds]


def _report_run(system: StoredSystem, sentences: Mapping[str, int]) -> ReportRun:
    path, metadata = STORED_RESULTS / f"{system.name}.similarities.json", system.metadata
    languages = json.loads(path.read_text("utf-8")) if path.exists() else {"languages": sorted(sentences)}
    directions = [_direction_result(d, scores) for d, scores in system.scores.items() if d.test_set == "mix60"]
    about = {
        **languages,
        "model": system.name,
        "num_trained_directions": sum(not direction.zero_shot for direction in directions),
        "num_subwords": 32_000,
        "num_parameters": metadata["num_parameters"],
        "parameters": {},
        "training": metadata["training"],
        "data": {"folder": "mix60", "rows": {}, "sentences": sentences},
    }
    evaluation = Evaluation(
        directions,
        [],
        metadata["identifier_signature"],
        metadata["chrf_signature"],
        "en",
        {},
        output_language_counts=metadata.get("output_language_counts", {}),
    )
    return ReportRun(display_name(system), evaluation, lambda _: (), about)


def _direction_result(direction: Direction, scores: Mapping[str, float]) -> DirectionResult:
    unknown = {"language_accuracy": None, "reference_language_accuracy": None, "bleu_signature": ""}
    known = unknown | dict(scores) | {"num_sentences": int(scores["num_sentences"])}
    zero_shot = DIRECTION_GROUPS["Zero-shot"](direction)
    return DirectionResult(source=direction.source, target=direction.target, zero_shot=zero_shot, **known)


def final_losses(log: Path) -> dict[str, dict[str, float]]:
    """Return the final training and dev losses into English, and their means over the other target languages."""
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    train = next(line["into"] for line in reversed(lines) if "into" in line)
    dev = next(line["directions"] for line in reversed(lines) if "directions" in line)
    losses = [(code, "train", line["nll"]) for code, line in train.items()]
    losses += [(name.partition(">")[2], "dev", line["nll"]) for name, line in dev.items() if "nll" in line]
    return {
        target: {
            split: round(fmean(nll for code, s, nll in losses if s == split and (code == "en") == is_english), 4)
            for split in ("train", "dev")
        }
        for target, is_english in (("en", True), ("others", False))
    }


def bleu_by_decoding_seed(folder: Path) -> list[dict[str, float]]:
    """Return mean BLEU on NTREX by group of directions for each decoding seed, or [] if there is only one seed."""
    paths = [folder / "ntrex", *sorted(folder.glob("ntrex.[0-9]*"))]
    means = []
    for path in paths if len(paths) > 1 else []:
        directions = json.loads((path / "results.json").read_text("utf-8"))["directions"]
        bleu_by_group = {
            group: [d["bleu"] for d in directions if is_member(_ntrex_direction(d))]
            for group, is_member in DIRECTION_GROUPS.items()
        }
        means.append({group: round(fmean(values), 4) for group, values in bleu_by_group.items()})
    return means


def _ntrex_direction(result: Mapping[str, Any]) -> Direction:
    return Direction("ntrex", result["source"], result["target"])


def similarities_by_method(folder: Path, about: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the pairwise similarities of the languages by method, from `about` or else from `model/` in the folder."""
    if "similarities" in about or not (folder / "model").exists():
        return {method: pairs for method, pairs in about.get("similarities", {}).items() if pairs}
    from manyglot.probing.language_representations import load_representations_of_models
    from manyglot.reports.html_language_map import lower_triangle_similarities

    representations = load_representations_of_models([str(folder / "model")], None)
    assert all(list(r.codes) == about["languages"] for r in representations)
    return {r.method: pairs for r in representations if (pairs := lower_triangle_similarities(r.values))}


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def stored_systems() -> list[StoredSystem]:
    """Return all stored systems in the order of the tables, each followed by its other seeds."""
    order = list(ALL_SYSTEMS)
    names = sorted(path.stem for path in STORED_RESULTS.glob("*.csv"))
    return sorted(
        (StoredSystem(name) for name in names), key=lambda system: order.index(system.name.partition(".s")[0])
    )


def display_name(system: StoredSystem) -> str:
    """Return the system's name in the paper, or our name for it."""
    name, _, seed = system.name.partition(".s")
    return ALL_SYSTEMS.get(name, name) + (f", seed {seed}" if seed else "")
