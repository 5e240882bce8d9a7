"""The tables of the comparison on mix60, written into mix60.md and the README from what is kept.

python docs/results/mix60.py RUNS/token_src …    # folders named after systems; keeps what is in them, too (kept.py)
python docs/results/mix60.py                     # writes the tables again
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from kept import CURVES, PARTS, SYSTEMS, TESTS, Kept, keep, label, systems

HERE = Path(__file__).parent
PAGE, README = HERE / "mix60.md", HERE.parent.parent / "README.md"
BEST = "adapter_dec_aligned"
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


def blocks() -> dict[str, str]:
    """The tables by name."""
    found = systems()
    made = {f"scores-{test}": _table(_scores(found, test)) for test in TESTS}
    return made | {
        "chrf": _table(_chrf(found)),
        "paper": _table(_paper(found)),
        "training": _table(_training(found)),
        "losses": _table(_losses(found)),
        "noise": _table(_noise(found)),
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
