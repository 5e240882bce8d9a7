"""Verifies a fastText model file before the C++ reader opens it.

The C++ reader trusts the file: wrong sizes or indices make it allocate any amount of memory or crash the process. This
module follows the layout of the file (settings, dictionary, input matrix, output matrix) and accepts it only if all
sizes agree with each other and with the size of the file, and all weights are small finite numbers.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from manyglot.errors import FolderError
from manyglot.files import open_regular_file, read_first_bytes

MAX_MODEL_BYTES = 2**32
"""Maximum size of a model file. GlotLID, the largest known, has 1.7 GB."""
LABEL_PREFIX = "__label__"
_MAGIC_BYTES = struct.pack("<i", 793712314)
_VERSIONS = (11, 12)
_SUPERVISED = 3
_LOSSES = (1, 2, 3, 4)
"""Hierarchical softmax, negative sampling, softmax, one-vs-all."""
_MAX_LABELS, _MAX_WORD_BYTES, _MAX_DIMENSIONS, _MAX_WORD_NGRAMS = 2**16, 2**16, 2**16, 100
_MAX_SUBWORDS = 2**28
"""Upper bound of the character n-grams of all words, which the C++ reader stores."""
_MAX_LABEL_COUNT = 10**10
"""Maximum frequency of a label. The sum of all frequencies must stay below 10^15 in the Huffman tree."""
_MAX_WEIGHT = 1e6
"""Maximum absolute value of a weight. Products of such weights cannot overflow."""
_NUM_CENTROIDS = 256
_WEIGHTS_PER_CHUNK = 2**22


class _DamagedError(ValueError):
    """The file does not follow the format; the message says why."""


class _Header(NamedTuple):
    """The settings at the beginning of a model file that determine sizes."""

    dim: int
    word_ngrams: int
    bucket: int
    minn: int
    maxn: int


class _Cursor:
    """Reads values of a file in order. The dictionary is memory-mapped; matrices are read in chunks."""

    def __init__(self, file: BinaryIO, content: mmap.mmap) -> None:
        self._file, self._content, self._position = file, content, 0

    def read(self, format_: str) -> tuple[Any, ...]:
        """Read values in the format of `struct`, little-endian and unpadded."""
        start = self.skip(struct.calcsize("<" + format_))
        return struct.unpack_from("<" + format_, self._content, start)

    def read_word(self) -> bytes:
        """Read a word that ends with a zero byte."""
        end = self._content.find(b"\0", self._position, self._position + _MAX_WORD_BYTES)
        _require(end >= 0, "a word has no end")
        word = self._content[self._position : end]
        self._position = end + 1
        return word

    def skip(self, num_bytes: int) -> int:
        """Skip some bytes and return their position."""
        start, self._position = self._position, self._position + num_bytes
        _require(num_bytes >= 0 and self._position <= len(self._content), "its end is missing")
        return start

    def check_weights(self, num_weights: int) -> None:
        """Skip weights after checking that all are small finite numbers."""
        start = self.skip(4 * num_weights)
        for first in range(0, num_weights, _WEIGHTS_PER_CHUNK):
            count = min(_WEIGHTS_PER_CHUNK, num_weights - first)
            self._file.seek(start + 4 * first)
            weights = np.frombuffer(self._file.read(4 * count), dtype="<f4")
            _require(bool((np.abs(weights) <= _MAX_WEIGHT).all()), "a weight is not a small finite number")

    def read_integers(self, count: int) -> npt.NDArray[np.int32]:
        """Read 32-bit integers."""
        start = self.skip(4 * count)
        return np.frombuffer(self._content[start : start + 4 * count], dtype="<i4")

    def check_end(self) -> None:
        """Check that the whole file was read."""
        _require(self._position == len(self._content), "it has more bytes than its header says")


def read_fasttext_labels(path: Path) -> tuple[str, ...]:
    """Verify a fastText model of languages and return its labels without their prefix, such as deu_Latn.

    Raises a FolderError if the file is missing, damaged, too large, or no classifier.
    """
    with open_regular_file(path) as file:
        size, head = file.seek(0, os.SEEK_END), read_first_bytes(path, 4)
        if size > MAX_MODEL_BYTES:
            raise FolderError(f"{path} is too large for a fastText model: it has more than {MAX_MODEL_BYTES:,} bytes.")
        if head != _MAGIC_BYTES:
            raise FolderError(f"{path} is not a fastText model. Give a .bin or .ftz file of fastText.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _verify(_Cursor(file, content))
            except _DamagedError as error:
                raise FolderError(
                    f"{path} is not a usable fastText model ({error}). Download or train it again."
                ) from None


def _verify(cursor: _Cursor) -> tuple[str, ...]:
    header = _read_header(cursor)
    num_words, labels, num_pruned = _read_dictionary(cursor, header)
    num_rows = num_words + (header.bucket if num_pruned < 0 else num_pruned)
    is_quantized = _read_flag(cursor)
    _require(is_quantized or num_pruned < 0, "its dictionary is pruned, but its weights are not quantized")
    _check_matrix(cursor, is_quantized, num_rows, header.dim)
    is_output_quantized = _read_flag(cursor) and is_quantized
    _check_matrix(cursor, is_output_quantized, len(labels), header.dim)
    cursor.check_end()
    return labels


def _read_header(cursor: _Cursor) -> _Header:
    _, version, dim, _, _, _, _, word_ngrams, loss, model, bucket, minn, maxn, _, _ = cursor.read("14id")
    _require(version in _VERSIONS, f"version {version} is not supported")
    _require(model == _SUPERVISED, "it holds word vectors, not a classifier")
    _require(loss in _LOSSES, f"loss {loss} is unknown")
    _require(0 < dim <= _MAX_DIMENSIONS, f"{dim} dimensions")
    _require(0 <= word_ngrams <= _MAX_WORD_NGRAMS, f"word n-grams of {word_ngrams} words")
    _require(bucket >= 0 and minn >= 0 and maxn >= 0, "a negative size")
    _require(bucket > 0 or (maxn == 0 and word_ngrams <= 1), "no buckets for its n-grams")
    return _Header(dim, word_ngrams, bucket, minn, maxn)


def _read_dictionary(cursor: _Cursor, header: _Header) -> tuple[int, tuple[str, ...], int]:
    """Return the number of words, the labels, and the number of pruned n-grams (-1 if the model is not pruned)."""
    size, num_words, num_labels, num_tokens, num_pruned = cursor.read("3i2q")
    _require(num_words >= 0 and size == num_words + num_labels, "wrong number of words")
    _require(0 < num_labels <= _MAX_LABELS, f"{num_labels} labels")
    _require(num_tokens >= 0 and num_pruned >= -1, "a negative size")
    num_bytes = 0
    for _ in range(num_words):
        num_bytes += len(cursor.read_word()) + 2
        _require(cursor.read("qb")[1] == 0, "a label among its words")
    ngram_lengths = max(header.maxn - max(header.minn, 1) + 1, 0)
    _require(num_bytes * ngram_lengths <= _MAX_SUBWORDS, "its words have too many character n-grams")
    labels = tuple(_read_label(cursor) for _ in range(num_labels))
    if num_pruned > 0:
        rows = cursor.read_integers(2 * num_pruned)[1::2]
        _require(bool(((rows >= 0) & (rows < num_pruned)).all()), "an n-gram refers to a missing row")
    return num_words, labels, num_pruned


def _read_label(cursor: _Cursor) -> str:
    label = cursor.read_word()
    count, kind = cursor.read("qb")
    _require(kind == 1, "a word among its labels")
    _require(0 < count <= _MAX_LABEL_COUNT, "the frequency of a label is wrong")
    try:
        return label.decode("utf-8").removeprefix(LABEL_PREFIX)
    except UnicodeDecodeError:
        raise _DamagedError("a label is not UTF-8") from None


def _read_flag(cursor: _Cursor) -> bool:
    (value,) = cursor.read("B")
    _require(value in (0, 1), "a flag is neither 0 nor 1")
    return bool(value)


def _check_matrix(cursor: _Cursor, is_quantized: bool, num_rows: int, dim: int) -> None:
    has_norms = is_quantized and _read_flag(cursor)
    _require(cursor.read("2q") == (num_rows, dim), "the size of a matrix is wrong")
    if not is_quantized:
        cursor.check_weights(num_rows * dim)
        return
    (num_codes,) = cursor.read("i")
    cursor.skip(num_codes)
    num_parts = _check_quantizer(cursor, dim)
    _require(num_codes == num_rows * num_parts, "the number of its codes is wrong")
    if has_norms:
        cursor.skip(num_rows)
        _check_quantizer(cursor, 1)


def _check_quantizer(cursor: _Cursor, dim: int) -> int:
    """Check a product quantizer and return into how many parts it splits a vector."""
    its_dim, num_parts, part_size, last_part_size = cursor.read("4i")
    _require(its_dim == dim and num_parts > 0 and part_size > 0, "the size of a quantizer is wrong")
    _require(0 < last_part_size <= part_size, "the size of a quantizer is wrong")
    _require((num_parts - 1) * part_size + last_part_size == dim, "the size of a quantizer is wrong")
    cursor.check_weights(dim * _NUM_CENTROIDS)
    return int(num_parts)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise _DamagedError(reason)
