from __future__ import annotations

from collections.abc import Sequence

import pytest

import manyglot
from manyglot.batches.dataset import Dataset
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation import sample
from manyglot.evaluation.sample import (
    DevTranslations,
    ValidationSettings,
    ZeroShotTranslations,
    draw,
    translated_measures,
)
from manyglot.langid.profile import Profile

CODES = ("de", "en", "fr")
WORDS = {"de": "der Hund sieht die Katze", "en": "the dog sees the cat", "fr": "le chien voit le chat"}
ROWS = [{code: f"{n} {text}" for code, text in WORDS.items()} for n in range(30)]
TRAINED = [Direction("de", "en"), Direction("en", "de"), Direction("en", "fr"), Direction("fr", "en")]
FORTY = ValidationSettings(sentences=40, zero_shot_sentences=40)
UNSEEN = [Direction("de", "fr"), Direction("fr", "de")]


class Drifting:
    """Translates perfectly, except into French, where every other answer is English."""

    def translate(self, texts: Sequence[str], to: Sequence[str], **_: object) -> list[str]:
        numbers = [int(text.split()[0]) for text in texts]
        return [
            ROWS[n]["en" if code == "fr" and i % 2 else code]
            for i, (n, code) in enumerate(zip(numbers, to, strict=True))
        ]


def test_a_sample_is_spread_evenly_and_always_the_same() -> None:
    rows = dict(zip(TRAINED, (ROWS, ROWS[:2], ROWS, ROWS), strict=True))
    drawn = draw(rows, 14)
    assert [len(drawn[direction]) for direction in TRAINED] == [4, 2, 4, 4], "the others share what one lacks"
    assert all(row in rows[direction] for direction, those in drawn.items() for row in those)
    assert draw(rows, 14) == drawn
    assert drawn[TRAINED[0]] != drawn[TRAINED[2]], "not the same sentences in all directions"
    assert draw(rows, 1000).keys() == rows.keys()
    assert sum(map(len, draw(rows, 1000).values())) == 92


@pytest.mark.parametrize(("number", "directions"), [(40, 4), (25, 2), (3, 1)])
def test_of_too_many_directions_some_are_drawn(number: int, directions: int) -> None:
    drawn = draw(dict.fromkeys(TRAINED, ROWS), number, least=10)
    assert len(drawn) == directions
    assert sum(map(len, drawn.values())) == number


def test_scores_are_means_over_directions() -> None:
    measure = DevTranslations(dict.fromkeys(TRAINED, ROWS), FORTY, lambda _: Drifting())  # type: ignore[arg-type,return-value]
    scores, directions = measure(None)  # type: ignore[arg-type]
    assert measure.sample == {
        "num_sentences": 40,
        "num_available_sentences": 120,
        "num_directions": 4,
        "num_available_directions": 4,
    }
    assert measure.describe_sample() == "40 of 120 sentences in 4 of 4 directions"
    assert directions[Direction("de", "en")]["bleu"] == pytest.approx(100)
    assert directions[Direction("en", "fr")]["bleu"] < 90
    assert scores["dev_bleu"] == pytest.approx(sum(values["bleu"] for values in directions.values()) / 4)
    assert scores["dev_chrf"] == pytest.approx(sum(values["chrf"] for values in directions.values()) / 4)


def test_language_accuracy_is_that_of_directions_without_training() -> None:
    profile = Profile({code: [row[code] for row in ROWS] for code in CODES})
    measure = ZeroShotTranslations(dict.fromkeys(UNSEEN, ROWS), FORTY, lambda _: Drifting(), profile)  # type: ignore[arg-type,return-value]
    scores, directions = measure(None)  # type: ignore[arg-type]
    chrf = directions[UNSEEN[0]]["chrf"]
    assert 50 < chrf < 80, "half of it is English"
    assert directions == {
        UNSEEN[0]: {"language_accuracy": 50, "chrf": chrf},
        UNSEEN[1]: {"language_accuracy": 100, "chrf": pytest.approx(100)},
    }
    assert scores == {"zero_shot_language_accuracy": 75, "zero_shot_chrf": pytest.approx((100 + chrf) / 2)}
    assert tuple(scores) == measure.names


def test_without_references_languages_are_told_all_the_same() -> None:
    profile = Profile({code: [row[code] for row in ROWS] for code in CODES})
    alone = [{"de": row["de"]} for row in ROWS]
    measure = ZeroShotTranslations({UNSEEN[0]: alone, UNSEEN[1]: ROWS}, FORTY, lambda _: Drifting(), profile)  # type: ignore[arg-type,return-value]
    scores, directions = measure(None)  # type: ignore[arg-type]
    assert directions[UNSEEN[0]] == {"language_accuracy": 50}
    assert scores["zero_shot_chrf"] == pytest.approx(100), "of the other direction"
    measure = ZeroShotTranslations({UNSEEN[0]: alone}, FORTY, lambda _: Drifting(), profile)  # type: ignore[arg-type,return-value]
    assert measure(None)[0] == {"zero_shot_language_accuracy": 50}  # type: ignore[arg-type]
    assert measure.names == ("zero_shot_language_accuracy",)


@pytest.mark.parametrize(("number", "chosen"), [(20, 20), (10, 10), (9, 30), (0, 30)])
def test_sentences_with_references_are_preferred_if_there_are_enough(number: int, chosen: int) -> None:
    rows = [row if i < number else {"de": row["de"]} for i, row in enumerate(ROWS)]
    found = sample._without_training(rows, TRAINED)
    assert len(found[UNSEEN[0]]) == chosen
    assert set(found) == ({*UNSEEN} if number else {UNSEEN[0]}), "a language without dev text is not translated"


def measures(dataset: Dataset, trained: list[Direction], identifier: str, **settings: int) -> dict[str, set[Direction]]:
    """What is measured in which directions."""
    found = translated_measures(dataset, trained, ValidationSettings(**settings), identifier, lambda _: None)  # type: ignore[arg-type,return-value]
    return {name: set(measure.rows) for measure in found for name in measure.names}


def test_what_is_not_trained_is_zero_shot(dataset: Dataset) -> None:
    trained = dataset.supervised
    found = measures(dataset, trained, "profile")
    assert found["dev_bleu"] == found["dev_chrf"] == set(trained)
    assert found["zero_shot_language_accuracy"] == {Direction("qab", "qac"), Direction("qac", "qab")}
    into_one = [direction for direction in trained if direction.target == "qaa"]
    assert "zero_shot_language_accuracy" not in measures(dataset, into_one, "profile"), (
        "it never learns to write others"
    )
    assert measures(dataset, trained, "profile", sentences=0, zero_shot_sentences=0) == {}


def test_languages_that_cannot_be_told_do_not_stop_a_run(
    trained: Experiment, dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "zero_shot_language_accuracy" not in measures(dataset, dataset.supervised, "py3langid")
    assert "is not measured. py3langid knows none of the languages" in capsys.readouterr().err
    assert (manyglot.train(trained) / "training.json").exists()


def test_languages_without_a_tokenizer_are_left_out(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def check(codes: list[str]) -> None:
        if "qab" in codes:
            raise ManyglotError("BLEU needs the tokenizer x.")

    monkeypatch.setattr(sample, "check_tokenizers", check)
    found = measures(dataset, dataset.supervised, "profile")
    assert {direction.target for direction in found["dev_bleu"]} == {"qaa", "qac"}
    assert "Translations into qab are not judged while training. BLEU needs" in capsys.readouterr().err
