"""How long probing takes: 100 languages with a matrix each, all groups, all k, random baselines and permutations.

    python benchmarks/probing.py [--width 512] [--uriel FOLDER]

Needs the files of lang2vec (manyglot[typology]). The languages are those of OPUS-100, the matrices random.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from manyglot.probing.neighbours import Vote
from manyglot.probing.probe import Prober, ProbeSettings
from manyglot.probing.uriel import read_uriel

OPUS = (
    "af am an ar as az be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id "
    "ig is it ja ka kk km kn ko ku ky li lt lv mg mk ml mn mr ms mt my nb ne nl nn no oc or pa pl ps pt ro ru rw se sh "
    "si sk sl sq sr sv ta te tg th tk tr tt ug uk ur uz vi wa xh yi yo zh zu"
)


def main() -> None:
    """Print the seconds of each protocol."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--uriel", type=Path, help="the folder `data` of lang2vec")
    options = parser.parse_args()
    codes = OPUS.split()
    matrix_LDD = np.random.default_rng(1).standard_normal((len(codes), options.width, options.width), np.float32)
    for vote in Vote:
        start = time.perf_counter()
        uriel = read_uriel(options.uriel)
        prober = Prober(uriel, codes, ProbeSettings(vote=vote))
        ready = time.perf_counter()
        prober.probe("random", "matrices", matrix_LDD)
        end = time.perf_counter()
        print(f"{vote}: {end - start:.1f} s, of which {ready - start:.1f} s for the files and the baselines")


if __name__ == "__main__":
    main()
