"""Write the tables of the mix60 comparison into mix60.md and the README, from the stored results.

python docs/results/mix60.py RUNS/token_src …    # store the results of these folders first
python docs/results/mix60.py                     # only rewrite the tables
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from stored_results import (
    DEV_METRICS,
    DIRECTION_GROUPS,
    SYSTEMS,
    TEST_SETS,
    StoredSystem,
    display_name,
    store_results,
    stored_systems,
)

HERE = Path(__file__).parent
PAGE, README = HERE / "mix60.md", HERE.parent.parent / "README.md"
BEST_OF_OURS = "adapter_dec_before_residual_aligned"
PAPER_BLEU = {
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


def tables() -> dict[str, str]:
    """Return the Markdown tables of mix60.md by name."""
    systems = stored_systems()
    score_tables = {f"scores-{test_set}": _markdown_table(_score_rows(systems, test_set)) for test_set in TEST_SETS}
    return score_tables | {
        "chrf": _markdown_table(_chrf_rows(systems)),
        "paper": _markdown_table(_paper_rows(systems)),
        "training": _markdown_table(_training_rows(systems)),
        "losses": _markdown_table(_loss_rows(systems)),
        "noise": _markdown_table(_seed_noise_rows(systems)),
        "probe": _markdown_table(_probe_rows(systems)),
        "mantel": _markdown_table(_mantel_rows(systems)),
    }


Rows = Iterator[Sequence[str]]


def _score_rows(systems: Sequence[StoredSystem], test_set: str) -> Rows:
    """Rows in the layout of the paper's tables; WR is the win rate against the reference."""
    reference = StoredSystem(REFERENCE)
    columns = [
        f"{group} {key}"
        for group in DIRECTION_GROUPS
        for key in (("BLEU", "LangAcc", "WR") if group == "Zero-shot" else ("BLEU", "WR"))
    ]
    yield ["system", "parameters", *columns]
    for system in systems:
        row = [display_name(system), f"{system.metadata['num_parameters'] / 1e6:.0f}M"]
        for group in DIRECTION_GROUPS:
            row.append(f"{system.mean(test_set, group, 'bleu'):.2f}")
            if group == "Zero-shot":
                row.append(f"{system.mean(test_set, group, 'language_accuracy'):.2f}")
            row.append("*base*" if system.name == REFERENCE else f"{system.win_rate(reference, test_set, group):.2f}")
        yield row


def _readme_rows(systems: Sequence[StoredSystem]) -> Rows:
    """BLEU of the paper's systems and of our best system on the mix60 test split."""
    yield ["guidance", "from English", "into English", "zero-shot", "zero-shot LangAcc"]
    for system in systems:
        if system.name in (*SYSTEMS, BEST_OF_OURS):
            bleu = [f"{system.mean('mix60', group, 'bleu'):.1f}" for group in ("En→XX", "XX→En", "Zero-shot")]
            yield [display_name(system), *bleu, f"{system.mean('mix60', 'Zero-shot', 'language_accuracy'):.1f}%"]


def _chrf_rows(systems: Sequence[StoredSystem]) -> Rows:
    yield ["system", *(f"{group}, {name}" for name in TEST_SETS.values() for group in DIRECTION_GROUPS)]
    for system in systems:
        means = [system.mean(test_set, group, "chrf") for test_set in TEST_SETS for group in DIRECTION_GROUPS]
        yield [display_name(system), *(f"{mean:.1f}" for mean in means)]


def _paper_rows(systems: Sequence[StoredSystem]) -> Rows:
    """The BLEU gain over the reference on mix60, beside the gain on TED-59 in the paper."""
    groups, reference = ("En→XX", "XX→En", "Zero-shot"), StoredSystem(REFERENCE)
    yield ["system", *(f"{group}, {where}" for group in groups for where in ("here", "TED-59"))]
    for system in systems:
        if system.name in PAPER_BLEU and system.name != REFERENCE:
            ours = [system.mean("mix60", group, "bleu") - reference.mean("mix60", group, "bleu") for group in groups]
            papers = [value - base for value, base in zip(PAPER_BLEU[system.name], PAPER_BLEU[REFERENCE], strict=True)]
            gains = (gain for pair in zip(ours, papers, strict=True) for gain in pair)
            yield [display_name(system), *(f"{gain:+.2f}" for gain in gains)]


def _seed_noise_rows(systems: Sequence[StoredSystem]) -> Rows:
    """BLEU with two training seeds, or with several decoding seeds."""
    yield ["system", "test set", *DIRECTION_GROUPS]
    for system in systems:
        name, _, seed = system.name.partition(".s")
        for test_set, title in TEST_SETS.items() if seed else ():
            first = StoredSystem(name)
            means = [(first.mean(test_set, g, "bleu"), system.mean(test_set, g, "bleu")) for g in DIRECTION_GROUPS]
            yield [display_name(first), title, *(f"{one:.2f}, {other:.2f}" for one, other in means)]
        if seeds := system.metadata["bleu_by_decoding_seed"]:
            by_group = [[bleu[group] for bleu in seeds] for group in DIRECTION_GROUPS]
            title = f"{TEST_SETS['ntrex']}, {len(seeds)} decoding seeds"
            yield [display_name(system), title, *(f"{fmean(values):.2f} ± {stdev(values):.2f}" for values in by_group)]


def _training_rows(systems: Sequence[StoredSystem]) -> Rows:
    yield [
        "system",
        "target tokens",
        "updates",
        "time",
        "tokens/s",
        "dev BLEU at a quarter, half, three quarters, the end",
        "zero-shot LangAcc at the same steps",
    ]
    for system in systems:
        training = system.metadata["training"]
        tokens, seconds = training["target_tokens"], training["seconds"]
        curves = [", ".join(f"{value:.1f}" for _, value in system.metadata[key]) for key in DEV_METRICS]
        time = f"{int(seconds // 60)} min {seconds % 60:.0f} s"
        yield [display_name(system), f"{tokens:,}", f"{training['steps']:,}", time, f"{tokens / seconds:,.0f}", *curves]


def _loss_rows(systems: Sequence[StoredSystem]) -> Rows:
    yield ["system", "into English: train", "dev", "into the others: train", "dev"]
    for system in systems:
        losses = system.metadata["losses"]
        values = [losses[target][split] for target in ("en", "others") for split in ("train", "dev")]
        yield [display_name(system), *(f"{value:.2f}" for value in values)]


def _probe_rows(systems: Sequence[StoredSystem]) -> Rows:
    """Accuracy with 1, 3, 5, 7 and 9 neighbors, and the baselines without a model."""
    groups = systems[-1].metadata["probe"]["results"][0]["group_results"]
    yield ["system", "representation", *(group["group"] for group in groups)]
    for system in systems:
        for result in system.metadata["probe"]["results"]:
            cells = [_format_accuracies(group["knn_accuracy"]["by_k"]) for group in result["group_results"]]
            yield [display_name(system), result["method"], *cells]
    for name, key in (
        ("random vectors, mean of 100", "random_mean"),
        ("family and geography", "family_and_geography"),
    ):
        yield [name, "", *(_format_accuracies(group["baselines"][key]["by_k"]) for group in groups)]
    yield ["majority class", "", *(f"{group['baselines']['majority_class']:.1f}" for group in groups)]


def _format_accuracies(values: Sequence[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)


def _mantel_rows(systems: Sequence[StoredSystem]) -> Rows:
    kinds = [mantel["distance_kind"] for mantel in systems[0].metadata["probe"]["results"][0]["mantel_results"]]
    yield ["system", "representation", *(f"{kind} (p)" for kind in kinds)]
    for system in systems:
        for result in system.metadata["probe"]["results"]:
            mantel_results = result["mantel_results"]
            cells = [f"{mantel['correlation']:.2f} ({mantel['p_value']:.3f})" for mantel in mantel_results]
            yield [display_name(system), result["method"], *cells]


def _markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a Markdown table; the first row is the heading."""
    head, *body = [list(row) for row in rows]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])


def page() -> str:
    """Return the text of mix60.md with up-to-date tables."""
    return _replace_tables(PAGE, tables())


def readme() -> str:
    """Return the text of the README with an up-to-date table."""
    return _replace_tables(README, {"mix60": _markdown_table(_readme_rows(stored_systems()))})


def _replace_tables(path: Path, table_by_name: Mapping[str, str]) -> str:
    text = path.read_text("utf-8")
    for name, table in table_by_name.items():
        text, num_replaced = re.subn(
            rf"(<!-- {name} -->\n).*?(\n<!-- end -->)",
            lambda match, table=table: match[1] + table + match[2],
            text,
            flags=re.S,
        )
        if num_replaced != 1:
            raise SystemExit(
                f"{path.name} must contain <!-- {name} --> … <!-- end --> exactly once, not {num_replaced} times."
            )
    return text


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        store_results(Path(argument))
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")
