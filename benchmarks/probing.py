"""Measure the time of typology probing for 100 languages with one matrix each.

    python benchmarks/probing.py [--width 512] [--uriel-folder FOLDER]

Covers all feature groups, all values of k, random baselines and permutations. Needs the data of lang2vec
(manyglot[typology]). The languages are those of OPUS-100; the matrices are random.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from manyglot.probing.knn import VotingRule
from manyglot.probing.typology_probe import ProbeSettings, TypologyProber
from manyglot.probing.uriel import load_uriel

OPUS_100 = (
    "af am an ar as az be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id "
    "ig is it ja ka kk km kn ko ku ky li lt lv mg mk ml mn mr ms mt my nb ne nl nn no oc or pa pl ps pt ro ru rw se sh "
    "si sk sl sq sr sv ta te tg th tk tr tt ug uk ur uz vi wa xh yi yo zh zu"
)


def main() -> None:
    """Print the time of each protocol."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--uriel-folder", type=Path, help="the `data` folder of lang2vec")
    options = parser.parse_args()
    codes = OPUS_100.split()
    matrix_LDD = np.random.default_rng(1).standard_normal((len(codes), options.width, options.width), np.float32)
    for voting_rule in VotingRule:
        start = time.perf_counter()
        uriel = load_uriel(options.uriel_folder)
        prober = TypologyProber(uriel, codes, ProbeSettings(voting_rule=voting_rule))
        ready = time.perf_counter()
        prober.probe("random", "matrices", matrix_LDD)
        end = time.perf_counter()
        print(f"{voting_rule}: {end - start:.1f} s, of which {ready - start:.1f} s for loading URIEL and the baselines")


if __name__ == "__main__":
    main()
