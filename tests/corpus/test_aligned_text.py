"""Text that is read in blocks equals text that is read row by row, and has the same errors."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from manyglot.config.base_settings import parse_settings
from manyglot.corpus import aligned_text
from manyglot.corpus.aligned_text import write_aligned_text
from manyglot.corpus.base import Corpus, Split
from manyglot.corpus.bilingual import BilingualCorpus, BilingualSettings
from manyglot.corpus.files_corpus import FilesCorpus, FilesSettings
from manyglot.corpus.mixture import MixtureCorpus, MixtureSettings
from manyglot.corpus.multiway import MultiwayCorpus, MultiwaySettings
from manyglot.corpus.textfiles import write_aligned_rows
from manyglot.errors import CorpusError

LINES = ["", "", "", "eins", " zwei drei ", "vier\u2028", "\u3000fünf", "sechs\r", "se\rchs", "\t", "七八"]


def in_this_process(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
    return map(function, tasks)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_text, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(aligned_text, "ROWS_PER_BLOCK", 7)
    monkeypatch.setattr(aligned_text, "run_in_workers", in_this_process)


def random_lines(seed: int, num_lines: int) -> str:
    rng = random.Random(seed)
    return "\n".join(rng.choice(LINES) for _ in range(num_lines))


def write(folder: Path, **texts: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        content = text.encode() if isinstance(text, str) else text
        (folder / name.replace("__", "-").replace("_", ".")).write_bytes(content)
    return folder


def multiway(folder: Path) -> MultiwayCorpus:
    return MultiwayCorpus(MultiwaySettings(path=folder))


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_equals_rows(corpus: Corpus, folder: Path) -> None:
    """Compare the files written in blocks with those written row by row."""
    num_rows, _ = write_aligned_text(folder / "blocks", corpus, Split.TRAIN)
    rows = list(corpus.rows(Split.TRAIN))
    assert write_aligned_rows(folder / "rows", Split.TRAIN, corpus.languages, rows) == num_rows == len(rows)
    assert written(folder / "blocks") == written(folder / "rows")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("num_lines", [1, 7, 8, 50])
@pytest.mark.parametrize("end", ["", "\n"])
def test_blocks_equal_rows(tmp_path: Path, num_lines: int, end: str) -> None:
    texts = [f"x{random_lines(seed, num_lines)}y".replace("\rchs", "chs") for seed in range(3)]
    text = write(tmp_path / "text", train_de=f"{texts[0]}{end}", train_en=f"\ufeff{texts[1]}\n", train_sw=texts[2])
    assert_equals_rows(multiway(text), tmp_path)


@pytest.mark.usefixtures("small_blocks")
def test_all_kinds_of_aligned_corpora(tmp_path: Path) -> None:
    lines = random_lines(0, 20) + "end\n"
    pairs = write(tmp_path / "pairs", train_de__en_de=lines, train_de__en_en=lines, train_en__sw_en="a\n\nb\n")
    write(pairs, train_en__sw_sw_gz=gzip.compress(b"c\nd\n\n"))
    aligned = write(tmp_path / "aligned", train_deu=lines, train_eng=lines)
    mixture = parse_settings(
        MixtureSettings,
        {"parts": [{"kind": "bilingual", "path": pairs}, {"kind": "multiway", "path": aligned}]},
    )
    corpora: list[Corpus] = [
        BilingualCorpus(BilingualSettings(path=pairs)),
        FilesCorpus(FilesSettings(path=aligned)),
        MixtureCorpus(mixture, [BilingualCorpus(BilingualSettings(path=pairs)), multiway(aligned)]),
    ]
    for number, corpus in enumerate(corpora):
        assert corpus.aligned_files(Split.TRAIN)  # type: ignore[attr-defined]
        assert_equals_rows(corpus, tmp_path / str(number))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("german", "error"),
    [
        ("a\n" * 39, "train.de ends before line 40"),
        ("a\n" * 41, "train.en ends before line 41"),
        ("", "train.de is empty"),
        ("a\n" * 30 + "b\0\n" + "a\n" * 9, "train.de, line 31 has a NUL byte"),
        (b"a\n" * 30 + b"\xff\n" + b"a\n" * 9, "train.de, line 31 is not UTF-8"),
        ("a\n" * 30 + "b" * (2**22 + 1) + "\n" + "a\n" * 9, "train.de, line 31 is longer than"),
        ("a\rb\rc\n", "train.de separates lines with carriage returns"),
    ],
)
def test_errors_are_those_of_the_reader_of_rows(tmp_path: Path, german: str | bytes, error: str) -> None:
    text = write(tmp_path / "text", train_de=german, train_en="e\n" * 40)
    with pytest.raises(CorpusError, match=error):
        write_aligned_text(tmp_path / "out", multiway(text), Split.TRAIN)


@pytest.mark.usefixtures("small_blocks")
def test_lines_too_long_for_a_block_are_read_row_by_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_text, "MAX_BLOCK_BYTES", 100)
    lines = "a\n" * 20 + "long " * 30 + "\n" + "b\n" * 20
    assert_equals_rows(multiway(write(tmp_path / "text", train_de=lines, train_en="c\n" * 41)), tmp_path)


def test_workers_read_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_text, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(aligned_text, "ROWS_PER_BLOCK", 7)
    same = "Guten Tag\n" * 40
    text = write(tmp_path / "text", train_de=same, train_en=same, train_sw=random_lines(1, 40) + "end\n")
    _, copies = write_aligned_text(tmp_path / "out", multiway(text), Split.TRAIN)
    assert (tmp_path / "out" / "train.de").read_text() == same
    assert [warning[:60] for warning in copies.warnings()] == [
        "100% of the training sentences in German (de) and English (e"
    ]
