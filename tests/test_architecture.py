"""The layout of the project: stages import only earlier stages, without cycles, and every command has its files."""

from __future__ import annotations

import ast
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import manyglot
from manyglot.cli import app

SOURCE = Path(__file__).parent.parent / "src" / "manyglot"
ROOT_FILES = {
    "__init__",
    "__main__",
    "argument_types",
    "errors",
    "progress",
    "devices",
    "distributed",
    "files",
    "folders",
    "hub",
    "checksums",
    "sealed_json",
    "worker_processes",
}
HELPERS = {
    *ROOT_FILES - {"__main__"},
    "config.base_settings",
    "config.overrides",
    "config.plain_values",
    "config.precision",
    "config.yaml_files",
    "config.yaml_inheritance",
}
"""Modules that every stage may import, and that import no stage. A stage imports the version from the root package."""
STAGES = (
    "langid",
    "corpus",
    "vocabulary",
    "batches",
    "model",
    "training",
    "decoding",
    "evaluation",
    "probing",
    "reports",
    "exporters",
    "importers",
    "config.experiment",
    "workflows",
    "cli",
    "__main__",
)
LANGUAGE_FACTS = {"corpus.languages", "corpus.language_codes", "corpus.language_lookup", "corpus.scripts"}
"""Modules of the corpus that langid imports: codes, names and scripts. They import no stage; cleaning uses langid."""
NOT_BETWEEN = {
    ("decoding", "training"),
    ("evaluation", "training"),
    ("reports", "training"),
    ("exporters", "training"),
    ("probing", "training"),
}


def module_name(path: Path) -> str:
    """Return the name of a file's module below manyglot; `__init__` for manyglot itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts if len(parts) == 1 or parts[-1] != "__init__" else parts[:-1])


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported(path: Path) -> set[str]:
    """Return all manyglot modules that a file imports, including those inside functions and for type checking."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            origin = node.module or ""
            names = [f"{origin}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("manyglot.") in MODULES else origin for name in names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        modules |= {name for name in names if name.split(".")[0] == "manyglot"}
    return {name.removeprefix("manyglot").lstrip(".") or "__init__" for name in modules}


def stage_of(module: str) -> str:
    """Return the stage that a module belongs to."""
    return module if module in HELPERS or module in STAGES else module.split(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_stages_import_only_earlier_stages(module: str) -> None:
    if module in ("__init__", "config"):  # the Python API, which imports on first use, and a docstring
        return
    uses = imported(MODULES[module]) - HELPERS
    if module in HELPERS:
        assert not uses, f"{module} must not import a stage"
        return
    stage = stage_of(module)
    if stage == "langid":
        uses -= LANGUAGE_FACTS
    later = set(STAGES[STAGES.index(stage) + 1 :])
    stages = {stage_of(each) for each in uses}
    assert stages <= set(STAGES), f"{module} imports a module that is not a stage"
    assert not stages & later, f"{module} imports a later stage"
    assert not {(stage, other) for other in stages} & NOT_BETWEEN


def test_there_is_no_import_cycle() -> None:
    modules = {name for name in MODULES if name != "__init__" and stage_of(name) != "cli"}
    graph = {name: imported(MODULES[name]) & modules - {name} for name in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_langid_imports_only_language_facts() -> None:
    for name in LANGUAGE_FACTS:
        assert imported(MODULES[name]) <= LANGUAGE_FACTS | HELPERS


def test_the_root_has_only_shared_modules() -> None:
    assert {path.stem for path in SOURCE.glob("*.py")} == ROOT_FILES


def test_every_command_has_a_file_and_a_workflow_of_its_name() -> None:
    commands = {each.callback.__name__ for each in app.registered_commands if each.callback}
    groups = {str(each.name) for each in app.registered_groups}
    files = {path.stem for path in (SOURCE / "cli").glob("*.py")} - {"__init__", "options", "exit_codes", "hints"}
    assert files == commands | groups
    assert {path.stem for path in (SOURCE / "workflows").glob("*.py")} - {"__init__"} == files
    for name in commands:
        assert getattr(manyglot, name).__module__ == f"manyglot.workflows.{name}"
        assert f"workflows.{name}" in imported(MODULES[f"cli.{name}"])


def test_the_python_api_is_complete() -> None:
    for name in manyglot.__all__:
        assert getattr(manyglot, name) is not None
    assert set(manyglot.__all__) <= set(dir(manyglot))
    with pytest.raises(AttributeError, match="no attribute 'trane'"):
        _ = manyglot.trane


def test_the_tests_mirror_the_source() -> None:
    folders = {
        path.parent.relative_to(SOURCE.parent.parent / "tests") for path in Path(__file__).parent.rglob("test_*.py")
    }
    packages = {path.parent.relative_to(SOURCE) for path in MODULES.values()}
    assert folders - {Path("faults"), Path("fuzz"), Path("system")} <= packages


def test_translate_imports_no_training() -> None:
    stages = {stage_of(each) for each in imported(SOURCE / "workflows" / "translate.py")}
    assert not stages & {"training", "reports", "config.experiment", "workflows"}


def test_guidance_imports_no_layer() -> None:
    for path in (SOURCE / "model" / "guidance").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("manyglot.model"):
                assert (node.module or "").startswith(("manyglot.model.guidance", "manyglot.model.kernels"))


def test_only_one_file_imports_sentencepiece() -> None:
    users = [p.name for p in SOURCE.rglob("*.py") if "import sentencepiece" in p.read_text("utf-8")]
    assert users == ["sentencepiece_model.py"]


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
