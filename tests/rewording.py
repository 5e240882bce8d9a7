"""An import hook that rewords all messages of manyglot; call `install()` before importing manyglot.

Each word of a string literal that looks like prose becomes another word, in every module. A program that compares,
parses or stores its own messages then behaves differently; one that uses identifiers does not.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

WORD = "reworded"
PROSE = re.compile(r"\b[A-Za-z]?[a-z]+[,;:.]? [a-z]{2,}\b")
"""Two consecutive words."""
PART = re.compile(r"\b[a-z]{2,} | [a-z]{2,}\b")
"""A word next to a space, as between the values of an f-string."""


class Rewording(ast.NodeTransformer):
    """Rewords the string literals of a module, docstrings included."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        """Reword the text between the values and inside them."""
        for part in node.values:
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and PART.search(part.value):
                part.value = reworded(part.value)
            elif isinstance(part, ast.FormattedValue):  # but not its format specification
                part.value = self.visit(part.value)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """Reword a string of two or more words."""
        if isinstance(node.value, str) and PROSE.search(node.value):
            node.value = reworded(node.value)
        return node


def reworded(text: str) -> str:
    """Return the text with other words."""
    return re.sub("[A-Za-z]+", WORD, text)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)  # compiled files have the usual words

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree = ast.fix_missing_locations(Rewording().visit(ast.parse(data)))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)
        return code


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find modules of manyglot only."""
        if fullname.partition(".")[0] != "manyglot":
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Reword all manyglot modules that are imported from now on."""
    assert not any(name.partition(".")[0] == "manyglot" for name in sys.modules), "too late"
    sys.meta_path.insert(0, _Finder())
