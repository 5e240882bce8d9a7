"""Files are read by the guarded functions of `manyglot.files`; the exceptions are listed here with their reasons."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "manyglot"
READING_METHODS = {"open", "read_text", "read_bytes", "memmap", "fromfile", "open_memmap", "safe_open", "load_file"}
READING_FUNCTIONS = {"np.load", "json.load", "torch.load", "pickle.load", "tomllib.load"}
GUARDED = {"read_text"}
"""Functions of `manyglot.files` with the name of a method."""
WRITE_MODES = {"w", "a", "x", "wb", "ab", "xb", "w+"}

EXCEPTIONS = {
    "files.py": "defines the guarded functions",
    "folders.py": "opens folders, to lock them",
    "devices.py": "reads a file of the system",
    "training/memory_check.py": "reads files of the system",
    "corpus/parquet.py": "reads a file of the system",
    "exporters/ctranslate2.py": "reads a file of the package",
    "exporters/onnx/export.py": "reads files of the package",
    "exporters/onnx/translate.py": "is a program for users, which reads the export that it is in",
    "importers/checkpoint_tensors.py": "reads weights after checking their header",
    "reports/html_report.py": "reads files of the package",
    "reports/displayable.py": "shows a picture or page that it has just written",
    "corpus/zip_archives.py": "streams files of an archive that is a regular file, in bounded memory",
    "corpus/decompression.py": "streams text of any size, also from pipes, in bounded memory",
    "batches/array_files.py": "creates arrays, and maps those whose header and size are checked",
    "batches/tokenization.py": "reads text and arrays that its own processes have just written",
    "decoding/ctranslate2/model_file.py": "maps the weights of a regular file, which it has opened",
    "evaluation/sentence_statistics.py": "reads arrays whose checksum is verified",
    "evaluation/translation_cache.py": "appends to its file",
    "probing/uriel.py": "reads the arrays of a regular file, which it has opened, after checking their sizes",
    "model/weights_file.py": "reads weights after checking the size of their header or their checksum",
}


def unguarded_reads(tree: ast.AST) -> Iterator[str]:
    """Yield the calls that may read a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            method = name.rpartition(".")[2]
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            modes = {argument.value for argument in arguments if isinstance(argument, ast.Constant)}
            loads_yaml = name.startswith("yaml.") and "load" in method
            opens_file = method in READING_METHODS and name not in GUARDED and not modes & WRITE_MODES
            if loads_yaml or opens_file or name in READING_FUNCTIONS:
                yield f"line {node.lineno}: {name}"


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE).with_suffix(""))
)
def test_files_are_read_by_the_guarded_functions(path: Path) -> None:
    reads = list(unguarded_reads(ast.parse(path.read_text("utf-8"))))
    if path.relative_to(SOURCE).as_posix() in EXCEPTIONS:
        assert reads, "this module needs no exception any more"
    else:
        assert not reads, "use a function of manyglot.files, or add the module to the exceptions with its reason"


def test_every_exception_exists() -> None:
    assert all((SOURCE / name).is_file() for name in EXCEPTIONS)


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("path.read_text('utf-8')", True),
        ("Path(folder, name).read_bytes()", True),
        ("open(path)", True),
        ("path.open()", True),
        ("gzip.open(path, 'rb')", True),
        ("np.load(path, mmap_mode='r')", True),
        ("yaml.safe_load(text)", True),
        ("yaml.load(text, Loader)", True),
        ("json.load(file)", True),
        ("read_text(path)", False),
        ("path.open('w', encoding='utf-8')", False),
        ("path.write_text('open')", False),
    ],
)
def test_unguarded_reads_are_found(code: str, is_found: bool) -> None:
    assert bool(list(unguarded_reads(ast.parse(code)))) == is_found
