"""Directions that became worse are separated from those that became better."""

from __future__ import annotations

from dataclasses import replace

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.direction_changes import find_direction_changes
from manyglot.evaluation.shared_language_codes import rename_languages
from tests.evaluation.test_system_comparison import BAD, DIRECTIONS, GOOD, ROWS, evaluation


def test_significantly_worse_directions_are_forgotten() -> None:
    changes = find_direction_changes(("before", GOOD), ("after", BAD))
    assert {change.direction for change in changes.worse} == set(DIRECTIONS)
    assert changes.better == []
    differences = [change.difference for change in changes.changes]
    assert differences == sorted(differences)
    bleu = {d.direction: (old.bleu, d.bleu) for old, d in zip(GOOD.directions, BAD.directions, strict=True)}
    assert all((each.before, each.after) == bleu[each.direction] for each in changes.changes)
    backwards = find_direction_changes(("before", BAD), ("after", GOOD))
    assert {each.direction for each in backwards.better} == set(DIRECTIONS)
    assert backwards.worse == []


def test_equal_outputs_have_not_changed() -> None:
    changes = find_direction_changes(("before", BAD), ("after", BAD))
    assert changes.worse == changes.better == []
    assert all(change.difference == 0 for change in changes.changes)


def test_new_and_missing_directions_are_counted() -> None:
    before = replace(BAD, directions=BAD.directions[:3])
    after = replace(GOOD, directions=GOOD.directions[1:])
    changes = find_direction_changes(("before", before), ("after", after))
    assert len(changes.changes) == 2
    assert (changes.num_new, changes.num_missing) == (len(DIRECTIONS) - 3, 1)


def test_a_direction_may_be_trained_only_afterwards() -> None:
    zero_shot = replace(BAD, directions=[replace(d, zero_shot=True) for d in BAD.directions])
    assert len(find_direction_changes(("before", zero_shot), ("after", GOOD)).better) == len(DIRECTIONS)


def test_other_test_sentences_are_left_out() -> None:
    fewer = evaluation(2, ROWS[10:])
    changes = find_direction_changes(("before", BAD), ("after", fewer))
    assert {change.num_sentences for change in changes.changes} == {len(ROWS) - 10}
    with pytest.raises(ManyglotError, match="share no test sentences"):
        find_direction_changes(("before", evaluation(2, ROWS[:5])), ("after", evaluation(2, ROWS[5:])))


def test_statistics_are_needed() -> None:
    with pytest.raises(ManyglotError, match=r"before has no statistics.npz for .*Evaluate it again"):
        find_direction_changes(("before", replace(BAD, statistics={})), ("after", GOOD))


def test_languages_have_the_codes_of_the_later_evaluation() -> None:
    codes = {"de": "deu_Latn", "en": "eng_Latn", "fr": "fra_Latn"}
    renamed = rename_languages(BAD, codes)
    assert {change.direction for change in find_direction_changes(("before", renamed), ("after", GOOD)).better} == set(
        DIRECTIONS
    )
    changes = find_direction_changes(("before", GOOD), ("after", renamed))
    assert {change.direction for change in changes.worse} == {Direction(codes[a], codes[b]) for a, b in DIRECTIONS}
