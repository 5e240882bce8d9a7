"""Are the statistics of probing sound? What they say of representations about which everything is known.

    python benchmarks/probing_validity.py [--draws 2000] [--uriel FOLDER]

Prints how often random vectors are related to the distances of URIEL by a Mantel test with p at most 0.05, which
should be in one draw of twenty, and how far the accuracy is below that of the best number of neighbours when the other
languages choose it, by three rules. For the latter, vectors of family + geography are hidden in more and more noise, so
that it is known which number is the best on average over the draws. The languages are those of TED-59 and OPUS-100.

Needs the files of lang2vec (manyglot[typology]).

Shape letters: N draws, L languages, H the one that takes no part, K numbers of neighbours, D width.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from manyglot.probing.language_map import distances, mantel, world_distances
from manyglot.probing.neighbours import NEIGHBOURS, Counts, Floats, Order, Vote, count, ranked, similarities
from manyglot.probing.probe import chosen
from manyglot.probing.uriel import GROUPS, Uriel, read_uriel
from probing import OPUS

TED = (
    "ar az be bg bn bs cs da de el en eo es et eu fa fi fr gl he hi hr hu hy id it ja ka kk ko ku lt mk mn mr ms my nb "
    "nl pl pt ro ru sk sl sq sr sv ta th tr uk ur vi zh"
)
NOISE = (0.5, 1.0, 2.0, 3.0, 5.0)
"""Lengths of what is added to vectors of length sqrt(2)."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="for the Mantel test; for each noise, 1 of 60 of these")
    parser.add_argument("--uriel", type=Path, help="the folder `data` of lang2vec")
    options = parser.parse_args()
    uriel = read_uriel(options.uriel)
    for name, codes in (("TED-59", TED.split()), ("OPUS-100", OPUS.split())):
        isos = list(uriel.locate(codes).iso_of.values())
        for kind, share in size_of_mantel(uriel, isos, options.draws).items():
            print(f"{name}, {kind}: p at most 0.05 in {100 * share:.1f}% of {options.draws:,} draws", flush=True)
        for group in GROUPS:
            for rule, below in shortfall(uriel, isos, group, max(options.draws // 60, 2)).items():
                print(f"{name}, {group}: {rule} is {np.mean(below):.2f} below the best k, at most {max(below):.2f}")


def size_of_mantel(uriel: Uriel, isos: Sequence[str], draws: int) -> dict[str, float]:
    """How often random vectors seem to be related to each kind of distances."""
    hits: dict[str, int] = defaultdict(int)
    world = world_distances(uriel, isos)
    for draw in range(draws):
        learned_LL = distances(np.random.default_rng([draw, 1]).standard_normal((len(isos), 512), np.float32))
        for kind, other_LL in world.items():
            found = mantel(kind, learned_LL, other_LL, 199, seed=draw)
            hits[kind] += found is not None and found.p_value <= 0.05 + 1e-9
    return {kind: number / draws for kind, number in hits.items()}


def shortfall(uriel: Uriel, isos: Sequence[str], group: str, draws: int) -> dict[str, list[float]]:
    """For each rule and length of noise, how far the mean accuracy is below that of the number that is best."""
    found: dict[str, list[float]] = defaultdict(list)
    known_LD = uriel.family_and_geography(isos)
    for length in NOISE:
        noise_NLD = np.random.default_rng(3).standard_normal((draws, *known_LD.shape)) / np.sqrt(known_LD.shape[1])
        order_NLM = ranked(np.stack([similarities(known_LD + length * noise_LD) for noise_LD in noise_NLD]))
        counts = [count(order_NLM, each, NEIGHBOURS, Vote.MAJORITY) for each in uriel.feature_sets(isos, group)]
        best = np.mean([each.accuracy() for each in counts], axis=0).mean(axis=0).max()
        for name, choice_NL in (
            ("the best of the others", _within(counts, 0)),
            ("a standard error of it", _within(counts, 1)),
            ("ours", chosen(counts)),
        ):
            found[name].append(float(best - np.mean([each.accuracy_with(choice_NL) for each in counts])))
    return found


def _within(counts: Sequence[Counts], errors: float) -> Order:
    """The largest number that is at most so many standard errors, over languages, below the best of the others."""
    share_NHLK: Floats = np.nanmean([each.shares_without() for each in counts], axis=0)
    best_NH1 = np.argmax(share_NHLK.sum(axis=2).round(6), axis=2)[:, :, None]
    behind_NHLK = np.take_along_axis(share_NHLK, best_NH1[:, :, :, None], axis=3) - share_NHLK
    error_NHK = np.sqrt(behind_NHLK.shape[2]) * behind_NHLK.std(axis=2)
    enough_NHK = behind_NHLK.sum(axis=2) <= errors * error_NHK + 1e-6
    return np.asarray(enough_NHK.shape[2] - 1 - np.argmax(enough_NHK[:, :, ::-1], axis=2))


if __name__ == "__main__":
    main()
