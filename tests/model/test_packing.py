"""A packed batch contains the sentences of the batch without padding, each in exactly one group per attention."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from manyglot.batches.batch import Batch, collate
from manyglot.batches.unpadded import AlignedTargetSelection
from manyglot.model.kernels.attention_tiles import LONG_TILE, SHORT_TILE, GroupTableColumns, TileGroups
from manyglot.model.packing import PackedSentences, pack_batch
from manyglot.vocabulary.subword_model import PAD
from manyglot.vocabulary.vocabulary import LanguageTags

LENGTHS = st.one_of(st.integers(1, 20), st.integers(1, LONG_TILE - 2))
PAIRS = st.lists(st.tuples(LENGTHS, LENGTHS, st.integers(0, 2)), min_size=1, max_size=40)
TAGS = [LanguageTags(source=(90 + i,)) for i in range(3)]


def batch_of(pairs: list[tuple[int, int, int]]) -> Batch:
    """A batch of sentences with these lengths and target languages; all token ids differ."""
    sources, targets = ([[5 + i] * pair[side] for i, pair in enumerate(pairs)] for side in (0, 1))
    return collate(sources, targets, [language for _, _, language in pairs], TAGS)


def sentences(packed: PackedSentences, values_N: Tensor) -> list[list[int]]:
    """Return the values of each sentence, in the order of positions."""
    tokens_by_sentence: dict[int, dict[int, int]] = {}
    for sentence, position, value in zip(packed.sentence_N, packed.position_N, values_N, strict=True):
        tokens_by_sentence.setdefault(int(sentence), {})[int(position)] = int(value)
    return [[values[i] for i in range(len(values))] for _, values in sorted(tokens_by_sentence.items())]


def unpadded(rows_BT: Tensor) -> list[list[int]]:
    return [[i for i in row if i != PAD] for row in rows_BT.tolist()]


@pytest.mark.parametrize("multiple", [1, 16, 256])
@given(pairs=PAIRS)
def test_packing_keeps_every_token(multiple: int, pairs: list[tuple[int, int, int]]) -> None:
    batch = batch_of(pairs)
    packed = pack_batch(batch, multiple)
    order = batch.lang_B.argsort(stable=True)
    for side, rows in ((packed.source, batch.source_BS), (packed.input, batch.input_BT)):
        assert sentences(side, side.ids_N)[: len(pairs)] == unpadded(rows[order])
        assert len(side.ids_N) % multiple == 0
        assert side.position_N.max() < side.max_length
    assert sentences(packed.input, packed.label_N)[: len(pairs)] == unpadded(batch.label_BT[order])
    assert batch.num_target_tokens == int((packed.label_N != PAD).sum())
    languages = packed.lang_B.tolist()
    assert languages[: len(pairs)] == sorted(batch.lang_B.tolist())
    assert languages == sorted(languages)


@pytest.mark.parametrize("multiple", [1, 64])
@given(pairs=PAIRS)
def test_every_sentence_is_in_exactly_one_group(multiple: int, pairs: list[tuple[int, int, int]]) -> None:
    packed = pack_batch(batch_of(pairs), multiple)
    for groups, query, key in (
        (packed.encoder_groups, packed.source, packed.source),
        (packed.decoder_groups, packed.input, packed.input),
        (packed.cross_groups, packed.input, packed.source),
    ):
        check_groups(groups, query, key)


def check_groups(groups: TileGroups[Tensor], query: PackedSentences, key: PackedSentences) -> None:
    seen: dict[str, list[int]] = {"query": [], "key": []}
    for groups_G4, tile in ((groups.short_G4, SHORT_TILE), (groups.long_G4, LONG_TILE)):
        for span in (GroupTableColumns(*row) for row in groups_G4.tolist()):
            assert max(span.end_query - span.first_query, span.end_key - span.first_key) <= tile
            seen["query"] += range(span.first_query, span.end_query)
            seen["key"] += range(span.first_key, span.end_key)
            inside = set(query.sentence_N[span.first_query : span.end_query].tolist())
            others = set(key.sentence_N[span.first_key : span.end_key].tolist())
            empty = (set(range(query.num_sentences)) - set(query.sentence_N.tolist())) | (
                set(range(key.num_sentences)) - set(key.sentence_N.tolist())
            )
            assert inside - empty == others - empty, "both sides of a group are the same sentences"
    assert sorted(seen["query"]) == list(range(len(query.ids_N)))
    assert sorted(seen["key"]) == list(range(len(key.ids_N)))


def test_a_batch_with_a_long_sentence_is_not_padded() -> None:
    packed = pack_batch(batch_of([(LONG_TILE, 3, 0), (4, 5, 1)]), 64)
    assert not packed.shape.fits_tile
    assert len(packed.source.ids_N) == LONG_TILE + 2 + 6
    assert pack_batch(batch_of([(LONG_TILE - 2, 3, 0)]), 64).shape.fits_tile


def test_all_tensors_share_one_buffer() -> None:
    packed = pack_batch(batch_of([(3, 4, 0), (2, 2, 1)])).to(torch.device("cpu"))
    tensors = [*packed.source[:3], *packed.input[:3], packed.label_N, packed.lang_B, *packed.cross_groups]
    assert {t.untyped_storage().data_ptr() for t in tensors} == {packed.buffer.untyped_storage().data_ptr()}


def test_a_shape_is_within_a_larger_one() -> None:
    pairs = [(3, 4, 0), (2, 2, 1), (5, 3, 2)]
    small, large = (pack_batch(batch_of(each)).shape for each in (pairs[:2], pairs))
    assert small.fits_activation_memory_of(large, 1.0)
    assert not large.fits_activation_memory_of(small, 1.04)
    assert large.fits_activation_memory_of(small, 3.0)
    aligned = pack_batch(
        batch_of(pairs[:2]), aligned_targets=AlignedTargetSelection(every_nth_pair=1, num_leading_tags=0)
    ).shape
    assert not aligned.fits_activation_memory_of(large, 2.0), "a shape without aligned targets has no memory for them"
