"""How often each identifier is right about text that is known to be in a language, and how fast it is.

    python benchmarks/identifiers.py FOLDER --sentences 500

FOLDER holds a file for each language, test.de, test.en …. What is printed is a table in Markdown: of each language the
percentage of sentences that are told right, restricted to the languages of the folder / open, and the speed of a core.
No model can be seen to do better than this. Tools that are not installed are named and left out.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import fmean

import torch

from manyglot.corpus.languages import Languages, name_of
from manyglot.errors import ManyglotError
from manyglot.langid.identifier import Told, accuracy
from manyglot.langid.tools import TOOLS, Tool

UNKNOWN = "–"


def main() -> None:
    """Ask all tools about all languages, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=500, help="Of each language, at most.")
    parser.add_argument("--averages", action="store_true", help="Only the last rows.")
    parser.add_argument("--tell-variants", action="store_true", help="As with evaluation.merge_variants: false.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    texts = _read(arguments.folder, arguments.sentences)
    columns = {}
    for name, tool in TOOLS.items():
        try:
            columns[name] = _ask(tool(Languages(texts), merge=not arguments.tell_variants), texts)
        except ManyglotError as error:
            print(f"without {name}: {error}")
    print(f"| language | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    if not arguments.averages:
        for code in texts:
            _row(f"{code} {name_of(code)}", [_both(rates[code]) for rates, _ in columns.values()])
    known = [c for c in texts if all(rates[c] for rates, _ in columns.values())]
    unknown = [", ".join(c for c in texts if not rates[c]) or "none" for rates, _ in columns.values()]
    _row("mean of those it knows", [_both(_mean(rates, list(texts))) for rates, _ in columns.values()])
    _row(f"mean of the {len(known)} all know", [_both(_mean(rates, known)) for rates, _ in columns.values()])
    _row("does not know", unknown)
    _row("sentences/s", [f"{round(speed, 2 - len(str(int(speed)))):,.0f}" for _, speed in columns.values()])


def _read(folder: Path, number: int) -> dict[str, list[str]]:
    paths = {path.name.partition(".")[2]: path for path in sorted(folder.glob("test.*")) if path.suffix != ".src"}
    lines = {code: [line for line in path.read_text("utf-8").split("\n") if line] for code, path in paths.items()}
    return {code: each[:: max(len(each) // number, 1)][:number] for code, each in lines.items()}


Rates = dict[str, tuple[float, float] | None]


def _ask(tool: Tool, texts: dict[str, list[str]]) -> tuple[Rates, float]:
    """The accuracies of each language that the tool knows, and sentences a second."""
    rates: Rates = {}
    tool.identify_all(["to load what is loaded late"])
    start = time.process_time()
    for code, sentences in texts.items():
        told = tool.identify_all(sentences)
        rates[code] = _rates(told, tool.label(code))
    seconds = time.process_time() - start
    return rates, sum(map(len, texts.values())) / seconds


def _rates(told: Told, label: str | None) -> tuple[float, float] | None:
    restricted, free = (accuracy(labels, label) for labels in told)
    return None if restricted is None or free is None else (restricted, free)


def _mean(rates: Rates, codes: list[str]) -> tuple[float, float]:
    known = [rate for code in codes if (rate := rates[code])]
    return fmean(each[0] for each in known), fmean(each[1] for each in known)


def _both(rate: tuple[float, float] | None) -> str:
    return UNKNOWN if rate is None else f"{rate[0]:.0f} / {rate[1]:.0f}"


def _row(name: str, cells: list[str]) -> None:
    print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
