from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyglot.decoding.unknown_characters import describe_characters, remove_unknown_runs

UNKNOWN = "🎉🙂☃東京é\ufe0f€!\u0301"


@pytest.mark.parametrize(
    ("sentence", "rest", "copied"),
    [
        ("see you 🎉", "see you", "<> 🎉"),
        ("see you.🎉", "see you.", "<>🎉"),
        ("🎉 🙂 see you", "see you", "🎉 🙂 <>"),
        ("I ☃ you 🙂", "I you", "<> ☃ 🙂"),
        ("it costs 5€.", "it costs 5.", "<> €"),
        ("東京 is big", "is big", "東京 <>"),
        ("the word 東京 is big", "the word is big", "<> 東京"),
        ("a☃b", "a b", "<> ☃"),
        ("café au lait", "café au lait", "<>"),  # a part of a word stays
        ("x東京", "x東京", "<>"),
        ("❤\ufe0f yes", "❤\ufe0f yes", "<>"),  # a selector stays with its character
        ("🎉a\u0301", "a\u0301", "🎉<>"),
        ("  plain ", "  plain ", "<>"),
        (" 🎉 🙂 ", "", " 🎉 🙂 "),
        ("", "", ""),
    ],
)
def test_whole_words_and_symbols_are_copied(sentence: str, rest: str, copied: str) -> None:
    remaining, runs = remove_unknown_runs(sentence, UNKNOWN)
    assert remaining == rest
    assert runs.add_to("<>" if rest else "") == copied


@given(st.text(st.sampled_from("ab 1." + UNKNOWN), max_size=30))
def test_every_character_is_translated_or_copied_once(sentence: str) -> None:
    rest, runs = remove_unknown_runs(sentence, UNKNOWN)
    assert sorted(runs.add_to(rest).replace(" ", "")) == sorted(sentence.replace(" ", ""))
    known = [character for character in sentence if character not in UNKNOWN and character != " "]
    assert [character for character in rest if character not in UNKNOWN and character != " "] == known


def test_characters_are_listed_with_their_code_points() -> None:
    assert describe_characters("🎉\u200b") == "🎉 (U+1F389), zero width space (U+200B)"
    assert describe_characters("\t\u00a0\x01") == "tab (U+0009), no-break space (U+00A0), control character (U+0001)"
    assert describe_characters("abcdefghijklm").endswith("j (U+006A) and 3 more")
