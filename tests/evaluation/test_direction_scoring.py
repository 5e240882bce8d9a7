from __future__ import annotations

from collections.abc import Sequence

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.direction_scoring import DirectionTexts, ScoredDirection, score_directions
from manyglot.evaluation.metrics import score_translations
from manyglot.langid.ngram_profile import NgramProfileIdentifier

ROWS = [
    {"de": f"Haus {n} steht am Fluss.", "en": f"House {n} is by the river.", "fr": f"La maison {n} est au bord."}
    for n in range(10)
]
PROFILE = NgramProfileIdentifier({code: [row[code] for row in ROWS] for code in ("de", "en", "fr")})
DE_FR, EN_FR, EN_DE = Direction("de", "fr"), Direction("en", "fr"), Direction("en", "de")


def make_texts(direction: Direction, outputs: Sequence[str]) -> DirectionTexts:
    return DirectionTexts([row[direction.source] for row in ROWS], outputs, [row[direction.target] for row in ROWS])


def score(outputs: dict[Direction, list[str]], num_processes: int | None = None) -> dict[Direction, ScoredDirection]:
    tests = {direction: make_texts(direction, texts) for direction, texts in outputs.items()}
    return score_directions(tests, [DE_FR], PROFILE, num_processes=num_processes)


FRENCH = [row["fr"] for row in ROWS]
OFF_TARGET_OUTPUTS = [*(row["en"] for row in ROWS[:6]), ROWS[6]["de"], "", *FRENCH[8:]]


def test_results_count_each_kind_of_error() -> None:
    result = score({DE_FR: OFF_TARGET_OUTPUTS})[DE_FR].result
    assert (result.direction, result.zero_shot, result.num_sentences) == (DE_FR, True, 10)
    assert (result.language_accuracy, result.reference_language_accuracy, result.relative_language_accuracy) == (
        20,
        100,
        20,
    )
    assert (result.top_off_target_language, result.top_off_target_rate) == ("en", 60)
    assert (result.copy_rate, result.empty_rate) == (10, 10)
    assert result.length_ratio == pytest.approx(sum(len(t.split()) for t in OFF_TARGET_OUTPUTS) / 60, abs=0.15)
    expected = score_translations(OFF_TARGET_OUTPUTS, FRENCH, "fr")
    assert (result.bleu, result.chrf, result.bleu_signature) == (expected.bleu, expected.chrf, expected.bleu_signature)


def test_perfect_outputs_have_no_off_target_language() -> None:
    scored = score({EN_FR: FRENCH})[EN_FR]
    assert (scored.result.top_off_target_language, scored.result.top_off_target_rate) == (None, 0)
    assert scored.statistics.identified_languages_N.tolist() == ["fr"] * 10


def test_several_processes_give_the_same_scores() -> None:
    outputs = {DE_FR: OFF_TARGET_OUTPUTS, EN_DE: [row["de"] for row in ROWS], EN_FR: FRENCH}
    here, there = score(outputs, 1), score(outputs, 2)
    assert list(here) == list(there) == list(outputs)
    for direction in outputs:
        assert here[direction].result == there[direction].result
        assert (here[direction].statistics.bleu_counts_NS == there[direction].statistics.bleu_counts_NS).all()


def test_the_fingerprint_does_not_depend_on_the_order() -> None:
    def fingerprint(rows: Sequence[dict[str, str]]) -> str:
        test = DirectionTexts([r["de"] for r in rows], [r["fr"] for r in rows], [r["fr"] for r in rows])
        return score_directions({DE_FR: test}, [], PROFILE)[DE_FR].result.test_set_fingerprint

    assert fingerprint(ROWS) == fingerprint(ROWS[::-1]) != fingerprint(ROWS[1:])


def test_unidentifiable_languages_have_no_language_accuracy() -> None:
    profile = NgramProfileIdentifier({code: [row[code] for row in ROWS] for code in ("de", "en")})
    scored = score_directions({DE_FR: make_texts(DE_FR, FRENCH)}, [], profile)[DE_FR]
    assert (
        scored.result.language_accuracy
        is scored.result.reference_language_accuracy
        is scored.result.relative_language_accuracy
    )
    assert scored.result.language_accuracy is None
    assert scored.result.unrestricted_language_accuracy is None


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ManyglotError, match="de→fr has 10 sources, 9 outputs and 10 references"):
        score({DE_FR: OFF_TARGET_OUTPUTS[1:]})
    with pytest.raises(ManyglotError, match="de→fr has no sentences"):
        score_directions({DE_FR: DirectionTexts([], [], [])}, [], PROFILE)
