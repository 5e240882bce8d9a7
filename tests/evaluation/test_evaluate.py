from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import manyglot
from manyglot.batches.dataset import Dataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Split
from manyglot.corpus.textfiles import write_aligned
from manyglot.decoding.beam import DecodingSettings
from manyglot.errors import ManyglotError
from manyglot.evaluation.evaluate import Evaluation, EvaluationSettings, Evaluator, select_sentences
from manyglot.evaluation.translate import translate_evaluation_set
from manyglot.langid.profile import Profile

ROWS = [
    {
        "de": f"der Hund sieht {n} Katzen am Fluss",
        "en": f"the dog sees {n} cats by the river",
        "fr": f"le chien voit {n} chats",
    }
    for n in range(4)
]
PROFILE = Profile({code: [row[code] for row in ROWS] for code in ("de", "en", "fr")})


class Oracle:
    """Translates perfectly, except into French, where it answers in English."""

    settings = DecodingSettings(beam=3)
    engine = SimpleNamespace(at_once=1)

    via = None

    def translate(self, texts: list[str], to: list[str], **_: object) -> list[str]:
        by_text = {text: row for row in ROWS for text in row.values()}
        return [by_text[text]["en" if code == "fr" else code] for text, code in zip(texts, to, strict=True)]


def run(rows: list[dict[str, str]], **changes: Any) -> Evaluation:
    settings = EvaluationSettings(**changes)
    supervised = [Direction("de", "en"), Direction("en", "de"), Direction("en", "fr")]
    zero_shot = [Direction("de", "fr"), Direction("fr", "de")]
    evaluation_set = select_sentences(rows, supervised, zero_shot, settings)
    outputs = translate_evaluation_set(Oracle(), evaluation_set)  # type: ignore[arg-type]
    return Evaluator(PROFILE, settings, Oracle.settings, pivot="en").score(evaluation_set, outputs)


def test_scores_and_languages_are_those_of_their_direction() -> None:
    results = {(d.source, d.target): d for d in run(ROWS).directions}
    assert results["de", "en"].bleu == pytest.approx(100)
    assert results["de", "en"].language_accuracy == 100
    assert results["de", "fr"].bleu < 30
    assert results["de", "fr"].language_accuracy == 0
    assert results["de", "fr"].reference_accuracy == 100
    assert [d.zero_shot for d in results.values()] == [False, False, False, True, True]


def test_averages_are_the_paper_s_groups() -> None:
    averages = run(ROWS).averages()
    assert {name: row["num_directions"] for name, row in averages.items()} == {
        "from_pivot": 2, "into_pivot": 1, "supervised": 3, "zero_shot": 2,
    }  # fmt: skip
    assert averages["zero_shot"]["language_accuracy"] == 50
    by_hand = [d.bleu for d in run(ROWS).directions if d.zero_shot]
    assert averages["zero_shot"]["bleu"] == pytest.approx(sum(by_hand) / 2)


def test_examples_say_in_which_language_the_output_is() -> None:
    examples = [e for e in run(ROWS).examples if (e.source, e.target) == ("de", "fr")]
    assert len(examples) == 4
    assert examples[0].identified == "en"
    assert (examples[0].text, examples[0].reference) == (ROWS[0]["de"], ROWS[0]["fr"])


def test_rows_without_a_language_are_not_counted() -> None:
    assert run([*ROWS, {"de": "x"}]).directions[0].num_sentences == 4


def test_fewer_sentences_are_spread_over_the_test_set() -> None:
    found = run(ROWS, max_sentences=3, max_zero_shot_sentences=2)
    assert {d.num_sentences for d in found.directions if not d.zero_shot} == {3}
    assert {d.num_sentences for d in found.directions if d.zero_shot} == {2}
    chosen = [e.text for e in found.examples if (e.source, e.target) == ("de", "fr")]
    assert chosen == [ROWS[0]["de"], ROWS[2]["de"]]
    assert {d.num_sentences for d in run(ROWS, max_sentences=2).directions} == {2}


def test_directions_without_text_are_left_out_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = run([{"de": row["de"], "en": row["en"]} for row in ROWS]).directions
    assert [(d.source, d.target) for d in found] == [("de", "en"), ("en", "de")]
    assert "Left out, because there is no test text: en→fr, de→fr, fr→de." in capsys.readouterr().err
    with pytest.raises(ManyglotError, match="no test text in any direction"):
        run([])


def test_results_are_written_with_a_report(trained: Experiment, tmp_path: Path) -> None:
    output = tmp_path / "results"
    evaluation = manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=output)
    saved = json.loads((output / "results.json").read_text("utf-8"))
    assert len(saved["directions"]) == len(evaluation.directions) == 6
    assert saved["averages"].keys() == {"from_pivot", "into_pivot", "supervised", "zero_shot"}
    assert (output / "report.html").exists()
    with pytest.raises(ManyglotError, match="exists"):
        manyglot.evaluate(trained.run / "model", trained.data, output=output)


def test_only_supervised_directions_unless_asked(trained: Experiment) -> None:
    evaluation = manyglot.evaluate(
        trained.run / "model", trained.data, overrides=["decoding.beam=1", "evaluation.max_sentences=3"]
    )
    assert {d.zero_shot for d in evaluation.directions} == {False}
    assert {d.num_sentences for d in evaluation.directions} == {3}
    assert evaluation.settings["decoding"]["beam"] == 1, "the report tells how it was really judged"
    with pytest.raises(ManyglotError, match=r"decoding.bem is not a setting"):
        manyglot.evaluate(trained.run / "model", trained.data, overrides=["decoding.bem=1"])


def test_other_test_text_takes_the_place_of_the_split(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = Dataset(trained.data).rows(Split.TEST)[:3]
    write_aligned(tmp_path, "test", ["qaa", "qab"], rows)
    evaluation = manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, test=tmp_path)
    assert {(d.source, d.target, d.num_sentences) for d in evaluation.directions} == {
        ("qaa", "qab", 3),
        ("qab", "qaa", 3),
    }
    assert "The test text has no qac." in capsys.readouterr().err
    (tmp_path / "test.qab").unlink()
    with pytest.raises(ManyglotError, match="should hold test text in two languages"):
        manyglot.evaluate(trained.run / "model", trained.data, test=tmp_path)


def test_zero_shot_is_what_the_model_was_not_trained_on(trained: Experiment, tmp_path: Path) -> None:
    """Also when the data to be judged on was prepared around another pivot."""
    corpus = trained.corpus.model_copy(update={"pivot": "qab"})
    other = trained.model_copy(update={"data": tmp_path / "data", "corpus": corpus})
    manyglot.prepare(other)
    evaluation = manyglot.evaluate(trained.run / "model", other.data, zero_shot=True)
    unseen = {(d.source, d.target) for d in evaluation.directions if d.zero_shot}
    assert unseen == {("qab", "qac"), ("qac", "qab")}


def test_directions_know_the_rows_they_share() -> None:
    rows = [ROWS[0], {"en": ROWS[1]["en"], "fr": ROWS[1]["fr"]}, ROWS[2]]
    found = {d: each.rows_N.tolist() for d, each in run(rows).statistics.items() if each.rows_N is not None}
    assert found[Direction("de", "en")] == found[Direction("en", "de")] == [0, 1]
    assert found[Direction("en", "fr")] == [0, 2, 1]


def test_a_direction_has_the_rows_with_both_languages_in_their_order() -> None:
    rng = random.Random(1)
    rows = [{code: f"{code} {n}" for code in ("de", "en", "fr") if rng.random() < 0.7} for n in range(60)]
    directions = [Direction("de", "en"), Direction("fr", "de")]
    selected = select_sentences(rows, directions[:1], directions[1:], EvaluationSettings())
    for d in directions:
        assert selected.rows[d] == [row for row in rows if d.source in row and d.target in row]
