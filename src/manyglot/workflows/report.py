"""`manyglot report`: write the HTML report of a run, optionally compared with other runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from manyglot.argument_types import checks_argument_types
from manyglot.errors import SettingsError
from manyglot.evaluation.comparability import restrict_to_common_sentences, share_supervision
from manyglot.evaluation.direction_changes import DirectionChanges, find_direction_changes
from manyglot.evaluation.results import Evaluation
from manyglot.evaluation.run_specs import Folders, name_systems, parse_run_folders, to_run_specs
from manyglot.evaluation.system_comparison import load_systems
from manyglot.files import StrPath, report_unwritable
from manyglot.reports.direction_change_table import direction_change_parts
from manyglot.reports.displayable import DisplayPart, OutputFile
from manyglot.reports.html_report import load_report_run, restrict_report_run, write_html_report
from manyglot.reports.report_run import share_codes_of_first


class ReportResult(OutputFile):
    """An HTML report. It can be used as a path, and a notebook shows it."""

    def __init__(self, path: Path, changes: DirectionChanges | None = None, baseline_name: str = "") -> None:
        super().__init__(path)
        self.changes = changes
        """The changes since the baseline; None without a baseline."""
        self.baseline_name = baseline_name

    def change_parts(self) -> Iterator[DisplayPart]:
        """Yield a summary and tables of the changes, if there is a baseline."""
        if self.changes is not None:
            yield from direction_change_parts(self.changes, self.baseline_name)


@checks_argument_types
def report(
    runs: Folders,
    output: StrPath = "report.html",
    common_test_only: bool = False,
    baseline: StrPath | None = None,
) -> ReportResult:
    """Write the report of the first run, compared with the other runs, and return the HTML file.

    Runs are output folders of `evaluate`, or a dictionary of them by name. Text such as `ours=scores` works too. With
    `common_test_only`, the report shows only the test sentences that all runs share.

    The `baseline` is another output folder, for example of the model before fine-tuning. The report then names the
    directions in which the first run is significantly worse or better. It compares the directions that both have.
    The result has them as `changes.worse` and `changes.better`.
    """
    run_specs = list(dict.fromkeys(to_run_specs(runs)))
    for spec in run_specs:
        if len(parse_run_folders(spec)) > 1:
            raise SettingsError(f"{spec}: a report shows single runs. Give each seed separately.")
    runs_by_spec = {spec: load_report_run(spec, parse_run_folders(spec)[0]) for spec in run_specs}
    systems = {spec: run.evaluation.system for spec, run in runs_by_spec.items()}
    names = name_systems(run_specs, {spec: system.name for spec, system in systems.items() if system is not None})
    report_runs = [replace(run, name=names[spec]) for spec, run in runs_by_spec.items()]
    report_runs = share_codes_of_first(report_runs)
    if common_test_only:
        evaluations = restrict_to_common_sentences(share_supervision([run.evaluation for run in report_runs]))
        report_runs = [restrict_report_run(run, each) for run, each in zip(report_runs, evaluations, strict=True)]
    name, changes = "", None
    if baseline is not None:
        name, evaluation = _load_baseline(str(baseline))
        changes = find_direction_changes((name, evaluation), (report_runs[0].name, report_runs[0].evaluation))
    with report_unwritable(Path(output)):
        write_html_report(Path(output), report_runs, changes, name)
    return ReportResult(Path(output), changes, name)


def _load_baseline(spec: str) -> tuple[str, Evaluation]:
    """Load the baseline and return it with its name."""
    ((name, evaluation),) = [(system.name, system.runs) for system in load_systems([spec], None)[0]]
    if len(evaluation) > 1:
        raise SettingsError(f"baseline: {spec} names several folders. Give one.")
    return name, evaluation[0]
