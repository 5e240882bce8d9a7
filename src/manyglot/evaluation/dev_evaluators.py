"""Validation by translation: metrics on a fixed sample of the dev split, computed during training."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean

from pydantic import Field

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import MAX_COUNT, Settings
from manyglot.corpus.base import Row, Split
from manyglot.corpus.languages import Direction
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError
from manyglot.evaluation.metrics import BleuChrfScorer, score_translations
from manyglot.evaluation.results import format_directions
from manyglot.evaluation.test_set_translation import source_texts, translate_directions
from manyglot.langid.identifier import LanguageIdentifier, describe_identifier, language_accuracy, predict_labels
from manyglot.langid.loading import IdentifierName, load_identifier
from manyglot.model.transformer import Transformer
from manyglot.progress import print_status

DEV_SAMPLE_SEED = 1
"""Seed of the dev sample, independent of the run's seed, so that runs with different seeds are comparable."""
CHRF_SCORER = BleuChrfScorer("13a")
"""Computes chrF++ only, which needs no word tokenizer for the language."""
CHARACTER_SCORER = BleuChrfScorer("char")
"""Computes BLEU by characters, in languages whose word tokenizer is not installed."""
MIN_SENTENCES_PER_ZERO_SHOT_DIRECTION = 10
"""A percentage of fewer sentences than this says little about a direction."""

RowsByDirection = Mapping[Direction, Sequence[Row]]
TranslatorFactory = Callable[[Transformer], Translator]
ValidationScores = tuple[Mapping[str, float], Mapping[Direction, Mapping[str, float]]]
"""Means over directions by metric name, and the scores of each direction."""


class ValidationSettings(Settings):
    """What validation measures on the dev split. The sample is the same at every validation and for every seed, and is
    translated by greedy search."""

    num_loss_pairs: int = Field(10_000, ge=0, le=MAX_COUNT)
    """Sentence pairs for the loss (dev_nll); 0 disables it."""
    num_supervised_sentences: int = Field(500, ge=0, le=MAX_COUNT)
    """Sentences to translate for BLEU and chrF++ (dev_bleu, dev_chrf), spread evenly over the supervised directions; 0
    disables them."""
    num_zero_shot_sentences: int = Field(200, ge=0, le=MAX_COUNT)
    """Sentences to translate in zero-shot directions (zero_shot_language_accuracy, and zero_shot_chrf where the dev
    text has references). Every direction gets at least ten sentences. If there are too many directions, only a sample
    of them is translated. 0 disables these metrics."""


class SupervisedDevEvaluator:
    """BLEU and chrF++ in supervised directions."""

    metric_names: Sequence[str] = ("dev_bleu", "dev_chrf")
    cost_setting = "validation.num_supervised_sentences"

    def __init__(
        self, rows_by_direction: RowsByDirection, settings: ValidationSettings, make_translator: TranslatorFactory
    ) -> None:
        self.rows_by_direction = sample_rows_evenly(rows_by_direction, settings.num_supervised_sentences)
        self.make_translator = make_translator
        self._scorers = {d.target: _dev_scorer(d.target) for d in self.rows_by_direction}
        self.sample_id: Mapping[str, int | str] = {
            **_sample_id(self.rows_by_direction, rows_by_direction),
            **self._character_signatures(),
        }

    def describe_dev_sample(self) -> str:
        """Describe the sample for people."""
        codes = self._languages_by_characters()
        characters = f", BLEU into {', '.join(codes)} by characters" if codes else ""
        return f"{_describe_counts(self.sample_id)}{characters}"

    def _languages_by_characters(self) -> list[str]:
        return sorted(code for code, scorer in self._scorers.items() if scorer == CHARACTER_SCORER)

    def _character_signatures(self) -> dict[str, str]:
        """The signatures of BLEU by characters, which is not comparable with BLEU by words."""
        return {f"bleu_{code}": CHARACTER_SCORER.bleu_signature(code) for code in self._languages_by_characters()}

    def __call__(self, model: Transformer) -> ValidationScores:
        """Translate the sample and score it against the references."""
        outputs = translate_directions(self.make_translator(model), source_texts(self.rows_by_direction))
        scores = {
            d: score_translations(outputs[d], [row[d.target] for row in rows], d.target, self._scorers[d.target])
            for d, rows in self.rows_by_direction.items()
        }
        means = {"dev_bleu": fmean(s.bleu for s in scores.values()), "dev_chrf": fmean(s.chrf for s in scores.values())}
        return means, {direction: {"bleu": s.bleu, "chrf": s.chrf} for direction, s in scores.items()}


class ZeroShotDevEvaluator:
    """Language accuracy in zero-shot directions, which needs no references, and chrF++ where references exist."""

    cost_setting = "validation.num_zero_shot_sentences"

    def __init__(
        self,
        rows_by_direction: RowsByDirection,
        settings: ValidationSettings,
        make_translator: TranslatorFactory,
        identifier: LanguageIdentifier,
    ) -> None:
        rows_by_direction = {d: rows for d, rows in rows_by_direction.items() if identifier.label_for(d.target)}
        if not rows_by_direction:
            raise ManyglotError(
                "The language identifier knows none of the languages. Set evaluation.language_identifier to profile."
            )
        self.rows_by_direction = sample_rows_evenly(
            rows_by_direction, settings.num_zero_shot_sentences, MIN_SENTENCES_PER_ZERO_SHOT_DIRECTION
        )
        self.make_translator, self.identifier = make_translator, identifier
        self.sample_id = _sample_id(self.rows_by_direction, rows_by_direction, identifier)
        has_references = any(map(self._references_if_complete, self.rows_by_direction))
        self.metric_names: Sequence[str] = (
            "zero_shot_language_accuracy",
            *(("zero_shot_chrf",) if has_references else ()),
        )

    def describe_dev_sample(self) -> str:
        """Describe the sample and the language identifier for people."""
        return f"{_describe_counts(self.sample_id)}, identified by {describe_identifier(self.identifier.signature)}"

    def __call__(self, model: Transformer) -> ValidationScores:
        """Translate the sample, identify the output languages, and compute chrF++ where references exist."""
        outputs = translate_directions(self.make_translator(model), source_texts(self.rows_by_direction))
        scores = {direction: self._score_direction(direction, texts) for direction, texts in outputs.items()}
        keys = [name.removeprefix("zero_shot_") for name in self.metric_names]
        means = [fmean(values[key] for values in scores.values() if key in values) for key in keys]
        return dict(zip(self.metric_names, means, strict=True)), scores

    def _score_direction(self, direction: Direction, outputs: Sequence[str]) -> dict[str, float]:
        accuracy = language_accuracy(
            predict_labels(self.identifier, outputs), self.identifier.label_for(direction.target)
        )
        assert accuracy is not None, "all sampled target languages are identifiable"
        if not (references := self._references_if_complete(direction)):
            return {"language_accuracy": accuracy}
        return {
            "language_accuracy": accuracy,
            "chrf": score_translations(outputs, references, direction.target, CHRF_SCORER).chrf,
        }

    def _references_if_complete(self, direction: Direction) -> list[str]:
        """Return the references of a direction, or an empty list unless every sentence has one."""
        rows = self.rows_by_direction[direction]
        references = [row[direction.target] for row in rows if direction.target in row]
        return references if len(references) == len(rows) else []


def make_dev_evaluators(
    dataset: PreparedDataset,
    trained_directions: Sequence[Direction],
    settings: ValidationSettings,
    identifier_name: IdentifierName,
    make_translator: TranslatorFactory,
) -> list[SupervisedDevEvaluator | ZeroShotDevEvaluator]:
    """Return the evaluators that the settings ask for and the dev split allows; report what cannot be evaluated."""
    evaluators: list[SupervisedDevEvaluator | ZeroShotDevEvaluator] = []
    rows = dataset.rows(Split.DEV) if settings.num_supervised_sentences or settings.num_zero_shot_sentences else []
    if settings.num_supervised_sentences and (supervised_rows := _rows_with_references(rows, trained_directions)):
        evaluators.append(SupervisedDevEvaluator(supervised_rows, settings, make_translator))
        if missing := [direction for direction in trained_directions if direction not in supervised_rows]:
            print_status(
                f"Validation skips {len(missing)} of {len(trained_directions)} trained directions without dev text: "
                f"{format_directions(missing)}."
            )
    if settings.num_zero_shot_sentences and (zero_shot_rows := _zero_shot_rows(rows, trained_directions)):
        try:
            identifier = load_identifier(identifier_name, dataset.languages, partial(dataset.sentences, Split.TRAIN))
            evaluators.append(ZeroShotDevEvaluator(zero_shot_rows, settings, make_translator, identifier))
        except ManyglotError as error:
            print_status(f"Validation skips zero_shot_language_accuracy. {error}")
    return evaluators


def _rows_with_references(rows: Sequence[Row], directions: Iterable[Direction]) -> dict[Direction, list[Row]]:
    """Return the rows of each direction that has any."""
    rows_by_direction = {d: [row for row in rows if d.source in row and d.target in row] for d in directions}
    return {d: both for d, both in rows_by_direction.items() if both}


def _dev_scorer(code: str) -> BleuChrfScorer:
    """Return the usual scorer of a language, or one by characters if its BLEU tokenizer is not installed."""
    try:
        BleuChrfScorer().check_tokenizers_installed([code])
    except ManyglotError as error:
        signature = CHARACTER_SCORER.bleu_signature(code)
        print_status(f"Validation computes BLEU into {code} by characters ({signature}), not by words. {error}")
        return CHARACTER_SCORER
    return BleuChrfScorer()


def _zero_shot_rows(rows: Sequence[Row], trained_directions: Sequence[Direction]) -> dict[Direction, list[Row]]:
    """Return dev rows for every untrained direction between a trained source and a trained target language.

    Rows with a reference are preferred if there are enough of them; otherwise rows need only the source language.
    """
    sources, targets = (
        {direction.source for direction in trained_directions},
        {direction.target for direction in trained_directions},
    )
    rows_with = {code: {number for number, row in enumerate(rows) if code in row} for code in sources | targets}
    all_directions = {Direction(source, target) for source in sources for target in targets if source != target}
    row_numbers = {}
    for direction in all_directions.difference(trained_directions):
        both = rows_with[direction.source] & rows_with[direction.target]
        row_numbers[direction] = sorted(
            both if len(both) >= MIN_SENTENCES_PER_ZERO_SHOT_DIRECTION else rows_with[direction.source]
        )
    return {direction: [rows[number] for number in numbers] for direction, numbers in row_numbers.items() if numbers}


def sample_rows_evenly(
    rows_by_direction: RowsByDirection, num_rows: int, min_rows_per_direction: int = 1
) -> dict[Direction, list[Row]]:
    """Sample `num_rows` rows, spread evenly over directions, always with the same seed.

    If that leaves fewer than `min_rows_per_direction` for each direction, sample directions first. Directions with too
    few rows leave their share to the others.
    """
    rng = random.Random(DEV_SAMPLE_SEED)
    num_directions = min(len(rows_by_direction), max(num_rows // min_rows_per_direction, 1))
    directions = sorted(rng.sample(sorted(rows_by_direction), num_directions))
    sampled, num_left = {}, num_rows
    for i, direction in enumerate(
        sorted(directions, key=lambda d: len(rows_by_direction[d]))
    ):  # smallest first: the others share what it leaves
        share = min(len(rows_by_direction[direction]), num_left // (len(directions) - i))
        sampled[direction] = rng.sample(rows_by_direction[direction], share)
        num_left -= share
    return {direction: sampled[direction] for direction in directions}


def _sample_id(
    sampled: RowsByDirection, available: RowsByDirection, identifier: LanguageIdentifier | None = None
) -> Mapping[str, int | str]:
    """Return what a score on the sample depends on besides the model."""
    counts = {
        "num_sentences": sum(map(len, sampled.values())),
        "num_available_sentences": sum(map(len, available.values())),
        "num_directions": len(sampled),
        "num_available_directions": len(available),
    }
    return counts if identifier is None else {**counts, "identifier": identifier.signature}


def _describe_counts(sample_id: Mapping[str, int | str]) -> str:
    """Format the counts of a sample: N of M sentences in N of M directions."""
    return (
        f"{sample_id['num_sentences']:,} of {sample_id['num_available_sentences']:,} sentences in "
        f"{sample_id['num_directions']} of {sample_id['num_available_directions']} directions"
    )
