"""The evaluation of a trained model: its translations of a test set, and their scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.checksums import file_sha256
from manyglot.config.base_settings import Settings, parse_settings
from manyglot.config.overrides import apply_override
from manyglot.corpus.base import Row, Split
from manyglot.corpus.language_selection import match_languages
from manyglot.corpus.languages import Direction
from manyglot.corpus.readers import read_test_rows
from manyglot.decoding.settings import DecodingSettings
from manyglot.decoding.translator import Translator
from manyglot.errors import LanguageError
from manyglot.evaluation.evaluator import (
    Evaluation,
    EvaluationSettings,
    Evaluator,
    load_configured_identifier,
    select_evaluation_set,
)
from manyglot.evaluation.test_set_translation import EvaluationSet
from manyglot.evaluation.translation_cache import json_digest
from manyglot.model.language_pack import PACK_NAME, load_with_packs
from manyglot.model.model_folder import MODEL_FILES, TrainedModel
from manyglot.progress import print_status


@dataclass(frozen=True)
class EvaluationRequest:
    """A model and the data to evaluate it on."""

    model_folder: Path
    """A model folder, a run folder or a checkpoint."""
    data: Path
    zero_shot: bool = False
    """Whether to evaluate the zero-shot directions too."""
    overrides: Sequence[str] = ()
    """Overrides of the model's `decoding` and `evaluation` settings, such as `decoding.beam_size=1`."""
    test: Path | None = None
    """A folder or file with test text that replaces the test split of the data."""
    packs: Sequence[Path] = ()
    """Language packs of the model."""


@dataclass(frozen=True)
class ModelTask:
    """Everything that an evaluation needs: the loaded model, data and settings."""

    request: EvaluationRequest
    trained: TrainedModel
    dataset: PreparedDataset
    translator: Translator
    evaluation_set: EvaluationSet
    evaluator: Evaluator

    @classmethod
    def load(cls, request: EvaluationRequest, device: torch.device) -> ModelTask:
        """Load the model and the test sentences; raise an error if they are incompatible."""
        trained, dataset = load_with_packs(request.model_folder, request.packs), PreparedDataset(request.data)
        model_codes = match_languages(dataset.languages, trained.vocabulary.languages, "the model's languages")
        unknown = [code for code in dataset.languages if code not in model_codes]
        if len(model_codes) < 2:
            raise LanguageError(
                f"The model does not know '{unknown[0]}', a language of {request.data}, and shares fewer than two "
                f"languages with this data. Choose data in the model's languages."
            )
        if unknown:
            print_status(f"The model does not know {', '.join(unknown)}. Directions from and into them are left out.")
        values = {key: dict(trained.config.get(key) or {}) for key in ("decoding", "evaluation")}
        for override in request.overrides:
            apply_override(values, override)
        settings = parse_settings(_EvaluationTimeSettings, values)
        directions = [direction for direction in dataset.all_directions if model_codes.keys() >= set(direction)]
        trained_directions = set(trained.trained_directions)
        train_directions = {
            d for d in directions if Direction(model_codes[d.source], model_codes[d.target]) in trained_directions
        }
        if request.test is None:
            rows: Sequence[Row] = dataset.rows(Split.TEST)
        else:
            rows = read_test_rows(request.test, dataset.languages)
            directions = _directions_with_text(directions, rows)
        supervised = [d for d in directions if d in train_directions]
        zero_shot = [d for d in directions if d not in train_directions] if request.zero_shot else []
        evaluation_set = replace(
            select_evaluation_set(rows, supervised, zero_shot, settings.evaluation), model_codes=model_codes
        )
        translator = Translator.from_trained_model(trained, settings.decoding, device)
        translator = translator.with_text_options(split="never", warn=False)  # a test sentence is translated as it is
        identifier = load_configured_identifier(settings.evaluation, dataset.languages, dataset)
        evaluator = Evaluator(identifier, settings.evaluation, settings.decoding, dataset.central_language)
        return cls(request, trained, dataset, translator, evaluation_set, evaluator)

    def score(self, outputs: Mapping[Direction, Sequence[str]]) -> Evaluation:
        """Score the translations; the result records which step of the training was evaluated."""
        return replace(self.evaluator.score(self.evaluation_set, outputs), training=self.trained.training_info)

    def provenance(self) -> dict[str, Any]:
        """Return everything that the outputs depend on: model checksums, decoding settings and sentences."""
        assert self.trained.folder is not None
        assert self.evaluator.decoding is not None
        files = [path for name in MODEL_FILES if (path := self.trained.folder / name).exists()]
        sources = [[*direction, texts] for direction, texts in self.evaluation_set.source_texts().items()]
        packs = {f"{path.name}/{PACK_NAME}": file_sha256(path / PACK_NAME) for path in self.trained.pack_folders}
        return {
            "model": {path.name: file_sha256(path) for path in files} | packs,
            "decoding": self.evaluator.decoding.model_dump(mode="json"),
            "sentences": json_digest(sources),
        }


def _directions_with_text(directions: Iterable[Direction], rows: Sequence[Mapping[str, str]]) -> list[Direction]:
    """Return the directions whose two languages have text; report the languages without text."""
    with_text = {code for row in rows for code in row}
    missing = {code for direction in directions for code in direction} - with_text
    if missing:
        print_status(f"There is no test text in {', '.join(sorted(missing))}.")
    return [direction for direction in directions if with_text.issuperset(direction)]


class _EvaluationTimeSettings(Settings):
    """The settings of a trained model that apply at evaluation time."""

    decoding: DecodingSettings = DecodingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
