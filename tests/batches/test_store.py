from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.batches.store import TokenStore, write_sentences
from manyglot.corpus.languages import Direction, Languages
from manyglot.errors import FolderError

Sentences = dict[int, list[int]]
SENTENCES = st.dictionaries(st.integers(0, 20), st.lists(st.integers(0, 99), min_size=1, max_size=5), max_size=12)


def write(folder: Path, **languages: Sentences) -> TokenStore:
    for code, sentences in languages.items():
        write_sentences(folder, code, sorted(sentences.items()), vocabulary_size=100)
    return TokenStore(folder, Languages(languages))


@given(SENTENCES, SENTENCES)
def test_pairs_are_the_rows_that_both_languages_have(
    tmp_path_factory: pytest.TempPathFactory, german: Sentences, english: Sentences
) -> None:
    store = write(tmp_path_factory.mktemp("store"), de=german, en=english)
    found = [
        (store["de"][i].tolist(), store["en"][j].tolist())
        for i, j in zip(*store.pairs(Direction("de", "en")), strict=True)
    ]
    assert found == [(german[row], english[row]) for row in sorted(german.keys() & english.keys())]
    assert store["de"].lengths.tolist() == [len(german[row]) for row in sorted(german)]


def test_small_vocabularies_take_two_bytes_a_token(tmp_path: Path) -> None:
    for size, kind in ((65_535, np.uint16), (65_536, np.uint32)):
        write_sentences(tmp_path / str(size), "de", [(0, [1, 2, size - 1])], size)
        store = TokenStore(tmp_path / str(size), Languages(["de"]))
        assert store["de"].tokens.dtype == kind
        assert store["de"][0].tolist() == [1, 2, size - 1]
    assert isinstance(store["de"].tokens, np.memmap)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    write(tmp_path, de={0: [1]}, en={0: [2]})
    (tmp_path / "de.rows.npy").write_bytes(b"")
    with pytest.raises(FolderError, match="is damaged"):
        TokenStore(tmp_path, Languages(["de", "en"]))
