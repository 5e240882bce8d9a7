from __future__ import annotations

from manyglot.langid.other_language import can_find_other_language, find_other_languages

GERMAN = "Am Donnerstag veröffentlichte die Universität einen neuen Bericht."
ENGLISH = "On Thursday the university published a new report about it."


def test_only_clear_cases_are_reported() -> None:
    assert find_other_languages([GERMAN, ENGLISH, "Thursday", ""], "de") == ["", "en", None, None]
    assert find_other_languages(["大学は木曜日に新しい報告書を発表した。", "木曜日"], "ja") == ["", None]
    norwegian_and_danish = "Universitetet offentliggjorde en ny rapport torsdag i forrige uke."
    assert find_other_languages([norwegian_and_danish], "nb") == [""], "variants of Norwegian count as one language"
    assert find_other_languages([], "de") == []


def test_text_in_no_language_is_not_in_another_language() -> None:
    assert find_other_languages(["xxxxxxxx xxxxxxxx xxxxxxxx xxxxxxxx xxxxxxxx"], "de") == [""]


def test_unknown_languages_are_recognized_as_such() -> None:
    assert [can_find_other_language(code) for code in ("de", "pt-br", "sr-Latn", "tpi", "qaa")] == [
        True, True, True, False, False,
    ]  # fmt: skip
