"""Finds the evaluation of a model in or beside its run folder, for the model card."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from manyglot.errors import FolderError
from manyglot.evaluation.results import DirectionGroup, Evaluation
from manyglot.model.model_card import GroupScore
from manyglot.model.model_folder import TrainedModel
from manyglot.model.run_models import run_folder_of
from manyglot.model.run_paths import is_run_folder

GROUPS = (DirectionGroup.SUPERVISED, DirectionGroup.ZERO_SHOT, DirectionGroup.ALL)
"""The groups of directions that a model card shows."""
SCORES = ("num_directions", "bleu", "chrf", "language_accuracy")
"""The averages that a model card shows, in the order of the fields of `GroupScore`."""


def find_scores(trained: TrainedModel, targets: Collection[str] = ()) -> list[GroupScore]:
    """Return the scores of the newest evaluation of this step in a folder of its run, or beside the run.

    With `targets`, only directions into these languages count.
    """
    run = None if trained.folder is None else run_folder_of(trained.folder)
    if run is None or not is_run_folder(run):
        return []
    paths = [*run.glob("*/results.json"), *run.glob("../results.json")]
    for path in sorted(paths, key=lambda path: -path.stat().st_mtime):
        try:
            evaluation = Evaluation.load(path)
        except FolderError:
            continue
        directions = [d for d in evaluation.directions if not targets or d.target in targets]
        if evaluation.system is None and dict(evaluation.training) == dict(trained.training_info) and directions:
            averages = replace(evaluation, directions=directions).averages()
            return [
                GroupScore(group.replace("_", "-"), *(averages[group][name] for name in SCORES))
                for group in GROUPS
                if group in averages
            ]
    return []
