"""Small models whose languages have learnt made-up features."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from manyglot.config.experiment import Experiment
from manyglot.config.settings import parse
from manyglot.corpus.languages import Languages
from manyglot.model.folder import TrainedModel, load_model, save_model
from manyglot.model.guidance import read_method
from manyglot.model.transformer import Transformer
from manyglot.vocabulary.vocabulary import Vocabulary
from tests.probing.families import grow, vectors

CODES = [f"q{a}{b}" for a in "abc" for b in "abcde"]
VALUES = grow(num_families=3, size=5, num_features=30, change=0.02)
Maker = Callable[..., Path]


@pytest.fixture
def make(trained: Experiment, tmp_path: Path) -> Maker:
    """Write a model of some languages that has learnt their features, with this guidance."""

    def make_model(name: str, *guidance: dict[str, Any], codes: list[str] = CODES) -> Path:
        old = load_model(trained.run / "model")
        methods = [read_method(each) for each in guidance]
        vocabulary = Vocabulary(old.vocabulary.subwords, Languages([*codes, "nl"]))
        sizes = parse(type(trained.model), old.config["model"])
        model = Transformer(sizes, methods, len(vocabulary.subwords), len(vocabulary.languages))
        rows = [model.dimensions.first_tag + vocabulary.languages.id(code) for code in codes]
        with torch.no_grad():
            model.embedding.weight[rows] = torch.tensor(vectors(VALUES[: len(codes)], 16), dtype=torch.float32)
        config = dict(old.config) | {"guidance": [each.model_dump(mode="json") for each in methods]}
        save_model(tmp_path / name / "model", TrainedModel(model, vocabulary, (), config))
        return tmp_path / name / "model"

    return make_model
