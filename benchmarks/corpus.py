"""How fast text becomes batches, at the paper's scale.

    python benchmarks/corpus.py encode --text data/mix60/text    # tokenising, beside SentencePiece's own encoder
    python benchmarks/corpus.py load --folder /tmp/opus          # a store of OPUS-100's size: start, plan, jump, load

`load` writes a store of random numbers first if the folder has none (55 million sentence pairs, 100 languages, lengths
as in real text, 6 GB), so that only what reads it is measured.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import numpy as np
import sentencepiece

from manyglot.batches.encode import chunks_of, encode_all, read_result
from manyglot.batches.loader import Loader, Place
from manyglot.batches.pairs import write_pairs
from manyglot.batches.plan import BatchSettings
from manyglot.batches.store import Part, TokenStore, write_store
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.languages import Languages, directions_of, is_known
from manyglot.corpus.textfiles import read_lines
from manyglot.vocabulary.subwords import VocabularySettings, train_subwords
from manyglot.vocabulary.vocabulary import Tags

NUM_SUBWORDS = 64_000


def encode(options: argparse.Namespace) -> None:
    """Tokenise the same lines with SentencePiece's threads and into chunks of a store."""
    paths = sorted(path for path in options.text.glob("train.*") if is_known(path.suffix[1:]))
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "subwords.model"
        sample = (line for path in paths for line in islice(read_lines(path), 20_000) if line)
        train_subwords(sample, VocabularySettings(size=options.vocabulary)).save(model)
        files = []
        for path in paths:
            lines = [line for line in islice(read_lines(path), options.lines) if line]
            files.append(folder / path.name)
            files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        lines = [line for file in files for line in read_lines(file)]
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        start = time.perf_counter()
        processor.encode(lines, out_type=int, num_threads=cores)
        theirs = time.perf_counter() - start
        results = folder / "results"
        results.mkdir()
        start = time.perf_counter()
        chunks = [chunk for file in files for chunk in chunks_of(file, model, results, CleaningSettings())]
        encode_all(chunks, "text")
        ours = time.perf_counter() - start
        tokens = sum(len(read_result(chunk).part.tokens) for chunk in chunks)
    print(f"{len(lines):,} lines, {tokens:,} subwords, {cores} cores")
    print(f"SentencePiece, {cores} threads: {len(lines) / theirs:,.0f} lines/s")
    print(f"into the store:           {len(lines) / ours:,.0f} lines/s, {theirs / ours:.0%} of it")


def load(options: argparse.Namespace) -> None:
    """Open a large store as training does."""
    letters = "abcdefghijklmnopqrst"
    names = (f"{a}{b}{c}" for a, b, c in product("qxy", letters, letters))
    codes = ["en", *islice(names, options.languages - 1)]
    languages = Languages(codes)
    if not (options.folder / "pairs.json").exists():
        start = time.perf_counter()
        _write(options.folder, languages, options.pairs)
        print(f"wrote the store in {time.perf_counter() - start:.0f} s; run again to measure it")
        return
    tags = [Tags(source=(NUM_SUBWORDS + i,)) for i in range(len(languages))]
    directions = directions_of(languages, "en")
    memory = _memory()
    start = time.perf_counter()
    store = TokenStore(options.folder, languages)
    loader = Loader(store, directions, BatchSettings(max_tokens=options.tokens, alike=options.alike), tags, seed=1)
    opened = time.perf_counter() - start
    next(iter(loader.batches(Place())))
    first = time.perf_counter() - start
    num_batches = loader.plan.num_batches(0)
    drawn = int(loader.plan.counts_D.sum())
    print(f"{len(store):,} sentences, {len(store.tokens):,} subwords, {len(directions)} directions")
    print(f"an epoch: {drawn:,} directed pairs in {num_batches:,} batches of {options.tokens:,} tokens")
    print(f"opened in {opened:.2f} s, first batch after {first:.2f} s, {_memory() - memory:,.0f} MiB more memory")
    start = time.perf_counter()
    next(iter(loader.batches(Place(epoch=7, batch=num_batches // 2))))
    print(f"jump to the middle of epoch 7: {time.perf_counter() - start:.2f} s")
    source = target = padded = 0
    start = time.perf_counter()
    for batch, _ in islice(loader.batches(Place(epoch=0, batch=1000)), options.batches):
        source += int((batch.source_BS != 0).sum())
        target += int((batch.label_BT != 0).sum())
        padded += batch.source_BS.numel() + batch.label_BT.numel()
    seconds = time.perf_counter() - start
    print(
        f"loading on one core: {target / seconds:,.0f} target tokens/s, {(source + target) / seconds:,.0f} of both "
        f"sides, {1 - (source + target) / padded:.1%} padding, {_memory():,.0f} MiB resident in all"
    )


def _write(folder: Path, languages: Languages, num_pairs: int) -> None:
    """Random subwords: every language its own rows, English all of them; half the languages are large."""
    rng = np.random.default_rng(0)
    others = [code for code in languages if code != "en"]
    sizes = np.array([1.0 if i % 2 else 0.12 * (1 + i % 7 / 7) for i in range(len(others))])
    sizes = np.maximum((sizes / sizes.sum() * num_pairs).astype(np.int64), 1)
    ends = np.cumsum(sizes)
    first = {code: (int(end - size), int(end)) for code, size, end in zip(others, sizes, ends, strict=True)}
    first["en"] = (0, int(ends[-1]))
    english = rng.lognormal(3.0, 0.6, int(ends[-1])).astype(np.float32)
    lengths = {"en": np.clip(english, 1, 100).astype(np.uint8)}
    for code in others:  # a translation is about as long as its source
        start, stop = first[code]
        lengths[code] = np.clip(english[start:stop] * rng.lognormal(0.0, 0.25, stop - start), 1, 100).astype(np.uint8)

    def parts(code: str) -> Iterator[Part]:
        start, stop = first[code]
        for begin in range(start, stop, 2_000_000):
            rows = np.arange(begin, min(begin + 2_000_000, stop), dtype=np.uint32)
            mine = lengths[code][rows - start]
            yield Part(rows, mine, rng.integers(3, NUM_SUBWORDS, int(mine.sum()), dtype=np.uint16))

    total = sum(int(each.sum(dtype=np.int64)) for each in lengths.values())
    write_store(folder, (parts(code) for code in languages), (2 * int(ends[-1]), total), NUM_SUBWORDS)
    write_pairs(TokenStore(folder, languages), directions_of(languages, "en"))


def _memory() -> float:
    """The most memory this process had resident, mapped files not counted, in MiB."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    encoding = commands.add_parser("encode")
    encoding.add_argument("--text", type=Path, required=True, help="folder with train.de, train.en, …")
    encoding.add_argument("--lines", type=int, default=20_000, help="of each language")
    encoding.add_argument("--vocabulary", type=int, default=32_000)
    encoding.set_defaults(run=encode)
    loading = commands.add_parser("load")
    loading.add_argument("--folder", type=Path, required=True)
    loading.add_argument("--pairs", type=int, default=55_000_000)
    loading.add_argument("--languages", type=int, default=100)
    loading.add_argument("--tokens", type=int, default=4096)
    loading.add_argument("--batches", type=int, default=5000)
    loading.add_argument("--alike", choices=["longer", "both", "none"], default="longer")
    loading.set_defaults(run=load)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
