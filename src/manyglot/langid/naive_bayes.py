"""Batched versions of langid and py3langid.

Both packages run an automaton over the bytes of a text in Python, count the features it emits, and classify with Naive
Bayes. Here all texts of a batch advance together, and one operation sums the weights of their features. The models are
those of the packages, and tests verify that the predictions are equal. This module does not import torch, so that
exported models can be used without it.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from manyglot.langid.py3langid import load_py3langid

Ints = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]
TEXTS_PER_BATCH = 4096


@dataclass(frozen=True)
class NaiveBayes:
    """A Naive Bayes model with S states, F features and L labels."""

    labels: tuple[str, ...]
    state_transitions: npt.NDArray[np.int32]
    """The next state by state and byte: 256 entries per state, flattened."""
    state_features: npt.NDArray[np.int32]
    """The features that each state emits, concatenated over states."""
    feature_offsets: Ints
    """Offsets of each state's features, S + 1 entries."""
    weights_FL: Scores
    prior_L: Scores
    sublinear_tf: bool
    """Whether a feature counts as log(1 + frequency)."""
    normalize_unicode: bool
    """Whether to normalize text to NFC, and to lowercase text that is all capitals."""

    def score_labels(self, texts: Sequence[str]) -> tuple[Scores, list[bool]]:
        """Return log scores [texts, labels], and whether each text has any features."""
        batches = [self._score_batch(texts[i : i + TEXTS_PER_BATCH]) for i in range(0, len(texts), TEXTS_PER_BATCH)]
        if not batches:
            return np.zeros((0, len(self.labels)), dtype=self.prior_L.dtype), []
        return np.concatenate([scores for scores, _ in batches]), [
            known for _, batch_known in batches for known in batch_known
        ]

    def _score_batch(self, texts: Sequence[str]) -> tuple[Scores, list[bool]]:
        rows, features = self._extract_features([_encode_text(text, self.normalize_unicode) for text in texts])
        keys, counts = np.unique((rows << 32) | features, return_counts=True)
        starts = np.searchsorted(keys, np.arange(len(texts), dtype=np.int64) << 32)
        feature_weights = (np.log1p(counts.astype(np.float32)) if self.sublinear_tf else counts).astype(
            self.weights_FL.dtype
        )
        sum_weights = sum_weights_with_torch if sys.modules.get("torch") else sum_weights_with_numpy
        sums = sum_weights(self.weights_FL, keys & 0xFFFFFFFF, starts, feature_weights)
        has_features = np.diff(starts, append=len(keys)) > 0
        return self.prior_L + sums, has_features.tolist()

    def _extract_features(self, texts: Sequence[bytes]) -> tuple[Ints, Ints]:
        """Return all features of the texts, each with the index of its text."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        order = np.argsort(-lengths, kind="stable")
        starts = (np.cumsum(lengths) - lengths)[order]
        text_bytes = np.frombuffer(b"".join(texts), dtype=np.uint8)
        num_texts_longer_than = len(texts) - np.searchsorted(
            np.sort(lengths), np.arange(int(lengths.max(initial=0))), side="right"
        )
        state = np.zeros(len(texts), dtype=np.int32)
        visited_states, text_indices = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
        for position, num_longer in enumerate(num_texts_longer_than.tolist()):
            state = self.state_transitions[(state[:num_longer] << 8) + text_bytes[starts[:num_longer] + position]]
            visited_states.append(state)
            text_indices.append(order[:num_longer])
        states, rows = np.concatenate(visited_states), np.concatenate(text_indices)
        sizes = self.feature_offsets[states + 1] - self.feature_offsets[states]
        feature_positions = np.repeat(self.feature_offsets[states] - (np.cumsum(sizes) - sizes), sizes) + np.arange(
            int(sizes.sum())
        )
        return np.repeat(rows, sizes), self.state_features[feature_positions].astype(np.int64)


def sum_weights_with_numpy(weights_FL: Scores, features: Ints, starts: Ints, feature_weights: Scores) -> Scores:
    """Sum the weighted rows of each text's features, which begin at `starts`."""
    ends = [*starts[1:].tolist(), len(features)]
    sums = np.zeros((len(starts), weights_FL.shape[1]), dtype=weights_FL.dtype)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        sums[row] = feature_weights[start:end] @ weights_FL.take(features[start:end], axis=0)
    return sums


def sum_weights_with_torch(weights_FL: Scores, features: Ints, starts: Ints, feature_weights: Scores) -> Scores:
    """Do the same several times faster, in a process that has imported torch anyway."""
    import torch

    arrays = (features, weights_FL, starts, feature_weights)
    feature, weight_FL, start, feature_weight = (torch.from_numpy(array) for array in arrays)
    sums = torch.nn.functional.embedding_bag(feature, weight_FL, start, mode="sum", per_sample_weights=feature_weight)
    return sums.numpy()


@cache
def load_py3langid_model() -> NaiveBayes:
    """Load the model of py3langid. A language with two columns, such as Serbian in two scripts, keeps both."""
    identifier = load_py3langid()
    rows = np.asarray(identifier.tk_row, dtype=np.int64)
    features_by_state = np.asarray(identifier.tk_output, dtype=np.int64)
    transitions = np.asarray(identifier.tk_nextmove, dtype=np.int32).reshape(-1, 256)[rows]
    return _build_model(
        identifier,
        transitions,
        [[feature] if feature >= 0 else [] for feature in features_by_state.tolist()],
        sublinear_tf=True,
    )


@cache
def load_langid_model() -> NaiveBayes:
    """Load the model of langid; raises ImportError if it is not installed."""
    from langid.langid import LanguageIdentifier, model

    identifier = LanguageIdentifier.from_modelstring(model)
    transitions = np.asarray(identifier.tk_nextmove, dtype=np.int32).reshape(-1, 256)
    return _build_model(
        identifier,
        transitions,
        [list(identifier.tk_output.get(state, ())) for state in range(len(transitions))],
        sublinear_tf=False,
    )


def _build_model(
    identifier: Any, transitions: npt.NDArray[np.int32], features_by_state: list[list[int]], sublinear_tf: bool
) -> NaiveBayes:
    dtype = np.float32 if sublinear_tf else np.float64  # the precision of each package
    return NaiveBayes(
        labels=tuple(map(str, identifier.nb_classes)),
        state_transitions=transitions.reshape(-1),
        state_features=np.array([feature for features in features_by_state for feature in features], dtype=np.int32),
        feature_offsets=np.cumsum([0, *map(len, features_by_state)]),
        weights_FL=np.array(identifier.nb_ptc, dtype=dtype, order="C"),
        prior_L=np.array(identifier.nb_pc, dtype=dtype),
        sublinear_tf=sublinear_tf,
        normalize_unicode=sublinear_tf,
    )


def _encode_text(text: str, normalize: bool) -> bytes:
    if normalize:
        text = unicodedata.normalize("NFC", text.lower() if text.isupper() else text)
    return text.encode("utf-8", "surrogatepass")
