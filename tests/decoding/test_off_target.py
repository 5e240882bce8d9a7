from __future__ import annotations

from collections.abc import Sequence

from manyglot.decoding.off_target import OffTargetCounts, OffTargetFilter
from manyglot.decoding.translation import Translation
from tests.decoding.stub import StubEngine, stub

FRENCH = "bonjour le monde"
GERMAN = "guten tag welt"


def identify(texts: Sequence[str], targets: Sequence[str]) -> list[str]:
    """Knows French and German by their first letters, no English, and no language of a short text."""
    known = {"b": "fr", "g": "de"}
    unidentifiable = [len(text) < 8 or target == "en" for text, target in zip(texts, targets, strict=True)]
    return [
        "" if is_unidentifiable else known.get(text[:1], "xx")
        for text, is_unidentifiable in zip(texts, unidentifiable, strict=True)
    ]


def test_an_output_in_the_wrong_language_is_replaced_by_the_best_alternative_in_the_right_one() -> None:
    plain = stub(lambda text, code: [FRENCH, "bonjour encore", "bonjour trois", GERMAN, "guten morgen"])
    translator = plain.with_off_target_filter(identify)
    assert plain.translate(["hello"], "de") == [FRENCH]
    assert translator.translate(["hello"], "de") == [GERMAN]
    assert translator.translate_n_best(["hello"], "de", n=2) == [
        [Translation(GERMAN, -3.0, on_target=True), Translation(FRENCH, 0.0)]
    ]
    assert translator.translate_n_best(["hello"], "fr", n=1) == [[Translation(FRENCH, 0.0, on_target=True)]]


def test_only_what_drifts_is_searched_again_and_keeps_its_place() -> None:
    translator = stub(lambda text, code: [GERMAN] if text == "good" else [FRENCH, GERMAN]).with_off_target_filter(
        identify
    )
    assert translator.translate(["good", "bad", "", "good"], "de", sentence_offset=7) == [GERMAN, GERMAN, "", GERMAN]
    assert isinstance(translator.engine, StubEngine)
    assert translator.engine.calls == [(3, 2, 7), (1, 10, 7)]
    translator.with_settings(beam_size=8).translate(["bad"], "de")
    assert translator.engine.calls[-1] == (1, 16, 0)


def test_what_has_no_better_alternative_is_kept_and_marked() -> None:
    translator = stub(lambda text, code: [FRENCH, "bonjour encore"]).with_off_target_filter(identify)
    assert translator.translate_n_best(["hello"], "de", n=1) == [[Translation(FRENCH, 0.0, on_target=False)]]


def test_short_text_and_unknown_languages_are_not_judged() -> None:
    translator = stub(lambda text, code: ["b 12" if text == "short" else FRENCH]).with_off_target_filter(identify)
    (short,), (unknown,) = translator.translate_n_best(["short", "long"], ["de", "en"], n=1)
    assert (short.on_target, unknown.on_target) == (None, None)
    assert isinstance(translator.engine, StubEngine)
    assert len(translator.engine.calls) == 1


def test_what_was_found_is_summed_up_by_language() -> None:
    translator = stub(lambda text, code: [FRENCH, GERMAN] if text == "bad" else [FRENCH]).with_off_target_filter(
        identify
    )
    translator.translate(["bad", "worse", "worse"], "de")
    translator.translate(["fine"], "fr")
    assert translator.off_target_filter is not None
    assert translator.off_target_filter.counts_by_language == {
        "de": OffTargetCounts(3, 3, 1),
        "fr": OffTargetCounts(1, 0, 0),
    }
    assert list(translator.off_target_filter.summary_lines()) == [
        "3 of 3 outputs not in de: 1 replaced by an alternative, 2 marked (on_target, in tsv and jsonl)."
    ]
    assert list(OffTargetFilter(identify).summary_lines()) == []
