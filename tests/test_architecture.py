"""The shape of the project: imports point up the road, files stay small, the settings are documented."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "manyglot"
ROAD = (
    "corpus",
    "vocabulary",
    "batches",
    "model",
    "training",
    "decoding",
    "evaluation",
    "probing",
    "reports",
    "export",
)
HELPERS = {"errors", "settings", "progress", "devices", "folders", "__init__"}
COMMANDS = {"cli", "corpus_commands", "evaluation_commands", "translate_command", "probe_command", "options"}
SEES_EVERYTHING = COMMANDS | {"config", "workflow", "learning", "translating", "evaluating", "__init__", "__main__"}
NOT_BETWEEN = {
    ("decoding", "training"),
    ("evaluation", "training"),
    ("reports", "training"),
    ("export", "training"),
    ("probing", "training"),
}


def imported(path: Path) -> set[str]:
    """The first part of every manyglot module that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("manyglot"):
            names = [node.module] if node.module != "manyglot" else [f"manyglot.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("manyglot")]
        else:
            continue
        found |= {(name or "").removeprefix("manyglot").lstrip(".").split(".")[0] or "__init__" for name in names}
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_up_the_road(path: Path) -> None:
    stage = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    uses = imported(path) - HELPERS
    if stage in SEES_EVERYTHING:
        return
    if stage in HELPERS:
        assert not uses, f"{path.name} should know no stage"
        return
    later = set(ROAD[ROAD.index(stage) + 1 :])
    assert not uses & later, f"{path.name} imports a later stage"
    assert not uses & SEES_EVERYTHING, f"{path.name} imports what sees everything"
    assert not {(stage, other) for other in uses} & NOT_BETWEEN


def test_translating_loads_no_training() -> None:
    assert not imported(SOURCE / "translating.py") & {"training", "reports", *SEES_EVERYTHING}


def test_guidance_imports_no_layer() -> None:
    for path in (SOURCE / "model" / "guidance").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("manyglot.model"):
                assert (node.module or "").startswith(("manyglot.model.guidance", "manyglot.model.kernels"))


def test_only_one_file_knows_sentencepiece() -> None:
    users = [p.name for p in SOURCE.rglob("*.py") if "import sentencepiece" in p.read_text("utf-8")]
    assert users == ["subwords.py"]


def test_nothing_is_pickled() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text("utf-8")
        assert "import pickle" not in text
        assert "torch.save" not in text
        assert "torch.load" not in text


def test_an_installed_package_has_all_its_files() -> None:
    pyproject = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text("utf-8"))
    packed = set(pyproject["tool"]["setuptools"]["package-data"]["manyglot"])
    others = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert others == packed
