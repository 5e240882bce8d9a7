"""Files are read by the guarded functions of `manyglot.files`, except where this list says why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "manyglot"
READING_METHODS = {"open", "read_text", "read_bytes", "memmap", "fromfile", "open_memmap", "safe_open", "load_file"}
READING_FUNCTIONS = {"np.load", "numpy.load", "json.load", "torch.load", "pickle.load", "tomllib.load"}
WRITE_MODES = {"w", "a", "x", "wb", "ab", "xb"}

EXCEPTIONS: dict[str, str] = {}


def unguarded_reads(tree: ast.AST) -> Iterator[str]:
    """Yield the calls that may read a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            method = name.rpartition(".")[2]
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            modes = {argument.value for argument in arguments if isinstance(argument, ast.Constant)}
            reads_yaml = name.startswith("yaml.") and "load" in method
            if reads_yaml or name in READING_FUNCTIONS or (method in READING_METHODS and not modes & WRITE_MODES):
                yield f"{name}, line {node.lineno}"


def test_x():
    for path in sorted(SOURCE.rglob("*.py")):
        for each in unguarded_reads(ast.parse(path.read_text("utf-8"))):
            print(path.relative_to(SOURCE).as_posix(), each)
