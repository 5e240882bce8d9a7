"""The evaluator: selects the test sentences of many directions and scores their translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pydantic import Field

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import MAX_COUNT, Settings
from manyglot.corpus.base import Row, Split
from manyglot.corpus.languages import Direction, Languages
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import CorpusError, SettingsError
from manyglot.evaluation.direction_scoring import DirectionTexts, score_directions
from manyglot.evaluation.metrics import BleuChrfScorer, BleuTokenizerName
from manyglot.evaluation.results import DirectionResult as DirectionResult
from manyglot.evaluation.results import Evaluation as Evaluation
from manyglot.evaluation.results import count_output_languages, format_directions
from manyglot.evaluation.test_set_translation import EvaluationSet
from manyglot.evaluation.translation_examples import DirectionExamples, TranslationExamples
from manyglot.evaluation.translation_examples import TranslationExample as TranslationExample
from manyglot.langid.identifier import LanguageIdentifier
from manyglot.langid.loading import IdentifierName, load_identifier
from manyglot.progress import print_status


class EvaluationSettings(Settings):
    """What to translate, how to compare it with the references, and how to identify its language."""

    max_sentences_per_direction: int | None = Field(None, ge=1, le=MAX_COUNT)
    """Maximum number of test sentences per direction, spread evenly over the test set; null uses all."""
    max_sentences_per_zero_shot_direction: int | None = Field(None, ge=1, le=MAX_COUNT)
    """The same for zero-shot directions, of which there are many; null uses max_sentences_per_direction."""
    bleu_tokenizer: BleuTokenizerName = "auto"
    """Word tokenizer of BLEU: auto (zh for Chinese, ja-mecab for Japanese, else 13a, as in the paper for TED-59), mecab
    (auto with ko-mecab for Korean), 13a (for all languages, as in the paper for OPUS-100), or flores101 or flores200
    (spBLEU)."""
    detokenize: bool = False
    """Detokenize outputs and references with sacremoses before scoring. Use it for tokenized corpora such as TED-59."""
    language_identifier: IdentifierName = "auto"
    """Language identifier for LangAcc (language accuracy): py3langid, langid (as in the paper for TED-59), langdetect
    (slow; as in the paper for OPUS-100), pycld2, fasttext:PATH or profile. auto chooses the installed one that knows
    most languages of the data, py3langid among equals. fasttext:PATH is a fastText model, such as GlotLID. A profile
    learns character n-grams from the training text. It suits very short text and languages that no package knows."""
    restrict_to_data_languages: bool = True
    """Let the identifier choose only among the languages of the data. false allows all languages it knows, as in the
    paper."""
    merge_language_variants: bool = True
    """Treat Bosnian, Croatian and Serbian as one language for LangAcc, and likewise both forms of Norwegian. false
    separates them, as in the paper. Regions and scripts, as in zh-cn and pt-br, are always ignored."""

    @property
    def zero_shot_sentence_limit(self) -> int | None:
        """Maximum number of test sentences per zero-shot direction; None uses all."""
        return self.max_sentences_per_zero_shot_direction or self.max_sentences_per_direction

    @property
    def scorer(self) -> BleuChrfScorer:
        """The BLEU and chrF++ scorer that these settings describe."""
        return BleuChrfScorer(self.bleu_tokenizer, self.detokenize)


def load_configured_identifier(
    settings: EvaluationSettings, languages: Languages, dataset: PreparedDataset | None
) -> LanguageIdentifier:
    """Load the language identifier that the settings name; a profile learns from the training split of the dataset."""
    if settings.language_identifier == "profile" and dataset is None:
        raise SettingsError(
            "evaluation.language_identifier: a profile learns from the training text of prepared data, which the test "
            "set lacks. Use another identifier, or give prepared data."
        )
    return load_identifier(
        settings.language_identifier,
        languages,
        partial(dataset.sentences, Split.TRAIN) if dataset else None,
        restrict_to_data_languages=settings.restrict_to_data_languages,
        merge_language_variants=settings.merge_language_variants,
    )


@dataclass(frozen=True)
class Evaluator:
    """Scores the outputs of an evaluation set."""

    identifier: LanguageIdentifier
    settings: EvaluationSettings
    decoding: DecodingSettings | None = None
    """The decoding settings that produced the outputs, recorded in the results; None for another system."""
    central_language: str | None = None
    """The central language of the data, by which results are grouped."""

    def score(self, evaluation_set: EvaluationSet, outputs: Mapping[Direction, Sequence[str]]) -> Evaluation:
        """Score the outputs against the references and identify their languages."""
        rows_by_direction, scorer = evaluation_set.rows_by_direction, self.settings.scorer
        texts_by_direction = {
            d: DirectionTexts(sources, outputs[d], [row[d.target] for row in rows_by_direction[d]])
            for d, sources in evaluation_set.source_texts().items()
        }
        zero_shot_directions = (
            [d for d in rows_by_direction if d in evaluation_set.zero_shot_directions]
            if evaluation_set.is_supervision_known
            else None
        )
        scored = score_directions(texts_by_direction, zero_shot_directions, self.identifier, scorer)
        examples = TranslationExamples(
            DirectionExamples(d, each.result.zero_shot, *texts_by_direction[d], each.statistics.identified_languages_N)
            for d, each in scored.items()
        )
        results = [scored_direction.result for scored_direction in scored.values()]
        row_numbers = _row_numbers(evaluation_set)
        statistics = {
            d: scored_direction.statistics._replace(row_numbers_N=np.array(row_numbers[d]))
            for d, scored_direction in scored.items()
        }
        decoding = {} if self.decoding is None else {"decoding": self.decoding.model_dump()}
        return Evaluation(
            directions=results,
            examples=examples,
            identifier_signature=self.identifier.signature,
            chrf_signature=scorer.chrf_signature(),
            central_language=self.central_language,
            settings={**decoding, "evaluation": self.settings.model_dump()},
            statistics=statistics,
            output_language_counts=count_output_languages(results, statistics),
        )


def _row_numbers(evaluation_set: EvaluationSet) -> dict[Direction, list[int]]:
    """Number the rows across all directions. A row that several directions share is the same object in each of them."""
    numbers: dict[int, int] = {}
    return {
        d: [numbers.setdefault(id(row), len(numbers)) for row in rows]
        for d, rows in evaluation_set.rows_by_direction.items()
    }


def select_evaluation_set(
    rows: Sequence[Row],
    supervised_directions: Sequence[Direction],
    zero_shot_directions: Sequence[Direction],
    settings: EvaluationSettings,
) -> EvaluationSet:
    """Select the test rows of each direction, within the limits of the settings.

    Directions without test text are left out and reported. Raises an error if the BLEU tokenizer of a target language
    is not installed.
    """
    directions = [*supervised_directions, *zero_shot_directions]
    has_language = {
        code: np.array([code in row for row in rows], dtype=bool) for code in {code for d in directions for code in d}
    }
    limits = dict.fromkeys(supervised_directions, settings.max_sentences_per_direction)
    limits |= dict.fromkeys(zero_shot_directions, settings.zero_shot_sentence_limit)
    rows_by_direction = {
        d: [
            rows[i]
            for i in _pick_evenly(np.flatnonzero(has_language[d.source] & has_language[d.target]).tolist(), limit)
        ]
        for d, limit in limits.items()
    }
    empty = [direction for direction, test_rows in rows_by_direction.items() if not test_rows]
    if len(empty) == len(directions):
        raise CorpusError("There is no test text in any direction.")
    if empty:
        print_status(f"Skipping directions without test text: {format_directions(empty)}.")
    selected = {direction: test_rows for direction, test_rows in rows_by_direction.items() if test_rows}
    settings.scorer.check_tokenizers_installed({direction.target for direction in selected})
    return EvaluationSet(selected, frozenset(zero_shot_directions))


def _pick_evenly(indices: Sequence[int], max_rows: int | None) -> Sequence[int]:
    """Return at most `max_rows` indices, evenly spaced: a test set may list its text source by source."""
    if max_rows is None or len(indices) <= max_rows:
        return indices
    return [indices[i * len(indices) // max_rows] for i in range(max_rows)]
