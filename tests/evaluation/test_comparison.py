from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.common import common_part
from manyglot.evaluation.comparison import System, Value, compare, read_systems, win_rate
from manyglot.evaluation.evaluate import EvaluationSettings
from manyglot.evaluation.results import Evaluation, count_languages
from manyglot.evaluation.scoring import Translated, score_directions
from manyglot.langid.profile import Profile

ROWS = [
    {
        "de": f"das Haus {n} steht {n} am Fluss",
        "en": f"house {n} is {n} by the river",
        "fr": f"la maison {n} a {n} murs",
    }
    for n in range(40)
]
PROFILE = Profile({code: [row[code] for row in ROWS] for code in ("de", "en", "fr")})
ZERO_SHOT = [Direction("de", "fr"), Direction("fr", "de")]
DIRECTIONS = [Direction("de", "en"), Direction("fr", "en"), Direction("en", "de"), Direction("en", "fr"), *ZERO_SHOT]


def evaluation(
    wrong_every: int, rows: Sequence[dict[str, str]] = ROWS, directions: Sequence[Direction] = DIRECTIONS
) -> Evaluation:
    """A model that answers in English every now and then, and from English in French or German."""
    translated = {}
    for d in directions:
        outputs = [row[d.target] if ROWS.index(row) % wrong_every else row["en"] + " x" for row in rows]
        translated[d] = Translated([row[d.source] for row in rows], outputs, [row[d.target] for row in rows])
    scored = score_directions(translated, ZERO_SHOT, PROFILE)
    results = [each.result for each in scored.values()]
    statistics = {direction: each.statistics for direction, each in scored.items()}
    return Evaluation(
        results,
        [],
        PROFILE.name,
        "",
        "en",
        {"evaluation": EvaluationSettings().model_dump()},
        statistics,
        count_languages(results, statistics),
    )


BAD, GOOD = evaluation(2), evaluation(5)


def test_groups_win_rates_and_means_are_the_paper_s() -> None:
    table = compare([System("bad", [BAD]), System("good", [GOOD])], reference="bad").rows
    assert {name: each.num_directions for name, each in table["good"].items()} == {
        "from_pivot": 2, "into_pivot": 2, "supervised": 4, "zero_shot": 2,
    }  # fmt: skip
    assert table["bad"]["supervised"].win_rate is None
    assert table["good"]["supervised"].win_rate == Value(100.0)
    by_hand = [d.bleu for d in GOOD.directions if d.zero_shot]
    assert table["good"]["zero_shot"].bleu == Value(sum(by_hand) / 2)
    assert table["good"]["zero_shot"].language_accuracy == Value(80.0)


def test_equal_scores_win_nothing() -> None:
    assert win_rate([1, 2, 3, 4], [1, 2, 2, 5]) == 25
    table = compare([System("a", [BAD]), System("b", [BAD])], reference="a").rows
    assert table["b"]["supervised"].win_rate == Value(0.0)


def test_seeds_have_a_mean_and_a_deviation() -> None:
    seeds = System("seeds", [BAD, GOOD, GOOD])
    found = compare([System("bad", [BAD]), seeds], reference="bad").rows["seeds"]["supervised"]
    values = [compare([System("x", [run])]).rows["x"]["supervised"].bleu.mean for run in seeds.runs]
    assert found.bleu.mean == pytest.approx(sum(values) / 3)
    assert found.bleu.deviation == pytest.approx((sum((v - found.bleu.mean) ** 2 for v in values) / 2) ** 0.5)
    assert found.win_rate is not None
    assert found.win_rate.mean == pytest.approx(200 / 3)


def test_significance_by_direction_and_overall() -> None:
    found = compare([System("bad", [BAD]), System("good", [GOOD])], "bad", num_samples=200)
    assert found.rows["bad"]["supervised"].significance is None
    score_of = found.rows["good"]["zero_shot"]
    assert score_of.significance is not None
    assert score_of.significance.p_value < 0.05
    assert (score_of.better, score_of.worse) == (2, 0)
    assert set(found.directions["good"]) == set(DIRECTIONS)
    other = compare([System("good", [GOOD]), System("bad", [BAD])], "good", num_samples=200).rows["bad"]["zero_shot"]
    assert (other.better, other.worse) == (0, 2)
    for systems, reference in (
        ([System("good", [GOOD]), System("bad", [BAD])], None),
        ([System("good", [GOOD])], "good"),
    ):
        with pytest.raises(ManyglotError, match="Give --reference, and another run"):
            compare(systems, reference, num_samples=100)
    with pytest.raises(ManyglotError, match="10 samples cannot show"):
        compare([System("good", [GOOD]), System("bad", [BAD])], "good", num_samples=10)
    with pytest.raises(ManyglotError, match=r"bad has no statistics.npz for de→en"):
        compare([System("good", [GOOD]), System("bad", [replace(BAD, statistics={})])], "good", num_samples=20)


def test_other_test_sets_are_refused_unless_the_common_part_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fewer = evaluation(5, ROWS[10:], DIRECTIONS[1:])
    systems = [System("bad", [BAD]), System("fewer", [fewer])]
    with pytest.raises(ManyglotError, match=r"not tested on the same sentences .* \(de→en, fr→en, .* and 1 more\)"):
        compare(systems)
    found = compare(systems, "bad", common=True, num_samples=50)
    assert "150 of 240 sentences in 5 of 6 directions" in capsys.readouterr().err
    assert found.rows["bad"]["supervised"].num_directions == 3
    with pytest.raises(ManyglotError, match="no sentences in common"):
        compare([System("a", [evaluation(2, ROWS[:5])]), System("b", [evaluation(2, ROWS[5:])])], common=True)
    earlier = {direction: each._replace(chrf_NS=None) for direction, each in BAD.statistics.items()}
    for statistics in ({}, earlier):
        with pytest.raises(ManyglotError, match=r"all runs need a statistics.npz of this version"):
            common_part([replace(BAD, statistics=statistics), fewer])


def test_the_common_part_has_the_scores_of_a_run_on_it_alone() -> None:
    other = evaluation(5, [*ROWS[30:], *ROWS[10:30]], DIRECTIONS[1:])
    alone = evaluation(2, ROWS[10:], DIRECTIONS[1:])
    for cut, expected in zip(common_part([BAD, other]), (alone, other), strict=True):
        assert cut.directions == expected.directions
        assert cut.outputs_in == expected.outputs_in
    assert alone.directions != [d for d in BAD.directions if d.direction in DIRECTIONS[1:]]


def test_scores_of_different_kinds_are_refused() -> None:
    other = replace(BAD, directions=[replace(d, bleu_signature="tok:char") for d in BAD.directions])
    with pytest.raises(ManyglotError, match=r"BLEU into en is .*tok:13a.* in one and tok:char in another"):
        compare([System("a", [BAD]), System("b", [other])])
    with pytest.raises(ManyglotError, match=r"LangAcc is profile in one and langid in another"):
        compare([System("a", [BAD]), System("b", [replace(BAD, identifier="langid")])], common=True)


def test_zero_shot_for_one_run_only_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    seen = replace(BAD, directions=[replace(d, zero_shot=False) for d in BAD.directions])
    with pytest.raises(ManyglotError, match=r"\(de→fr, fr→de\)"):
        compare([System("a", [BAD]), System("b", [seen])])
    assert "zero_shot" not in compare([System("a", [BAD]), System("b", [seen])], common=True).rows["a"]
    assert "2 directions are left out" in capsys.readouterr().err


def test_runs_are_named_by_their_folders(tmp_path: Path) -> None:
    for name, run in {"a": BAD, "b": GOOD, "deep/a": GOOD}.items():
        run.save(tmp_path / name / "results.json")
    a, b, deep = (str(tmp_path / name) for name in ("a", "b", "deep/a"))
    systems, reference = read_systems([a, f"seeds={a},{b}"], a)
    assert [(system.name, len(system.runs)) for system in systems] == [("a", 1), ("seeds", 2)]
    assert reference == "a"
    assert [system.name for system in read_systems([a, deep], None)[0]] == [a, deep]
    systems, reference = read_systems([b], a)
    assert ([system.name for system in systems], reference) == (["a", "b"], "a"), "a reference is a row too"
    assert read_systems([f"x={a}", b], "x")[1] == "x"
    systems, reference = read_systems([deep, b], "b")
    assert ([system.name for system in systems], reference) == (["a", "b"], "b"), "by the name it is given here"
    GOOD.save(tmp_path / "base, dropout 0.2" / "results.json")
    assert [system.name for system in read_systems([str(tmp_path / "base, dropout 0.2")], None)[0]] == [
        "base, dropout 0.2"
    ]
    with pytest.raises(ManyglotError, match=r"'seed' is no folder .* Did you mean 'seeds'\?"):
        read_systems([f"seeds={a}", b], "seed")
    for text in ("x=", f"x={a},,{b}", f"x={a},{a}"):
        with pytest.raises(ManyglotError, match="a folder, or several that differ"):
            read_systems([text], None)
    with pytest.raises(ManyglotError, match="same name"):
        read_systems([f"x={a}", f"x={b}"], None)
    with pytest.raises(ManyglotError, match=r"Cannot read .*/c"):
        read_systems([str(tmp_path / "c")], None)
