"""The output folder of `evaluate` and `score`: all scores, the translations and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from manyglot.evaluation.evaluator import Evaluation
from manyglot.files import write_file
from manyglot.reports.direction_heatmap import direction_heatmap_svg
from manyglot.reports.displayable import Displayable, DisplayPart, Svg
from manyglot.reports.html_report import make_report_run, write_html_report
from manyglot.reports.report_run import SYSTEM_FACTS_FILE, SYSTEM_FACTS_KIND
from manyglot.reports.result_parts import evaluation_averages_parts
from manyglot.sealed_json import write_sealed_json


class EvaluationResult(Displayable, Evaluation):
    """The scores of all directions. Its `repr` shows the averages; a notebook adds the heat map."""

    def display_parts(self) -> Iterator[DisplayPart]:
        """Yield the averages, the signatures and the heat map."""
        yield from evaluation_averages_parts(self)
        yield Svg(direction_heatmap_svg(self))


def write_results_and_report(folder: Path, name: str, evaluation: Evaluation, system_facts: Mapping[str, Any]) -> Path:
    """Write all scores, the translations and the report; return the path of the report."""
    evaluation.save(folder / "results.json")
    write_sealed_json(folder / SYSTEM_FACTS_FILE, SYSTEM_FACTS_KIND, system_facts)
    write_file(folder / "matrix.svg", direction_heatmap_svg(evaluation))
    write_html_report(folder / "report.html", [make_report_run(name, evaluation, system_facts)])
    return folder / "report.html"
