"""How long scoring and language identification take for outputs that are there already, and where the time goes.

    python benchmarks/evaluation.py FOLDER --directions 3306 --sentences 1000

FOLDER holds line-aligned text, test.de, test.en …, an empty line where a language has none. The outputs of a direction
are its references with words lost, doubled, changed in order or replaced by those of another language; a fifth of a
zero-shot direction's outputs is in English. `--check` compares some directions with sacreBLEU and the identifier's own
package, sentence by sentence.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import TypeVar

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import ManyglotError
from manyglot.evaluation.scores import Measure
from manyglot.evaluation.scoring import Translated, score_directions
from manyglot.langid.tools import TOOLS

T = TypeVar("T")


def main() -> None:
    """Build outputs, score them, print the times."""
    arguments = _arguments()
    rows = _read(arguments.folder)
    measure = Measure(arguments.tokenizer)
    codes = [code for code in rows if _can_split(measure, code)]
    directions = [Direction(*pair) for pair in permutations(codes, 2) if "en" not in pair]
    directions = sorted(random.Random(1).sample(directions, min(arguments.directions, len(directions))))
    translated = timed("building outputs", lambda: {d: _outputs(rows, d, arguments.sentences) for d in directions})
    number = sum(len(each.outputs) for each in translated.values())
    characters = sum(len(output) for each in translated.values() for output in each.outputs) / number
    print(
        f"{len(translated)} directions of {len(codes)} languages, {number:,} sentences of {characters:.0f} characters"
    )
    identifier = timed(
        f"loading {arguments.identifier}", lambda: TOOLS[arguments.identifier](Languages(codes), merge=True)
    )
    start, used = time.perf_counter(), _cpu_seconds()
    scored = score_directions(translated, directions, identifier, measure, arguments.processes)
    seconds, used = time.perf_counter() - start, _cpu_seconds() - used
    processes = arguments.processes or len(os.sched_getaffinity(0))
    print(f"scoring and identification: {seconds:.1f} s, {number / seconds:,.0f} sentences/s ({processes} processes)")
    print(f"CPU time of all processes: {used:.0f} s")
    if arguments.check:
        differing = sum(
            _theirs(translated[d], measure.tokenizer_of(d.target)) != (scored[d].result.bleu, scored[d].result.chrf)
            for d in directions[:: max(len(directions) // arguments.check, 1)]
        )
        print(f"directions with another BLEU or chrF++ than sacreBLEU's: {differing}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--directions", type=int, default=330)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=None, help="All cores if not given.")
    parser.add_argument("--identifier", choices=sorted(TOOLS), default="py3langid")
    parser.add_argument("--tokenizer", default="auto")
    parser.add_argument("--check", type=int, default=0, help="Directions to compare with sacreBLEU.")
    return parser.parse_args()


def _read(folder: Path) -> dict[str, list[str]]:
    paths = {path.name.partition(".")[2]: path for path in sorted(folder.glob("test.*")) if path.suffix != ".src"}
    return {code: path.read_text("utf-8").split("\n") for code, path in paths.items()}


def _can_split(measure: Measure, code: str) -> bool:
    try:
        measure.check([code])
    except ManyglotError as error:
        print(f"without {code}: {error}")
        return False
    return True


def _outputs(rows: dict[str, list[str]], direction: Direction, number: int) -> Translated:
    """So many sentences of a direction, and what a model might make of them.

    Where the two languages share fewer, sentences of the target get sources that do not belong to them: the work of
    scoring is the same.
    """
    rng = random.Random(str(direction))
    lines = [(i, reference) for i, reference in enumerate(rows[direction.target]) if reference and rows["en"][i]]
    lines.sort(key=lambda line: not rows[direction.source][line[0]])
    others = [text for text in rows[direction.source] if text]
    lines = lines[:number]
    outputs = [_spoil(rows["en"][i] if rng.random() < 0.2 else reference, rng) for i, reference in lines]
    sources = [rows[direction.source][i] or rng.choice(others) for i, _ in lines]
    return Translated(sources, outputs, [reference for _, reference in lines])


def _spoil(text: str, rng: random.Random) -> str:
    words = text.split()
    if len(words) < 2:  # also a language that puts no space between words
        cut = rng.randrange(len(text) + 1)
        return text[cut:] + text[:cut]
    place = rng.randrange(len(words))
    change = rng.randrange(4)
    if change == 0:
        words.pop(place)
    elif change == 1:
        words.insert(place, rng.choice(words))
    elif change == 2:
        words = words[place:] + words[:place]
    else:
        words[place] = words[place][::-1]
    return " ".join(words)


def _theirs(translated: Translated, tokenizer: str) -> tuple[float, float]:
    bleu, chrf = BLEU(tokenize=tokenizer), CHRF(word_order=2)
    texts = list(translated.outputs), [list(translated.references)]
    return bleu.corpus_score(*texts).score, chrf.corpus_score(*texts).score


def _cpu_seconds() -> float:
    """Of this process and those it has started and waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def timed(what: str, work: Callable[[], T]) -> T:
    """Do it and say how long it took."""
    start = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - start:.1f} s")
    return result


if __name__ == "__main__":
    main()
