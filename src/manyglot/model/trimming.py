"""Trims a model to some of its languages and subwords.

The trimmed model gives the same probabilities as the whole model with the logits of the other subwords and tags
masked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from manyglot.corpus.languages import Languages
from manyglot.model.meta_device import meta_device
from manyglot.model.model_folder import TrainedModel
from manyglot.model.transformer import Transformer
from manyglot.model.warm_start import language_parameters
from manyglot.vocabulary.trimming import TrimmedSubwords
from manyglot.vocabulary.vocabulary import Vocabulary

SCORE_KEYS = ("value", "measured_on")
"""Keys of the training information that hold scores of all languages, which the trimmed model does not have."""


def trim_model(trained: TrainedModel, codes: Collection[str], subwords: TrimmedSubwords, name: str) -> TrainedModel:
    """Return the model with some of its languages and subwords. `name` identifies the whole model."""
    old, languages = trained.vocabulary, Languages(codes)
    vocabulary = Vocabulary(subwords.model, languages)
    language_ids = [old.languages.id(code) for code in languages]
    rows = torch.tensor([*subwords.old_ids, *map(old.tag_id, language_ids)])
    weights = trained.model.state_dict()
    for parameter, dim, is_table in language_parameters(trained.model):
        weights[parameter] = weights[parameter].index_select(dim, rows if is_table else torch.tensor(language_ids))
    with meta_device():
        model = Transformer(trained.model.settings, trained.model.methods, len(subwords.model), len(languages))
    model.load_state_dict(weights, assign=True)
    config = dict(trained.config)
    if "vocabulary" in config:
        config["vocabulary"] = {**(config["vocabulary"] or {}), "size": len(subwords.model)}
    return replace(
        trained,
        model=model.eval(),
        vocabulary=vocabulary,
        trained_directions=tuple(d for d in trained.trained_directions if set(d) <= set(languages)),
        config=config,
        training_info=_training_info(trained, name),
        targets=None if trained.targets is None else tuple(code for code in trained.targets if code in languages),
        folder=None,
    )


def _training_info(trained: TrainedModel, name: str) -> dict[str, Any]:
    """Return the training information of the trimmed model."""
    kept = {key: value for key, value in trained.training_info.items() if key not in SCORE_KEYS}
    counts = {
        "num_languages": len(trained.vocabulary.languages),
        "num_subwords": len(trained.vocabulary.subword_model),
    }
    return kept | {"trimmed_from": {"model": name, **counts}}
