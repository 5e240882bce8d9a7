"""Paired bootstrap resampling: is one system significantly better than another? (Koehn 2004)

Each bootstrap sample contains test sentences sampled with replacement, the same ones for both systems. Its BLEU follows
from the summed counts of its sentences. The p-value is the share of samples whose difference, after subtracting the
mean of all samples, is at least as large as the observed difference (Riezler and Maxwell 2005, as in sacreBLEU).

The number of times a sentence appears in a sample is Poisson-distributed with mean 1, the limit of sampling N of N
sentences with replacement. It depends only on the key of the sentence. Directions that share test rows therefore
resample them together, so that the significance of a mean over thousands of directions is not overestimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from manyglot.batches.permutation import hash_numbers
from manyglot.evaluation.metrics import corpus_bleu, corpus_bleu_batch
from manyglot.evaluation.sentence_statistics import Array

Floats = npt.NDArray[np.float64]
MAX_CELLS_PER_CHUNK = 4_000_000
"""Maximum number of bootstrap samples times sentences in memory at once."""
SAMPLES_PER_HASH = 4
"""Number of 16-bit random numbers in a 64-bit hash."""
_POISSON_CDF = np.cumsum([exp(-1) / factorial(times) for times in range(9)])
_POISSON_COUNTS = np.searchsorted(_POISSON_CDF, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)
"""Maps 16 random bits to the number of times a sentence appears in a sample."""


@dataclass(frozen=True)
class Significance:
    """A difference in a score, and the probability of one at least as large if the systems were equally good."""

    difference: float
    p_value: float


class BootstrapDifferences(NamedTuple):
    """Differences between two systems in one direction: on all sentences, and on each of R bootstrap samples."""

    difference: float
    resampled_differences_R: Floats

    def significance(self) -> Significance:
        """Return the significance in this direction."""
        return significance_from_samples(self.difference, self.resampled_differences_R)


def bootstrap_bleu_difference(
    system_counts_NS: Array, baseline_counts_NS: Array, keys_N: Array, num_bootstrap_samples: int, seed: int
) -> BootstrapDifferences:
    """Return the BLEU of a system minus that of the baseline, on all sentences and on each bootstrap sample.

    The rows of both count matrices must be the same sentences in the same order. `keys_N` identify the sentences; see
    `poisson_sample_counts`.
    """
    assert len(system_counts_NS) == len(baseline_counts_NS) == len(keys_N), "both systems need the same sentences"
    both_counts_NS = np.concatenate([system_counts_NS, baseline_counts_NS], axis=1).astype(np.float64)
    num_counts = system_counts_NS.shape[1]
    differences_by_chunk = []
    for counts_NR in _sample_chunks(keys_N, num_bootstrap_samples, seed):
        totals_RS = counts_NR.T.astype(np.float64) @ both_counts_NS
        differences_by_chunk.append(
            corpus_bleu_batch(totals_RS[:, :num_counts]) - corpus_bleu_batch(totals_RS[:, num_counts:])
        )
    system_bleu, baseline_bleu = (
        corpus_bleu(counts_NS.sum(axis=0).tolist()) for counts_NS in (system_counts_NS, baseline_counts_NS)
    )
    return BootstrapDifferences(system_bleu - baseline_bleu, np.concatenate(differences_by_chunk))


def bootstrap_mean_difference(
    system_scores_N: Array, baseline_scores_N: Array, keys_N: Array, num_bootstrap_samples: int, seed: int
) -> BootstrapDifferences:
    """Return the mean sentence score of a system minus that of the baseline, as `bootstrap_bleu_difference` does.

    The samples are the same as those of BLEU. A sample without sentences has no difference.
    """
    assert len(system_scores_N) == len(baseline_scores_N) == len(keys_N), "both systems need the same sentences"
    differences_N = system_scores_N.astype(np.float64) - baseline_scores_N
    differences_by_chunk = []
    for counts_NR in _sample_chunks(keys_N, num_bootstrap_samples, seed):
        num_sentences_R = counts_NR.sum(axis=0, dtype=np.int64)
        differences_by_chunk.append(differences_N @ counts_NR / np.maximum(num_sentences_R, 1))
    return BootstrapDifferences(float(differences_N.mean()), np.concatenate(differences_by_chunk))


def _sample_chunks(keys_N: Array, num_bootstrap_samples: int, seed: int) -> Iterator[Array]:
    """Yield the counts of all bootstrap samples, some samples at a time."""
    samples_per_chunk = max(MAX_CELLS_PER_CHUNK // len(keys_N) // SAMPLES_PER_HASH, 1) * SAMPLES_PER_HASH
    for first in range(0, num_bootstrap_samples, samples_per_chunk):
        last = min(first + samples_per_chunk, num_bootstrap_samples)
        yield poisson_sample_counts(keys_N, range(first, last), seed)


def poisson_sample_counts(keys_N: Array, sample_range: range, seed: int) -> Array:
    """Return how often each sentence appears in each bootstrap sample of the range.

    Sentences with the same key appear equally often. The range must start at a multiple of `SAMPLES_PER_HASH`.
    """
    assert sample_range.start % SAMPLES_PER_HASH == 0, "the range must start where a hash starts"
    hash_numbers_H = np.arange(sample_range.start, sample_range.stop, SAMPLES_PER_HASH, dtype=np.uint64)
    hashes_NH = hash_numbers(hash_numbers(seed, keys_N)[:, None], hash_numbers_H)
    counts_NR: Array = _POISSON_COUNTS[hashes_NH.view(np.uint16)[:, : len(sample_range)]]
    return counts_NR


def significance_from_samples(difference: float, resampled_differences_R: Floats) -> Significance:
    """Return the two-sided p-value of a difference, given its bootstrap samples."""
    is_as_large_R = np.abs(resampled_differences_R - resampled_differences_R.mean()) >= abs(difference) - 1e-12
    return Significance(difference, float((is_as_large_R.sum() + 1) / (len(resampled_differences_R) + 1)))


def significance_of_mean(differences: Sequence[BootstrapDifferences]) -> Significance:
    """Return the significance of the mean difference over directions."""
    mean_difference = float(np.mean([direction.difference for direction in differences]))
    resampled_means_R = np.mean([direction.resampled_differences_R for direction in differences], axis=0)
    return significance_from_samples(mean_difference, resampled_means_R)
