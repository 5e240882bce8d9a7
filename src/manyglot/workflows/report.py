"""`manyglot report`: write the HTML report of a run, optionally compared with other runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyglot.errors import SettingsError
from manyglot.evaluation.comparability import restrict_to_common_sentences
from manyglot.evaluation.system_comparison import name_systems, parse_run_folders
from manyglot.files import StrPath
from manyglot.reports.html_report import load_report_run, restrict_report_run, write_html_report


def report(runs: Sequence[str], output: StrPath, common_test_only: bool = False) -> None:
    """Write the report of the first run, compared with the other runs.

    A run is `[NAME=]FOLDER` with an output folder of `evaluate`. With `common_test_only`, the report shows only the
    test sentences that all runs share.
    """
    run_specs = list(dict.fromkeys(runs))
    for spec in run_specs:
        if len(parse_run_folders(spec)) > 1:
            raise SettingsError(f"{spec}: a report shows single runs. Give each seed separately.")
    report_runs = [load_report_run(name, parse_run_folders(spec)[0]) for spec, name in name_systems(run_specs).items()]
    if common_test_only:
        evaluations = restrict_to_common_sentences([run.evaluation for run in report_runs])
        report_runs = [restrict_report_run(run, each) for run, each in zip(report_runs, evaluations, strict=True)]
    write_html_report(Path(output), report_runs)
