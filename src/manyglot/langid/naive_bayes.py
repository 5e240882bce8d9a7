"""The identifiers langid and py3langid, for many sentences at once.

Both walk an automaton over the bytes of a text, byte by byte in Python, count the features they meet and let Naive
Bayes decide. Here all texts of a batch take their steps together, and the features of all are added up in one
operation. The models are those of the packages; tests hold that the answers are theirs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from manyglot.langid.py3langid import load_py3langid

Ints = npt.NDArray[np.int64]
TEXTS_AT_ONCE = 4096


@dataclass(frozen=True)
class NaiveBayes:
    """A model: S states, F features, L labels."""

    labels: tuple[str, ...]
    next_S: npt.NDArray[np.int32]
    """The state that follows a state and a byte, 256 of them for each state."""
    features: npt.NDArray[np.int32]
    """The features of all states, one state after the other."""
    ends: Ints
    """Where the features of each state end; one more than states, and the first is 0."""
    weights_FL: torch.Tensor
    prior_L: torch.Tensor
    sublinear: bool
    """Whether a feature counts by the logarithm of how often it is there."""
    normalize: bool
    """Whether text is first brought into Unicode's composed form, and capitals alone into small letters."""

    def scores(self, texts: Sequence[str]) -> tuple[torch.Tensor, list[bool]]:
        """How likely each label is for each text, [texts, labels], and whether a text has anything to tell it by."""
        parts = [self._scores(texts[i : i + TEXTS_AT_ONCE]) for i in range(0, len(texts), TEXTS_AT_ONCE)]
        if not parts:
            return self.prior_L.new_zeros(0, len(self.labels)), []
        return torch.cat([scores for scores, _ in parts]), [known for _, is_known in parts for known in is_known]

    def _scores(self, texts: Sequence[str]) -> tuple[torch.Tensor, list[bool]]:
        rows, features = self._features([_bytes(text, self.normalize) for text in texts])
        keys, counts = np.unique((rows << 32) | features, return_counts=True)
        starts = np.searchsorted(keys, np.arange(len(texts), dtype=np.int64) << 32)
        per_feature = np.log1p(counts.astype(np.float32)) if self.sublinear else counts
        sums = torch.nn.functional.embedding_bag(
            torch.from_numpy(keys & 0xFFFFFFFF),
            self.weights_FL,
            torch.from_numpy(starts),
            mode="sum",
            per_sample_weights=torch.from_numpy(per_feature).to(self.weights_FL.dtype),
        )
        is_known = np.diff(starts, append=len(keys)) > 0
        return self.prior_L + sums, is_known.tolist()

    def _features(self, texts: Sequence[bytes]) -> tuple[Ints, Ints]:
        """Every feature that is met, with the number of its text."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        order = np.argsort(-lengths, kind="stable")
        starts = (np.cumsum(lengths) - lengths)[order]
        letters = np.frombuffer(b"".join(texts), dtype=np.uint8)
        at_least = len(texts) - np.searchsorted(np.sort(lengths), np.arange(int(lengths.max(initial=0))), side="right")
        state = np.zeros(len(texts), dtype=np.int32)
        visited, by = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
        for step, num_longer in enumerate(at_least.tolist()):
            state = self.next_S[(state[:num_longer] << 8) + letters[starts[:num_longer] + step]]
            visited.append(state)
            by.append(order[:num_longer])
        states, rows = np.concatenate(visited), np.concatenate(by)
        sizes = self.ends[states + 1] - self.ends[states]
        met = np.repeat(self.ends[states] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
        return np.repeat(rows, sizes), self.features[met].astype(np.int64)


@cache
def py3langid_model() -> NaiveBayes:
    """The model of py3langid; a language with two columns, as Serbian in two scripts, keeps both."""
    tool = load_py3langid()
    rows = np.asarray(tool.tk_row, dtype=np.int64)
    outputs = np.asarray(tool.tk_output, dtype=np.int64)
    moves = np.asarray(tool.tk_nextmove, dtype=np.int32).reshape(-1, 256)[rows]
    return _model(tool, moves, [[each] if each >= 0 else [] for each in outputs.tolist()], sublinear=True)


@cache
def langid_model() -> NaiveBayes:
    """The model of langid."""
    from langid.langid import LanguageIdentifier, model

    tool = LanguageIdentifier.from_modelstring(model)
    moves = np.asarray(tool.tk_nextmove, dtype=np.int32).reshape(-1, 256)
    return _model(tool, moves, [list(tool.tk_output.get(state, ())) for state in range(len(moves))], sublinear=False)


def _model(tool: Any, moves: npt.NDArray[np.int32], outputs: list[list[int]], sublinear: bool) -> NaiveBayes:
    kind = torch.float32 if sublinear else torch.float64  # as each tool computes
    return NaiveBayes(
        labels=tuple(map(str, tool.nb_classes)),
        next_S=moves.reshape(-1),
        features=np.array([feature for each in outputs for feature in each], dtype=np.int32),
        ends=np.cumsum([0, *map(len, outputs)]),
        weights_FL=torch.from_numpy(np.asarray(tool.nb_ptc)).to(kind).contiguous(),
        prior_L=torch.from_numpy(np.asarray(tool.nb_pc)).to(kind),
        sublinear=sublinear,
        normalize=sublinear,
    )


def _bytes(text: str, normalize: bool) -> bytes:
    if normalize:
        text = unicodedata.normalize("NFC", text.lower() if text.isupper() else text)
    return text.encode("utf-8", "surrogatepass")
