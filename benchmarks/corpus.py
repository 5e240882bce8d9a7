"""Measure the speed of tokenization and batch loading at the paper's scale.

    python benchmarks/corpus.py encode --text data/mix60/text    # tokenization, compared with SentencePiece's encoder
    python benchmarks/corpus.py join --text data/mix60/text      # joining prepared data, compared with preparing it
    python benchmarks/corpus.py load --folder /tmp/opus          # a store of OPUS-100's size: open, plan, seek, load

If the folder has no store, `load` only writes one of random tokens: 55 million sentence pairs, 100 languages, realistic
lengths, 6 GB. Run it again to measure reading.
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

from manyglot.batches.loader import BatchLoader, DataPosition
from manyglot.batches.pair_index import clean_and_write_pair_index
from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepare_dataset import prepare_dataset
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.token_store import TokenizedSentences, TokenStore, write_token_store
from manyglot.batches.tokenization import read_tokenized_chunk, split_into_chunks, tokenize_missing_chunks
from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.languages import Languages, enumerate_directions, is_known_language_code
from manyglot.corpus.textfiles import read_lines
from manyglot.vocabulary.sentencepiece_model import train_subword_model
from manyglot.vocabulary.subword_model import VocabularySettings
from manyglot.vocabulary.vocabulary import LanguageTags

NUM_SUBWORDS = 64_000


def encode(options: argparse.Namespace) -> None:
    """Tokenize the same lines with SentencePiece's threads and into chunks of a store."""
    paths = sorted(path for path in options.text.glob("train.*") if is_known_language_code(path.suffix[1:]))
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "subwords.model"
        sample = (line for path in paths for line in islice(read_lines(path), 20_000) if line)
        train_subword_model(sample, VocabularySettings(size=options.vocabulary)).save(model)
        files = []
        for path in paths:
            lines = [line for line in islice(read_lines(path), options.lines) if line]
            files.append(folder / path.name)
            files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        lines = [line for file in files for line in read_lines(file)]
        processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        start = time.perf_counter()
        processor.encode(lines, out_type=int, num_threads=cores)
        sentencepiece_seconds = time.perf_counter() - start
        results = folder / "results"
        results.mkdir()
        start = time.perf_counter()
        chunks = [chunk for file in files for chunk in split_into_chunks(file, model, results, CleaningSettings())]
        tokenize_missing_chunks(chunks, "text")
        store_seconds = time.perf_counter() - start
        tokens = sum(len(read_tokenized_chunk(chunk).sentences.tokens) for chunk in chunks)
    print(f"{len(lines):,} lines, {tokens:,} subwords, {cores} cores")
    print(f"SentencePiece, {cores} threads: {len(lines) / sentencepiece_seconds:,.0f} lines/s")
    share = sentencepiece_seconds / store_seconds
    print(f"into the store:           {len(lines) / store_seconds:,.0f} lines/s, {share:.0%} of SentencePiece")


def join(options: argparse.Namespace) -> None:
    """Prepare line-aligned text in two parts, each with half of the languages; join the parts, or prepare all text."""
    codes = sorted(path.suffix[1:] for path in options.text.glob("train.*") if path.suffix != ".en")
    halves = (["en", *codes[::2]], ["en", *codes[1::2]])
    corpora = [{"kind": "multiway", "path": str(options.text), "languages": half} for half in halves]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def prepare(name: str, corpus: dict[str, object], vocabulary: dict[str, object]) -> PreparedDataset:
            start = time.perf_counter()
            values = {"data": folder / name, "run": folder / "run", "corpus": corpus, "vocabulary": vocabulary}
            dataset = prepare_dataset(folder / name, parse_settings(Experiment, values).preparation_settings)
            num_sentences = sum(counts["sentences"] for counts in dataset.metadata["subwords"].values())
            print(f"{name:12}{time.perf_counter() - start:6.1f} s, {num_sentences:,} training sentences", flush=True)
            return dataset

        first = prepare("first part", corpora[0], {"size": options.vocabulary, "num_sampled_sentences": 100_000})
        same_subwords = {"sentencepiece_model": first.folder / "subwords.model"}
        second = prepare("second part", corpora[1], same_subwords)
        at_once = prepare("all text", {"kind": "mixture", "parts": corpora}, same_subwords)
        parts = [{"kind": "prepared", "path": str(dataset.folder)} for dataset in (first, second)]
        joined = prepare("joined", {"kind": "mixture", "parts": parts}, {})
        print("the same files" if joined.seals == at_once.seals else "THE FILES DIFFER")


def load(options: argparse.Namespace) -> None:
    """Open and read a large store as training does."""
    letters = "abcdefghijklmnopqrst"
    names = (f"{a}{b}{c}" for a, b, c in product("qxy", letters, letters))
    codes = ["en", *islice(names, options.languages - 1)]
    languages = Languages(codes)
    if not (options.folder / "pairs.json").exists():
        start = time.perf_counter()
        write_random_store(options.folder, languages, options.pairs)
        print(f"wrote the store in {time.perf_counter() - start:.0f} s; run again to measure it")
        return
    tags = [LanguageTags(source=(NUM_SUBWORDS + i,)) for i in range(len(languages))]
    directions = enumerate_directions(languages, "en")
    memory = _resident_mib()
    start = time.perf_counter()
    store = TokenStore(options.folder, languages, NUM_SUBWORDS)
    loader = BatchLoader(
        store, directions, BatchSettings(max_tokens=options.tokens, bucket_by=options.bucket_by), tags, seed=1
    )
    opened = time.perf_counter() - start
    next(iter(loader.iter_batches(DataPosition())))
    first = time.perf_counter() - start
    num_batches = loader.plan.num_batches(0)
    num_samples = int(loader.plan.samples_per_epoch_D.sum())
    print(f"{len(store):,} sentences, {len(store.tokens):,} subwords, {len(directions)} directions")
    print(f"an epoch: {num_samples:,} directed pairs in {num_batches:,} batches of {options.tokens:,} tokens")
    print(f"opened in {opened:.2f} s, first batch after {first:.2f} s, {_resident_mib() - memory:,.0f} MiB more memory")
    start = time.perf_counter()
    next(iter(loader.iter_batches(DataPosition(epoch=7, next_batch=num_batches // 2))))
    print(f"jump to the middle of epoch 7: {time.perf_counter() - start:.2f} s")
    source = target = padded = 0
    start = time.perf_counter()
    for batch, _ in islice(loader.iter_batches(DataPosition(epoch=0, next_batch=1000)), options.batches):
        source += int((batch.source_BS != 0).sum())
        target += int((batch.label_BT != 0).sum())
        padded += batch.source_BS.numel() + batch.label_BT.numel()
    seconds = time.perf_counter() - start
    print(
        f"loading on one core: {target / seconds:,.0f} target tokens/s, {(source + target) / seconds:,.0f} of both "
        f"sides, {1 - (source + target) / padded:.1%} padding, {_resident_mib():,.0f} MiB resident in all"
    )


def write_random_store(folder: Path, languages: Languages, num_pairs: int) -> None:
    """Write random subwords: each language has its own rows, English has all; half the languages are large."""
    rng = np.random.default_rng(0)
    others = [code for code in languages if code != "en"]
    sizes = np.array([1.0 if i % 2 else 0.12 * (1 + i % 7 / 7) for i in range(len(others))])
    sizes = np.maximum((sizes / sizes.sum() * num_pairs).astype(np.int64), 1)
    ends = np.cumsum(sizes)
    row_range = {code: (int(end - size), int(end)) for code, size, end in zip(others, sizes, ends, strict=True)}
    row_range["en"] = (0, int(ends[-1]))
    english = rng.lognormal(3.0, 0.6, int(ends[-1])).astype(np.float32)
    lengths = {"en": np.clip(english, 1, 100).astype(np.uint8)}
    for code in others:  # a translation is about as long as its source
        start, stop = row_range[code]
        lengths[code] = np.clip(english[start:stop] * rng.lognormal(0.0, 0.25, stop - start), 1, 100).astype(np.uint8)

    def token_chunks(code: str) -> Iterator[TokenizedSentences]:
        start, stop = row_range[code]
        for begin in range(start, stop, 2_000_000):
            rows = np.arange(begin, min(begin + 2_000_000, stop), dtype=np.uint32)
            length = lengths[code][rows - start]
            yield TokenizedSentences(rows, length, rng.integers(3, NUM_SUBWORDS, int(length.sum()), dtype=np.uint16))

    num_tokens = sum(int(length.sum(dtype=np.int64)) for length in lengths.values())
    chunks_by_language, num_sentences = (token_chunks(code) for code in languages), 2 * int(ends[-1])
    write_token_store(
        folder,
        chunks_by_language,
        num_sentences=num_sentences,
        num_tokens=num_tokens,
        vocabulary_size=NUM_SUBWORDS,
    )
    clean_and_write_pair_index(TokenStore(folder, languages, NUM_SUBWORDS), enumerate_directions(languages, "en"))


def _resident_mib() -> float:
    """Return the resident memory of this process in MiB, without mapped files."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    encoding = commands.add_parser("encode")
    encoding.add_argument("--text", type=Path, required=True, help="folder with train.de, train.en, …")
    encoding.add_argument("--lines", type=int, default=20_000, help="lines per language")
    encoding.add_argument("--vocabulary", type=int, default=32_000)
    encoding.set_defaults(run=encode)
    joining = commands.add_parser("join")
    joining.add_argument("--text", type=Path, required=True, help="folder with train.de, train.en, …")
    joining.add_argument("--vocabulary", type=int, default=32_000)
    joining.set_defaults(run=join)
    loading = commands.add_parser("load")
    loading.add_argument("--folder", type=Path, required=True)
    loading.add_argument("--pairs", type=int, default=55_000_000)
    loading.add_argument("--languages", type=int, default=100)
    loading.add_argument("--tokens", type=int, default=4096)
    loading.add_argument("--batches", type=int, default=5000)
    loading.add_argument("--bucket-by", choices=["longer", "both", "none"], default="longer")
    loading.set_defaults(run=load)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
