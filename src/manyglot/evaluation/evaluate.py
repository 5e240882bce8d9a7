"""Evaluation of translations in many directions: select the sentences, and score their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pydantic import Field

from manyglot.batches.dataset import Dataset
from manyglot.config.settings import Settings
from manyglot.corpus.languages import Direction
from manyglot.corpus.rows import Split
from manyglot.decoding.beam import DecodingSettings
from manyglot.errors import CorpusError
from manyglot.evaluation.results import DirectionResult as DirectionResult
from manyglot.evaluation.results import Evaluation as Evaluation
from manyglot.evaluation.results import Example as Example
from manyglot.evaluation.results import count_languages
from manyglot.evaluation.scores import Measure, TokenizerName
from manyglot.evaluation.scoring import Translated, score_directions
from manyglot.evaluation.translate import EvaluationSet, Row
from manyglot.langid.identifier import Identifier
from manyglot.langid.loading import IdentifierName, load_identifier
from manyglot.progress import say

NAMED = 5
"""Directions that a message names."""


class EvaluationSettings(Settings):
    """What is translated, how it is compared with the references and how its language is told."""

    max_sentences: int | None = Field(None, ge=1)
    """Use at most this many test sentences of a direction, spread evenly over the test set; null uses all."""
    max_zero_shot_sentences: int | None = Field(None, ge=1)
    """The same for directions never trained on, which are many; null takes max_sentences."""
    tokenizer: TokenizerName = "auto"
    """How BLEU splits words: auto (zh for Chinese, ja-mecab for Japanese, 13a for others, as the paper on TED-59),
    mecab (the same, and ko-mecab for Korean), 13a (for all, as the paper on OPUS-100), flores101 or flores200 (spBLEU).
    """
    detokenize: bool = False
    """Detokenise outputs and references by sacremoses first, for text that is tokenised, as TED-59 is."""
    identifier: IdentifierName = "py3langid"
    """What tells the language of a translation: py3langid, langid (the paper's for TED-59), langdetect (the paper's for
    OPUS-100; slow), pycld2, or a profile learnt from the training text (for languages that no tool knows, and for very
    short text)."""
    restrict: bool = True
    """Let the identifier choose among the languages of the data; false among all that it knows, as in the paper."""
    merge_variants: bool = True
    """Count Bosnian, Croatian and Serbian as one language when it is told, and both forms of Norwegian; false tells
    them apart, as the paper does. Regions and scripts, as in zh-cn and pt-br, never count."""

    @property
    def most_zero_shot(self) -> int | None:
        """The most test sentences of a direction that was never trained on."""
        return self.max_zero_shot_sentences or self.max_sentences

    @property
    def measure(self) -> Measure:
        """How translations are compared with references."""
        return Measure(self.tokenizer, self.detokenize)


def identifier_of(settings: EvaluationSettings, dataset: Dataset) -> Identifier:
    """The identifier that the settings ask for."""
    return load_identifier(
        settings.identifier,
        dataset.languages,
        partial(dataset.sentences, Split.TRAIN),
        restrict=settings.restrict,
        merge_variants=settings.merge_variants,
    )


@dataclass(frozen=True)
class Evaluator:
    """Scores the outputs of an evaluation set."""

    identifier: Identifier
    settings: EvaluationSettings
    decoding: DecodingSettings
    """The search that produced the outputs, recorded in the results."""
    pivot: str | None = None
    """The pivot language of the data, by which the results are grouped."""

    def score(self, evaluation_set: EvaluationSet, outputs: Mapping[Direction, Sequence[str]]) -> Evaluation:
        """Compare outputs with the references and identify their languages."""
        rows, measure = evaluation_set.rows, self.settings.measure
        translated = {
            d: Translated(sources, outputs[d], [row[d.target] for row in rows[d]])
            for d, sources in evaluation_set.sources().items()
        }
        zero_shot = [d for d in rows if d in evaluation_set.zero_shot]
        scored = score_directions(translated, zero_shot, self.identifier, measure)
        examples = [
            Example(*direction, each.result.zero_shot, *texts)
            for direction, each in scored.items()
            for texts in zip(*translated[direction], each.identified, strict=True)
        ]
        results = [each.result for each in scored.values()]
        numbers = _row_numbers(evaluation_set)
        statistics = {d: each.statistics._replace(rows_N=np.array(numbers[d])) for d, each in scored.items()}
        return Evaluation(
            directions=results,
            examples=examples,
            identifier=self.identifier.name,
            chrf_signature=measure.chrf_signature(),
            pivot=self.pivot,
            settings={"decoding": self.decoding.model_dump(), "evaluation": self.settings.model_dump()},
            statistics=statistics,
            outputs_in=count_languages(results, statistics),
        )


def _row_numbers(evaluation_set: EvaluationSet) -> dict[Direction, list[int]]:
    """Number the rows across all directions; a row that several directions share is the same object in each."""
    found: dict[int, int] = {}
    return {d: [found.setdefault(id(row), len(found)) for row in rows] for d, rows in evaluation_set.rows.items()}


def select_sentences(
    rows: Sequence[Row], supervised: Sequence[Direction], zero_shot: Sequence[Direction], settings: EvaluationSettings
) -> EvaluationSet:
    """Select the rows of each direction; leave out directions without text, and refuse languages BLEU cannot score."""
    directions = [*supervised, *zero_shot]
    has = {
        code: np.array([code in row for row in rows], dtype=bool) for code in {code for d in directions for code in d}
    }
    found = {
        d: [rows[place] for place in _spread(np.flatnonzero(has[d.source] & has[d.target]).tolist(), most)]
        for those, most in ((supervised, settings.max_sentences), (zero_shot, settings.most_zero_shot))
        for d in those
    }
    empty = [direction for direction, test in found.items() if not test]
    if len(empty) == len(directions):
        raise CorpusError("There is no test text in any direction.")
    if empty:
        named = ", ".join(map(str, empty[:NAMED])) + (f" and {len(empty) - NAMED} more" if empty[NAMED:] else "")
        say(f"Left out, because there is no test text: {named}.")
    selected = {direction: test for direction, test in found.items() if test}
    settings.measure.check({direction.target for direction in selected})
    return EvaluationSet(selected, frozenset(zero_shot))


def _spread(places: Sequence[int], most: int | None) -> Sequence[int]:
    """So many of the rows, from all parts of the text alike: one that has several sources may be in their order."""
    if most is None or len(places) <= most:
        return places
    return [places[i * len(places) // most] for i in range(most)]
