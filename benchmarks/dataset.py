"""Measure how long it takes to open and to verify prepared data at the paper's scale.

    python benchmarks/dataset.py                  # writes 7 GB of random tokens to a temporary folder, and deletes them
    python benchmarks/dataset.py --folder /tmp/store    # keeps them there for the next time

The store has the size of OPUS-100: 55 million sentence pairs, 100 languages, realistic lengths. Opening checks the
headers, the offsets, the rows, all token ids and all pair indices. *Warm* files are in the page cache. Before a *cold*
measurement they are dropped from it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice, product
from pathlib import Path

from corpus import NUM_SUBWORDS, write_random_store
from manyglot.batches.pair_index import PAIR_INDEX_FILES, PairIndex
from manyglot.batches.token_store import TOKEN_STORE_FILES, TokenStore
from manyglot.checksums import FileSeal
from manyglot.corpus.languages import Languages

FILES = (*TOKEN_STORE_FILES, *PAIR_INDEX_FILES)


def measure(folder: Path, languages: Languages) -> None:
    """Time opening and verification, cold and warm."""

    def open_store() -> None:
        PairIndex(TokenStore(folder, languages, NUM_SUBWORDS))

    def verify() -> None:
        for name in FILES:
            FileSeal.of(folder / name)

    num_bytes = sum((folder / name).stat().st_size for name in FILES)
    store = TokenStore(folder, languages, NUM_SUBWORDS)
    print(f"{len(store):,} sentences, {len(store.tokens):,} subwords, {num_bytes / 1e9:.1f} GB, {os.cpu_count()} cores")
    del store
    for name, task in (("opening with all checks", open_store), ("verifying the checksums", verify)):
        drop_from_page_cache(folder)
        cold, *warm = (seconds(task) for _ in range(4))
        print(f"{name}: {cold:.1f} s cold, {' '.join(f'{each:.2f}' for each in warm)} s warm")


def seconds(task: Callable[[], None]) -> float:
    """Return the wall time of a task."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def drop_from_page_cache(folder: Path) -> None:
    """Ask the kernel to drop the files from the page cache; it drops only pages that are on disk."""
    for name in FILES:
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    """Parse the command line, write the store unless it exists, and measure it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of the store; it is written if it does not exist")
    parser.add_argument("--pairs", type=int, default=55_000_000)
    parser.add_argument("--languages", type=int, default=100)
    options = parser.parse_args()
    letters = "abcdefghijklmnopqrst"
    names = (f"{a}{b}{c}" for a, b, c in product("qxy", letters, letters))
    languages = Languages(["en", *islice(names, options.languages - 1)])
    with tempfile.TemporaryDirectory() if options.folder is None else nullcontext(options.folder) as name:
        folder = Path(name)
        if not (folder / "pairs.json").exists():
            print(f"wrote the store in {seconds(lambda: write_random_store(folder, languages, options.pairs)):.0f} s")
        measure(folder, languages)


if __name__ == "__main__":
    main()
