"""Targets that are folders of results: runs, which are resumed and loaded, and evaluations, which are compared."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.errors import ManyglotError
from manyglot.evaluation.results import Evaluation
from manyglot.model.run_models import load_any_model
from manyglot.reports.run_summary import RunSummary
from manyglot.reports.training_history import TrainingHistory
from manyglot.training.training_log import read_log
from tests.fuzz.cases import Outcome, differing_parts
from tests.fuzz.folder_mutations import mutate_folder
from tests.fuzz.sealed_targets import digest


def attempt(function: Callable[[], Any]) -> Any:
    """Return the result of a command, or the error with which it refuses."""
    try:
        return function()
    except ManyglotError as error:
        return error


@dataclass(frozen=True)
class RunTarget:
    """An unfinished run. Whatever is damaged, resuming it ends with the undamaged weights or is refused."""

    experiment: Experiment
    """The experiment of the run, with the folder of its data."""
    name: str = "run"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Load the best checkpoint, read the log as `plot` and `report` do, resume, and load the finished model."""
        outcome = {
            "checkpoint": attempt(lambda: _weights(folder)),
            "log": attempt(lambda: _log_summary(folder / "log.jsonl")),
        }
        experiment = self.experiment.model_copy(update={"run": folder})
        outcome["resumed"] = attempt(lambda: _resume(experiment))
        outcome["log after resuming"] = attempt(lambda: _log_summary(folder / "log.jsonl"))
        return outcome

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Weights must be those of a checkpoint; a damaged log must not make them unusable."""
        wrong = [name for name in ("checkpoint", "resumed") if _differs(undamaged, outcome, name)]
        if "checkpoint" in wrong and "step-" in description and outcome["checkpoint"][0] in (4, 6):
            wrong.remove("checkpoint")  # a damaged checkpoint is skipped with a message
        if description.startswith("log.jsonl") and ";" not in description:
            wrong += [name for name in ("checkpoint",) if isinstance(outcome[name], ManyglotError)]
        return f"other or no {', '.join(wrong)}" if wrong else ""


def _differs(undamaged: Outcome, outcome: Outcome, name: str) -> bool:
    return not isinstance(outcome[name], ManyglotError) and outcome[name] != undamaged[name]


def _weights(folder: Path) -> tuple[Any, str]:
    trained = load_any_model(folder)
    return trained.training_info.get("step"), digest(*trained.model.state_dict().values())


def _log_summary(path: Path) -> str:
    log = read_log(path)
    history = TrainingHistory(log, by_tokens=True)
    for name in history.validation_metric_names:
        history.metric_curve(name)
    return digest(RunSummary.from_log(log), history.nll_by_target.keys())


def _resume(experiment: Experiment) -> Any:
    return _weights(Path(manyglot.train(experiment)))[1]


@dataclass(frozen=True)
class ResultsTarget:
    """The output folder of `evaluate`, which `compare` and `report` read."""

    name: str = "results"

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Compare the results with a copy of themselves, and write the report."""
        report = folder.with_name("report.html")
        outcome = {
            "scores": attempt(lambda: digest(Evaluation.load(folder).to_dict())),
            "comparison": attempt(lambda: digest(repr(manyglot.compare([folder], num_bootstrap_samples=0)))),
            "statistics": attempt(lambda: digest(*_statistics(folder))),
            "report": attempt(lambda: digest(Path(manyglot.report(folder, report).path).read_text("utf-8"))),
        }
        report.unlink(missing_ok=True)
        return outcome

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """Scores, statistics and translations must be the undamaged ones; about.json may be edited or deleted."""
        wrong = [name for name in differing_parts(undamaged, outcome) if not isinstance(outcome[name], ManyglotError)]
        if "about.json" in description or not (folder / "translations.jsonl").exists():
            wrong = [name for name in wrong if name != "report"]
        if not (folder / "statistics.npz").exists():
            wrong = [name for name in wrong if name not in ("statistics", "report")]
        return f"other {', '.join(wrong)}" if wrong else ""


def _statistics(folder: Path) -> list[Any]:
    statistics = Evaluation.load(folder).statistics
    return [value for each in statistics.values() for value in (*each, each.sentence_chrf())]
