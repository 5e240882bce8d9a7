"""Finds the evaluation of a model in its run folder, for the model card."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from manyglot.errors import FolderError
from manyglot.evaluation.results import Evaluation
from manyglot.model.model_card import GroupScore
from manyglot.model.model_folder import TrainedModel
from manyglot.model.run_models import run_folder_of
from manyglot.model.run_paths import is_run_folder

SCORES = ("num_directions", "bleu", "chrf", "language_accuracy")
"""The averages that a model card shows, in the order of the fields of `GroupScore`."""


def find_scores(trained: TrainedModel, targets: Collection[str] = ()) -> list[GroupScore]:
    """Return the scores of the newest evaluation of this step in a folder of its run; none if there is no evaluation.

    With `targets`, only directions into these languages count.
    """
    run = None if trained.folder is None else run_folder_of(trained.folder)
    if run is None or not is_run_folder(run):
        return []
    for path in sorted(run.glob("*/results.json"), key=lambda path: -path.stat().st_mtime):
        try:
            evaluation = Evaluation.load(path)
        except FolderError:
            continue
        directions = [d for d in evaluation.directions if not targets or d.target in targets]
        if evaluation.system is None and dict(evaluation.training) == dict(trained.training_info) and directions:
            averages = replace(evaluation, directions=directions).averages()
            return [
                GroupScore(str(group).replace("_", " "), *(mean[name] for name in SCORES))
                for group, mean in averages.items()
            ]
    return []
