"""Measure the accuracy and speed of each language identifier on text of known language.

    python benchmarks/identifiers.py FOLDER --sentences 500 --fasttext lid.176.ftz

FOLDER holds one file per language: test.de, test.en …. The result is a Markdown table with the percentage of sentences
identified correctly in each language (restricted to the languages of the folder / unrestricted), and the speed on one
core. They limit what LangAcc (language accuracy) can show. Identifiers that are not installed are reported and skipped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean

import torch

from manyglot.corpus.languages import Languages, english_language_name
from manyglot.errors import ManyglotError
from manyglot.langid.external_identifiers import EXTERNAL_IDENTIFIERS, ExternalIdentifier
from manyglot.langid.fasttext import FastTextIdentifier
from manyglot.langid.identifier import LanguagePredictions, language_accuracy

NOT_IDENTIFIABLE = "–"


def main() -> None:
    """Run all identifiers on all languages and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sentences", type=int, default=500, help="Maximum number of sentences per language.")
    parser.add_argument("--fasttext", type=Path, action="append", default=[], help="A fastText model; may be repeated.")
    parser.add_argument("--averages", action="store_true", help="Print only the rows below the languages.")
    parser.add_argument(
        "--separate-variants",
        action="store_true",
        help="Separate language variants, as evaluation.merge_language_variants=false does.",
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    texts = _read(arguments.folder, arguments.sentences)
    factories: dict[str, Callable[..., ExternalIdentifier]] = {
        **EXTERNAL_IDENTIFIERS,
        **{path.name: partial(FastTextIdentifier, path) for path in arguments.fasttext},
    }
    columns = {}
    for name, make_identifier in factories.items():
        try:
            columns[name] = _evaluate_identifier(
                make_identifier(Languages(texts), merge_language_variants=not arguments.separate_variants), texts
            )
        except ManyglotError as error:
            print(f"skipping {name}: {error}")
    print(f"| language | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    if not arguments.averages:
        for code in texts:
            _print_row(
                f"{code} {english_language_name(code)}",
                [_format_pair(accuracies[code]) for accuracies, _ in columns.values()],
            )
    known = [c for c in texts if all(accuracies[c] for accuracies, _ in columns.values())]
    unknown = [", ".join(c for c in texts if not accuracies[c]) or "none" for accuracies, _ in columns.values()]
    _print_row(
        "mean of known languages", [_format_pair(_mean(accuracies, list(texts))) for accuracies, _ in columns.values()]
    )
    _print_row(
        f"mean of the {len(known)} known to all",
        [_format_pair(_mean(accuracies, known)) for accuracies, _ in columns.values()],
    )
    _print_row("unknown languages", unknown)
    _print_row("sentences/s", [f"{round(speed, 2 - len(str(int(speed)))):,.0f}" for _, speed in columns.values()])


def _read(folder: Path, max_sentences: int) -> dict[str, list[str]]:
    paths = {path.name.partition(".")[2]: path for path in sorted(folder.glob("test.*")) if path.suffix != ".src"}
    lines = {code: [line for line in path.read_text("utf-8").split("\n") if line] for code, path in paths.items()}
    return {
        code: sentences[:: max(len(sentences) // max_sentences, 1)][:max_sentences] for code, sentences in lines.items()
    }


AccuraciesByLanguage = dict[str, tuple[float, float] | None]


def _evaluate_identifier(
    identifier: ExternalIdentifier, texts: dict[str, list[str]]
) -> tuple[AccuraciesByLanguage, float]:
    """Return the accuracies of each language that the identifier knows, and its sentences per second."""
    accuracies: AccuraciesByLanguage = {}
    identifier.identify_batch(["warm-up: packages load some data on first use"])
    start = time.process_time()
    for code, sentences in texts.items():
        predictions = identifier.identify_batch(sentences)
        accuracies[code] = _accuracies(predictions, identifier.label_for(code))
    seconds = time.process_time() - start
    return accuracies, sum(map(len, texts.values())) / seconds


def _accuracies(predictions: LanguagePredictions, label: str | None) -> tuple[float, float] | None:
    restricted, unrestricted = (language_accuracy(labels, label) for labels in predictions)
    return None if restricted is None or unrestricted is None else (restricted, unrestricted)


def _mean(accuracies: AccuraciesByLanguage, codes: list[str]) -> tuple[float, float]:
    known = [rate for code in codes if (rate := accuracies[code])]
    return fmean(rate[0] for rate in known), fmean(rate[1] for rate in known)


def _format_pair(rate: tuple[float, float] | None) -> str:
    return NOT_IDENTIFIABLE if rate is None else f"{rate[0]:.0f} / {rate[1]:.0f}"


def _print_row(name: str, cells: list[str]) -> None:
    print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
