from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import manyglot
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.direction_changes import DirectionChange, DirectionChanges
from manyglot.reports.direction_change_table import MAX_ROWS, direction_change_parts
from manyglot.reports.html_changes import MAX_OPEN_ROWS, changes_html
from manyglot.reports.result_table import ResultTable
from tests.commands import run


def change(source: str, target: str, before: float, after: float, p_value: float) -> DirectionChange:
    return DirectionChange(Direction(source, target), before, after, p_value, 100)


def test_forgotten_directions_are_named() -> None:
    changes = [change("de", "en", 20, 15, 0.001), change("en", "de", 9, 8.8, 0.6), change("fr", "en", 5, 9, 0.01)]
    html = changes_html(DirectionChanges(changes, num_new=2, num_missing=0), "the <old> model")
    assert "Of the 3 directions that the &lt;old&gt; model also has, 1 is significantly worse and 1 is" in html
    assert "2 directions are new." in html
    assert "not evaluated again" not in html
    assert "The mean BLEU changes by -0.4." in html
    worse, better = html[html.index("Significantly worse") :].split("Significantly better")
    assert "German → English" in worse
    assert "-5.0" in worse
    assert "French → English" in better
    assert "English → German" not in html


def test_a_long_table_is_folded() -> None:
    changes = [change("de", "en", 20, 15, 0.001)] * (MAX_OPEN_ROWS + 1)
    assert "<details><summary>" in changes_html(DirectionChanges(changes, 0, 0), "old")
    assert "<details open><summary>" in changes_html(DirectionChanges(changes[1:], 0, 0), "old")


def test_the_terminal_names_the_largest_changes() -> None:
    low = change("ka", "en", 0.1, 0.2, 0.001)
    changes = DirectionChanges([*[change("de", "en", 20, 15, 0.001)] * (MAX_ROWS + 2), low], 0, 0)
    summary, worse, table, more, better, small = direction_change_parts(changes, "old")
    assert "1 of the significant changes is between scores up to 2 BLEU, which unrelated sentences can" in str(summary)
    assert (worse, more, better) == (
        "Significantly worse (12):",
        "and 2 more, in the report",
        "Significantly better (1):",
    )
    assert isinstance(table, ResultTable)
    assert len(table.rows) == MAX_ROWS
    assert list(table.rows[0]) == ["German → English", "100", "20.0", "15.0", "-5.0", "0.001"]
    assert isinstance(small, ResultTable)
    assert "unrelated" not in "".join(
        map(str, direction_change_parts(DirectionChanges(changes.changes[:1], 0, 0), "old"))
    )


def test_the_command_prints_the_changes(evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["report", evaluated, "-o", tmp_path / "report.html", "--baseline", evaluated]
    out, _ = run(capsys, *command)
    assert "0 are significantly worse and 0 are significantly better" in out
    assert out.endswith("report.html\n")
    values = json.loads(run(capsys, *command, "--json")[0])
    assert values["report"].endswith("report.html")
    assert {each["is_significant"] for each in values["changes"]} == {False}
    assert json.loads(run(capsys, *command[:-2], "--json")[0]).keys() == {"report"}


def test_a_report_names_changes_since_a_baseline(evaluated: Path, tmp_path: Path) -> None:
    result = manyglot.report(evaluated, tmp_path / "report.html", baseline=f"first={evaluated}")
    assert result.changes is not None
    assert result.changes.worse == result.changes.better == []
    page = Path(result).read_text("utf-8")
    assert "<h2>Changes since first</h2>" in page
    assert "0 are significantly worse and 0 are significantly better" in page
    shutil.copytree(evaluated, tmp_path / "second")
    with pytest.raises(ManyglotError, match="names several folders"):
        manyglot.report(evaluated, tmp_path / "report.html", baseline=f"first={evaluated},{tmp_path / 'second'}")
    with pytest.raises(ManyglotError, match="nowhere"):
        manyglot.report(evaluated, tmp_path / "report.html", baseline="nowhere")


@pytest.fixture(scope="module")
def evaluated(trained: manyglot.Experiment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scores") / "scores"
    manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=folder)
    return folder
