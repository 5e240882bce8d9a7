from __future__ import annotations

from collections.abc import Sequence

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.scores import score
from manyglot.evaluation.scoring import Scored, Translated, score_directions
from manyglot.langid.profile import Profile

ROWS = [
    {"de": f"Haus {n} steht am Fluss.", "en": f"House {n} is by the river.", "fr": f"La maison {n} est au bord."}
    for n in range(10)
]
PROFILE = Profile({code: [row[code] for row in ROWS] for code in ("de", "en", "fr")})
DE_FR, EN_FR, EN_DE = Direction("de", "fr"), Direction("en", "fr"), Direction("en", "de")


def translated(direction: Direction, outputs: Sequence[str]) -> Translated:
    return Translated([row[direction.source] for row in ROWS], outputs, [row[direction.target] for row in ROWS])


def found(outputs: dict[Direction, list[str]], num_processes: int | None = None) -> dict[Direction, Scored]:
    tests = {direction: translated(direction, each) for direction, each in outputs.items()}
    return score_directions(tests, [DE_FR], PROFILE, num_processes=num_processes)


FRENCH = [row["fr"] for row in ROWS]
DRIFTED = [*(row["en"] for row in ROWS[:6]), ROWS[6]["de"], "", *FRENCH[8:]]


def test_a_direction_says_what_went_wrong() -> None:
    result = found({DE_FR: DRIFTED})[DE_FR].result
    assert (result.direction, result.zero_shot, result.num_sentences) == (DE_FR, True, 10)
    assert (result.language_accuracy, result.reference_accuracy, result.relative_accuracy) == (20, 100, 20)
    assert (result.other_language, result.other_share) == ("en", 60)
    assert (result.copy_rate, result.empty_rate) == (10, 10)
    assert result.length_ratio == pytest.approx(sum(len(t.split()) for t in DRIFTED) / 60, abs=0.15)
    expected = score(DRIFTED, FRENCH, "fr")
    assert (result.bleu, result.chrf, result.bleu_signature) == (expected.bleu, expected.chrf, expected.bleu_signature)


def test_what_is_right_went_nowhere_else() -> None:
    scored = found({EN_FR: FRENCH})[EN_FR]
    assert (scored.result.other_language, scored.result.other_share) == (None, 0)
    assert scored.identified == ["fr"] * 10


def test_directions_in_other_processes_are_those_in_this_one() -> None:
    outputs = {DE_FR: DRIFTED, EN_DE: [row["de"] for row in ROWS], EN_FR: FRENCH}
    here, there = found(outputs, 1), found(outputs, 2)
    assert list(here) == list(there) == list(outputs)
    for direction in outputs:
        assert here[direction].result == there[direction].result
        assert (here[direction].statistics.bleu_NS == there[direction].statistics.bleu_NS).all()


def test_a_test_set_has_a_fingerprint_whatever_its_order() -> None:
    def fingerprint(rows: Sequence[dict[str, str]]) -> str:
        test = Translated([r["de"] for r in rows], [r["fr"] for r in rows], [r["fr"] for r in rows])
        return score_directions({DE_FR: test}, [], PROFILE)[DE_FR].result.test_set

    assert fingerprint(ROWS) == fingerprint(ROWS[::-1]) != fingerprint(ROWS[1:])


def test_languages_that_cannot_be_told_are_not_judged() -> None:
    profile = Profile({code: [row[code] for row in ROWS] for code in ("de", "en")})
    scored = score_directions({DE_FR: translated(DE_FR, FRENCH)}, [], profile)[DE_FR]
    assert scored.result.language_accuracy is scored.result.reference_accuracy is scored.result.relative_accuracy
    assert scored.result.language_accuracy is None
    assert scored.result.open_language_accuracy is None


def test_unequal_numbers_are_refused_by_name() -> None:
    with pytest.raises(ManyglotError, match="de→fr has 10 sources, 9 outputs and 10 references"):
        found({DE_FR: DRIFTED[1:]})
    with pytest.raises(ManyglotError, match="de→fr has no sentences"):
        score_directions({DE_FR: Translated([], [], [])}, [], PROFILE)
