"""Packing: a batch without padding, whole sentences one after the other, and how attention finds its way among them.

Shape letters: B sentences, N target tokens, M source tokens, G groups.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from manyglot.batches.batch import Batch
from manyglot.batches.store import IntArray
from manyglot.vocabulary.subwords import PAD

TILES = (64, 128)
"""Sizes of the tiles in which a kernel attends; a sentence must fit into one."""


@dataclass(frozen=True)
class _Movable:
    """Something that goes to a device as a whole."""

    def to(self, device: torch.device) -> Self:
        """The same on a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {k: _to(v, device) for k, v in values.items() if isinstance(v, Tensor)}
        return replace(self, **tensors, **{k: v.to(device) for k, v in values.items() if isinstance(v, _Movable)})


@dataclass(frozen=True)
class Sentences(_Movable):
    """Whole sentences one after the other."""

    ids_N: Tensor
    sentence_N: Tensor
    """Which sentence each token belongs to."""
    position_N: Tensor
    """Its place in the sentence."""
    number: int
    longest: int

    @classmethod
    def of(cls, ids_N: IntArray, lengths_B: IntArray) -> Sentences:
        """Number the tokens of sentences of these lengths."""
        sentence_N = np.repeat(np.arange(len(lengths_B)), lengths_B)
        position_N = np.arange(len(ids_N)) - (np.cumsum(lengths_B) - lengths_B)[sentence_N]
        return cls(_int32(ids_N), _int32(sentence_N), _int32(position_N), len(lengths_B), int(lengths_B.max()))


@dataclass(frozen=True)
class Groups(_Movable):
    """Runs of whole sentences, each run fitting into a tile among the queries and among the keys."""

    query_G: Tensor
    """Where each group begins, and the end."""
    key_G: Tensor
    tile: int
    """0 where a sentence is too long for a tile: then there are no groups."""

    @classmethod
    def of(cls, query_B: IntArray, key_B: IntArray) -> Groups:
        """Group sentences of these lengths, each group as long as it fits."""
        longest = max(query_B.max(), key_B.max())
        tile = next((tile for tile in TILES if longest <= tile), 0)
        starts = [np.concatenate([[0], np.cumsum(lengths_B)]) for lengths_B in (query_B, key_B)]
        edges = [0]
        if tile:
            last = np.min([np.searchsorted(s, s[:-1] + tile, side="right") - 1 for s in starts], axis=0).tolist()
            while edges[-1] < len(last):
                edges.append(last[edges[-1]])
        return cls(_int32(starts[0][edges]), _int32(starts[1][edges]), tile)


@dataclass(frozen=True)
class Packed(_Movable):
    """A batch without padding, its sentences in the order of their target languages."""

    source: Sentences
    input: Sentences
    label_N: Tensor
    """For each token of the input what follows it; PAD is not scored."""
    lang_B: Tensor
    encoder: Groups
    """Source with source."""
    decoder: Groups
    """Input with input."""
    cross: Groups
    """Input with source."""
    num_tokens: int
    """Target tokens that are predicted."""


def pack(batch: Batch) -> Packed:
    """Leave the padding out."""
    lang_B = batch.lang_B.numpy()
    order_B = slice(None) if (np.diff(lang_B) >= 0).all() else np.argsort(lang_B, kind="stable")
    source_BS, input_BT, label_BT = (x.numpy()[order_B] for x in (batch.source_BS, batch.input_BT, batch.label_BT))
    there_BS, there_BT = source_BS != PAD, input_BT != PAD
    source_B, input_B, label_N = there_BS.sum(axis=1), there_BT.sum(axis=1), label_BT[there_BT]
    return Packed(
        source=Sentences.of(source_BS[there_BS], source_B),
        input=Sentences.of(input_BT[there_BT], input_B),
        label_N=torch.from_numpy(label_N),
        lang_B=torch.from_numpy(lang_B[order_B]),
        encoder=Groups.of(source_B, source_B),
        decoder=Groups.of(input_B, input_B),
        cross=Groups.of(input_B, source_B),
        num_tokens=int((label_N != PAD).sum()),
    )


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy; from ordinary memory we would have to wait until the GPU has done all it was given before."""
    if device.type == "cuda" and not tensor.is_cuda:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def _int32(array: IntArray) -> Tensor:
    return torch.from_numpy(array.astype(np.int32))
