"""The settings of a whole experiment, read from one YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from manyglot.batches.plan import BatchSettings
from manyglot.batches.prepare import Recipe
from manyglot.config.overrides import apply_override
from manyglot.config.settings import RESUMABLE, Settings, parse
from manyglot.config.yaml_file import read_yaml
from manyglot.corpus.cleaning import CleaningSettings
from manyglot.corpus.sources import CorpusSettings
from manyglot.decoding.beam import DecodingSettings
from manyglot.evaluation.evaluate import EvaluationSettings
from manyglot.evaluation.sample import ValidationSettings
from manyglot.files import StrPath
from manyglot.model.guidance import GuidanceList, check_tells_target
from manyglot.model.guidance.token import TokenSettings
from manyglot.model.settings import ModelSettings
from manyglot.training.loop import TrainingSettings
from manyglot.vocabulary.subwords import VocabularySettings


class Experiment(Settings):
    """An experiment: everything from the text to the scores."""

    data: Annotated[Path, RESUMABLE]
    """Folder of the prepared data: written by prepare, read by train and evaluate."""
    run: Annotated[Path, RESUMABLE]
    """Folder of this run: checkpoints, log, the trained model, results."""
    seed: int = Field(1, ge=0, lt=2**31)
    """Seed of the model's initial weights, of dropout and of the order of the data."""
    corpus: CorpusSettings
    """Where the text comes from."""
    cleaning: CleaningSettings = CleaningSettings()
    """Which sentences are left out."""
    vocabulary: VocabularySettings = VocabularySettings()
    """The subwords."""
    batches: BatchSettings = BatchSettings()
    """How sentences are drawn and put together."""
    model: ModelSettings = ModelSettings()
    """The Transformer."""
    guidance: Annotated[GuidanceList, AfterValidator(check_tells_target)] = (TokenSettings(),)
    """How the model is told its target language: a list of methods."""
    training: TrainingSettings = TrainingSettings()
    """How it learns."""
    validation: Annotated[ValidationSettings, RESUMABLE] = ValidationSettings()
    """What is measured meanwhile."""
    decoding: Annotated[DecodingSettings, RESUMABLE] = DecodingSettings()
    """How it translates."""
    evaluation: Annotated[EvaluationSettings, RESUMABLE] = EvaluationSettings()
    """How it is judged."""

    @property
    def recipe(self) -> Recipe:
        """The part that decides what the text becomes."""
        return Recipe(corpus=self.corpus, vocabulary=self.vocabulary, cleaning=self.cleaning)

    def resolved(self) -> dict[str, Any]:
        """All settings, defaults included, as plain values."""
        return self.model_dump(mode="json")


def read_experiment(path: StrPath, overrides: Iterable[str] = ()) -> Experiment:
    """Read a YAML file, apply `key=value` overrides to it, and check everything."""
    values = read_yaml(Path(path))
    for override in overrides:
        apply_override(values, override)
    return parse(Experiment, values)
