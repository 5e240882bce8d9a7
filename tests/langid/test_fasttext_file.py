"""Damaged and hostile models are refused before the C++ reader sees them."""

from __future__ import annotations

import os
import resource
import struct
from pathlib import Path

import pytest

from manyglot.errors import FolderError
from manyglot.langid.fasttext_file import MAX_MODEL_BYTES, read_fasttext_labels
from tests.langid.fasttext_models import fasttext_bytes


def write(folder: Path, content: bytes) -> Path:
    path = folder / "model.bin"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("loss", [1, 2, 3, 4])
def test_labels_are_read(tmp_path: Path, quantized: bool, loss: int) -> None:
    labels = read_fasttext_labels(write(tmp_path, fasttext_bytes(quantized=quantized, loss=loss)))
    assert labels == ("deu_Latn", "en", "zho_Hans", "srp_Cyrl")


@pytest.mark.parametrize("quantized", [False, True])
def test_a_truncated_or_longer_file_is_refused(tmp_path: Path, quantized: bool) -> None:
    content = fasttext_bytes(quantized=quantized)
    for length in [*range(8, 90), *range(90, len(content), 61), len(content) - 1]:
        with pytest.raises(FolderError, match=r"is not a usable fastText model \(.*\)\. Download or train it again"):
            read_fasttext_labels(write(tmp_path, content[:length]))
    with pytest.raises(FolderError, match="more bytes than its header says"):
        read_fasttext_labels(write(tmp_path, content + b"\0"))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"version": 13}, "version 13 is not supported"),
        ({"model": 2}, "word vectors, not a classifier"),
        ({"loss": 5}, "loss 5 is unknown"),
        ({"dim": 2**31 - 1}, "2147483647 dimensions"),
        ({"dim": 5}, "the size of a matrix is wrong"),
        ({"dim": -4}, "-4 dimensions"),
        ({"maxn": 3}, "no buckets"),
        ({"word_ngrams": 2}, "no buckets"),
        ({"word_ngrams": 10**6}, "n-grams of 1000000 words"),
        ({"bucket": 2**31 - 1}, "the size of a matrix is wrong"),
        ({"bucket": 100, "maxn": 2**31 - 1}, "too many character n-grams"),
        ({"size": 2**31 - 1}, "wrong number of words"),
        ({"words": 2**31 - 1, "size": -(2**31) + 3}, "wrong number of words"),
        ({"words": 16, "labels": 6}, "a label among its words|wrong number|a word among"),
        ({"labels": 0, "words": 22}, "0 labels"),
        ({"pruned": 2**62}, "its end is missing"),
        ({"pruned": -2}, "a negative size"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path: Path, header: dict[str, int], reason: str) -> None:
    with pytest.raises(FolderError, match=reason):
        read_fasttext_labels(write(tmp_path, fasttext_bytes(header=header)))


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1e30])
def test_weights_are_small_finite_numbers(tmp_path: Path, quantized: bool, weight: float) -> None:
    with pytest.raises(FolderError, match="a weight is not a small finite number"):
        read_fasttext_labels(write(tmp_path, fasttext_bytes(quantized=quantized, weight=weight)))


def test_pruned_ngrams_refer_to_existing_rows(tmp_path: Path) -> None:
    content = fasttext_bytes({"en": ["a"]}, header={"pruned": 1, "bucket": 9, "maxn": 2}, quantized=True)
    entries_end = content.index(b"en\0") + 3 + 9
    for row in (-1, 1, 2**31 - 1):
        table = struct.pack("<2i", 7, row)
        with pytest.raises(FolderError, match="an n-gram refers to a missing row"):
            read_fasttext_labels(write(tmp_path, content[:entries_end] + table + content[entries_end:]))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"__label__en\0\x0a", b"__label__en\0\x00", "the frequency of a label"),
        (b"__label__en\0", b"__label__\xff\xff\0", "a label is not UTF-8"),
        (b"der\0" + struct.pack("<qb", 3, 0), b"der\0" + struct.pack("<qb", 3, 1), "a label among its words"),
    ],
)
def test_a_wrong_dictionary_is_refused(tmp_path: Path, old: bytes, new: bytes, reason: str) -> None:
    assert old in fasttext_bytes()
    with pytest.raises(FolderError, match=reason):
        read_fasttext_labels(write(tmp_path, fasttext_bytes().replace(old, new)))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="Cannot read"):
        read_fasttext_labels(tmp_path / "missing.bin")
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(FolderError, match=r"is not a file|Is a directory"):
            read_fasttext_labels(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FolderError, match="is not a file"):
        read_fasttext_labels(tmp_path / "pipe")
    for content in (b"", b"PK", b"plain text\n" * 99):
        with pytest.raises(FolderError, match=r"is not a fastText model\. Give a \.bin or \.ftz file"):
            read_fasttext_labels(write(tmp_path, content))


def test_a_huge_file_costs_no_memory(tmp_path: Path) -> None:
    path = write(tmp_path, fasttext_bytes())
    os.truncate(path, MAX_MODEL_BYTES)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FolderError, match="more bytes than its header says"):
        read_fasttext_labels(path)
    os.truncate(path, MAX_MODEL_BYTES + 1)
    with pytest.raises(FolderError, match="too large for a fastText model"):
        read_fasttext_labels(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
