"""What is counted and told of each sentence of a direction.

Scores are sums over sentences, so those of any part of a test set follow from it: runs that were tested on different
sentences are compared on those they share, and all on draws of them, without anything being judged again.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.scores import bleu_score, chrf_score

Array = npt.NDArray[Any]
FLAGS = ("reference_accuracy", "open_language_accuracy", "copy_rate", "empty_rate")
"""What is true of a sentence or not, and of how many percent in a score of this name."""
ABOUT_LANGUAGES = FLAGS[:2]
"""Those that need an identifier that knows the target language."""


class Statistics(NamedTuple):
    """The sentences of a direction; earlier versions wrote only the first two."""

    sentences_N: Array
    """Fingerprints of source and reference."""
    bleu_NS: Array
    """See `ngrams.Counts`."""
    chrf_NS: Array | None = None
    identified_N: Array | None = None
    """The language of each output: the target's code where it is that, another label where not."""
    flags_NF: Array | None = None
    """See `FLAGS`."""
    rows_N: Array | None = None
    """The rows of the test set, by numbers that all directions share."""

    def part(self, places: Array) -> Statistics:
        """Some of the sentences."""
        return Statistics._make(None if each is None else each[places] for each in self)

    def scores(self, target: str, is_known: bool) -> dict[str, Any]:
        """The fields of a `DirectionResult` that follow; `is_known` says if the identifier can tell the target."""
        assert self.chrf_NS is not None
        assert self.identified_N is not None
        assert self.flags_NF is not None
        number, told = len(self.sentences_N), Counter(self.identified_N.tolist())
        on_target = told.pop(target, 0)
        told.pop("", None)  # in no language
        other = min(told, key=lambda label: (-told[label], label), default=None)
        shares = dict(zip(FLAGS, (100 * int(n) / number for n in self.flags_NF.sum(axis=0)), strict=True))
        totals = self.bleu_NS.sum(axis=0).tolist()
        return {
            **shares,
            **({} if is_known else dict.fromkeys(ABOUT_LANGUAGES)),
            "num_sentences": number,
            "bleu": bleu_score(totals),
            "chrf": chrf_score(self.chrf_NS.sum(axis=0).tolist()),
            "language_accuracy": 100 * on_target / number if is_known else None,
            "other_language": other,
            "other_share": 100 * told[other] / number if other else 0.0,
            "length_ratio": totals[0] / totals[1] if totals[1] else None,
            "test_set": blake2b(np.sort(self.sentences_N).tobytes(), digest_size=8).hexdigest(),
        }


def smallest(counts: Array) -> Array:
    """The same counts in as few bytes as hold them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def write_statistics(path: Path, statistics: Mapping[Direction, Statistics]) -> None:
    """Write those of all directions, one after the other."""
    columns: dict[str, Any] = {
        _key(name): np.concatenate(each)
        for name, each in zip(Statistics._fields, zip(*statistics.values(), strict=True), strict=True)
        if each[0] is not None
    }
    sizes = [len(each.sentences_N) for each in statistics.values()]
    directions = [direction.as_setting() for direction in statistics]
    np.savez_compressed(path, directions=np.array(directions), sizes=np.array(sizes), **columns)


def read_statistics(path: Path, sizes: Mapping[Direction, int]) -> dict[Direction, Statistics]:
    """What is there, of directions of known sizes; nothing if the file is not, as where only results.json was kept."""
    if not path.exists():
        return {}
    try:
        with np.load(path, allow_pickle=False) as stored:
            columns = {name: stored[_key(name)] for name in Statistics._fields if _key(name) in stored}
            names, ends = stored["directions"].tolist(), np.cumsum(stored["sizes"]).tolist()
        found = {}
        for name, start, stop in zip(names, [0, *ends], ends, strict=False):
            source, _, target = str(name).partition(">")
            found[Direction(source, target)] = Statistics(**{key: each[start:stop] for key, each in columns.items()})
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        raise FolderError(f"{path} is damaged. Evaluate again, or delete it to compare without resampling.") from None
    if any(len(found[direction].sentences_N) != size for direction, size in sizes.items() if direction in found):
        raise FolderError(f"{path} does not belong to the results.json beside it. Evaluate again.")
    return found


def _key(name: str) -> str:
    """The name of a column in the file, without the letters of its shape."""
    return name.rpartition("_")[0]
