"""Per-sentence statistics of a direction: n-gram counts, identified languages and flags.

Corpus scores follow from sums over sentences. Runs tested on different sentences can therefore be compared on the ones
they share, and bootstrap samples can be scored, without translating or identifying anything again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import numpy.typing as npt

from manyglot.checksums import FileSeal, find_altered_file
from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.evaluation.metrics import corpus_bleu, corpus_chrf, corpus_chrf_batch
from manyglot.files import MAX_ERROR_CHARS, replacing_file

Array = npt.NDArray[Any]
COMPRESSION_LEVEL = 6
"""Compression of statistics.npz, from 1 (fast) to 9 (small)."""
SENTENCE_FLAGS = ("reference_language_accuracy", "unrestricted_language_accuracy", "copy_rate", "empty_rate")
"""Boolean columns of `flags_NF`, named after the score that is their percentage of true values."""
LANGUAGE_FLAGS = SENTENCE_FLAGS[:2]
"""The flags that are None unless the identifier knows the target language."""


class SentenceStatistics(NamedTuple):
    """Statistics of N sentences of one direction."""

    fingerprints_N: Array
    """Hashes of source and reference."""
    bleu_counts_NS: Array
    """See `NgramCounts`."""
    chrf_counts_NS: Array
    identified_languages_N: Array
    """The language of each output: the target's code if it is on target, else the identifier's label."""
    flags_NF: Array
    """See `SENTENCE_FLAGS`."""
    row_numbers_N: Array | None = None
    """Row of the test set; numbers are shared by all directions."""
    metric_scores_N: Array | None = None
    """The scores of other metrics, one field per metric; NaN in directions without scores."""

    def select_sentences(self, indices: Array) -> SentenceStatistics:
        """Return the statistics of the sentences at these indices."""
        return SentenceStatistics._make(None if column is None else column[indices] for column in self)

    def mean_metric_scores(self) -> dict[str, float]:
        """Return the mean score of each metric that has scores in this direction."""
        if self.metric_scores_N is None:
            return {}
        means = {name: float(np.mean(self.metric_scores_N[name])) for name in self.metric_scores_N.dtype.names or ()}
        return {name: mean for name, mean in means.items() if np.isfinite(mean)}

    def sentence_chrf(self) -> npt.NDArray[np.float64]:
        """Return the chrF++ of every sentence."""
        return corpus_chrf_batch(self.chrf_counts_NS)

    def order_from_worst(self, target: str) -> Array:
        """Return the indices of all sentences, worst first: outputs in a wrong language, each part by its chrF++.

        If the identifier does not recognize the reference either, only chrF++ counts.
        """
        recognizes_reference_N = self.flags_NF[:, SENTENCE_FLAGS.index("reference_language_accuracy")]
        is_off_target_N = (self.identified_languages_N != target) & recognizes_reference_N
        return np.lexsort((self.sentence_chrf(), ~is_off_target_N))

    def direction_scores(self, target: str, is_identifiable: bool) -> dict[str, Any]:
        """Return the score fields of a `DirectionResult`.

        Language accuracies are None unless the identifier knows the target (`is_identifiable`).
        """
        num_sentences, language_counts = len(self.fingerprints_N), Counter(self.identified_languages_N.tolist())
        num_on_target = language_counts.pop(target, 0)
        language_counts.pop("", None)  # text in no language
        top_other = min(language_counts, key=lambda label: (-language_counts[label], label), default=None)
        rates = dict(
            zip(SENTENCE_FLAGS, (100 * int(n) / num_sentences for n in self.flags_NF.sum(axis=0)), strict=True)
        )
        bleu_sums = self.bleu_counts_NS.sum(axis=0).tolist()
        return {
            **rates,
            **({} if is_identifiable else dict.fromkeys(LANGUAGE_FLAGS)),
            "num_sentences": num_sentences,
            "bleu": corpus_bleu(bleu_sums),
            "chrf": corpus_chrf(self.chrf_counts_NS.sum(axis=0).tolist()),
            "language_accuracy": 100 * num_on_target / num_sentences if is_identifiable else None,
            "top_off_target_language": top_other,
            "top_off_target_rate": 100 * language_counts[top_other] / num_sentences if top_other else 0.0,
            "length_ratio": bleu_sums[0] / bleu_sums[1] if bleu_sums[1] else None,
            "test_set_fingerprint": blake2b(np.sort(self.fingerprints_N).tobytes(), digest_size=8).hexdigest(),
            "metrics": self.mean_metric_scores(),
        }


def to_smallest_dtype(counts: Array) -> Array:
    """Convert counts to the narrowest unsigned integer type that holds them."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))


def write_statistics(path: Path, statistics: Mapping[Direction, SentenceStatistics]) -> None:
    """Write the statistics of all directions, concatenated."""
    sizes = [len(sentences.fingerprints_N) for sentences in statistics.values()]
    directions = [direction.as_setting() for direction in statistics]
    with (
        replacing_file(path) as unfinished,
        ZipFile(unfinished, "w", ZIP_DEFLATED, compresslevel=COMPRESSION_LEVEL) as file,
    ):
        _write_array(file, "directions", np.array(directions))
        _write_array(file, "sizes", np.array(sizes))
        for i, name in enumerate(SentenceStatistics._fields):
            arrays = [array for sentences in statistics.values() if (array := sentences[i]) is not None]
            if arrays:
                _write_array(file, _column_name(name), np.concatenate(arrays))


def _write_array(file: ZipFile, name: str, array: Array) -> None:
    """Write an array as `np.savez_compressed` does; one at a time, as all of them may not fit in memory twice."""
    with file.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def read_statistics(
    path: Path, expected_sizes: Mapping[Direction, int], seal: FileSeal | None
) -> dict[Direction, SentenceStatistics]:
    """Read the statistics of all directions; return an empty dictionary if the file does not exist.

    Raises an error if the file does not match its seal, or if a direction has another number of sentences than
    expected.
    """
    if not path.exists():
        return {}
    advice = "Evaluate again, or delete it to compare without --significance."
    if seal is None or find_altered_file(path.parent, {path.name: seal}):
        raise FolderError(f"{path} is damaged, or does not belong to the results.json beside it. {advice}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            columns = {
                name: stored[_column_name(name)] for name in SentenceStatistics._fields if _column_name(name) in stored
            }
            names, ends = stored["directions"].tolist(), np.cumsum(stored["sizes"]).tolist()
        if any(len(column) != ends[-1] for column in columns.values()):
            raise ValueError("the columns have different lengths")
        statistics = {}
        for name, start, stop in zip(names, [0, *ends[:-1]], ends, strict=True):
            source, _, target = str(name).partition(">")
            statistics[Direction(source, target)] = SentenceStatistics(
                **{key: column[start:stop] for key, column in columns.items()}
            )
        if any(len(statistics[d].fingerprints_N) != size for d, size in expected_sizes.items() if d in statistics):
            raise ValueError("a direction has another number of sentences")
    except Exception as error:  # zipfile and NumPy raise exceptions of many types for files they did not write
        raise FolderError(f"{path} is damaged ({str(error)[:MAX_ERROR_CHARS]}). {advice}") from None
    return statistics


def _column_name(name: str) -> str:
    """Return the column name in the file: the field name without its shape letters."""
    return name.rpartition("_")[0]
