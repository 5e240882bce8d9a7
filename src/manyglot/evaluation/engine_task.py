"""The evaluation without prepared data: of a command line, an export for CTranslate2, or an imported model.

What such an engine was trained on is unknown unless the user states it, as for the translations of other systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.config.overrides import apply_override
from manyglot.corpus.base import Row, Split
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import Direction, Languages
from manyglot.corpus.readers import read_test_rows
from manyglot.decoding.ctranslate2.manifest import MANIFEST_NAME
from manyglot.decoding.loading import load
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import LanguageError, SettingsError
from manyglot.evaluation.command_engine import CommandEngine
from manyglot.evaluation.evaluator import (
    Evaluation,
    EvaluationSettings,
    Evaluator,
    load_configured_identifier,
    select_evaluation_set,
)
from manyglot.evaluation.hypothesis_alignment import TestRows
from manyglot.evaluation.results import format_directions
from manyglot.evaluation.scored_system import FileOrigin, ScoredSystem
from manyglot.evaluation.test_set_translation import EvaluationSet, translate_evaluation_set
from manyglot.evaluation.trained_directions import find_trained_directions, parse_directions
from manyglot.evaluation.translation_cache import TranslationCache, json_digest
from manyglot.files import StrPath
from manyglot.model.model_folder import is_model_folder
from manyglot.model.model_seals import FORMAT_NAME
from manyglot.progress import print_status


@dataclass(frozen=True)
class EngineRequest:
    """An engine and the test set to evaluate it on."""

    engine: CommandEngine | Path
    """A command, or the folder of an export or a model."""
    data: Path | None = None
    """Prepared data whose test split is translated, unless there is a test folder."""
    test_path: Path | None = None
    zero_shot: bool = False
    """Whether to evaluate all zero-shot directions too, if it is known which these are."""
    overrides: Sequence[str] = ()
    trained_directions: StrPath | Sequence[str] | None = None
    central_language: str | None = None
    directions: Sequence[str] | None = None
    """The directions to evaluate, such as de>en; None evaluates all."""
    packs: Sequence[Path] = ()
    """Language packs of a model."""

    def test_rows(self) -> tuple[TestRows, PreparedDataset | None]:
        """Read the test set."""
        dataset = None if self.data is None else PreparedDataset(self.data)
        if self.test_path is not None:
            rows: Sequence[Row] = read_test_rows(self.test_path, dataset.languages if dataset else None)
            codes = dataset.languages if dataset else Languages({code for row in rows for code in row})
            return TestRows(rows, codes), dataset
        if dataset is None:
            raise SettingsError("There is no test set. Give --data with prepared data, or --test.")
        return TestRows(dataset.rows(Split.TEST), dataset.languages), dataset


class _EngineSettings(Settings):
    """The settings of an evaluation without a model folder."""

    evaluation: EvaluationSettings = EvaluationSettings()


class _ExportSettings(_EngineSettings):
    """The settings of the evaluation of an export."""

    decoding: DecodingSettings = DecodingSettings()


@dataclass(frozen=True)
class EngineTask:
    """Everything that the evaluation of an engine needs."""

    request: EngineRequest
    engine: CommandEngine | Translator
    evaluation_set: EvaluationSet
    evaluator: Evaluator

    @classmethod
    def load(cls, request: EngineRequest) -> EngineTask:
        """Open the engine and read the test sentences; raise an error if they are incompatible."""
        test, dataset = request.test_rows()
        if isinstance(request.engine, CommandEngine):
            if request.packs:
                raise SettingsError("--pack needs a model. A command has none.")
            engine: CommandEngine | Translator = request.engine
        else:
            engine = load(request.engine, packs=request.packs)
        stored = engine.settings.model_dump() if isinstance(engine, Translator) else None
        settings = _parse_settings(request.overrides, stored)
        directions = test.directions()
        model_codes: dict[str, str] = {}
        if isinstance(engine, Translator):
            model_codes = _match_export_languages(engine, test.languages)
            directions = _exported_directions(engine, model_codes, test)
        directions = _select_directions(directions, request.directions, test.languages)
        central = test.languages.find_code(request.central_language) if request.central_language else None
        trained = find_trained_directions(request.trained_directions, central, test.languages, directions)
        supervised = [d for d in directions if trained is None or d in trained]
        untrained = [d for d in directions if trained is not None and d not in trained]
        zero_shot = untrained if request.zero_shot or request.directions else []
        evaluation_set = select_evaluation_set(test.rows, supervised, zero_shot, settings.evaluation)
        evaluation_set = replace(evaluation_set, is_supervision_known=trained is not None, model_codes=model_codes)
        if isinstance(engine, CommandEngine):
            engine = engine.check(evaluation_set.rows_by_direction, test.languages)
        elif isinstance(settings, _ExportSettings):
            changes = settings.decoding.model_dump()
            engine = engine.with_settings(**changes).with_text_options(split="never", warn=False)
        identifier = load_configured_identifier(settings.evaluation, test.languages, dataset)
        decoding = settings.decoding if isinstance(settings, _ExportSettings) else None
        central = central or (dataset.central_language if dataset else None)
        return cls(request, engine, evaluation_set, Evaluator(identifier, settings.evaluation, decoding, central))

    @property
    def description(self) -> str:
        """The command, or the folder of the export."""
        return self.engine.command if isinstance(self.engine, CommandEngine) else str(self.request.engine)

    @property
    def name(self) -> str:
        """The name of the engine: its program or folder."""
        if isinstance(self.engine, CommandEngine):
            return Path(self.engine.arguments[0]).name
        assert isinstance(self.request.engine, Path)
        return self.request.engine.resolve().name

    def translate(self, cache: TranslationCache | None = None) -> dict[Direction, list[str]]:
        """Translate all directions that are not cached."""
        if isinstance(self.engine, CommandEngine):
            return self.engine.translate(self.evaluation_set, cache)
        return translate_evaluation_set(self.engine, self.evaluation_set, cache)

    def score(self, outputs: Mapping[Direction, Sequence[str]], name: str) -> Evaluation:
        """Score the translations under a name."""
        system = ScoredSystem(name, FileOrigin.of_engine(self.description, outputs))
        return replace(self.evaluator.score(self.evaluation_set, outputs), system=system)

    def provenance(self) -> dict[str, Any]:
        """Return everything that the outputs depend on: the engine, its settings and the sentences."""
        sources = [[*direction, texts] for direction, texts in self.evaluation_set.source_texts().items()]
        return {**self._engine_facts(), "sentences": json_digest(sources)}

    def facts(self) -> dict[str, Any]:
        """Return the facts about the engine and the test set that are stored with the results."""
        test = self.request.test_path or self.request.data
        return {"engine": self._engine_facts(), "test": {"folder": str(test), "leaks": None}}

    def _engine_facts(self) -> dict[str, Any]:
        if isinstance(self.engine, CommandEngine):
            return self.engine.provenance()
        folder = Path(self.description)
        kind, names = (
            ("model", [FORMAT_NAME]) if is_model_folder(folder) else ("export", [MANIFEST_NAME, f"*/{MANIFEST_NAME}"])
        )
        origin = FileOrigin.of(folder, sorted({path for name in names for path in folder.glob(name)}))  # they seal all
        assert self.evaluator.decoding is not None
        return {
            kind: origin.path,
            "sha256": origin.sha256,
            "decoding": self.evaluator.decoding.model_dump(mode="json"),
        }


def _parse_settings(overrides: Sequence[str], decoding: Mapping[str, Any] | None) -> _EngineSettings:
    """Apply overrides to the default evaluation settings and to the decoding settings of an export."""
    values: dict[str, Any] = {"evaluation": {}} if decoding is None else {"evaluation": {}, "decoding": dict(decoding)}
    for override in overrides:
        apply_override(values, override)
    return parse_settings(_EngineSettings if decoding is None else _ExportSettings, values)


def _select_directions(
    available: Sequence[Direction], listed: Sequence[str] | None, languages: Languages
) -> list[Direction]:
    """Return the listed directions, or all available ones; raise an error if one is not available."""
    if listed is None:
        return list(available)
    selected = parse_directions(listed, languages, "--directions")
    if missing := sorted(selected - set(available)):
        raise LanguageError(f"--directions: {format_directions(missing)} cannot be evaluated. Omit them.")
    return [direction for direction in available if direction in selected]


def _exported_directions(translator: Translator, model_codes: Mapping[str, str], test: TestRows) -> list[Direction]:
    """Return the directions with test text into the exported languages; report the others."""
    directions = test.directions()
    if missing := [d for d in directions if model_codes[d.target] not in translator.languages]:
        print_status(
            f"Skipping directions into languages that it does not translate into: {format_directions(missing)}."
        )
    return [d for d in directions if model_codes[d.target] in translator.languages]


def _match_export_languages(translator: Translator, languages: Languages) -> dict[str, str]:
    """Return the model's codes of the languages of the test set; raise an error if it does not know one."""
    model_codes = match_languages(languages, translator.engine.languages, "the model's languages")
    for code in languages:
        if code not in model_codes:
            raise LanguageError(
                f"The model does not know '{code}', a language of the test set. Choose a test set in its languages."
            )
    return model_codes
