"""`manyglot demo`: prepare, train and evaluate on the built-in phrasebook, in minutes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from manyglot.config.experiment import read_experiment
from manyglot.errors import FolderError, SettingsError
from manyglot.evaluation.evaluator import Evaluation
from manyglot.files import StrPath, is_empty_folder
from manyglot.workflows.evaluate import EvaluationRequest, evaluate_in_memory, write_results_and_report
from manyglot.workflows.prepare import prepare
from manyglot.workflows.train import train


def demo(output: StrPath = "demo-run", overrides: Iterable[str] = ()) -> tuple[Evaluation, Path]:
    """Prepare, train and evaluate with the built-in corpus; return the scores and the path of the report.

    An interrupted demo resumes where it stopped.
    """
    output = Path(output)
    if output.exists() and not is_empty_folder(output) and not (output / "data").is_dir():
        raise FolderError(f"{output} exists and is not a demo folder. Choose another --output.")
    overrides = list(overrides)
    if moved := [override for override in overrides if override.partition("=")[0] in ("data", "run")]:
        raise SettingsError(f"--set {moved[0]}: the demo keeps all its folders below --output. Set --output instead.")
    config = Path(__file__).with_name("demo.yaml")
    experiment = read_experiment(config, overrides).model_copy(update={"data": output / "data", "run": output / "run"})
    prepare(experiment)
    model_folder = train(experiment)
    evaluation, model_card = evaluate_in_memory(EvaluationRequest(model_folder, experiment.data, zero_shot=True))
    return evaluation, write_results_and_report(output, "manyglot demo: a phrasebook", evaluation, model_card)
