"""Translations that any system has made, joined with a test set and scored as those of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.checksums import find_altered_file
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.config.overrides import apply_override
from manyglot.corpus.base import Row, Split
from manyglot.corpus.languages import Direction, Languages, english_language_name
from manyglot.corpus.readers import read_test_rows
from manyglot.decoding.settings import DecodingSettings
from manyglot.errors import FolderError, LanguageError
from manyglot.evaluation.evaluator import (
    Evaluation,
    EvaluationSettings,
    Evaluator,
    load_configured_identifier,
    select_evaluation_set,
)
from manyglot.evaluation.hypotheses import Hypotheses, describe_files, is_result_folder, read_hypotheses
from manyglot.evaluation.hypothesis_alignment import AlignedLines, TestRows, align_outputs
from manyglot.evaluation.results import DirectionResult, format_directions
from manyglot.evaluation.scored_system import FileOrigin, ScoredSystem
from manyglot.evaluation.segment_scores import JoinedScores, MetricFiles, add_segment_scores, join_segment_scores
from manyglot.evaluation.test_set_translation import EvaluationSet
from manyglot.evaluation.trained_directions import find_trained_directions
from manyglot.evaluation.translation_examples import TRANSLATIONS_FILE
from manyglot.files import StrPath
from manyglot.progress import print_status

MAX_WARNINGS = 5
"""Maximum number of directions with outputs in a wrong language that are named one by one."""


@dataclass(frozen=True)
class ScoreOptions:
    """What the files do not say about a system."""

    name: str | None = None
    source: str | None = None
    target: str | None = None
    trained_directions: StrPath | Sequence[str] | None = None
    central_language: str | None = None
    metrics: Sequence[MetricFiles] = ()
    overrides: Sequence[str] = ()


@dataclass(frozen=True)
class _TestSet:
    """The text of a test set: prepared data, or a folder of test files."""

    path: Path
    rows: TestRows
    dataset: PreparedDataset | None

    @classmethod
    def load(cls, path: Path) -> _TestSet:
        if (path / "dataset.json").exists():
            dataset = PreparedDataset(path)
            return cls(path, TestRows(dataset.rows(Split.TEST), dataset.languages), dataset)
        if not path.exists():
            raise FolderError(f"--test: {path} does not exist. Give a folder of test text, or prepared data.")
        rows: Sequence[Row] = read_test_rows(path, None)
        return cls(path, TestRows(rows, Languages({code for row in rows for code in row})), None)


@dataclass(frozen=True)
class ScoreTask:
    """Translations that are joined with the test set, and the settings of their evaluation."""

    test: _TestSet
    evaluation_set: EvaluationSet
    outputs: Mapping[Direction, AlignedLines]
    evaluator: Evaluator
    system: ScoredSystem
    training: Mapping[str, Any]
    """The training step of a model of manyglot whose results are scored again."""
    metrics: Mapping[str, JoinedScores]
    is_rescored: bool
    """Whether these are results of manyglot that are scored again."""

    @classmethod
    def load(cls, path: Path, test_path: Path, options: ScoreOptions, name: str | None) -> ScoreTask:
        """Read test set and hypotheses; raise an error if they do not fit together."""
        test = _TestSet.load(test_path)
        languages = test.rows.languages
        earlier = _load_earlier_results(path, options) if is_result_folder(path) else None
        hypotheses = read_hypotheses(path, languages, options.source, options.target)
        for line in describe_files(hypotheses, path):
            print_status(line)
        settings = _parse_settings(options.overrides, earlier)
        trained, central_language = _find_supervision(options, test, earlier)
        directions = _directions_of(hypotheses, test.rows)
        evaluation_set = select_evaluation_set(
            test.rows.rows,
            [d for d in directions if trained is None or d in trained],
            [d for d in directions if trained is not None and d not in trained],
            settings.evaluation,
        )
        evaluation_set = replace(evaluation_set, is_supervision_known=trained is not None)
        outputs = align_outputs(test.rows, evaluation_set, hypotheses)
        texts = {direction: aligned.texts() for direction, aligned in outputs.items()} if options.metrics else {}
        metrics = {m.name: join_segment_scores(m, test.rows, evaluation_set, texts) for m in options.metrics}
        identifier = load_configured_identifier(settings.evaluation, languages, test.dataset)
        evaluator = Evaluator(identifier, settings.evaluation, settings.decoding, central_language)
        system = ScoredSystem(name or path.resolve().stem, FileOrigin.of(path, hypotheses.files))
        training = earlier.training if earlier else {}
        return cls(test, evaluation_set, outputs, evaluator, system, training, metrics, earlier is not None)

    def score(self) -> Evaluation:
        """Score the translations; warn about files of another system in a wrong language."""
        outputs = {direction: aligned.packed_texts() for direction, aligned in self.outputs.items()}
        evaluation = replace(
            self.evaluator.score(self.evaluation_set, outputs), system=self.system, training=self.training
        )
        if not self.is_rescored:
            _warn_of_wrong_languages(evaluation.directions, self.outputs)
        return add_segment_scores(evaluation, self.metrics)


def _directions_of(hypotheses: Hypotheses, test: TestRows) -> list[Direction]:
    """Return the directions that have translations and test text; report the others."""
    with_text = test.directions()
    if absent := sorted(hypotheses.outputs.keys() - set(with_text)):
        raise LanguageError(
            f"The test set has no sentences in both languages of {format_directions(absent)}, but "
            f"{hypotheses.outputs[absent[0]].path} has. Remove the translations, or give another test set."
        )
    directions = [d for d in with_text if d in hypotheses.outputs or d.target in hypotheses.outputs_by_target]
    translated = set(directions)
    for direction, lines in (hypotheses.sources | hypotheses.references).items():
        if direction not in translated:
            raise LanguageError(
                f"{lines.path} has text of {direction}, but no file has its translations. Name translations by "
                f"direction, such as {direction.source}-{direction.target}.txt."
            )
    if num_missing := len(with_text) - len(directions):
        missing = format_directions([d for d in with_text if d not in translated])
        print_status(f"There are no translations in {num_missing:,} of {len(with_text):,} directions: {missing}.")
    return directions


def _load_earlier_results(folder: Path, options: ScoreOptions) -> Evaluation:
    """Load the results whose translations are scored again; raise an error if the translations have changed."""
    earlier = Evaluation.load(folder)
    seal = earlier.seals.get(TRANSLATIONS_FILE)
    if seal is None or find_altered_file(folder, {TRANSLATIONS_FILE: seal}):
        raise FolderError(
            f"{folder / TRANSLATIONS_FILE} has changed since the evaluation. To score it nevertheless, copy it to "
            f"another folder."
        )
    if dropped := earlier.metrics.keys() - {metric.name for metric in options.metrics}:
        print_status(f"The scores of {', '.join(sorted(dropped))} are not copied. Give them with --metric.")
    return earlier


class _ScoreSettings(Settings):
    """The settings that apply to translations that were made elsewhere."""

    evaluation: EvaluationSettings = EvaluationSettings()


class _RescoreSettings(_ScoreSettings):
    """The settings of an evaluation whose translations are scored again."""

    decoding: DecodingSettings | None = None


def _parse_settings(overrides: Sequence[str], earlier: Evaluation | None) -> _RescoreSettings:
    """Apply overrides to the evaluation settings: those of earlier results, or the defaults."""
    stored = earlier.settings if earlier else {}
    values = {"evaluation": dict(stored.get("evaluation") or {})}
    for override in overrides:
        apply_override(values, override)
    evaluation = parse_settings(_ScoreSettings, values).evaluation
    decoding = stored.get("decoding")
    parsed = parse_settings(_RescoreSettings, {"decoding": decoding}) if decoding else _RescoreSettings()
    return parsed.model_copy(update={"evaluation": evaluation})


def _find_supervision(
    options: ScoreOptions, test: _TestSet, earlier: Evaluation | None
) -> tuple[set[Direction] | None, str | None]:
    """Return the directions that the system was trained on, or None if they are unknown, and the central language."""
    languages, given = test.rows.languages, options.trained_directions
    central = languages.find_code(options.central_language) if options.central_language else None
    trained = find_trained_directions(given, central, languages, test.rows.directions())
    if (
        given is None
        and central is None
        and earlier is not None
        and all(d.zero_shot is not None for d in earlier.directions)
    ):
        trained = {d.direction for d in earlier.directions if not d.zero_shot}
    if central is None:
        central = earlier.central_language if earlier else test.dataset.central_language if test.dataset else None
    return trained, central


def _warn_of_wrong_languages(results: Sequence[DirectionResult], outputs: Mapping[Direction, AlignedLines]) -> None:
    """Name the files most of whose lines are in one wrong language: they may have the wrong name."""
    wrong = [
        d
        for d in results
        if d.top_off_target_rate > 50 and (d.reference_language_accuracy or 0) > 50 and d.num_sentences > 1
    ]
    for d in wrong[:MAX_WARNINGS]:
        language, path = english_language_name(str(d.top_off_target_language)), outputs[d.direction].lines.path
        print_status(
            f"Warning: {d.top_off_target_rate:.0f}% of the outputs of {d.direction} are in {language}. "
            f"Is {path} the right file?"
        )
    if len(wrong) > MAX_WARNINGS:
        print_status(f"Warning: so are most outputs of {len(wrong) - MAX_WARNINGS:,} more directions.")
