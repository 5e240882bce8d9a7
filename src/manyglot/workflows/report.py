"""`manyglot report`: write the HTML report of a run, beside other runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manyglot.errors import SettingsError
from manyglot.evaluation.common import common_part
from manyglot.evaluation.comparison import folders_of, name_runs
from manyglot.files import StrPath
from manyglot.reports.page import part_of, read_run, write_page


def report(runs: Sequence[str], output: StrPath, common: bool = False) -> None:
    """Write the report of the first run, beside the others; each is `[NAME=]FOLDER`, an output folder of `evaluate`."""
    given = list(dict.fromkeys(runs))
    for text in given:
        if len(folders_of(text)) > 1:
            raise SettingsError(f"{text}: a report shows single runs. Give each seed by itself.")
    found = [read_run(name, folders_of(text)[0]) for text, name in name_runs(given).items()]
    if common:
        parts = common_part([run.evaluation for run in found])
        found = [part_of(run, part) for run, part in zip(found, parts, strict=True)]
    write_page(Path(output), found)
