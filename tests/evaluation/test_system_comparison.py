from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.comparability import restrict_to_common_sentences
from manyglot.evaluation.direction_scoring import DirectionTexts, score_directions
from manyglot.evaluation.evaluator import EvaluationSettings
from manyglot.evaluation.results import Evaluation, count_output_languages
from manyglot.evaluation.system_comparison import MeanStd, System, compare_systems, load_systems, win_rate
from manyglot.langid.ngram_profile import NgramProfileIdentifier

ROWS = [
    {
        "de": f"das Haus {n} steht {n} am Fluss",
        "en": f"house {n} is {n} by the river",
        "fr": f"la maison {n} a {n} murs",
    }
    for n in range(40)
]
PROFILE = NgramProfileIdentifier({code: [row[code] for row in ROWS] for code in ("de", "en", "fr")})
ZERO_SHOT = [Direction("de", "fr"), Direction("fr", "de")]
DIRECTIONS = [Direction("de", "en"), Direction("fr", "en"), Direction("en", "de"), Direction("en", "fr"), *ZERO_SHOT]


def evaluation(
    wrong_every: int, rows: Sequence[dict[str, str]] = ROWS, directions: Sequence[Direction] = DIRECTIONS
) -> Evaluation:
    """A model whose outputs are off-target now and then."""
    translated = {}
    for d in directions:
        outputs = [row[d.target] if ROWS.index(row) % wrong_every else row["en"] + " x" for row in rows]
        translated[d] = DirectionTexts([row[d.source] for row in rows], outputs, [row[d.target] for row in rows])
    scored = score_directions(translated, ZERO_SHOT, PROFILE)
    results = [direction.result for direction in scored.values()]
    statistics = {direction: scores.statistics for direction, scores in scored.items()}
    return Evaluation(
        results,
        [],
        PROFILE.signature,
        "",
        "en",
        {"evaluation": EvaluationSettings().model_dump()},
        statistics,
        count_output_languages(results, statistics),
    )


BAD, GOOD = evaluation(2), evaluation(5)


def test_groups_win_rates_and_means_follow_the_paper() -> None:
    table = compare_systems([System("bad", [BAD]), System("good", [GOOD])], baseline="bad").scores_by_system
    assert {name: score.num_directions for name, score in table["good"].items()} == {
        "from_central_language": 2, "into_central_language": 2, "supervised": 4, "zero_shot": 2,
    }  # fmt: skip
    assert table["bad"]["supervised"].win_rate is None
    assert table["good"]["supervised"].win_rate == MeanStd(100.0)
    by_hand = [d.bleu for d in GOOD.directions if d.zero_shot]
    assert table["good"]["zero_shot"].bleu == MeanStd(sum(by_hand) / 2)
    assert table["good"]["zero_shot"].language_accuracy == MeanStd(80.0)


def test_equal_scores_win_nothing() -> None:
    assert win_rate([1, 2, 3, 4], [1, 2, 2, 5]) == 25
    table = compare_systems([System("a", [BAD]), System("b", [BAD])], baseline="a").scores_by_system
    assert table["b"]["supervised"].win_rate == MeanStd(0.0)


def test_several_seeds_have_mean_and_standard_deviation() -> None:
    seeds = System("seeds", [BAD, GOOD, GOOD])
    score = compare_systems([System("bad", [BAD]), seeds], baseline="bad").scores_by_system["seeds"]["supervised"]
    values = [compare_systems([System("x", [run])]).scores_by_system["x"]["supervised"].bleu.mean for run in seeds.runs]
    assert score.bleu.mean == pytest.approx(sum(values) / 3)
    assert score.bleu.std == pytest.approx((sum((v - score.bleu.mean) ** 2 for v in values) / 2) ** 0.5)
    assert score.win_rate is not None
    assert score.win_rate.mean == pytest.approx(200 / 3)


def test_significance_by_direction_and_overall() -> None:
    comparison = compare_systems([System("bad", [BAD]), System("good", [GOOD])], "bad", num_bootstrap_samples=200)
    assert comparison.scores_by_system["bad"]["supervised"].significance is None
    score = comparison.scores_by_system["good"]["zero_shot"]
    assert score.significance is not None
    assert score.significance.p_value < 0.05
    assert (score.num_significantly_better, score.num_significantly_worse) == (2, 0)
    assert set(comparison.significance_by_system["good"]) == set(DIRECTIONS)
    other = compare_systems(
        [System("good", [GOOD]), System("bad", [BAD])], "good", num_bootstrap_samples=200
    ).scores_by_system["bad"]["zero_shot"]
    assert (other.num_significantly_better, other.num_significantly_worse) == (0, 2)
    for systems, reference in (
        ([System("good", [GOOD]), System("bad", [BAD])], None),
        ([System("good", [GOOD])], "good"),
    ):
        with pytest.raises(ManyglotError, match=r"needs a baseline .* and at least one other run"):
            compare_systems(systems, reference, num_bootstrap_samples=100)
    with pytest.raises(ManyglotError, match="10 samples are too few"):
        compare_systems([System("good", [GOOD]), System("bad", [BAD])], "good", num_bootstrap_samples=10)
    with pytest.raises(ManyglotError, match=r"bad has no statistics.npz for de→en"):
        compare_systems(
            [System("good", [GOOD]), System("bad", [replace(BAD, statistics={})])], "good", num_bootstrap_samples=20
        )


def test_different_test_sets_are_refused_without_common_test_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fewer = evaluation(5, ROWS[10:], DIRECTIONS[1:])
    systems = [System("bad", [BAD]), System("fewer", [fewer])]
    with pytest.raises(ManyglotError, match=r"not tested on the same sentences .* \(de→en, fr→en, .* and 1 more\)"):
        compare_systems(systems)
    comparison = compare_systems(systems, "bad", common_test_only=True, num_bootstrap_samples=50)
    assert "150 of 240 sentences in 5 of 6 directions" in capsys.readouterr().err
    assert comparison.scores_by_system["bad"]["supervised"].num_directions == 3
    with pytest.raises(ManyglotError, match="share no test sentences"):
        compare_systems(
            [System("a", [evaluation(2, ROWS[:5])]), System("b", [evaluation(2, ROWS[5:])])], common_test_only=True
        )
    with pytest.raises(ManyglotError, match=r"not all runs have a statistics.npz"):
        restrict_to_common_sentences([replace(BAD, statistics={}), fewer])


def test_restricted_scores_equal_an_evaluation_of_the_common_sentences() -> None:
    other = evaluation(5, [*ROWS[30:], *ROWS[10:30]], DIRECTIONS[1:])
    alone = evaluation(2, ROWS[10:], DIRECTIONS[1:])
    for cut, expected in zip(restrict_to_common_sentences([BAD, other]), (alone, other), strict=True):
        assert cut.directions == expected.directions
        assert cut.output_language_counts == expected.output_language_counts
    assert alone.directions != [d for d in BAD.directions if d.direction in DIRECTIONS[1:]]


def test_different_metrics_are_refused() -> None:
    other = replace(BAD, directions=[replace(d, bleu_signature="tok:char") for d in BAD.directions])
    with pytest.raises(ManyglotError, match=r"BLEU into en is .*tok:13a.* in one and tok:char in another"):
        compare_systems([System("a", [BAD]), System("b", [other])])
    with pytest.raises(ManyglotError, match=r"LangAcc is profile in one and langid in another"):
        compare_systems(
            [System("a", [BAD]), System("b", [replace(BAD, identifier_signature="langid")])], common_test_only=True
        )


def test_directions_zero_shot_for_only_one_run_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    seen = replace(BAD, directions=[replace(d, zero_shot=False) for d in BAD.directions])
    with pytest.raises(ManyglotError, match=r"\(de→fr, fr→de\)"):
        compare_systems([System("a", [BAD]), System("b", [seen])])
    assert (
        "zero_shot"
        not in compare_systems([System("a", [BAD]), System("b", [seen])], common_test_only=True).scores_by_system["a"]
    )
    assert "2 directions are left out" in capsys.readouterr().err


def test_runs_are_named_by_their_folders(tmp_path: Path) -> None:
    for name, run in {"a": BAD, "b": GOOD, "deep/a": GOOD}.items():
        run.save(tmp_path / name / "results.json")
    a, b, deep = (str(tmp_path / name) for name in ("a", "b", "deep/a"))
    systems, reference = load_systems([a, f"seeds={a},{b}"], a)
    assert [(system.name, len(system.runs)) for system in systems] == [("a", 1), ("seeds", 2)]
    assert reference == "a"
    assert [system.name for system in load_systems([a, deep], None)[0]] == [a, deep]
    systems, reference = load_systems([b], a)
    assert ([system.name for system in systems], reference) == (["a", "b"], "a"), "the reference is a system too"
    assert load_systems([f"x={a}", b], "x")[1] == "x"
    systems, reference = load_systems([deep, b], "b")
    assert ([system.name for system in systems], reference) == (["a", "b"], "b"), "the reference is given by name"
    GOOD.save(tmp_path / "base, dropout 0.2" / "results.json")
    assert [system.name for system in load_systems([str(tmp_path / "base, dropout 0.2")], None)[0]] == [
        "base, dropout 0.2"
    ]
    with pytest.raises(ManyglotError, match=r"'seed' is neither a folder .* Did you mean 'seeds'\?"):
        load_systems([f"seeds={a}", b], "seed")
    for text in ("x=", f"x={a},,{b}", f"x={a},{a}"):
        with pytest.raises(ManyglotError, match="needs one or more different folders"):
            load_systems([text], None)
    with pytest.raises(ManyglotError, match="same name"):
        load_systems([f"x={a}", f"x={b}"], None)
    with pytest.raises(ManyglotError, match=r"Cannot read .*/c"):
        load_systems([str(tmp_path / "c")], None)


def test_a_results_file_has_the_name_of_its_folder(tmp_path: Path) -> None:
    GOOD.save(tmp_path / "good" / "results.json")
    systems, _ = load_systems([str(tmp_path / "good" / "results.json")], None)
    assert [system.name for system in systems] == ["good"]
