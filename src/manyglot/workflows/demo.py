"""`manyglot demo`: prepare, train and evaluate on the built-in phrasebook, in minutes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from manyglot.argument_types import checks_argument_types
from manyglot.config.experiment import Experiment, read_experiment
from manyglot.errors import FolderError, SettingsError
from manyglot.evaluation.evaluator import Evaluation
from manyglot.evaluation.model_task import EvaluationRequest
from manyglot.files import StrPath, is_empty_folder
from manyglot.reports.result_folder import write_results_and_report
from manyglot.workflows.evaluate import evaluate_in_memory
from manyglot.workflows.prepare import prepare
from manyglot.workflows.train import train

TOKEN_BASELINE = ("guidance=[{method: token, side: source}]", "training.alignment=null")
"""Overrides for the baseline, which learns its target language from a token before the source sentence."""


@dataclass(frozen=True)
class DemoResult:
    """The scores of the demo's model and, if it was trained, of the token baseline."""

    evaluation: Evaluation
    report: Path
    baseline: Evaluation | None = None


@checks_argument_types
def demo(output: StrPath = "demo-run", overrides: Iterable[str] = (), *, compare: bool = False) -> DemoResult:
    """Prepare, train and evaluate with the built-in corpus. An interrupted demo resumes where it stopped.

    With `compare`, the token baseline is trained and evaluated on the same data too.
    """
    output = Path(output)
    if output.exists() and not is_empty_folder(output) and not (output / "data").is_dir():
        raise FolderError(f"{output} exists and is not a demo folder. Choose another --output.")
    overrides = list(overrides)
    if moved := [override for override in overrides if override.partition("=")[0] in ("data", "run")]:
        raise SettingsError(f"--set {moved[0]}: the demo keeps all its folders below --output. Set --output instead.")
    evaluation, report = _train_and_evaluate(_read_demo(output, output / "run", overrides), output)
    if not compare:
        return DemoResult(evaluation, report)
    folder = output / "token-baseline"
    baseline, _ = _train_and_evaluate(_read_demo(output, folder / "run", [*overrides, *TOKEN_BASELINE]), folder)
    return DemoResult(evaluation, report, baseline)


def _read_demo(output: Path, run: Path, overrides: Iterable[str]) -> Experiment:
    config = Path(__file__).with_name("demo.yaml")
    return read_experiment(config, overrides).model_copy(update={"data": output / "data", "run": run})


def _train_and_evaluate(experiment: Experiment, output: Path) -> tuple[Evaluation, Path]:
    """Return the scores of an experiment and the path of its report."""
    prepare(experiment)
    model_folder = train(experiment).model_folder
    evaluation, system_facts = evaluate_in_memory(EvaluationRequest(model_folder, experiment.data, zero_shot=True))
    return evaluation, write_results_and_report(output, "manyglot demo: a phrasebook", evaluation, system_facts)
