"""Measure the time of scoring and language identification, without translation.

    python benchmarks/evaluation.py FOLDER --directions 3306 --sentences 1000

FOLDER holds line-aligned text, test.de, test.en …, with an empty line where a language has no text. The outputs of a
direction are its references with errors: words are dropped, repeated, reordered or reversed. A fifth of the outputs are
English references with such errors. `--check` compares the scores of some directions with sacreBLEU's.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import ManyglotError
from manyglot.evaluation import direction_scoring
from manyglot.evaluation.direction_scoring import DirectionTexts, score_directions
from manyglot.evaluation.metrics import BleuChrfScorer
from manyglot.langid.external_identifiers import EXTERNAL_IDENTIFIERS

T = TypeVar("T")


def main() -> None:
    """Build outputs, score them, and print the times."""
    arguments = _arguments()
    rows = _read(arguments.folder)
    scorer = BleuChrfScorer(arguments.tokenizer)
    codes = [code for code in rows if _can_tokenize(scorer, code)]
    directions = [Direction(*pair) for pair in permutations(codes, 2) if "en" not in pair]
    directions = sorted(random.Random(1).sample(directions, min(arguments.directions, len(directions))))
    texts_by_direction = timed(
        "building outputs", lambda: {d: _make_texts(rows, d, arguments.sentences) for d in directions}
    )
    num_sentences = sum(len(texts.outputs) for texts in texts_by_direction.values())
    characters = sum(len(output) for texts in texts_by_direction.values() for output in texts.outputs) / num_sentences
    print(
        f"{len(texts_by_direction)} directions of {len(codes)} languages, "
        f"{num_sentences:,} sentences of {characters:.0f} characters"
    )
    identifier = timed(
        f"loading {arguments.identifier}",
        lambda: EXTERNAL_IDENTIFIERS[arguments.identifier](Languages(codes), merge_language_variants=True),
    )
    result_times: list[float] = []
    run_tasks = direction_scoring._run_tasks

    def record_times(*task_arguments: Any) -> Iterator[Any]:
        for result in run_tasks(*task_arguments):
            result_times.append(time.perf_counter())
            yield result

    direction_scoring._run_tasks = record_times
    start, cpu_seconds = time.perf_counter(), _cpu_seconds()
    scored = score_directions(texts_by_direction, directions, identifier, scorer, arguments.processes)
    seconds, cpu_seconds = time.perf_counter() - start, _cpu_seconds() - cpu_seconds
    processes = arguments.processes or len(os.sched_getaffinity(0))
    print(
        f"scoring and identification: {seconds:.1f} s, "
        f"{num_sentences / seconds:,.0f} sentences/s ({processes} processes)"
    )
    print(f"first result after {result_times[0] - start:.1f} s")
    print(f"CPU time of all processes: {cpu_seconds:.0f} s")
    if arguments.check:
        num_differing = sum(
            _sacrebleu_scores(texts_by_direction[d], scorer.tokenizer_name(d.target))
            != (scored[d].result.bleu, scored[d].result.chrf)
            for d in directions[:: max(len(directions) // arguments.check, 1)]
        )
        print(f"directions whose BLEU or chrF++ differs from sacreBLEU's: {num_differing}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--directions", type=int, default=330)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=None, help="Default: all cores.")
    parser.add_argument("--identifier", choices=sorted(EXTERNAL_IDENTIFIERS), default="py3langid")
    parser.add_argument("--tokenizer", default="auto")
    parser.add_argument("--check", type=int, default=0, help="Number of directions to compare with sacreBLEU.")
    return parser.parse_args()


def _read(folder: Path) -> dict[str, list[str]]:
    paths = {path.name.partition(".")[2]: path for path in sorted(folder.glob("test.*")) if path.suffix != ".src"}
    return {code: path.read_text("utf-8").split("\n") for code, path in paths.items()}


def _can_tokenize(scorer: BleuChrfScorer, code: str) -> bool:
    try:
        scorer.check_tokenizers_installed([code])
    except ManyglotError as error:
        print(f"skipping {code}: {error}")
        return False
    return True


def _make_texts(rows: dict[str, list[str]], direction: Direction, num_sentences: int) -> DirectionTexts:
    """Return the texts of a direction with corrupted references as outputs.

    If the two languages share too few rows, some references get unrelated sources; the cost of scoring is the same.
    """
    rng = random.Random(str(direction))
    lines = [(i, reference) for i, reference in enumerate(rows[direction.target]) if reference and rows["en"][i]]
    lines.sort(key=lambda line: not rows[direction.source][line[0]])
    source_texts = [text for text in rows[direction.source] if text]
    lines = lines[:num_sentences]
    outputs = [_corrupt(rows["en"][i] if rng.random() < 0.2 else reference, rng) for i, reference in lines]
    sources = [rows[direction.source][i] or rng.choice(source_texts) for i, _ in lines]
    return DirectionTexts(sources, outputs, [reference for _, reference in lines])


def _corrupt(text: str, rng: random.Random) -> str:
    words = text.split()
    if len(words) < 2:  # also languages without spaces between words
        cut = rng.randrange(len(text) + 1)
        return text[cut:] + text[:cut]
    position = rng.randrange(len(words))
    change = rng.randrange(4)
    if change == 0:
        words.pop(position)
    elif change == 1:
        words.insert(position, rng.choice(words))
    elif change == 2:
        words = words[position:] + words[:position]
    else:
        words[position] = words[position][::-1]
    return " ".join(words)


def _sacrebleu_scores(texts: DirectionTexts, tokenizer: str) -> tuple[float, float]:
    bleu, chrf = BLEU(tokenize=tokenizer), CHRF(word_order=2)
    corpus = list(texts.outputs), [list(texts.references)]
    return bleu.corpus_score(*corpus).score, chrf.corpus_score(*corpus).score


def _cpu_seconds() -> float:
    """CPU time of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def timed(task: str, work: Callable[[], T]) -> T:
    """Run a task and print its time."""
    start = time.perf_counter()
    result = work()
    print(f"{task}: {time.perf_counter() - start:.1f} s")
    return result


if __name__ == "__main__":
    main()
