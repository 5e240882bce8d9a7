from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.batch import Batch, Collator, collate
from manyglot.vocabulary.subword_model import EOS, PAD
from manyglot.vocabulary.vocabulary import LanguageTags
from tests.batches.stores import make_store

WORDS = st.lists(st.integers(3, 50), min_size=1, max_size=6)


def test_tags_and_end_symbols_are_in_place() -> None:
    source_side = collate(
        [[5, 6], [7]], [[8], [9, 10]], [1, 0], [LanguageTags(source=(90,)), LanguageTags(source=(91,))]
    )
    assert source_side.source_BS.tolist() == [[91, 5, 6, EOS], [90, 7, EOS, PAD]]
    assert source_side.input_BT.tolist() == [[EOS, 8, PAD], [EOS, 9, 10]]
    assert source_side.label_BT.tolist() == [[8, EOS, PAD], [9, 10, EOS]]
    assert source_side.lang_B.tolist() == [1, 0]


def test_a_faithful_target_tag_is_predicted_and_a_clean_one_is_not() -> None:
    faithful = collate([[5]], [[8]], [0], [LanguageTags(target=(90,))])
    assert faithful.input_BT.tolist() == [[EOS, 90, 8]]
    assert faithful.label_BT.tolist() == [[90, 8, EOS]]
    clean = collate([[5]], [[8]], [0], [LanguageTags(target=(90,), target_predicted=False)])
    assert clean.input_BT.tolist() == faithful.input_BT.tolist()
    assert clean.label_BT.tolist() == [[PAD, 8, EOS]]
    assert (faithful.num_target_tokens, clean.num_target_tokens) == (3, 2)


@given(st.lists(st.tuples(WORDS, WORDS, st.integers(0, 2)), min_size=1, max_size=6))
def test_collation_loses_no_tokens(sentences: list[tuple[list[int], list[int], int]]) -> None:
    tags = [LanguageTags(source=(90 + i,), target=(95 + i,)) for i in range(3)]
    sources, targets, languages = (list(part) for part in zip(*sentences, strict=True))
    batch = collate(sources, targets, languages, tags)
    for row, (source, target, language) in enumerate(sentences):
        assert [i for i in batch.source_BS[row].tolist() if i != PAD] == [90 + language, *source, EOS]
        assert [i for i in batch.label_BT[row].tolist() if i != PAD] == [95 + language, *target, EOS]
    assert batch.num_target_tokens == sum(len(target) + 2 for target in targets)
    assert len(batch) == len(sentences)


@pytest.mark.parametrize(
    "tag",
    [
        lambda i: LanguageTags(),
        lambda i: LanguageTags(source=(90 + i,)),
        lambda i: LanguageTags(target=(90 + i,)),
        lambda i: LanguageTags(target=(90 + i,), target_predicted=False),
        lambda i: LanguageTags(source=(90 + i, 80 + i), target=(70 + i, 90 + i, 60)),
        lambda i: LanguageTags(source=(90 + i,), target=(70 + i,), start=PAD, source_language_tags=range(50, 52)),
    ],
)
def test_collator_equals_collate(tag: Callable[[int], LanguageTags], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = {
        code: {row: rng.integers(3, 60, rng.integers(1, 9)).tolist() for row in range(20)} for code in ("de", "en")
    }
    store, tags = make_store(tmp_path, **texts), [tag(0), tag(1)]
    source = rng.integers(0, 20, 7)
    target, language = source + 20, np.array([1, 0, 0, 1, 1, 0, 1])
    source_language = rng.integers(0, 2, 7)
    fast = Collator(store, tags)(source, target, source_language, language)
    sentences = [store[i].tolist() for i in source], [store[i].tolist() for i in target]
    plain = collate(*sentences, language.tolist(), tags, source_language.tolist())
    for field in fields(Batch):
        torch.testing.assert_close(getattr(fast, field.name), getattr(plain, field.name))
