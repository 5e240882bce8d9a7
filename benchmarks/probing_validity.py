"""Check the statistics of probing on representations whose true properties are known.

    python benchmarks/probing_validity.py [--num-samples 2000] [--uriel-folder FOLDER]

Prints two results for the languages of TED-59 and OPUS-100:

- The false positive rate of the Mantel test: how often random vectors correlate with URIEL distances at p <= 0.05. It
  should be 5%.
- The loss in accuracy from selecting k on the other languages instead of using the best k, for three selection rules.
  Increasing noise is added to family and geography vectors, so that the k that is best on average is known.

Needs the data of lang2vec (manyglot[typology]).

Shape letters: N samples, L languages, H the held-out language, K values of k, D width.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyglot.probing.knn import (
    DEFAULT_K_VALUES,
    CorrectCounts,
    Floats,
    Indices,
    VotingRule,
    cosine_similarities,
    count_correct_predictions,
    rank_neighbors,
)
from manyglot.probing.language_distance_analysis import cosine_distances, mantel_test, uriel_distances
from manyglot.probing.typology_probe import select_k_index_per_language
from manyglot.probing.uriel import FEATURE_GROUPS, UrielDatabase, load_uriel
from probing import OPUS_100

TED_59 = (
    "ar az be bg bn bs cs da de el en eo es et eu fa fi fr gl he hi hr hu hy id it ja ka kk ko ku lt mk mn mr ms my nb "
    "nl pl pt ro ru sk sl sq sr sv ta th tr uk ur vi zh"
)
NOISE_LENGTHS = (0.5, 1.0, 2.0, 3.0, 5.0)
"""Lengths of the noise added to vectors of length sqrt(2)."""


def main() -> None:
    """Print both results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--num-samples", type=int, default=2000, help="samples for the Mantel test; each noise level uses 1/60 as many"
    )
    parser.add_argument("--uriel-folder", type=Path, help="the `data` folder of lang2vec")
    options = parser.parse_args()
    uriel = load_uriel(options.uriel_folder)
    for name, codes in (("TED-59", TED_59.split()), ("OPUS-100", OPUS_100.split())):
        isos = list(uriel.match_languages(codes).iso_by_code.values())
        for kind, rate in mantel_false_positive_rates(uriel, isos, options.num_samples).items():
            print(f"{name}, {kind}: p <= 0.05 in {100 * rate:.1f}% of {options.num_samples:,} samples", flush=True)
        for group in FEATURE_GROUPS:
            for rule, losses in accuracy_losses(uriel, isos, group, max(options.num_samples // 60, 2)).items():
                print(f"{name}, {group}: {rule} is {np.mean(losses):.2f} below the best k, at most {max(losses):.2f}")


def mantel_false_positive_rates(uriel: UrielDatabase, isos: Sequence[str], num_samples: int) -> dict[str, float]:
    """Return how often random vectors correlate significantly with each kind of distances."""
    num_significant: dict[str, int] = defaultdict(int)
    distances = uriel_distances(uriel, isos)
    for seed in range(num_samples):
        random_LL = cosine_distances(np.random.default_rng([seed, 1]).standard_normal((len(isos), 512), np.float32))
        for kind, other_LL in distances.items():
            result = mantel_test(kind, random_LL, other_LL, 199, seed=seed)
            num_significant[kind] += result is not None and result.p_value <= 0.05 + 1e-9
    return {kind: number / num_samples for kind, number in num_significant.items()}


def accuracy_losses(uriel: UrielDatabase, isos: Sequence[str], group: str, num_samples: int) -> dict[str, list[float]]:
    """Return how far the mean accuracy is below that of the best k, for each rule and length of noise."""
    losses: dict[str, list[float]] = defaultdict(list)
    family_geography_LD = uriel.family_and_geography_vectors(isos)
    width = family_geography_LD.shape[1]
    for length in NOISE_LENGTHS:
        noise_NLD = np.random.default_rng(3).standard_normal((num_samples, *family_geography_LD.shape))
        noise_NLD = noise_NLD / np.sqrt(width)
        ranking_NLM = rank_neighbors(
            np.stack([cosine_similarities(family_geography_LD + length * noise_LD) for noise_LD in noise_NLD])
        )
        counts = [
            count_correct_predictions(ranking_NLM, feature_set, DEFAULT_K_VALUES, VotingRule.MAJORITY)
            for feature_set in uriel.feature_set_per_source(isos, group)
        ]
        best = np.mean([count.accuracy_by_k() for count in counts], axis=0).mean(axis=0).max()
        for name, k_index_NL in (
            ("best k of the others", _largest_k_within(counts, 0)),
            ("one standard error below", _largest_k_within(counts, 1)),
            ("our rule", select_k_index_per_language(counts)),
        ):
            losses[name].append(float(best - np.mean([count.accuracy_with_own_k(k_index_NL) for count in counts])))
    return losses


def _largest_k_within(counts: Sequence[CorrectCounts], num_errors: float) -> Indices:
    """Return the index of the largest k within `num_errors` standard errors, over languages, of the best k."""
    share_NHLK: Floats = np.nanmean([count.accuracy_contributions_with_held_out_language() for count in counts], axis=0)
    best_NH1 = np.argmax(share_NHLK.sum(axis=2).round(6), axis=2)[:, :, None]
    deficit_NHLK = np.take_along_axis(share_NHLK, best_NH1[:, :, :, None], axis=3) - share_NHLK
    error_NHK = np.sqrt(deficit_NHLK.shape[2]) * deficit_NHLK.std(axis=2)
    good_enough_NHK = deficit_NHLK.sum(axis=2) <= num_errors * error_NHK + 1e-6
    return np.asarray(good_enough_NHK.shape[2] - 1 - np.argmax(good_enough_NHK[:, :, ::-1], axis=2))


if __name__ == "__main__":
    main()
