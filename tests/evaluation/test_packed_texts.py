from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.evaluation.packed_texts import PackedTexts


@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=20), max_size=8))
def test_packed_texts_are_a_sequence_of_the_same_texts(texts: list[str]) -> None:
    packed = PackedTexts(texts)
    assert list(packed) == texts == [packed[i] for i in range(len(packed))]
    assert [packed[i - len(texts)] for i in range(len(texts))] == texts
    assert list(packed[1:-1]) == texts[1:-1]
    assert list(pickle.loads(pickle.dumps(packed))) == texts
    with pytest.raises(IndexError):
        packed[len(texts)]
