"""The verdict of the report follows from the numbers, and claims nothing beyond them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from manyglot.evaluation.results import DirectionResult, Evaluation
from manyglot.reports.direction_grades import Grade, grade, is_off_target
from manyglot.reports.html_report import make_report_run
from manyglot.reports.html_verdict import Verdict, verdict, verdict_html

LANGUAGES = ("de", "en", "fr", "ja", "sw")
TOKEN = {"guidance": [{"method": "token", "side": "source"}], "training": {"alignment": None}}
ADAPTER = [{"method": "adapter", "sites": ["dec.ffn"]}]


def result(
    source: str, target: str, bleu: float = 35.0, accuracy: float | None = 98.0, **fields: Any
) -> DirectionResult:
    base = DirectionResult(
        source, target, "en" not in (source, target), 200, bleu, bleu + 15, accuracy, 99.0, "tok:13a"
    )
    return replace(base, **fields)


def evaluation(score: Callable[[str, str], DirectionResult], pivot: str | None = None) -> Evaluation:
    results = [score(source, target) for source, target in permutations(LANGUAGES, 2)]
    return Evaluation(results, [], "a test", "nw:2", "en", {"decoding": {"pivot": pivot}})


def judge(evaluation: Evaluation, config: dict[str, Any] | None = None, **system_facts: Any) -> Verdict:
    card = {"config": TOKEN if config is None else config, **system_facts}
    return verdict([make_report_run("mine", evaluation, card)])


def zero_shot_fails(source: str, target: str, language: str = "en") -> DirectionResult:
    if "en" in (source, target):
        return result(source, target)
    return result(source, target, 3.0, 20.0, top_off_target_language=language, top_off_target_rate=78.0)


def test_nothing_is_recommended_if_all_is_well() -> None:
    findings, advice = judge(evaluation(result))
    assert findings == [
        "All 8 supervised directions are good (mean BLEU 35.0, chrF++ 50.0).",
        "All 12 zero-shot directions are good (mean BLEU 35.0, chrF++ 50.0).",
        "No direction is bad or off-target.",
    ]
    assert advice == []
    findings, advice = judge(evaluation(lambda source, target: result(source, target, 20.0)))
    assert "All 8 supervised directions are fair (mean BLEU 20.0, chrF++ 35.0)." in findings
    assert advice == [], "fair scores alone do not say what to change"


def test_zero_shot_outputs_in_english_call_for_alignment_matrices_or_pivoting() -> None:
    findings, advice = judge(evaluation(zero_shot_fails))
    assert findings == [
        "All 8 supervised directions are good (mean BLEU 35.0, chrF++ 50.0).",
        "All 12 zero-shot directions are bad (mean BLEU 3.0, chrF++ 18.0); all drift into English "
        "(LangAcc 20.0%, references 99.0%).",
    ]
    text = " ".join(advice)
    assert "training: {alignment: {}}" in text
    assert "{method: adapter}" in text
    assert "init_gain: 0" in text
    assert advice[-1] == "Without new training, pivot through English (`--set decoding.pivot=en`)."
    assert "training text" not in text, "supervised directions are good"


@pytest.mark.parametrize(
    ("config", "expected", "excluded"),
    [
        ({"guidance": ADAPTER, "training": {"alignment": None}}, "alignment: {}", "method: adapter"),
        ({**TOKEN, "training": {"alignment": {"weight": 0.05}}}, "method: adapter", "alignment: {}"),
        ({"guidance": ADAPTER, "training": {"alignment": {}}}, "training.alignment.weight", "train with"),
        ({"guidance": [{"method": "laa", "init_gain": 0.0}]}, "alignment: {}", "init_gain"),
        ({"guidance": [{"method": "laa", "init_gain": 1.0}]}, "init_gain: 0", "unless"),
        ({}, "unless it already has them", "already has encoder alignment"),
    ],
)
def test_the_advice_leaves_out_what_the_model_has(config: dict[str, Any], expected: str, excluded: str) -> None:
    text = " ".join(judge(evaluation(zero_shot_fails), config).advice)
    assert expected in text
    assert excluded not in text


def test_pivoting_is_recommended_only_where_it_can_help() -> None:
    assert "pivot" in " ".join(judge(evaluation(zero_shot_fails)).advice)
    assert "pivot" not in " ".join(judge(evaluation(zero_shot_fails, pivot="en")).advice), "the outputs are pivoted"
    all_bad = evaluation(lambda source, target: replace(zero_shot_fails(source, target), bleu=2.0, chrf=12.0))
    assert "pivot" not in " ".join(judge(all_bad).advice), "both steps would be bad"
    without = replace(evaluation(zero_shot_fails), central_language=None)
    assert "pivot" not in " ".join(judge(without).advice)


def test_the_drift_is_named() -> None:
    by_source = evaluation(lambda source, target: zero_shot_fails(source, target, source))
    assert "all drift into their source language" in judge(by_source).findings[1]
    mixed = evaluation(lambda source, target: zero_shot_fails(source, target, "fr" if source == "de" else "en"))
    assert "all drift into a wrong language, mostly English" in judge(mixed).findings[1]
    by_target = {"de": "nl", "fr": "it", "ja": "zh", "sw": "zu"}
    spread = evaluation(lambda source, target: zero_shot_fails(source, target, by_target.get(target, "en")))
    assert "drift into wrong languages, such as Italian" in judge(spread).findings[1]
    one = judge(evaluation(lambda s, t: (zero_shot_fails if (s, t) == ("de", "ja") else result)(s, t)))
    assert "1 drifts into English (LangAcc 20.0%" in one.findings[1]
    assert one.findings[1].endswith("The bad one is German → Japanese.")
    assert one.advice == [], "one of twelve directions is no reason to train again"
    empty = evaluation(lambda source, target: replace(zero_shot_fails(source, target), top_off_target_language=None))
    assert "all are off-target (LangAcc" in judge(empty).findings[1], "no language is known, so none is named"


def test_bad_supervised_directions_call_for_text_or_training_by_the_dev_loss() -> None:
    bad = evaluation(lambda source, target: result(source, target, 4.0))
    curves = {
        "train longer, because the dev loss is lowest at the last validation": [[1, 5.0], [2, 4.0], [3, 3.5]],
        "the dev loss has risen since step 2": [[1, 5.0], [2, 4.0], [3, 4.5]],
        "add training text or train longer": [[1, 5.0], [2, 4.0]],
    }
    for text, curve in curves.items():
        findings, advice = judge(bad, curves={"dev_nll": curve})
        assert "All 8 supervised directions are bad (mean BLEU 4.0, chrF++ 19.0)." in findings
        assert text in advice[0]
    into_swahili = evaluation(lambda source, target: result(source, target, 4.0 if target == "sw" else 35.0))
    findings, advice = judge(into_swahili)
    assert findings[0] == (
        "Most supervised directions are good (7 of 8; mean BLEU 31.1, chrF++ 46.1); 1 is bad. "
        "The bad one is English → Swahili."
    )
    assert advice[0].startswith("For the bad supervised directions")


def test_bad_directions_are_described_by_what_they_share() -> None:
    languages = [f"{a}{b}" for a in "bcdefg" for b in "ay"]
    results = [
        result(s, t, 3.0 if t == "ba" else 35.0, zero_shot=False, chrf=18.0 if t == "ba" else 50.0)
        for s, t in permutations(languages, 2)
    ]
    wide = Evaluation(results, [], "a test", "nw:2", None, {})
    assert judge(wide).findings[0].endswith("The bad ones are mostly into Bashkir.")


def test_directions_from_and_into_english_are_judged_apart_if_they_differ() -> None:
    findings, _ = judge(evaluation(lambda source, target: result(source, target, 35.0 if target == "en" else 4.0)))
    assert findings[:2] == [
        "All 4 directions from English are bad (mean BLEU 4.0, chrF++ 19.0).",
        "All 4 directions into English are good (mean BLEU 35.0, chrF++ 50.0).",
    ]


def test_languages_that_cannot_be_identified_are_not_called_off_target() -> None:
    unknown = evaluation(lambda source, target: result(source, target, accuracy=None if target == "sw" else 98.0))
    findings, advice = judge(unknown)
    assert findings[-2].startswith(
        "LangAcc is not meaningful in 4 directions into Swahili: the identifier does not know"
    )
    assert advice == []
    unreliable = result("de", "sw", 35.0, 10.0, reference_language_accuracy=20.0)
    assert not is_off_target(unreliable)
    assert grade(unreliable) is Grade.GOOD
    assert is_off_target(replace(unreliable, reference_language_accuracy=98.0))
    assert grade(replace(unreliable, reference_language_accuracy=98.0)) is Grade.FAIR, "off-target is never good"
    assert grade(result("de", "zh", 32.0, chrf=24.0)) is Grade.GOOD, "chrF++ is low for Chinese"
    assert grade(result("de", "th", 3.0, chrf=41.0)) is Grade.FAIR, "BLEU is low without spaces"
    assert grade(result("de", "fr", 3.0, chrf=float("nan"))) is Grade.BAD


def test_copies_and_small_test_sets_are_mentioned() -> None:
    findings, _ = judge(evaluation(lambda source, target: result(source, target, copy_rate=12.0, num_sentences=10)))
    assert findings[0].endswith("12% of the outputs in supervised directions copy the source.")
    assert findings[-2].startswith("With only 10 test sentences per direction")


def test_untested_zero_shot_directions_are_mentioned() -> None:
    complete = evaluation(result)
    supervised = replace(complete, directions=[d for d in complete.directions if not d.zero_shot])
    assert judge(supervised).advice == [
        "Evaluate with `--zero-shot` to test the directions that the model was not trained on."
    ]


def test_the_best_of_several_runs_is_named() -> None:
    runs = [make_report_run("token", evaluation(zero_shot_fails), {}), make_report_run("laa", evaluation(result), {})]
    (sentence,) = [text for text in verdict(runs).findings if "runs" in text]
    assert sentence == "Of the 2 runs, laa has the highest mean BLEU in zero-shot directions (35.0; token: 3.0)."
    assert not any("runs" in text for text in verdict([runs[0], runs[0]]).findings), "no run is better"


def test_the_page_shows_settings_as_code_and_escapes_names() -> None:
    runs = [make_report_run(name, evaluation(score), {}) for name, score in (("a", zero_shot_fails), ("<b>", result))]
    text = verdict_html(runs)
    assert "<code>--set decoding.pivot=en</code>" in text
    assert "&lt;b&gt; has the highest" in text
    assert "<b>What to try:</b>" in text
    assert "less than 10 BLEU" in text
    assert "What to try" not in verdict_html([make_report_run("a", evaluation(result), {})])
