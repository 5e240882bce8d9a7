"""A sample of the dev split that is translated while a model learns: the same sentences each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean

from pydantic import Field

from manyglot.batches.dataset import Dataset
from manyglot.config.settings import Settings
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Row, Split
from manyglot.decoding.translator import Translator
from manyglot.errors import ManyglotError
from manyglot.evaluation.scores import Measure, check_tokenizers, score
from manyglot.evaluation.translate import sources_of, translate_directions
from manyglot.langid.identifier import Identifier, accuracy, describe_identifier, labels_of
from manyglot.langid.loading import IdentifierName, load_identifier
from manyglot.model.transformer import Transformer
from manyglot.progress import say

NAMED = 5
"""Directions that a message names."""
DEV_SEED = 1
"""Of what is drawn from the dev split, whatever the seed of a run, so that runs with different ones can be compared."""
ANY = Measure("13a")
"""To compute chrF++, which needs no tokenizer."""
LEAST = 10
"""Zero-shot sentences of a direction: the share of fewer says nothing about it."""

Rows = Mapping[Direction, Sequence[Row]]
MakeTranslator = Callable[[Transformer], Translator]
Sample = Mapping[str, int | str]
"""What identifies a sample: names with counts and identifiers."""
Scores = tuple[Mapping[str, float], Mapping[Direction, Mapping[str, float]]]
"""Means over the directions, and what is known of each."""


class ValidationSettings(Settings):
    """What is measured on the dev split while the model learns: a sample, the same each time and with every seed. It is
    translated by greedy search."""

    pairs: int = Field(10_000, ge=0)
    """Sentence pairs whose loss is measured (dev_nll); 0 measures none."""
    sentences: int = Field(500, ge=0)
    """Sentences that are translated for BLEU and chrF++ (dev_bleu, dev_chrf), spread evenly over the supervised
    directions; 0 translates none."""
    zero_shot_sentences: int = Field(200, ge=0)
    """Sentences that are translated in directions without training (zero_shot_language_accuracy, and zero_shot_chrf
    where the dev text has references), at least ten in each; of more directions than that some are drawn. 0 translates
    none."""


class DevTranslations:
    """BLEU and chrF++ in the directions of the training."""

    names: Sequence[str] = ("dev_bleu", "dev_chrf")
    setting = "validation.sentences"

    def __init__(self, rows: Rows, settings: ValidationSettings, translator: MakeTranslator) -> None:
        self.rows, self.translator = draw(rows, settings.sentences), translator
        self.sample = _identity(self.rows, rows)

    def describe_sample(self) -> str:
        """The sample in words."""
        return _describe(self.sample)

    def __call__(self, model: Transformer) -> Scores:
        """Translate and compare with the references."""
        outputs = translate_directions(self.translator(model), sources_of(self.rows))
        found = {d: score(outputs[d], [row[d.target] for row in rows], d.target) for d, rows in self.rows.items()}
        means = {"dev_bleu": fmean(s.bleu for s in found.values()), "dev_chrf": fmean(s.chrf for s in found.values())}
        return means, {direction: {"bleu": s.bleu, "chrf": s.chrf} for direction, s in found.items()}


class ZeroShotTranslations:
    """Language accuracy in directions without training, which needs no references, and chrF++ where there are some."""

    setting = "validation.zero_shot_sentences"

    def __init__(
        self, rows: Rows, settings: ValidationSettings, translator: MakeTranslator, identifier: Identifier
    ) -> None:
        rows = {direction: those for direction, those in rows.items() if identifier.label(direction.target)}
        if not rows:
            raise ManyglotError("None of the languages can be told. Set evaluation.identifier to profile.")
        self.rows, self.translator = draw(rows, settings.zero_shot_sentences, LEAST), translator
        self.sample, self.identifier = _identity(self.rows, rows, identifier), identifier
        judged = any(map(self._references, self.rows))
        self.names: Sequence[str] = ("zero_shot_language_accuracy", *(("zero_shot_chrf",) if judged else ()))

    def describe_sample(self) -> str:
        """The sample in words."""
        return f"{_describe(self.sample)} by {describe_identifier(self.identifier.name)}"

    def __call__(self, model: Transformer) -> Scores:
        """Translate, tell the languages and compare with the references that there are."""
        outputs = translate_directions(self.translator(model), sources_of(self.rows))
        found = {direction: self._judge(direction, texts) for direction, texts in outputs.items()}
        keys = [name.removeprefix("zero_shot_") for name in self.names]
        means = [fmean(values[key] for values in found.values() if key in values) for key in keys]
        return dict(zip(self.names, means, strict=True)), found

    def _judge(self, direction: Direction, outputs: Sequence[str]) -> dict[str, float]:
        share = accuracy(labels_of(self.identifier, outputs), self.identifier.label(direction.target))
        assert share is not None, "only directions whose target language can be told are drawn"
        if not (references := self._references(direction)):
            return {"language_accuracy": share}
        return {"language_accuracy": share, "chrf": score(outputs, references, direction.target, ANY).chrf}

    def _references(self, direction: Direction) -> list[str]:
        """Those of all its sentences, or none."""
        found = [row[direction.target] for row in self.rows[direction] if direction.target in row]
        return found if len(found) == len(self.rows[direction]) else []


def translated_measures(
    dataset: Dataset,
    trained: Sequence[Direction],
    settings: ValidationSettings,
    identifier_name: IdentifierName,
    translator: MakeTranslator,
) -> list[DevTranslations | ZeroShotTranslations]:
    """What can be measured on the dev split of a dataset by translating."""
    measures: list[DevTranslations | ZeroShotTranslations] = []
    rows = dataset.rows(Split.DEV) if settings.sentences or settings.zero_shot_sentences else []
    if settings.sentences and (judged := _with_references(rows, trained)):
        measures.append(DevTranslations(judged, settings, translator))
        if missing := [str(direction) for direction in trained if direction not in judged]:
            named = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if missing[NAMED:] else "")
            say(f"{len(missing)} of {len(trained)} trained directions are not judged, for want of dev text: {named}.")
    if settings.zero_shot_sentences and (unseen := _without_training(rows, trained)):
        try:
            identifier = load_identifier(identifier_name, dataset.languages, partial(dataset.sentences, Split.TRAIN))
            measures.append(ZeroShotTranslations(unseen, settings, translator, identifier))
        except ManyglotError as error:
            say(f"zero_shot_language_accuracy is not measured. {error}")
    return measures


def _with_references(rows: Sequence[Row], directions: Iterable[Direction]) -> dict[Direction, list[Row]]:
    """The rows of each direction that has some, without languages that BLEU cannot split into words here."""
    found = {d: [row for row in rows if d.source in row and d.target in row] for d in directions}
    found = {direction: those for direction, those in found.items() if those}
    for code in sorted({direction.target for direction in found}):
        try:
            check_tokenizers([code])
        except ManyglotError as error:
            say(f"Translations into {code} are not judged while training. {error}")
            found = {direction: those for direction, those in found.items() if direction.target != code}
    return found


def _without_training(rows: Sequence[Row], trained: Sequence[Direction]) -> dict[Direction, list[Row]]:
    """What can be translated from a language that is learnt to be read into another that is learnt to be written.

    Of a direction that has references, in sentences enough, those.
    """
    sources, targets = {direction.source for direction in trained}, {direction.target for direction in trained}
    has = {code: {number for number, row in enumerate(rows) if code in row} for code in sources | targets}
    every = {Direction(source, target) for source in sources for target in targets if source != target}
    chosen = {}
    for direction in every.difference(trained):
        both = has[direction.source] & has[direction.target]
        chosen[direction] = sorted(both if len(both) >= LEAST else has[direction.source])
    return {direction: [rows[number] for number in numbers] for direction, numbers in chosen.items() if numbers}


def draw(rows: Rows, number: int, least: int = 1) -> dict[Direction, list[Row]]:
    """So many rows, spread evenly over the directions; where that would be fewer than `least` each, over some."""
    rng = random.Random(DEV_SEED)
    directions = sorted(rng.sample(sorted(rows), min(len(rows), max(number // least, 1))))
    drawn, left = {}, number
    for i, direction in enumerate(sorted(directions, key=lambda d: len(rows[d]))):  # the others share what one lacks
        share = min(len(rows[direction]), left // (len(directions) - i))
        drawn[direction] = rng.sample(rows[direction], share)
        left -= share
    return {direction: drawn[direction] for direction in directions}


def _identity(sampled: Rows, rows: Rows, identifier: Identifier | None = None) -> Sample:
    """What a score on the sample depends on beside the model, as far as it is compared when a run resumes."""
    counts = {
        "num_sentences": sum(map(len, sampled.values())),
        "num_available_sentences": sum(map(len, rows.values())),
        "num_directions": len(sampled),
        "num_available_directions": len(rows),
    }
    return counts if identifier is None else {**counts, "identifier": identifier.name}


def _describe(sample: Sample) -> str:
    """How much of how much."""
    return (
        f"{sample['num_sentences']:,} of {sample['num_available_sentences']:,} sentences in "
        f"{sample['num_directions']} of {sample['num_available_directions']} directions"
    )
