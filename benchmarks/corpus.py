"""Measure the speed of preparation, tokenization and batch loading at the paper's scale.

    python benchmarks/corpus.py prepare recipes/mix60/token_src.yaml          # phases; with taskset -c 0, on one core
    python benchmarks/corpus.py subwords --text data/mix60-prepared/text      # subwords per word of other training text
    python benchmarks/corpus.py encode --text data/mix60/text    # tokenization, compared with SentencePiece's encoder
    python benchmarks/corpus.py join --text data/mix60/text      # joining prepared data, compared with preparing it
    python benchmarks/corpus.py load --folder /tmp/opus          # a store of OPUS-100's size: open, plan, seek, load

`prepare` prints the time of each phase, and the CPU time of this process and of its workers. More cores shorten neither
the CPU time of this process nor `train_on_word_counts`. `subwords` trains models on all words, on the words that occur
twice and on samples, and compares their subwords per word of the dev text. If the folder has no store, `load` only
writes one of random tokens: 55 million sentence pairs, 100 languages, realistic lengths, 6 GB. Run it again to measure
reading.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sentencepiece

from manyglot.batches import prepare_dataset
from manyglot.batches.pair_index import clean_and_write_pair_index
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.batches.token_store import TokenizedSentences, TokenStore, write_token_store
from manyglot.batches.tokenization import read_tokenized_chunk, split_into_chunks, tokenize_missing_chunks
from manyglot.config.base_settings import parse_settings
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.languages import Languages, enumerate_directions, is_known_language_code
from manyglot.corpus.textfiles import read_lines
from manyglot.vocabulary.sentencepiece_model import train_on_word_counts, train_subword_model
from manyglot.vocabulary.subword_model import VocabularySettings
from manyglot.vocabulary.vocabulary import LanguageTags
from manyglot.vocabulary.word_counts import count_sentences, count_words_of_files, count_words_of_samples

T = TypeVar("T")
PHASES = (
    "_write_text",
    "count_words_of_files",
    "train_on_word_counts",
    "_tokenize_split",
    "_index_pairs",
    "write_metadata",
)
"""The functions of `prepare_dataset` whose times `prepare` prints."""

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
    from manyglot.config.experiment import Experiment  # imports torch, which workers do without

    codes = sorted(path.suffix[1:] for path in options.text.glob("train.*") if path.suffix != ".en")
    halves = (["en", *codes[::2]], ["en", *codes[1::2]])
    corpora = [{"kind": "multiway", "path": str(options.text), "languages": half} for half in halves]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def prepare(name: str, corpus: dict[str, object], vocabulary: dict[str, object]) -> PreparedDataset:
            start = time.perf_counter()
            values = {"data": folder / name, "run": folder / "run", "corpus": corpus, "vocabulary": vocabulary}
            experiment = parse_settings(Experiment, values)
            dataset = prepare_dataset.prepare_dataset(folder / name, experiment.preparation_settings)
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


def prepare(options: argparse.Namespace) -> None:
    """Prepare the data of an experiment in a temporary folder, and print the time of each phase."""
    # Workers import this file too; at its top, this module would make them import torch.
    from manyglot.config.experiment import read_experiment

    experiment = read_experiment(options.experiment)
    for name in PHASES:
        setattr(prepare_dataset, name, print_times(getattr(prepare_dataset, name)))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print_times(prepare_dataset.prepare_dataset)(Path(folder) / "data", experiment.preparation_settings)


def print_times(function: Callable[..., T]) -> Callable[..., T]:
    """Wrap a function so that it prints its times."""

    def timed(*arguments: object) -> T:
        start, cpu, worker_cpu = time.perf_counter(), time.process_time(), _worker_cpu_seconds()
        result = function(*arguments)
        seconds, cpu, worker_cpu = (
            time.perf_counter() - start,
            time.process_time() - cpu,
            _worker_cpu_seconds() - worker_cpu,
        )
        print(f"{function.__name__:25} {seconds:7.1f} s, CPU {cpu:5.1f} s here and {worker_cpu:6.1f} s in workers")
        return result

    return timed


def _worker_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def subwords(options: argparse.Namespace) -> None:
    """Compare subword models trained on all text with others, by their subwords per word of the dev text."""
    paths = sorted(path for path in options.text.glob("train.*") if is_known_language_code(path.suffix[1:]))
    settings = VocabularySettings(size=options.vocabulary)
    all_words = count_words_of_files(paths)
    words_by_system = {
        "all text": all_words,
        "words that occur twice": {word: count for word, count in all_words.items() if count > 1},
        **{f"{n:,} sentences": count_words_of_samples(paths, n) for n in options.samples},
    }
    models = {}
    for system, words in words_by_system.items():
        start = time.perf_counter()
        models[system] = train_on_word_counts(words, settings)
        print(f"{system}: {len(words):,} distinct words, trained in {time.perf_counter() - start:.1f} s")
    if options.tokenizers:
        models["tokenizers"] = _train_with_tokenizers(all_words, options.vocabulary)
    totals, (baseline, *others) = Counter[str](), models
    print("language, sentences, subwords per word, change with " + ", ".join(others))
    for path in paths:
        dev = [line for line in read_lines(path.with_name(f"dev{path.suffix}")) if line]
        num_subwords = {system: sum(map(len, model.encode(dev))) for system, model in models.items()}
        num_words = sum(len(line.split()) for line in dev)
        totals.update(num_subwords | {"words": num_words})
        _print_change(f"{path.suffix[1:]} {count_sentences(path):,}", num_subwords, num_words, baseline)
    _print_change("all", totals, totals["words"], baseline)


def _print_change(title: str, num_subwords: Mapping[str, int], num_words: int, baseline: str) -> None:
    base = num_subwords[baseline]
    changes = [f"{num / base - 1:+.2%}" for name, num in num_subwords.items() if name not in (baseline, "words")]
    print(f"{title}: {base / max(num_words, 1):.3f}", *changes)


def _train_with_tokenizers(words: Mapping[str, int], size: int) -> TokenizersModel:
    """Train BPE with the tokenizers package, which has no interface for counts: words are given one by one."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False, max_token_length=16)
    start = time.perf_counter()
    batches = ([word] * count for word, count in words.items())
    tokenizer.train_from_iterator(batches, trainer)
    print(f"tokenizers: trained in {time.perf_counter() - start:.1f} s")
    return TokenizersModel(tokenizer)


@dataclass(frozen=True)
class TokenizersModel:
    """A tokenizer of the tokenizers package."""

    tokenizer: Any

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Split sentences into subword ids."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]


def load(options: argparse.Namespace) -> None:
    """Open and read a large store as training does."""
    from manyglot.batches.loader import BatchLoader, DataPosition
    from manyglot.batches.plan import BatchSettings

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
    preparing = commands.add_parser("prepare")
    preparing.add_argument("experiment", type=Path, help="the YAML file of an experiment")
    preparing.add_argument("--folder", type=Path, help="parent of the temporary folder")
    preparing.set_defaults(run=prepare)
    training = commands.add_parser("subwords")
    training.add_argument("--text", type=Path, required=True, help="folder with train.de, dev.de, …")
    training.add_argument("--vocabulary", type=int, default=32_000)
    training.add_argument("--samples", type=int, nargs="*", default=[500_000, 2_000_000], help="numbers of sentences")
    training.add_argument("--tokenizers", action="store_true", help="also train with the tokenizers package")
    training.set_defaults(run=subwords)
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
