from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.pair_index import PairIndex, length_cell_ids
from manyglot.batches.token_store import TokenStore
from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import FolderError
from tests.batches.stores import Sentences, make_index, make_store

SENTENCES = st.dictionaries(st.integers(0, 20), st.lists(st.integers(0, 99), min_size=1, max_size=5), max_size=12)


@given(SENTENCES, SENTENCES)
def test_translation_pairs_share_a_row(
    tmp_path_factory: pytest.TempPathFactory, german: Sentences, english: Sentences
) -> None:
    index = make_index(tmp_path_factory.mktemp("store"), de=german, en=english)
    store = index.store
    expected = [(german[row], english[row]) for row in sorted(german.keys() & english.keys())]
    for one, other, expected_pairs in (("de", "en", expected), ("en", "de", [(e, g) for g, e in expected])):
        pairs = [
            (store[i].tolist(), store[j].tolist()) for i, j in zip(*store.translation_pairs(one, other), strict=True)
        ]
        assert pairs == expected_pairs
    indices = np.array(store.sentence_range("de"), dtype=np.int64)
    assert store.lengths(indices).tolist() == [len(german[row]) for row in sorted(german)]
    indexed = [(store[i].tolist(), store[j].tolist()) for i, j in index.pairs_P2.tolist()]
    assert sorted(indexed[: len(expected)]) == sorted(expected)
    assert sorted((g, e) for e, g in indexed[len(expected) :]) == sorted(expected)
    assert index.num_pairs(Direction("de", "en")) == index.num_pairs(Direction("en", "de")) == len(expected)


def test_pairs_are_ordered_by_the_longer_then_the_shorter_side(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    german, english = ({row: [5] * int(n) for row, n in enumerate(rng.integers(1, 90, 300))} for _ in range(2))
    index = make_index(tmp_path, de=german, en=english)
    lengths, others = (index.store.lengths(side) for side in index.pairs_P2[:300].T)
    cells = length_cell_ids(lengths, others)
    assert (np.diff(cells) >= 0).all()
    longer = np.maximum(lengths, others)
    assert (np.maximum.accumulate(longer) <= np.ceil(longer * 1.05)).all(), "a cell is narrow"
    assert index.cells_C4[:, 2].sum() == 2 * 300
    assert index.cells_C4[:, 3].max() == longer.max()


def test_small_vocabularies_take_two_bytes_a_token(tmp_path: Path) -> None:
    for size, kind in ((65_536, np.uint16), (65_537, np.uint32)):
        store = make_store(tmp_path / str(size), size, de={0: [1, 2, size - 1]})
        assert store.tokens.dtype == kind
        assert store[0].tolist() == [1, 2, size - 1]
    assert isinstance(store.tokens.base, np.memmap)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    make_index(tmp_path, de={0: [1]}, en={0: [2]})
    with pytest.raises(FolderError, match="is damaged"):
        TokenStore(tmp_path, Languages(["de", "en", "fr"]))
    (tmp_path / "pairs.npy").write_bytes(b"")
    with pytest.raises(FolderError, match="is damaged"):
        PairIndex(TokenStore(tmp_path, Languages(["de", "en"])))
    (tmp_path / "rows.npy").write_bytes(b"")
    with pytest.raises(FolderError, match="is damaged"):
        TokenStore(tmp_path, Languages(["de", "en"]))


def test_equal_sentences_have_equal_hashes_without_unknown_subwords(tmp_path: Path) -> None:
    one = make_store(tmp_path / "one", de={0: [5, 6], 1: [6, 5], 2: [5, 6], 3: [5, 2], 4: [5, 2]})
    other = make_store(tmp_path / "other", de={0: [5, 6], 3: [5, 2]})
    hashes, theirs = one.hashes(one.sentence_range("de")).tolist(), other.hashes(other.sentence_range("de")).tolist()
    assert hashes[0] == hashes[2] == theirs[0]
    assert len(set(hashes)) == 4
    assert theirs[1] not in hashes
