from __future__ import annotations

import numpy as np
import pytest

from manyglot.corpus.cleaning import CleaningSettings, find_clean_pairs, find_clean_sentences
from manyglot.corpus.scripts import language_script_code, may_occur_in, script_ratio


def test_empty_and_long_sentences_are_dropped_and_only_long_ones_counted() -> None:
    lengths = np.array([3, 0, 5, 6, 60, 1])
    kept, dropped = find_clean_sentences(["a", "", "a", "a", "a", "a"], lengths, "de", CleaningSettings(max_subwords=5))
    assert kept.tolist() == [True, False, True, False, False, True]
    assert {reason: indices.tolist() for reason, indices in dropped.items()} == {"too_long": [3, 4]}


def test_no_reason_is_counted_if_nothing_is_dropped() -> None:
    assert find_clean_sentences(["a", "b"], np.array([1, 2]), "de", CleaningSettings())[1] == {}


def test_sentences_in_another_script_are_dropped() -> None:
    texts = ["добрый день", "good day", "12:30", "добрый day", "ok, добрый день всем"]
    lengths = np.full(5, 4)
    kept, dropped = find_clean_sentences(texts, lengths, "ru", CleaningSettings(min_script_ratio=0.7))
    assert kept.tolist() == [True, False, True, False, True]
    assert {reason: indices.tolist() for reason, indices in dropped.items()} == {"wrong_script": [1, 3]}
    kept, _ = find_clean_sentences(texts, lengths, "qaa", CleaningSettings(min_script_ratio=0.7))
    assert kept.all(), "the script of qaa is unknown"


def test_sentences_in_another_language_are_dropped() -> None:
    texts = ["The weather was fine all summer long.", "Das Wetter war den ganzen Sommer lang schön.", "Das Wetter"]
    kept, dropped = find_clean_sentences(texts, np.full(3, 9), "en", CleaningSettings(filter_by_language=True))
    assert kept.tolist() == [True, False, True], "sentences too short to identify are kept"
    assert dropped["wrong_language"].tolist() == [1]
    kept, _ = find_clean_sentences(texts, np.full(3, 9), "deu_Latn", CleaningSettings(filter_by_language=True))
    assert kept.tolist() == [False, True, True]
    assert find_clean_sentences(texts, np.full(3, 9), "qaa", CleaningSettings(filter_by_language=True))[0].all()


@pytest.mark.parametrize(
    ("code", "script"),
    [("de", "Latn"), ("ru", "Cyrl"), ("sr", "Cyrl"), ("sr-Latn", "Latn"), ("zh", "Hans"), ("zh-tw", "Hant"),
     ("ja", "Jpan"), ("ko", "Kore"), ("pt-br", "Latn"), ("fa", "Arab"), ("my", "Mymr"), ("deu", "Latn"),
     ("rus", "Cyrl"), ("arb_Latn", "Latn"), ("kor_Hang", "Kore"), ("twi", "Latn"), ("qaa", None)],
)  # fmt: skip
def test_the_script_of_a_language(code: str, script: str | None) -> None:
    assert language_script_code(code) == script


def test_characters_belong_to_scripts() -> None:
    latin, chinese = {"Latn"}, {"Hans", "Latn"}
    assert [may_occur_in(character, latin) for character in "aäß9,。▁☃\u0301猫бक"] == [True] * 9 + [False] * 3
    assert may_occur_in("猫", chinese)
    assert not may_occur_in("a", set())


def test_the_script_ratio() -> None:
    assert script_ratio("日本語のテキスト, ok", "Jpan") == pytest.approx(8 / 10)
    assert script_ratio("123 …", "Latn") == 1.0


def test_pairs_are_dropped_for_the_first_reason_that_applies() -> None:
    lengths = np.array([2, 9, 4, 4, 4]), np.array([2, 2, 4, 4, 4])
    hashes = np.array([1, 2, 3, 3, 3]), np.array([7, 8, 9, 9, 5])
    in_heldout = np.array([True, True, False, False, False]), np.zeros(5, dtype=np.bool_)
    settings = CleaningSettings(max_length_ratio=3, deduplicate_pairs=True, drop_heldout_overlap=True)
    kept, dropped = find_clean_pairs(lengths, hashes, in_heldout, settings)
    assert kept.tolist() == [False, False, True, False, True]
    indices_by_reason = {reason: indices.tolist() for reason, indices in dropped.items()}
    assert indices_by_reason == {"length_ratio": [1], "in_dev_or_test": [0], "duplicate": [3]}
    assert find_clean_pairs(lengths, None, None, CleaningSettings())[0].all()
