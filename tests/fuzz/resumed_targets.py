"""Targets that are the unfinished folders of an interrupted command. The resumed command must write the same files."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import manyglot
from manyglot.config.experiment import Experiment
from tests.fuzz.cases import Outcome, differing_parts
from tests.fuzz.folder_mutations import list_files, mutate_folder
from tests.fuzz.sealed_targets import digest


class _Interrupted(BaseException):
    """Ends a command as a killed process would."""


@dataclass(frozen=True)
class ResumedTarget:
    """A command that resumes from damaged intermediate files."""

    name: str
    last_step: str
    """The function whose call is the moment of the interruption."""
    run: Callable[[Path], object]
    """Runs the command; the folder of its output is given."""

    def write_unfinished(self, folder: Path) -> None:
        """Interrupt the command and leave its unfinished output in the folder."""
        folder.mkdir()
        try:
            with patch(self.last_step, side_effect=_Interrupted):
                self.run(folder / "output")
        except _Interrupted:
            return
        raise AssertionError(f"{self.last_step} is not called")

    def mutate(self, folder: Path, rng: random.Random) -> str:
        """Damage one or two files."""
        return mutate_folder(folder, rng)

    def use(self, folder: Path) -> Outcome:
        """Run the command again."""
        output = folder / "output"
        self.run(output)
        return {str(path.relative_to(output)): digest(path.read_bytes()) for path in list_files(output)}

    def explain(self, folder: Path, description: str, undamaged: Outcome, outcome: Outcome) -> str:
        """All files must be the same; a copy of a file under another name may stay."""
        changed = [name for name in differing_parts(undamaged, outcome) if name in undamaged]
        return f"other {', '.join(changed)}" if changed else ""


def resumed_targets(experiment: Experiment) -> list[ResumedTarget]:
    """Return an interrupted preparation and an interrupted evaluation."""

    def prepare(output: Path) -> None:
        manyglot.prepare(experiment.model_copy(update={"data": output}))

    def evaluate(output: Path) -> None:
        manyglot.evaluate(experiment.run / "model", experiment.data, output=output)

    return [
        ResumedTarget("resumed-prepare", "manyglot.batches.prepare_dataset.write_metadata", prepare),
        ResumedTarget("resumed-evaluate", "manyglot.workflows.evaluate.write_results_and_report", evaluate),
    ]
