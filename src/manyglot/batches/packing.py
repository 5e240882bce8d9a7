"""Packing: a batch without padding, whole sentences one after the other, and how attention finds its way among them.

A packed batch is one array of numbers, so that it goes to a device in one piece. An engine that records what it does
with a batch needs batches of a few sizes only: they can be filled up with tokens that nobody looks at.

Shape letters: B sentences, N target tokens, M source tokens, G groups.
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

TILES = (64, 128)
"""Sizes of the tiles in which a kernel attends; a sentence must fit into one."""


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
    """Runs of whole sentences, each run fitting into a tile among the queries and among the keys."""

    query_G: Tensor
    """Where each group begins, and the end."""
    key_G: Tensor
    tile: int
    """0 where a sentence is too long for a tile: then there are no groups."""


class Sizes(NamedTuple):
    """All that is not in the array of a packed batch but decides its form."""

    lengths: tuple[int, ...]
    """Of the parts of the array."""
    num_sentences: int
    longest_source: int
    longest_input: int
    tile: int


class Packed:
    """A batch without padding, its sentences in the order of their target languages."""

    def __init__(self, numbers: Tensor, sizes: Sizes, num_tokens: int) -> None:
        self.numbers, self.sizes = numbers, sizes
        self.num_tokens = num_tokens
        """Target tokens that are predicted."""
        parts = [numbers[start:end] for start, end in pairwise([0, *accumulate(sizes.lengths)])]
        self.source = Sentences(parts[0], parts[1], parts[2], sizes.num_sentences, sizes.longest_source)
        self.input = Sentences(parts[3], parts[4], parts[5], sizes.num_sentences, sizes.longest_input)
        self.label_N, self.lang_B = parts[6:8]
        """What follows each token of the input, where PAD is not scored; and the target language of each sentence."""
        self.encoder = Groups(parts[8], parts[8], sizes.tile)
        """Source with source."""
        self.decoder = Groups(parts[9], parts[9], sizes.tile)
        """Input with input."""
        self.cross = Groups(parts[10], parts[11], sizes.tile)
        """Input with source."""

    def to(self, device: torch.device) -> Packed:
        """The same on a device."""
        return Packed(self.pinned(device).to(device, non_blocking=True), self.sizes, self.num_tokens)

    def pinned(self, device: torch.device) -> Tensor:
        """The array, for a GPU where it can fetch it: from ordinary memory we would wait for all it has still to do."""
        return self.numbers.pin_memory() if device.type == "cuda" and not self.numbers.is_cuda else self.numbers


def pack(batch: Batch, multiple: int = 1) -> Packed:
    """Leave the padding out.

    With a multiple, both sides are filled up to multiples of it by sentences without labels, and everything else to
    what the numbers of tokens allow, so that there are few sizes.
    """
    lang_B = batch.lang_B.numpy()
    order_B = slice(None) if (np.diff(lang_B) >= 0).all() else np.argsort(lang_B, kind="stable")
    source_BS, input_BT, label_BT = (x.numpy()[order_B] for x in (batch.source_BS, batch.input_BT, batch.label_BT))
    there_BS, there_BT = source_BS != PAD, input_BT != PAD
    source_M, input_N, label_N, lang_B = source_BS[there_BS], input_BT[there_BT], label_BT[there_BT], lang_B[order_B]
    source_B, input_B = there_BS.sum(axis=1), there_BT.sum(axis=1)
    longest = max(source_B.max(), input_B.max())
    tile = next((tile for tile in TILES if longest <= tile), 0)
    num_tokens = int((label_N != PAD).sum())
    if multiple > 1 and tile:
        missing_M, missing_N = (-len(ids) % multiple for ids in (source_M, input_N))
        source_M, input_N = _filled(source_M, missing_M, EOS), _filled(input_N, missing_N, EOS)
        label_N = _filled(label_N, missing_N, PAD)
        more = -(-max(missing_M, missing_N) // tile)
        source_B, input_B = _divided(source_B, missing_M, more), _divided(input_B, missing_N, more)
        num_sentences = max(len(source_M), len(input_N))  # a sentence has at least a token
        lang_B = np.pad(lang_B, (0, num_sentences - len(lang_B)), mode="edge")
        longest = tile
    groups = [*_groups([source_B], tile), *_groups([input_B], tile), *_groups([input_B, source_B], tile)]
    if multiple > 1 and tile:
        for i, sides in enumerate((len(source_M), len(input_N), *[len(source_M) + len(input_N)] * 2)):
            # of two neighbouring groups at least one side is longer than a tile
            groups[i] = np.pad(groups[i], (0, 2 * (sides // tile + 1) - len(groups[i])), mode="edge")
    arrays = [source_M, *_places(source_B), input_N, *_places(input_B), label_N, lang_B, *groups]
    sizes = Sizes(
        lengths=tuple(map(len, arrays)),
        num_sentences=len(lang_B),
        longest_source=int(source_B.max()) if longest != tile else tile,
        longest_input=int(input_B.max()) if longest != tile else tile,
        tile=tile,
    )
    return Packed(torch.from_numpy(np.concatenate(arrays).astype(np.int32)), sizes, num_tokens)


def _places(lengths_B: IntArray) -> tuple[IntArray, IntArray]:
    """The sentence of each token and its position in it."""
    sentence_N = np.repeat(np.arange(len(lengths_B)), lengths_B)
    return sentence_N, np.arange(len(sentence_N)) - (np.cumsum(lengths_B) - lengths_B)[sentence_N]


def _groups(lengths: list[IntArray], tile: int) -> list[IntArray]:
    """Where groups begin on each side, and the end: each takes as many sentences as fit into the tile on all sides."""
    starts = [np.concatenate([[0], np.cumsum(each)]) for each in lengths]
    edges = [0]
    if tile:
        last = np.min([np.searchsorted(s, s[:-1] + tile, side="right") - 1 for s in starts], axis=0).tolist()
        while edges[-1] < len(last):
            edges.append(last[edges[-1]])
    return [each[edges] for each in starts]


def _filled(ids_N: AnyInts, missing: int, symbol: int) -> AnyInts:
    return np.pad(ids_N, (0, missing), constant_values=symbol)


def _divided(lengths_B: IntArray, missing: int, number: int) -> IntArray:
    """Append so many sentences, all missing tokens together, of about the same length."""
    if not number:
        return lengths_B
    return np.concatenate([lengths_B, np.diff(np.arange(number + 1) * missing // number)])
