"""Packing: a batch without padding, whole sentences one after the other, and how attention finds its way among them.

A packed batch is one array of numbers, so that it goes to a device in one piece. An engine that records what it does
with a batch needs batches of a few sizes only: they can be filled up with tokens that nobody looks at.

An encoder may be asked to read some of the answers, the target sentences, too; they stand behind the sources.

Shape letters: B sentences, N target tokens, M source tokens, K answers, A their tokens, G groups.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.batch import Batch
from manyglot.batches.store import AnyInts, IntArray
from manyglot.vocabulary.subwords import EOS, PAD

SHORT, LONG = 64, 128
"""Sizes of the tiles in which a kernel attends; a sentence must fit into one of them."""
FILLED = 512, 128
"""Groups, small and large, are filled up to multiples of these: one without sentences costs next to nothing."""


class Sentences(NamedTuple):
    """Whole sentences one after the other."""

    ids_N: Tensor
    sentence_N: Tensor
    """Which sentence each token belongs to."""
    position_N: Tensor
    """Its place in the sentence."""
    number: int
    longest: int


class Groups(NamedTuple):
    """Runs of whole sentences, each fitting into a tile: first and last query (exclusive), first and last key."""

    short_G4: Tensor
    """As many sentences as fit into a small tile."""
    long_G4: Tensor
    """Sentences that need a large one, each for itself."""


class Sizes(NamedTuple):
    """What decides the form of a packed batch."""

    lengths: tuple[int, ...]
    """Of the parts of its array."""
    num_sentences: int
    num_source_tokens: int
    """Of the sources alone, without answers."""
    longest_source: int
    longest_encoded: int
    longest_input: int
    fits: bool
    """Whether each sentence fits into a tile."""

    @property
    def of_memory(self) -> tuple[int, int, int]:
        """What its memory grows with: the tokens of all that the encoder reads, those of the input, the answers."""
        return self.lengths[0], self.lengths[3], self.lengths[-1]


class Packed:
    """A batch without padding, its sentences in the order of their target languages."""

    def __init__(self, numbers: Tensor, sizes: Sizes, num_tokens: int) -> None:
        self.numbers, self.sizes = numbers, sizes
        self.num_tokens = num_tokens
        """Target tokens that are predicted."""
        parts = [numbers[start:end] for start, end in pairwise([0, *accumulate(sizes.lengths)])]
        self.label_N, self.lang_B = parts[6:8]
        """What follows each token of the input, where PAD is not scored; and the target language of each sentence."""
        self.pair_K = parts[-1]
        """The sentence that each answer is the translation of, -1 where there is none."""
        number, encoded = sizes.num_sentences + len(self.pair_K), parts[:3]
        self.encoded = Sentences(encoded[0], encoded[1], encoded[2], number, sizes.longest_encoded)
        """All that the encoder reads: the sources, then the answers as sentences of their own."""
        source = [part[: sizes.num_source_tokens] for part in encoded]
        self.source = Sentences(source[0], source[1], source[2], sizes.num_sentences, sizes.longest_source)
        self.input = Sentences(parts[3], parts[4], parts[5], sizes.num_sentences, sizes.longest_input)
        groups_G4 = [part.view(-1, 4) for part in parts[8:-1]]
        self.encoder, self.decoder, self.cross = (Groups(*groups_G4[i : i + 2]) for i in (0, 2, 4))
        """All that is encoded with itself, input with input, input with source."""

    def to(self, device: torch.device) -> Packed:
        """The same on a device."""
        return Packed(self.pinned(device).to(device, non_blocking=True), self.sizes, self.num_tokens)

    def pinned(self, device: torch.device) -> Tensor:
        """The array, for a GPU where it can fetch it: from ordinary memory we would wait for all it has still to do."""
        return self.numbers.pin_memory() if device.type == "cuda" and not self.numbers.is_cuda else self.numbers


class Answers(NamedTuple):
    """Which target sentences the encoder reads too."""

    every: int
    """One of so many."""
    num_tags: int
    """At the beginning of a target sentence, which are not read."""


class _Tokens(NamedTuple):
    """A batch's tokens one after the other, and the lengths of its sentences."""

    source_M: AnyInts
    source_B: IntArray
    input_N: AnyInts
    input_B: IntArray
    label_N: AnyInts
    lang_B: IntArray
    answer_A: AnyInts = np.zeros(0, dtype=np.int64)
    answer_K: IntArray = np.zeros(0, dtype=np.int64)
    pair_K: IntArray = np.zeros(0, dtype=np.int64)

    @classmethod
    def of(cls, batch: Batch) -> _Tokens:
        """Leave out the padding, and order the sentences by their target languages."""
        lang_B = batch.lang_B.numpy()
        order_B = slice(None) if (np.diff(lang_B) >= 0).all() else np.argsort(lang_B, kind="stable")
        source_BS, input_BT, label_BT = (x.numpy()[order_B] for x in (batch.source_BS, batch.input_BT, batch.label_BT))
        there_BS, there_BT = source_BS != PAD, input_BT != PAD
        lengths = there_BS.sum(axis=1), there_BT.sum(axis=1)
        return cls(source_BS[there_BS], lengths[0], input_BT[there_BT], lengths[1], label_BT[there_BT], lang_B[order_B])

    def with_answers(self, wanted: Answers) -> _Tokens:
        """With some of the target sentences as an encoder reads them: words </s>."""
        end_B = np.cumsum(self.input_B)
        pair_K = np.flatnonzero(self.label_N[end_B - 1] != PAD)[:: wanted.every]
        answer_K = self.input_B[pair_K] - wanted.num_tags
        start_K = end_B[pair_K] - np.cumsum(answer_K)
        answer_A = self.label_N[np.repeat(start_K, answer_K) + np.arange(answer_K.sum())]
        return self._replace(answer_A=answer_A, answer_K=answer_K, pair_K=pair_K)

    def filled_up(self, multiple: int) -> _Tokens:
        """With more sentences, which have no labels, up to multiples of tokens on each side and of sentences."""
        missing_M, missing_N, missing_A = (-len(ids) % multiple for ids in (self.source_M, self.input_N, self.answer_A))
        number = -(-max(missing_M, missing_N) // SHORT)
        source_B, input_B = _divided(self.source_B, missing_M, number), _divided(self.input_B, missing_N, number)
        answer_K = _divided(self.answer_K, missing_A, -(-missing_A // SHORT))
        return _Tokens(
            _filled(self.source_M, missing_M, EOS),
            source_B,
            _filled(self.input_N, missing_N, EOS),
            input_B,
            _filled(self.label_N, missing_N, PAD),
            np.pad(self.lang_B, (0, _up(len(source_B), 4 * multiple) - len(self.lang_B)), mode="edge"),
            _filled(self.answer_A, missing_A, EOS),
            answer_K,
            _filled(self.pair_K, _up(len(answer_K), multiple) - len(self.pair_K), -1),
        )

    @property
    def encoded_B(self) -> IntArray:
        """The lengths of all that the encoder reads."""
        return np.concatenate([self.source_B, self.answer_K])

    @property
    def longest(self) -> tuple[int, int, int]:
        """The most tokens of a source, of a sentence that the encoder reads and of an input."""
        return int(self.source_B.max()), int(self.encoded_B.max()), int(self.input_B.max())

    def places(self) -> tuple[IntArray, IntArray]:
        """The sentence of each token that the encoder reads and its position in it; answers follow all sentences."""
        own, answers = _places(self.source_B), _places(self.answer_K)
        return np.concatenate([own[0], answers[0] + len(self.lang_B)]), np.concatenate([own[1], answers[1]])


def pack(batch: Batch, multiple: int = 1, answers: Answers | None = None) -> Packed:
    """Leave the padding out; answers that the encoder should read too are put behind the sources.

    With a multiple, the parts are filled up to multiples of it, or of parts of it, by sentences without labels and by
    groups without sentences, so that batches have few sizes.
    """
    tokens = _Tokens.of(batch)
    if answers is not None:
        tokens = tokens.with_answers(answers)
    longest, fits = tokens.longest, max(tokens.longest) <= LONG
    num_tokens = int((tokens.label_N != PAD).sum())
    steps = (1, 1)
    if multiple > 1 and fits:
        tokens, longest, steps = tokens.filled_up(multiple), (LONG, LONG, LONG), FILLED
    encoded_B, source_B, input_B = tokens.encoded_B, tokens.source_B, tokens.input_B
    groups = []
    for query_B, key_B in ((encoded_B, encoded_B), (input_B, input_B), (input_B, source_B)):
        for groups_G4, step in zip(_groups(query_B, key_B) if fits else (_NONE, _NONE), steps, strict=True):
            # never none of a kind, or other kernels would be needed than for the batch before
            least = step if steps == FILLED else 0
            groups.append(_filled(groups_G4.ravel(), 4 * (max(_up(len(groups_G4), step), least) - len(groups_G4)), 0))
    encoded = np.concatenate([tokens.source_M, tokens.answer_A]), *tokens.places()
    arrays = [*encoded, tokens.input_N, *_places(input_B), tokens.label_N, tokens.lang_B, *groups, tokens.pair_K]
    sizes = Sizes(tuple(map(len, arrays)), len(tokens.lang_B), len(tokens.source_M), *longest, fits)
    return Packed(torch.from_numpy(np.concatenate(arrays).astype(np.int32)), sizes, num_tokens)


def apart(batch: Batch) -> list[Batch]:
    """The sentences that fit into tiles, and those that do not."""
    if max(batch.source_BS.shape[1], batch.input_BT.shape[1]) <= LONG:
        return [batch]
    longest_B = torch.maximum(*((side != PAD).sum(dim=1) for side in (batch.source_BS, batch.input_BT)))
    return [batch.select(rows_B) for rows_B in (longest_B <= LONG, longest_B > LONG) if bool(rows_B.any())]


_NONE = np.zeros((0, 4), dtype=np.int64)


def _groups(query_B: IntArray, key_B: IntArray) -> tuple[IntArray, IntArray]:
    """Runs of sentences of these lengths: short ones as long as they fit, and the long ones."""
    starts = [np.concatenate([[0], np.cumsum(each)]) for each in (query_B, key_B)]
    fit = np.min([np.searchsorted(s, s[:-1] + SHORT, side="right") - 1 for s in starts], axis=0)
    after = np.maximum(fit, np.arange(1, len(fit) + 1)).tolist()
    edges = [0]
    while edges[-1] < len(after):
        edges.append(after[edges[-1]])
    query_G, key_G = (each[edges] for each in starts)
    groups_G4 = np.stack([query_G[:-1], query_G[1:], key_G[:-1], key_G[1:]], axis=1)
    long_G = np.maximum(np.diff(query_G), np.diff(key_G)) > SHORT
    return groups_G4[~long_G], groups_G4[long_G]


def _places(lengths_B: IntArray) -> tuple[IntArray, IntArray]:
    """The sentence of each token and its position in it."""
    sentence_N = np.repeat(np.arange(len(lengths_B)), lengths_B)
    return sentence_N, np.arange(len(sentence_N)) - (np.cumsum(lengths_B) - lengths_B)[sentence_N]


def _filled(values: AnyInts, missing: int, symbol: int) -> AnyInts:
    return np.pad(values, (0, missing), constant_values=symbol)


def _divided(lengths_B: IntArray, missing: int, number: int) -> IntArray:
    """Append so many sentences of about the same length, with all missing tokens together."""
    if not number:
        return lengths_B
    return np.concatenate([lengths_B, np.diff(np.arange(number + 1) * missing // number)])


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
