from __future__ import annotations

import numpy as np
import pytest

from manyglot.corpus.cleaning import CleaningSettings, keep_pairs, keep_sentences
from manyglot.corpus.scripts import script_of, share_in_script


def test_empty_and_long_sentences_are_left_out_and_the_long_ones_counted() -> None:
    lengths = np.array([3, 0, 5, 6, 60, 1])
    kept, dropped = keep_sentences(["a", "", "a", "a", "a", "a"], lengths, "de", CleaningSettings(max_subwords=5))
    assert kept.tolist() == [True, False, True, False, False, True]
    assert {reason: numbers.tolist() for reason, numbers in dropped.items()} == {"too_long": [3, 4]}


def test_nothing_is_counted_where_nothing_is_left_out() -> None:
    assert keep_sentences(["a", "b"], np.array([1, 2]), "de", CleaningSettings())[1] == {}


def test_sentences_in_another_script_are_left_out() -> None:
    texts = ["добрый день", "good day", "12:30", "добрый day", "ok, добрый день всем"]
    lengths = np.full(5, 4)
    kept, dropped = keep_sentences(texts, lengths, "ru", CleaningSettings(min_script=0.7))
    assert kept.tolist() == [True, False, True, False, True]
    assert {reason: numbers.tolist() for reason, numbers in dropped.items()} == {"wrong_script": [1, 3]}
    assert keep_sentences(texts, lengths, "qaa", CleaningSettings(min_script=0.7))[0].all(), "its script is not known"


def test_sentences_in_another_language_are_left_out() -> None:
    texts = ["The weather was fine all summer long.", "Das Wetter war den ganzen Sommer lang schön.", "Das Wetter"]
    kept, dropped = keep_sentences(texts, np.full(3, 9), "en", CleaningSettings(right_language=True))
    assert kept.tolist() == [True, False, True], "what is too short to tell is kept"
    assert dropped["wrong_language"].tolist() == [1]
    assert keep_sentences(texts, np.full(3, 9), "qaa", CleaningSettings(right_language=True))[0].all()


@pytest.mark.parametrize(
    ("code", "script"),
    [("de", "Latn"), ("ru", "Cyrl"), ("sr", "Cyrl"), ("sr-Latn", "Latn"), ("zh", "Hans"), ("zh-tw", "Hant"),
     ("ja", "Jpan"), ("ko", "Kore"), ("pt-br", "Latn"), ("fa", "Arab"), ("my", "Mymr"), ("deu", "Latn"),
     ("rus", "Cyrl"), ("qaa", None)],
)  # fmt: skip
def test_the_script_of_a_language(code: str, script: str | None) -> None:
    assert script_of(code) == script


def test_the_share_of_a_script() -> None:
    assert share_in_script("日本語のテキスト, ok", "Jpan") == pytest.approx(8 / 10)
    assert share_in_script("123 …", "Latn") == 1.0


def test_pairs_are_left_out_by_the_first_reason_that_applies() -> None:
    lengths = np.array([2, 9, 4, 4, 4]), np.array([2, 2, 4, 4, 4])
    hashes = np.array([1, 2, 3, 3, 3]), np.array([7, 8, 9, 9, 5])
    known = np.array([True, True, False, False, False]), np.zeros(5, dtype=np.bool_)
    settings = CleaningSettings(max_ratio=3, deduplicate=True, drop_overlap=True)
    kept, dropped = keep_pairs(lengths, hashes, known, settings)
    assert kept.tolist() == [False, False, True, False, True]
    left_out = {reason: numbers.tolist() for reason, numbers in dropped.items()}
    assert left_out == {"length_ratio": [1], "in_dev_or_test": [0], "duplicate": [3]}
    assert keep_pairs(lengths, None, None, CleaningSettings())[0].all()
