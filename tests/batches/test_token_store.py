from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches import array_files, token_store
from manyglot.batches.pair_index import PairIndex, length_cell_ids
from manyglot.batches.token_store import TokenStore
from manyglot.corpus.languages import Direction
from manyglot.errors import FolderError
from manyglot.vocabulary.subword_model import UNK
from tests.batches.stores import Sentences, make_index, make_store

SENTENCES = st.dictionaries(st.integers(0, 20), st.lists(st.integers(UNK, 99), min_size=1, max_size=5), max_size=12)


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
        store = make_store(tmp_path / str(size), size, de={0: [2, 3, size - 1]})
        assert store.tokens.dtype == kind
        assert store[0].tolist() == [2, 3, size - 1]
    assert isinstance(store.tokens.base, np.memmap)


STORE: dict[str, Sentences] = {"de": {0: [5], 1: [6, 7], 2: [8]}, "en": {0: [9], 2: [9, 9], 3: [9]}}
"""de has the sentences 0 to 2 and en 3 to 5, with 8 subwords; the pairs are de 0 and 2 with en 3 and 4."""


@pytest.mark.parametrize(
    ("name", "damaged", "reason"),
    [
        ("tokens", np.zeros(8, np.uint16), "it has ids that are not subwords"),
        ("tokens", np.full(8, 100, np.uint16), "it has ids that are not subwords"),
        ("tokens", np.full(9, 5, np.uint16), "does not match the sentences"),
        ("tokens", np.full(8, 5, np.int16), "another type or shape"),
        ("offsets", np.array([0, 1, 4, 3, 5, 7, 8]), "its offsets do not ascend"),
        ("offsets", np.array([0, 1, 1, 4, 5, 7, 8]), "its offsets do not ascend"),
        ("offsets", np.array([0, 1, 3, 4, 5, 7, 9]), "does not match the sentences"),
        ("rows", np.array([0, 2, 1, 0, 2, 3], np.uint32), "its rows do not ascend"),
        ("rows", np.array([0, 1, 2, 0, 2, 2], np.uint32), "its rows do not ascend"),
        ("rows", np.array([0, 1, 2, 0, 2], np.uint32), "it should have 6 rows"),
        ("starts", np.array([0, 7, 6]), "does not divide the sentences"),
        ("starts", np.array([1, 3, 6]), "does not divide the sentences"),
        ("starts", np.array([0, 6]), "does not divide the sentences"),
        ("pairs", np.array([[0, 3], [2, 4], [3, 2], [4, 2]], np.uint32)[:, ::-1].copy(), "pairs of other languages"),
        ("pairs", np.array([[0, 3], [2, 6], [3, 0], [4, 2]], np.uint32), "pairs of other languages"),
        ("pairs", np.array([[0, 3], [2, 4], [3, 0]], np.uint32), "it should have 4 pairs"),
        ("pairs", np.array([0, 3, 2, 4, 3, 0, 4, 2], np.uint32), "another type or shape"),
        ("pair_starts", np.array([0, 5, 4]), "does not divide the pairs"),
        ("pair_starts", np.array([0, 4]), "does not divide the pairs"),
        ("pair_starts", np.array([0, 1, 4]), "its cells do not match"),
        ("cells", np.array([[0, 2, 2, 1], [1, 2, 1, 1]]), "its cells do not match"),
        ("cells", np.array([[0, 2, 2, 1], [1, 2, 2, 5]]), "its cells do not match"),
        ("cells", np.array([[1, 2, 2, 1], [0, 2, 2, 1]]), "its cells do not match"),
        ("cells", np.array([[0, 2, 2, 1], [2, 2, 2, 1]]), "its cells do not match"),
        ("cells", np.zeros((0, 4), np.int64), "its cells do not match"),
    ],
)
def test_a_damaged_store_is_refused(name: str, damaged: npt.NDArray[Any], reason: str, tmp_path: Path) -> None:
    intact = make_index(tmp_path, **STORE)
    assert intact.pairs_P2.tolist() == [[0, 3], [2, 4], [3, 0], [4, 2]]
    np.save(tmp_path / f"{name}.npy", damaged)
    with pytest.raises(FolderError, match=reason) as error:
        PairIndex(TokenStore(tmp_path, intact.store.languages, 100))
    assert str(error.value).startswith(f"{tmp_path}/")
    assert str(error.value).endswith("Restore the dataset from a copy, or delete it and prepare it again.")


def test_a_damaged_list_of_directions_is_refused(tmp_path: Path) -> None:
    store = make_index(tmp_path, **STORE).store
    for content in ("", "[", "5", "[5]", '["de"]', '[["de", "en", "fr"]]', '[["de", "fr"]]', '[["de", ["en"]]]'):
        (tmp_path / "pairs.json").write_text(content)
        with pytest.raises(FolderError, match="does not list directions"):
            PairIndex(store)
    (tmp_path / "pairs.json").write_text('[["de", "en"], ["de", "de"]]')
    with pytest.raises(FolderError, match="other languages"):
        PairIndex(store)


def test_the_subwords_of_a_language_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    languages: dict[str, Sentences] = {"de": {0: [5, 7, 5], 2: [9]}, "en": {1: [3, 99]}, "fr": {}}
    store = make_index(tmp_path, **languages).store
    for chunk in (1, 2, 1000):
        monkeypatch.setattr(token_store, "ITEMS_PER_CHECK", chunk)
        assert [store.used_subwords(code) for code in languages] == [{5, 7, 9}, {3, 99}, set()]


def test_large_arrays_are_checked_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    languages: dict[str, Sentences] = {
        code: {row: [5, 6] for row in range(start, 60)} for start, code in enumerate(("de", "en", "fr", "it"))
    }
    intact = make_index(tmp_path, **languages)
    monkeypatch.setattr(array_files, "ITEMS_PER_CHECK", 7)
    for name, array in (
        ("tokens", intact.store.tokens),
        ("offsets", intact.store.offsets),
        ("rows", intact.store.rows),
        ("pairs", intact.pairs_P2),
    ):
        original = array.copy()
        assert len(original) > 200
        for item in range(5, len(original), 41):
            damaged = original.copy()
            damaged[item] += 10_000
            np.save(tmp_path / f"{name}.npy", damaged)
            with pytest.raises(FolderError, match=name):
                PairIndex(TokenStore(tmp_path, intact.store.languages, 100))
        np.save(tmp_path / f"{name}.npy", original)
    PairIndex(TokenStore(tmp_path, intact.store.languages, 100))


def test_equal_sentences_have_equal_hashes_without_unknown_subwords(tmp_path: Path) -> None:
    one = make_store(tmp_path / "one", de={0: [5, 6], 1: [6, 5], 2: [5, 6], 3: [5, 2], 4: [5, 2]})
    other = make_store(tmp_path / "other", de={0: [5, 6], 3: [5, 2]})
    hashes, theirs = one.hashes(one.sentence_range("de")).tolist(), other.hashes(other.sentence_range("de")).tolist()
    assert hashes[0] == hashes[2] == theirs[0]
    assert len(set(hashes)) == 4
    assert theirs[1] not in hashes
