"""The results of the comparison on mix60: kept in small files, and written into mix60.md from them.

    python docs/results/mix60.py RUNS/token_src …    # folders named after systems; keeps what is in them
    python docs/results/mix60.py                     # writes the tables into mix60.md and the README again

A folder has `mix60/` and `ntrex/`, outputs of `manyglot evaluate --zero-shot --output`, `probe.json`, of
`manyglot probe --json`, and the run's `log.jsonl`; `ntrex.2/` and so on may be the same with another `decoding.seed`,
for a system that draws at random. `token_src.s2` is Token_src with another seed.

Of a system are kept `mix60/SYSTEM.csv`, a row for each direction and test set, `mix60/SYSTEM.json`: its settings, its
training and what was probed, and `mix60/SYSTEM.alike.json`: how similar each two languages are to it, from
`mix60/about.json` in the folder, or where an earlier release wrote that, from `model/`.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from manyglot.evaluation.results import DirectionResult, Evaluation
from manyglot.reports.page_data import Run

HERE = Path(__file__).parent
KEPT, PAGE, README = HERE / "mix60", HERE / "mix60.md", HERE.parent.parent / "README.md"
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
    "laa_zero_dec_self_lee_4_5_less_english": "LAA_dec.self (gain 0) + LEE_4,5, less into English",
    "adapter_dec_aligned": "Adapter_dec, aligned",
    "adapter_dec_less_english": "Adapter_dec, less into English",
    "adapter_dec_dropout": "Adapter_dec, dropout 0.2",
    "laa_zero_dec_self_cross": "LAA_dec.self,cros (gain 0)",
    "laa_dec_self_lee_4_5_denoising": "LAA_dec.self + LEE_4,5, denoising",
}
"""What goes beyond it."""
BEST = "laa_zero_dec_self_lee_4_5"
NAMES = SYSTEMS | ATTEMPTS
PAPER = {
    "token_tgt": (20.74, 24.08, 2.42),
    "token_src": (21.24, 23.77, 10.50),
    "lee_4_5": (20.83, 24.49, 3.94),
    "lee_2_5": (21.26, 23.79, 9.82),
    "laa_dec_self": (21.29, 25.14, 8.94),
    "laa_dec_self_cross": (21.47, 24.79, 12.69),
    "laa_dec_self_lee_4_5": (21.28, 25.29, 9.48),
    "adapter_dec": (21.43, 24.14, 10.61),
    "laln_lalt": (21.37, 22.85, 7.69),
    "random_laa_token_src": (20.74, 25.94, 7.08),
}
"""BLEU on TED-59 in the paper: from English, into English, zero-shot."""
REFERENCE = "token_tgt"
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
    """Those that are kept, in the order of the tables."""
    others = sorted(path.stem for path in KEPT.glob("*.csv") if path.stem not in NAMES)
    return [Kept(name) for name in [*NAMES, *others] if (KEPT / f"{name}.csv").exists()]


def label(system: Kept) -> str:
    """Its name in the paper, or ours."""
    name, _, seed = system.name.partition(".s")
    return NAMES.get(name, name) + (f", seed {seed}" if seed else "")


def blocks() -> dict[str, str]:
    """The tables by name."""
    found = systems()
    made = {f"scores-{test}": _table(_scores(found, test)) for test in TESTS}
    return made | {
        "chrf": _table(_chrf(found)),
        "paper": _table(_paper(found)),
        "training": _table(_training(found)),
        "losses": _table(_losses(found)),
        "noise": _table(rows) if len(rows := list(_noise(found))) > 1 else "*Still to be measured.*",
        "probe": _table(_probe(found)),
        "mantel": _table(_mantel(found)),
    }


Rows = Iterator[Sequence[str]]


def _scores(found: Sequence[Kept], test: str) -> Rows:
    """The layout of the paper's tables."""
    reference = Kept(REFERENCE)
    columns = [
        f"{part} {key}"
        for part in PARTS
        for key in (("BLEU", "LangAcc", "WR") if part == "Zero-shot" else ("BLEU", "WR"))
    ]
    yield ["system", "parameters", *columns]
    for system in found:
        row = [label(system), f"{system.about['num_parameters'] / 1e6:.0f}M"]
        for part in PARTS:
            row.append(f"{system.mean(test, part, 'bleu'):.2f}")
            if part == "Zero-shot":
                row.append(f"{system.mean(test, part, 'language_accuracy'):.2f}")
            row.append("*ref*" if system.name == REFERENCE else f"{system.wins(reference, test, part):.2f}")
        yield row


def _short_scores(found: Sequence[Kept]) -> Rows:
    """BLEU on its own test split of the paper's systems and the best of the others."""
    yield ["guidance", "from English", "into English", "zero-shot", "zero-shot in the right language"]
    for system in found:
        if system.name in (*SYSTEMS, BEST):
            bleu = [f"{system.mean('mix60', part, 'bleu'):.1f}" for part in ("En→XX", "XX→En", "Zero-shot")]
            yield [label(system), *bleu, f"{system.mean('mix60', 'Zero-shot', 'language_accuracy'):.1f}%"]


def _chrf(found: Sequence[Kept]) -> Rows:
    yield ["system", *(f"{part}, {name}" for name in TESTS.values() for part in PARTS)]
    for system in found:
        yield [label(system), *(f"{system.mean(test, part, 'chrf'):.1f}" for test in TESTS for part in PARTS)]


def _paper(found: Sequence[Kept]) -> Rows:
    """What is gained over the reference, here and there."""
    parts, reference = ("En→XX", "XX→En", "Zero-shot"), Kept(REFERENCE)
    yield ["system", *(f"{part}, {where}" for part in parts for where in ("here", "TED-59"))]
    for system in found:
        if system.name in PAPER and system.name != REFERENCE:
            here = [system.mean("mix60", part, "bleu") - reference.mean("mix60", part, "bleu") for part in parts]
            there = [value - base for value, base in zip(PAPER[system.name], PAPER[REFERENCE], strict=True)]
            gains = (gain for both in zip(here, there, strict=True) for gain in both)
            yield [label(system), *(f"{gain:+.2f}" for gain in gains)]


def _noise(found: Sequence[Kept]) -> Rows:
    """BLEU with one seed and with another."""
    yield ["system", "test set", *PARTS]
    for system in found:
        name, _, seed = system.name.partition(".s")
        for test, told in TESTS.items() if seed else ():
            means = [[each.mean(test, part, "bleu") for each in (Kept(name), system)] for part in PARTS]
            yield [label(Kept(name)), told, *(f"{one:.2f}, {other:.2f}" for one, other in means)]
        if draws := system.about["draws"]:
            parts = [[draw[part] for draw in draws] for part in PARTS]
            told = f"{TESTS['ntrex']}, {len(draws)} draws"
            yield [label(system), told, *(f"{fmean(values):.2f} ± {stdev(values):.2f}" for values in parts)]


def _training(found: Sequence[Kept]) -> Rows:
    yield [
        "system",
        "target tokens",
        "updates",
        "time",
        "tokens/s",
        "dev BLEU at a quarter, half, three quarters, the end",
        "zero-shot LangAcc there",
    ]
    for system in found:
        training = system.about["training"]
        tokens, seconds = training["target_tokens"], training["seconds"]
        curves = [", ".join(f"{value:.1f}" for _, value in system.about[key]) for key in CURVES]
        time = f"{int(seconds // 60)} min {seconds % 60:.0f} s"
        yield [label(system), f"{tokens:,}", f"{training['steps']:,}", time, f"{tokens / seconds:,.0f}", *curves]


def _losses(found: Sequence[Kept]) -> Rows:
    yield ["system", "into English: train", "dev", "into the others: train", "dev"]
    for system in found:
        parts = [system.about["losses"][part][kind] for part in ("en", "others") for kind in ("train", "dev")]
        yield [label(system), *(f"{value:.2f}" for value in parts)]


def _probe(found: Sequence[Kept]) -> Rows:
    """Accuracy with 1, 3, 5, 7 and 9 neighbours, beside what is told without a model."""
    groups = found[-1].about["probe"]["results"][0]["groups"]
    yield ["system", "representation", *(group["group"] for group in groups)]
    for system in found:
        for result in system.about["probe"]["results"]:
            told = [_by_number(group["score"]["by_number"]) for group in result["groups"]]
            yield [label(system), result["representation"], *told]
    for name, key in (
        ("random vectors, the mean of 100", "random_mean"),
        ("family and geography", "family_and_geography"),
    ):
        yield [name, "", *(_by_number(group["baselines"][key]["by_number"]) for group in groups)]
    yield ["majority class", "", *(f"{group['baselines']['majority']:.1f}" for group in groups)]


def _by_number(values: Sequence[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def _mantel(found: Sequence[Kept]) -> Rows:
    kinds = [each["kind"] for each in found[0].about["probe"]["results"][0]["mantel"]]
    yield ["system", "representation", *(f"{kind} (p)" for kind in kinds)]
    for system in found:
        for result in system.about["probe"]["results"]:
            told = [f"{each['correlation']:.2f} ({each['p_value']:.3f})" for each in result["mantel"]]
            yield [label(system), result["representation"], *told]


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    head, *body = [list(row) for row in rows]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])


def page() -> str:
    """mix60.md with the tables as they are now."""
    return _filled(PAGE, blocks())


def readme() -> str:
    """The README with its table as it is now."""
    return _filled(README, {"mix60": _table(_short_scores(systems()))})


def _filled(path: Path, tables: Mapping[str, str]) -> str:
    text = path.read_text("utf-8")
    for name, block in tables.items():
        text, number = re.subn(
            rf"(<!-- {name} -->\n).*?(\n<!-- end -->)",
            lambda found, block=block: found[1] + block + found[2],
            text,
            flags=re.S,
        )
        if number != 1:
            raise SystemExit(f"{path.name} should have one place for the table {name}, it has {number}.")
    return text


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        keep(Path(argument))
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")
