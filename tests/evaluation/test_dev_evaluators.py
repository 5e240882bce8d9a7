from __future__ import annotations

from collections.abc import Sequence

import pytest
from sacrebleu.metrics.bleu import BLEU

import manyglot
from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation import dev_evaluators, metrics
from manyglot.evaluation.dev_evaluators import (
    SupervisedDevEvaluator,
    ValidationSettings,
    ZeroShotDevEvaluator,
    make_dev_evaluators,
    sample_rows_evenly,
)
from manyglot.evaluation.metrics import BleuChrfScorer
from manyglot.langid.ngram_profile import NgramProfileIdentifier

CODES = ("de", "en", "fr")
WORDS = {"de": "der Hund sieht die Katze", "en": "the dog sees the cat", "fr": "le chien voit le chat"}
ROWS = [{code: f"{n} {text}" for code, text in WORDS.items()} for n in range(30)]
TRAINED = [Direction("de", "en"), Direction("en", "de"), Direction("en", "fr"), Direction("fr", "en")]
FORTY = ValidationSettings(num_supervised_sentences=40, num_zero_shot_sentences=40)
ZERO_SHOT = [Direction("de", "fr"), Direction("fr", "de")]


class OffTargetTranslator:
    """Translates perfectly, except into French, where every other output is English."""

    def translate(self, texts: Sequence[str], to: Sequence[str], **_: object) -> list[str]:
        numbers = [int(text.split()[0]) for text in texts]
        return [
            ROWS[n]["en" if code == "fr" and i % 2 else code]
            for i, (n, code) in enumerate(zip(numbers, to, strict=True))
        ]


def test_the_sample_is_even_and_deterministic() -> None:
    rows = dict(zip(TRAINED, (ROWS, ROWS[:2], ROWS, ROWS), strict=True))
    sampled = sample_rows_evenly(rows, 14)
    assert [len(sampled[direction]) for direction in TRAINED] == [4, 2, 4, 4], (
        "directions with few rows leave their share to the others"
    )
    assert all(row in rows[direction] for direction, some in sampled.items() for row in some)
    assert sample_rows_evenly(rows, 14) == sampled
    assert sampled[TRAINED[0]] != sampled[TRAINED[2]], "directions sample different sentences"
    assert sample_rows_evenly(rows, 1000).keys() == rows.keys()
    assert sum(map(len, sample_rows_evenly(rows, 1000).values())) == 92


@pytest.mark.parametrize(("num_rows", "num_directions"), [(40, 4), (25, 2), (3, 1)])
def test_some_directions_are_sampled_if_there_are_too_many(num_rows: int, num_directions: int) -> None:
    sampled = sample_rows_evenly(dict.fromkeys(TRAINED, ROWS), num_rows, min_rows_per_direction=10)
    assert len(sampled) == num_directions
    assert sum(map(len, sampled.values())) == num_rows


def test_scores_are_means_over_directions() -> None:
    evaluator = SupervisedDevEvaluator(dict.fromkeys(TRAINED, ROWS), FORTY, lambda _: OffTargetTranslator())  # type: ignore[arg-type,return-value]
    scores, directions = evaluator(None)  # type: ignore[arg-type]
    assert evaluator.sample_id == {
        "num_sentences": 40,
        "num_available_sentences": 120,
        "num_directions": 4,
        "num_available_directions": 4,
    }
    assert evaluator.describe_dev_sample() == "40 of 120 sentences in 4 of 4 directions"
    assert directions[Direction("de", "en")]["bleu"] == pytest.approx(100)
    assert directions[Direction("en", "fr")]["bleu"] < 90
    assert scores["dev_bleu"] == pytest.approx(sum(values["bleu"] for values in directions.values()) / 4)
    assert scores["dev_chrf"] == pytest.approx(sum(values["chrf"] for values in directions.values()) / 4)


def test_language_accuracy_is_measured_in_zero_shot_directions() -> None:
    profile = NgramProfileIdentifier({code: [row[code] for row in ROWS] for code in CODES})
    evaluator = ZeroShotDevEvaluator(dict.fromkeys(ZERO_SHOT, ROWS), FORTY, lambda _: OffTargetTranslator(), profile)  # type: ignore[arg-type,return-value]
    scores, directions = evaluator(None)  # type: ignore[arg-type]
    chrf = directions[ZERO_SHOT[0]]["chrf"]
    assert 50 < chrf < 80, "half of the outputs are English"
    assert directions == {
        ZERO_SHOT[0]: {"language_accuracy": 50, "chrf": chrf},
        ZERO_SHOT[1]: {"language_accuracy": 100, "chrf": pytest.approx(100)},
    }
    assert scores == {"zero_shot_language_accuracy": 75, "zero_shot_chrf": pytest.approx((100 + chrf) / 2)}
    assert tuple(scores) == evaluator.metric_names


def test_language_accuracy_needs_no_references() -> None:
    profile = NgramProfileIdentifier({code: [row[code] for row in ROWS] for code in CODES})
    alone = [{"de": row["de"]} for row in ROWS]
    evaluator = ZeroShotDevEvaluator(
        {ZERO_SHOT[0]: alone, ZERO_SHOT[1]: ROWS}, FORTY, lambda _: OffTargetTranslator(), profile
    )  # type: ignore[arg-type,return-value]
    scores, directions = evaluator(None)  # type: ignore[arg-type]
    assert directions[ZERO_SHOT[0]] == {"language_accuracy": 50}
    assert scores["zero_shot_chrf"] == pytest.approx(100), "only the other direction has references"
    evaluator = ZeroShotDevEvaluator({ZERO_SHOT[0]: alone}, FORTY, lambda _: OffTargetTranslator(), profile)  # type: ignore[arg-type,return-value]
    assert evaluator(None)[0] == {"zero_shot_language_accuracy": 50}  # type: ignore[arg-type]
    assert evaluator.metric_names == ("zero_shot_language_accuracy",)


@pytest.mark.parametrize(("num_references", "num_selected"), [(20, 20), (10, 10), (9, 30), (0, 30)])
def test_sentences_with_references_are_preferred_if_there_are_enough(num_references: int, num_selected: int) -> None:
    rows = [row if i < num_references else {"de": row["de"]} for i, row in enumerate(ROWS)]
    selected = dev_evaluators._zero_shot_rows(rows, TRAINED)
    assert len(selected[ZERO_SHOT[0]]) == num_selected
    assert set(selected) == ({*ZERO_SHOT} if num_references else {ZERO_SHOT[0]}), (
        "a language without dev text is no source"
    )


def directions_by_metric(
    dataset: PreparedDataset, trained: list[Direction], identifier: str, **settings: int
) -> dict[str, set[Direction]]:
    """The directions in which each metric is computed."""
    evaluators = make_dev_evaluators(dataset, trained, ValidationSettings(**settings), identifier, lambda _: None)  # type: ignore[arg-type,return-value]
    return {name: set(evaluator.rows_by_direction) for evaluator in evaluators for name in evaluator.metric_names}


def test_untrained_directions_are_zero_shot(dataset: PreparedDataset) -> None:
    trained = dataset.train_directions
    directions = directions_by_metric(dataset, trained, "profile")
    assert directions["dev_bleu"] == directions["dev_chrf"] == set(trained)
    assert directions["zero_shot_language_accuracy"] == {Direction("qab", "qac"), Direction("qac", "qab")}
    into_one = [direction for direction in trained if direction.target == "qaa"]
    assert "zero_shot_language_accuracy" not in directions_by_metric(dataset, into_one, "profile"), (
        "the model never learns to generate other languages"
    )
    assert (
        directions_by_metric(dataset, trained, "profile", num_supervised_sentences=0, num_zero_shot_sentences=0) == {}
    )


def test_unidentifiable_languages_do_not_stop_training(
    trained: Experiment, dataset: PreparedDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "zero_shot_language_accuracy" not in directions_by_metric(dataset, dataset.train_directions, "py3langid")
    assert (
        "Validation skips zero_shot_language_accuracy. py3langid knows none of the languages" in capsys.readouterr().err
    )
    assert (manyglot.train(trained).model_folder / "training.json").exists()


def test_japanese_is_scored_by_characters_without_its_tokenizer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    metrics._bleu_metric.cache_clear()
    references = [f"第{n}日曜日に東京で会いましょう" for n in range(30)]
    outputs = [text.replace("東京", "京都") for text in references]
    into_japanese, rows = Direction("en", "ja"), [{"en": str(n), "ja": text} for n, text in enumerate(references)]

    class Swapping:
        def translate(self, texts: Sequence[str], to: Sequence[str], **_: object) -> list[str]:
            return [outputs[int(text)] if code == "ja" else text for text, code in zip(texts, to, strict=True)]

    both = {into_japanese: rows, Direction("ja", "en"): [{"ja": row["en"], "en": row["en"]} for row in rows]}
    evaluator = SupervisedDevEvaluator(both, ValidationSettings(num_supervised_sentences=60), lambda _: Swapping())  # type: ignore[arg-type,return-value]
    notice = capsys.readouterr().err
    assert notice.startswith("Validation computes BLEU into ja by characters (nrefs:1|case:mixed|eff:no|tok:char|")
    assert "pip install 'manyglot[ja]'" in notice
    assert "tok:char" in str(evaluator.sample_id["bleu_ja"])
    assert "bleu_en" not in evaluator.sample_id
    assert evaluator.describe_dev_sample().endswith("in 2 of 2 directions, BLEU into ja by characters")
    _, scores = evaluator(None)  # type: ignore[arg-type]
    assert scores[into_japanese]["bleu"] == BLEU(tokenize="char").corpus_score(outputs, [references]).score
    with pytest.raises(ManyglotError, match=r"manyglot\[ja\]"):
        BleuChrfScorer().check_tokenizers_installed(["ja"])  # as `evaluate` does
    metrics._bleu_metric.cache_clear()
