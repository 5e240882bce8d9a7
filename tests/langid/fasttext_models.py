"""Writes tiny fastText models: each word of a language votes for its label."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

MAGIC_NUMBER, VERSION, SUPERVISED, SOFTMAX = 793712314, 12, 3, 3
CENTROIDS = 256
WORDS = {
    "__label__deu_Latn": ["der", "zug", "fährt", "heute", "nicht"],
    "__label__en": ["the", "train", "does", "not", "run"],
    "__label__zho_Hans": ["火车", "今天", "不", "开"],
    "__label__srp_Cyrl": ["воз", "данас", "не", "вози"],
}


def fasttext_bytes(
    words: Mapping[str, Sequence[str]] = WORDS,
    *,
    loss: int = SOFTMAX,
    model: int = SUPERVISED,
    quantized: bool = False,
    weight: float = 5.0,
    header: Mapping[str, int] | None = None,
) -> bytes:
    """Return a model file. `header` replaces numbers of the header and of the dictionary."""
    labels = list(words)
    vocabulary = [(word, label) for label, of_label in words.items() for word in of_label]
    dim = len(labels)
    settings = {"magic": MAGIC_NUMBER, "version": VERSION, "dim": dim, "ws": 5, "epoch": 5, "min_count": 1, "neg": 5}
    settings |= {"word_ngrams": 1, "loss": loss, "model": model, "bucket": 0, "minn": 0, "maxn": 0, "update_rate": 100}
    sizes = {"size": len(vocabulary) + dim, "words": len(vocabulary), "labels": dim, "tokens": 100, "pruned": -1}
    numbers = settings | sizes | dict(header or {})
    head = struct.pack("<14id3i2q", *list(numbers.values())[:14], 1e-4, *list(numbers.values())[14:])
    entries = b"".join(word.encode() + b"\0" + struct.pack("<qb", 3, 0) for word, _ in vocabulary)
    entries += b"".join(label.encode() + b"\0" + struct.pack("<qb", 10, 1) for label in labels)
    rows = np.array([[weight * (label == other) for other in labels] for _, label in vocabulary], dtype="<f4")
    write = _quantized_matrix if quantized else _dense_matrix
    matrices = [bytes([quantized]), write(rows), b"\0", _dense_matrix(np.eye(dim, dtype="<f4"))]
    return head + entries + b"".join(matrices)


def _dense_matrix(rows: np.ndarray) -> bytes:
    return struct.pack("<2q", *rows.shape) + rows.tobytes()


def _quantized_matrix(rows: np.ndarray) -> bytes:
    """Quantize each dimension on its own, without a loss: row i has code i."""
    num_rows, dim = rows.shape
    centroids = np.zeros((dim, CENTROIDS), dtype="<f4")
    centroids[:, :num_rows] = rows.T
    codes = np.repeat(np.arange(num_rows, dtype=np.uint8), dim)
    sizes = struct.pack("<?2qi", False, num_rows, dim, len(codes))
    return sizes + codes.tobytes() + struct.pack("<4i", dim, dim, 1, 1) + centroids.tobytes()
