"""The tutorial notebook runs from its first cell to its last, in a Jupyter kernel of its own."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TUTORIAL = Path(__file__).parent.parent / "examples" / "tutorial.ipynb"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the Jupyter packages
def test_the_tutorial_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    (parameters,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    assert parameters.source.startswith("STEPS = ")
    parameters.source = "STEPS = 4\nROWS = 150"
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    assert (tmp_path / "report.html").is_file()
    pages = "".join(
        str(output.get("data", {}).get("text/html", ""))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    for shown in ("<table>", "<svg", "<img", "<iframe"):
        assert shown in pages


def test_the_stored_outputs_have_no_errors() -> None:
    notebook = nbformat.read(TUTORIAL, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not any(output.output_type == "error" for output in outputs)
