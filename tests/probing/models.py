"""Small models whose tag embeddings encode synthetic features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from manyglot.config.base_settings import parse_settings
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Languages
from manyglot.model.guidance import parse_method_settings
from manyglot.model.model_folder import TrainedModel, load_model, save_model
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.probing.synthetic_families import make_families, vectors

CODES = [f"q{a}{b}" for a in "abc" for b in "abcde"]
VALUES = make_families(num_families=3, size=5, num_features=30, change=0.02)
Maker = Callable[..., Path]


@pytest.fixture
def make(trained: Experiment, tmp_path: Path) -> Maker:
    """Write a model with the given guidance whose tags encode the features of its languages."""

    def make_model(name: str, *guidance: dict[str, Any], codes: list[str] = CODES) -> Path:
        old = load_model(trained.run / "model")
        methods = [parse_method_settings(settings) for settings in guidance]
        vocabulary = Vocabulary(old.vocabulary.subword_model, Languages([*codes, "nl"]))
        sizes = parse_settings(type(trained.model), old.config["model"])
        model = Transformer(sizes, methods, len(vocabulary.subword_model), len(vocabulary.languages))
        rows = [model.dimensions.first_tag_id + vocabulary.languages.id(code) for code in codes]
        with torch.no_grad():
            model.embedding.weight[rows] = torch.tensor(vectors(VALUES[: len(codes)], 16), dtype=torch.float32)
        config = dict(old.config) | {"guidance": [settings.model_dump(mode="json") for settings in methods]}
        save_model(tmp_path / name / "model", TrainedModel(model, vocabulary, (), config))
        return tmp_path / name / "model"

    return make_model
