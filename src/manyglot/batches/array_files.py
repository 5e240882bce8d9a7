"""The array files of a dataset: NumPy files of integers with one or two dimensions, opened memory-mapped.

The reader accepts exactly the headers that NumPy writes for these arrays. It does not use NumPy's own parser, which
evaluates the header as a Python expression.
"""

from __future__ import annotations

import io
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyglot.corpus.prepared_text import damaged_data
from manyglot.files import open_regular_file

IntArray = npt.NDArray[np.int64]
AnyInts = npt.NDArray[Any]
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([<|][iu][1248])', 'fortran_order': False, 'shape': \((\d{1,15}),(?: (\d{1,15}))?\), \} *\n"
)
ITEMS_PER_CHECK = 2**20
"""Number of array items that one call of a check reads."""


def load_memory_mapped(path: Path, dtypes: Sequence[type[np.integer[Any]]], num_columns: int | None = None) -> AnyInts:
    """Open an array, memory-mapped. Raise a FolderError for any other type, number of columns or file size."""
    with open_regular_file(path) as file:
        magic, length = file.read(len(MAGIC)), file.read(2)
        header = HEADER.fullmatch(file.read(int.from_bytes(length, "little")))
        if magic != MAGIC or header is None:
            raise damaged_data(path, "it has no valid array header")
        dtype, start = np.dtype(header[1].decode()), file.tell()
        shape = tuple(int(size) for size in header.groups()[1:] if size is not None)
        if dtype.type not in dtypes or shape[1:] != (() if num_columns is None else (num_columns,)):
            raise damaged_data(path, "its array has another type or shape")
        if start + math.prod(shape) * dtype.itemsize != os.fstat(file.fileno()).st_size:
            raise damaged_data(path, "its size does not match its header")
        if 0 in shape:
            return np.zeros(shape, dtype)
        mapped = np.memmap(file, dtype, "r", start, shape)
    return np.asarray(mapped)  # a plain view, because indexing a memmap object costs more than the lookup


def save_array(path: Path, array: AnyInts) -> None:
    """Write a small array. `np.save` into a file would ignore errors on closing it, such as those of a full disk."""
    content = io.BytesIO()
    np.save(content, array)
    path.write_bytes(content.getbuffer())


def create_memory_mapped(path: Path, size: int, dtype: Any) -> AnyInts:
    """Create an array on disk to be filled in place; NumPy cannot memory-map an empty one."""
    if size == 0:
        save_array(path, np.zeros(0, dtype=dtype))
        return np.zeros(0, dtype=dtype)
    created: AnyInts = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(size,))
    if hasattr(os, "posix_fallocate"):  # otherwise a full disk would kill the process while the array is filled
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return created


def add_array_header(raw: Path, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
    """Convert a file of raw values to an .npy file, and delete it."""
    with raw.with_suffix(".npy").open("wb") as file, raw.open("rb") as content:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        shutil.copyfileobj(content, file, 2**24)
    raw.unlink()


def all_chunks(is_valid: Callable[[int, int], bool], num_items: int) -> bool:
    """Whether `is_valid(start, stop)` is true for all chunks of an array; large arrays are checked on all cores."""
    starts = range(0, num_items, ITEMS_PER_CHECK)
    stops = [min(start + ITEMS_PER_CHECK, num_items) for start in starts]
    if len(starts) <= 1:
        return all(map(is_valid, starts, stops))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # NumPy releases the lock of the interpreter
        return all(pool.map(is_valid, starts, stops))
