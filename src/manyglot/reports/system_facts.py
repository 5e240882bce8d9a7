"""The facts about model, data and training that the report shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from manyglot.batches.prepared_dataset import PreparedDataset
from manyglot.model.model_folder import TrainedModel
from manyglot.probing.language_representations import distinct_representations
from manyglot.reports.html_language_map import lower_triangle_similarities
from manyglot.reports.training_history import TrainingHistory

REPORTED_CURVES = ("nll", "dev_nll", "dev_bleu", "dev_chrf", "zero_shot_language_accuracy", "zero_shot_chrf")
"""Metrics of the training log whose curves a report shows."""
MAX_CURVE_POINTS = 200
"""Maximum number of points of a curve in a report."""


def describe_run(
    trained: TrainedModel, dataset: PreparedDataset, training_log: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Describe the model, its data and its training, with learning curves if there is a log of its run."""
    assert trained.folder is not None
    num_steps = trained.training_info.get("steps", math.inf)
    log = [line for line in training_log if line["step"] <= num_steps]
    history, parameters = TrainingHistory(log), trained.model.num_parameters_by_part()
    corpus = {name: value for name, value in trained.config.get("corpus", {}).items() if name != "license"}
    is_training_corpus = dataset.metadata["provenance"].get("corpus") == corpus
    num_sentences = {code: counts["sentences"] for code, counts in dataset.metadata["subwords"].items()}
    curves = {key: history.metric_curve(key).downsample(MAX_CURVE_POINTS) for key in REPORTED_CURVES}
    return {
        "model": str(trained.folder),
        "languages": list(trained.vocabulary.languages),
        "similarities": {
            representation.method: lower_triangle_similarities(representation.values)
            for representation in distinct_representations(trained, "")
        },
        "num_trained_directions": len(trained.trained_directions),
        "num_subwords": len(trained.vocabulary.subword_model),
        "num_parameters": sum(parameters.values()),
        "parameters": parameters,
        "training": {
            **trained.training_info,
            "target_tokens": history.num_target_tokens,
            "seconds": log[-1].get("seconds") if log else None,
        },
        "data": {
            "folder": str(dataset.folder),
            "rows": dataset.metadata["rows"],
            "sentences": num_sentences if is_training_corpus else {},
        },
        "curves": {key: [[float(n) for n in xy] for xy in zip(*curve, strict=True)] for key, curve in curves.items()},
        "config": trained.config,
    }
