from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import manyglot
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.base import Split
from manyglot.corpus.languages import Direction
from manyglot.corpus.textfiles import write_aligned_rows
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import ManyglotError
from manyglot.evaluation.evaluator import Evaluation, EvaluationSettings, Evaluator, select_evaluation_set
from manyglot.evaluation.test_set_translation import translate_evaluation_set
from manyglot.langid.ngram_profile import NgramProfileIdentifier

ROWS = [
    {
        "de": f"der Hund sieht {n} Katzen am Fluss",
        "en": f"the dog sees {n} cats by the river",
        "fr": f"le chien voit {n} chats",
    }
    for n in range(4)
]
PROFILE = NgramProfileIdentifier({code: [row[code] for row in ROWS] for code in ("de", "en", "fr")})


class Oracle:
    """Translates perfectly, except into French, where its outputs are English."""

    settings = DecodingSettings(beam_size=3)
    engine = SimpleNamespace(short_block_size=2)

    pivot_code = None

    def translate(self, texts: list[str], to: list[str], **_: object) -> list[str]:
        by_text = {text: row for row in ROWS for text in row.values()}
        return [by_text[text]["en" if code == "fr" else code] for text, code in zip(texts, to, strict=True)]


def run(rows: list[dict[str, str]], **changes: Any) -> Evaluation:
    settings = EvaluationSettings(**changes)
    supervised = [Direction("de", "en"), Direction("en", "de"), Direction("en", "fr")]
    zero_shot = [Direction("de", "fr"), Direction("fr", "de")]
    evaluation_set = select_evaluation_set(rows, supervised, zero_shot, settings)
    outputs = translate_evaluation_set(Oracle(), evaluation_set)  # type: ignore[arg-type]
    return Evaluator(PROFILE, settings, Oracle.settings, central_language="en").score(evaluation_set, outputs)


def test_every_direction_has_its_own_scores() -> None:
    results = {(d.source, d.target): d for d in run(ROWS).directions}
    assert results["de", "en"].bleu == pytest.approx(100)
    assert results["de", "en"].language_accuracy == 100
    assert results["de", "fr"].bleu < 30
    assert results["de", "fr"].language_accuracy == 0
    assert results["de", "fr"].reference_language_accuracy == 100
    assert [d.zero_shot for d in results.values()] == [False, False, False, True, True]


def test_averages_follow_the_groups_of_the_paper() -> None:
    averages = run(ROWS).averages()
    assert {name: row["num_directions"] for name, row in averages.items()} == {
        "from_central_language": 2, "into_central_language": 1, "supervised": 3, "zero_shot": 2,
    }  # fmt: skip
    assert averages["zero_shot"]["language_accuracy"] == 50
    by_hand = [d.bleu for d in run(ROWS).directions if d.zero_shot]
    assert averages["zero_shot"]["bleu"] == pytest.approx(sum(by_hand) / 2)


def test_examples_name_the_identified_language() -> None:
    examples = [e for e in run(ROWS).examples if (e.source, e.target) == ("de", "fr")]
    assert len(examples) == 4
    assert examples[0].identified_language == "en"
    assert (examples[0].source_text, examples[0].reference) == (ROWS[0]["de"], ROWS[0]["fr"])


def test_rows_need_both_languages() -> None:
    assert run([*ROWS, {"de": "x"}]).directions[0].num_sentences == 4


def test_limited_sentences_are_spread_over_the_test_set() -> None:
    evaluation = run(ROWS, max_sentences_per_direction=3, max_sentences_per_zero_shot_direction=2)
    assert {d.num_sentences for d in evaluation.directions if not d.zero_shot} == {3}
    assert {d.num_sentences for d in evaluation.directions if d.zero_shot} == {2}
    selected = [e.source_text for e in evaluation.examples if (e.source, e.target) == ("de", "fr")]
    assert selected == [ROWS[0]["de"], ROWS[2]["de"]]
    assert {d.num_sentences for d in run(ROWS, max_sentences_per_direction=2).directions} == {2}


def test_directions_without_text_are_skipped_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    results = run([{"de": row["de"], "en": row["en"]} for row in ROWS]).directions
    assert [(d.source, d.target) for d in results] == [("de", "en"), ("en", "de")]
    assert "Skipping directions without test text: en→fr, de→fr, fr→de." in capsys.readouterr().err
    with pytest.raises(ManyglotError, match="no test text in any direction"):
        run([])


def test_results_are_written_with_a_report(trained: Experiment, tmp_path: Path) -> None:
    output = tmp_path / "results"
    evaluation = manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=output)
    saved = json.loads((output / "results.json").read_text("utf-8"))
    assert len(saved["directions"]) == len(evaluation.directions) == 6
    assert saved["averages"].keys() == {"from_central_language", "into_central_language", "supervised", "zero_shot"}
    assert (output / "report.html").exists()
    with pytest.raises(ManyglotError, match="exists"):
        manyglot.evaluate(trained.run / "model", trained.data, output=output)


def test_zero_shot_directions_are_optional(trained: Experiment) -> None:
    evaluation = manyglot.evaluate(
        trained.run / "model",
        trained.data,
        overrides=["decoding.beam_size=1", "evaluation.max_sentences_per_direction=3"],
    )
    assert {d.zero_shot for d in evaluation.directions} == {False}
    assert {d.num_sentences for d in evaluation.directions} == {3}
    assert evaluation.settings["decoding"]["beam_size"] == 1, "the results record the settings that were used"
    with pytest.raises(ManyglotError, match=r"decoding.bem is not a setting"):
        manyglot.evaluate(trained.run / "model", trained.data, overrides=["decoding.bem=1"])


def test_other_test_text_replaces_the_test_split(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = PreparedDataset(trained.data).rows(Split.TEST)[:3]
    write_aligned_rows(tmp_path, "test", ["qaa", "qab"], rows)
    evaluation = manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, test_folder=tmp_path)
    assert {(d.source, d.target, d.num_sentences) for d in evaluation.directions} == {
        ("qaa", "qab", 3),
        ("qab", "qaa", 3),
    }
    assert "There is no test text in qac." in capsys.readouterr().err
    (tmp_path / "test.qab").unlink()
    with pytest.raises(ManyglotError, match="needs test text in at least two languages"):
        manyglot.evaluate(trained.run / "model", trained.data, test_folder=tmp_path)


def test_zero_shot_directions_depend_on_the_training_of_the_model(trained: Experiment, tmp_path: Path) -> None:
    """Even if the test data was prepared with another central language."""
    corpus = trained.corpus.model_copy(update={"central_language": "qab"})
    other = trained.model_copy(update={"data": tmp_path / "data", "corpus": corpus})
    manyglot.prepare(other)
    evaluation = manyglot.evaluate(trained.run / "model", other.data, zero_shot=True)
    unseen = {(d.source, d.target) for d in evaluation.directions if d.zero_shot}
    assert unseen == {("qab", "qac"), ("qac", "qab")}


def test_directions_share_row_numbers() -> None:
    rows = [ROWS[0], {"en": ROWS[1]["en"], "fr": ROWS[1]["fr"]}, ROWS[2]]
    row_numbers = {
        d: sentences.row_numbers_N.tolist()
        for d, sentences in run(rows).statistics.items()
        if sentences.row_numbers_N is not None
    }
    assert row_numbers[Direction("de", "en")] == row_numbers[Direction("en", "de")] == [0, 1]
    assert row_numbers[Direction("en", "fr")] == [0, 2, 1]


def test_selected_rows_keep_their_order() -> None:
    rng = random.Random(1)
    rows = [{code: f"{code} {n}" for code in ("de", "en", "fr") if rng.random() < 0.7} for n in range(60)]
    directions = [Direction("de", "en"), Direction("fr", "de")]
    selected = select_evaluation_set(rows, directions[:1], directions[1:], EvaluationSettings())
    for d in directions:
        assert selected.rows_by_direction[d] == [row for row in rows if d.source in row and d.target in row]
