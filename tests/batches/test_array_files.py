from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyglot.batches.array_files import add_array_header, create_memory_mapped, load_memory_mapped, save_array
from manyglot.errors import FolderError


@pytest.mark.parametrize("size", [0, 1, 12_345])
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int64])
def test_arrays_are_read_back_memory_mapped(size: int, dtype: type[np.integer[Any]], tmp_path: Path) -> None:
    created = create_memory_mapped(tmp_path / "array.npy", size, dtype)
    created[:] = np.arange(size)
    array = load_memory_mapped(tmp_path / "array.npy", (dtype,))
    np.testing.assert_array_equal(array, np.load(tmp_path / "array.npy"))
    assert (array.dtype, array.shape) == (dtype, (size,))
    assert not size or isinstance(array.base, np.memmap)


def test_a_header_is_added_to_raw_values(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.uint32).reshape(6, 2)
    values.tofile(tmp_path / "values.raw")
    add_array_header(tmp_path / "values.raw", (6, 2), np.uint32)
    np.testing.assert_array_equal(load_memory_mapped(tmp_path / "values.npy", (np.uint32,), num_columns=2), values)
    assert not (tmp_path / "values.raw").exists()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\x01\x00\xff\xff",
        bytes(200),
        header("[" * 5_000) + bytes(8),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999999,), }") + bytes(8),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,), }") + bytes(8),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }") + bytes(8),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (), }") + bytes(8),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }") + bytes(8),
        header("{'descr': '<i8', 'fortran_order': True, 'shape': (1,), }") + bytes(8),
        header("{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }") + bytes(8),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }") + bytes(8),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + bytes(8),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }") + bytes(7),
        header("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }") + bytes(9),
    ],
)
def test_other_content_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "array.npy").write_bytes(content)
    with pytest.raises(FolderError, match=r"array\.npy is damaged \(.*prepare it again"):
        load_memory_mapped(tmp_path / "array.npy", (np.int64,))


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    for name in ("pipe.npy", "missing.npy", "."):
        with pytest.raises(FolderError):
            load_memory_mapped(tmp_path / name, (np.int64,))


def test_a_full_disk_is_noticed_for_small_arrays() -> None:
    with pytest.raises(OSError, match="No space left"):
        save_array(Path("/dev/full"), np.arange(3))
