from __future__ import annotations

from collections.abc import Sequence

from manyglot.decoding.off_target import OffTargetCounts, OffTargetFilter
from manyglot.decoding.scored_translation import Translation
from tests.decoding.stub import StubEngine, stub

FRENCH = "bonjour le monde"
GERMAN = "guten tag welt"


def identify(texts: Sequence[str], targets: Sequence[str]) -> list[str]:
    """Identify French and German by their first letters. English and short texts cannot be identified."""
    known = {"b": "fr", "g": "de"}
    unidentifiable = [len(text) < 8 or target == "en" for text, target in zip(texts, targets, strict=True)]
    return [
        "" if is_unidentifiable else known.get(text[:1], "xx")
        for text, is_unidentifiable in zip(texts, unidentifiable, strict=True)
    ]


def test_an_off_target_output_is_replaced_by_the_best_on_target_alternative() -> None:
    plain = stub(lambda text, code: [FRENCH, "bonjour encore", "bonjour trois", GERMAN, "guten morgen"])
    translator = plain.with_off_target_filter(identify)
    assert plain.translate(["hello"], "de") == [FRENCH]
    assert translator.translate(["hello"], "de") == [GERMAN]
    assert translator.translate_n_best(["hello"], "de", n=2) == [
        [Translation(GERMAN, -3.0, on_target=True), Translation(FRENCH, 0.0)]
    ]
    assert translator.translate_n_best(["hello"], "fr", n=1) == [[Translation(FRENCH, 0.0, on_target=True)]]


def test_only_off_target_sentences_are_searched_again() -> None:
    translator = stub(lambda text, code: [GERMAN] if text == "good" else [FRENCH, GERMAN]).with_off_target_filter(
        identify
    )
    assert translator.translate(["good", "bad", "", "good"], "de", sentence_offset=7) == [GERMAN, GERMAN, "", GERMAN]
    assert isinstance(translator.engine, StubEngine)
    assert translator.engine.calls == [(3, 2, 7), (1, 10, 7)]
    translator.with_settings(beam_size=8).translate(["bad"], "de")
    assert translator.engine.calls[-1] == (1, 16, 0)


def test_an_off_target_output_without_alternative_is_marked() -> None:
    translator = stub(lambda text, code: [FRENCH, "bonjour encore"]).with_off_target_filter(identify)
    assert translator.translate_n_best(["hello"], "de", n=1) == [[Translation(FRENCH, 0.0, on_target=False)]]


def test_short_text_and_unknown_languages_are_not_marked() -> None:
    translator = stub(lambda text, code: ["b 12" if text == "short" else FRENCH]).with_off_target_filter(identify)
    (short,), (unknown,) = translator.translate_n_best(["short", "long"], ["de", "en"], n=1)
    assert (short.on_target, unknown.on_target) == (None, None)
    assert isinstance(translator.engine, StubEngine)
    assert len(translator.engine.calls) == 1


def test_the_summary_counts_outputs_by_language() -> None:
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
        "3 of 3 outputs were not in de. Replaced by an alternative: 1. Marked (on_target in tsv and jsonl): 2."
    ]
    assert list(OffTargetFilter(identify).summary_lines()) == []
