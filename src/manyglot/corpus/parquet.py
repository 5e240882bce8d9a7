"""Read Parquet tables with one column per language, or with a struct of languages as Hugging Face stores them.

Parquet files seldom have checksums, and pyarrow trusts the sizes in them. So the memory that pyarrow may allocate is
limited where the system supports it, and the number of rows is compared with the file's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyglot.errors import CorpusError, ManyglotError
from manyglot.files import MAX_ERROR_CHARS, open_regular_file

try:
    import resource
except ImportError:  # Windows cannot limit the memory of a process
    resource = None  # type: ignore[assignment]

NESTED_COLUMN = "translation"
"""The name of the struct in which Hugging Face datasets nest the sentences of a row."""
ROWS_PER_BATCH = 1024
READER_OPTIONS: dict[str, Any] = {
    "page_checksum_verification": True,
    "buffer_size": 2**20,  # reads no column as a whole
    "pre_buffer": False,
    "thrift_container_size_limit": 2**16,  # limit what the metadata of a damaged file can claim
    "thrift_string_size_limit": 2**24,
}
MAX_READER_BYTES = 2**29
"""Maximum memory that pyarrow may allocate to open a file or to read a batch."""
_MEMORY_STATUS = Path("/proc/self/statm")


def read_parquet(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table, with the wanted columns only. Every defect of the file raises a `CorpusError`."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise CorpusError(f"To read {path}, install pyarrow: pip install 'manyglot[parquet]'.") from None
    with open_regular_file(path):  # refuses pipes and devices
        pass
    try:
        with _limited_memory(MAX_READER_BYTES):
            file = pyarrow.parquet.ParquetFile(path, **READER_OPTIONS)
        with file:
            columns = [name for name in _column_names(file, path) if name == NESTED_COLUMN or is_wanted(name)]
            num_rows = 0
            for records in _read_batches(file, columns):
                num_rows += len(records)
                for record in records:
                    yield record[NESTED_COLUMN] or {} if NESTED_COLUMN in record else record
            if num_rows != file.metadata.num_rows:
                raise ValueError(f"it has {num_rows} rows instead of {file.metadata.num_rows}")
    except ManyglotError:
        raise
    except Exception as error:  # damaged files make pyarrow raise exceptions of many types
        reason = " ".join(str(error).split())[:MAX_ERROR_CHARS].rstrip(".") or type(error).__name__
        raise CorpusError(f"{path} cannot be read as Parquet ({reason}). Download or write it again.") from None


def first_repeated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs a second time, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _column_names(file: Any, path: Path) -> list[str]:
    """Return the names of the columns; raise an error if two have the same name or the struct is none."""
    import pyarrow

    with _limited_memory(MAX_READER_BYTES):
        schema = file.schema_arrow
    names, nested_names = list(schema.names), []
    if NESTED_COLUMN in names:
        nested = schema.field(names.index(NESTED_COLUMN)).type
        if not pyarrow.types.is_struct(nested):
            raise CorpusError(
                f"{path}: the column '{NESTED_COLUMN}' has the type {str(nested)[:MAX_ERROR_CHARS]}. "
                f"Make it a struct with one text per language."
            )
        nested_names = [field.name for field in nested]
    repeated = first_repeated(names) or first_repeated(nested_names)
    if repeated is not None:
        raise CorpusError(f"{path} has two columns named {repeated!r:.100}. Remove one of them.")
    return names


def _read_batches(file: Any, columns: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    batches = file.iter_batches(ROWS_PER_BATCH, columns=columns, use_threads=False)
    while True:
        with _limited_memory(MAX_READER_BYTES):
            batch = next(batches, None)
            records = None if batch is None else batch.to_pylist()
        if records is None:
            return
        yield records


@contextmanager
def _limited_memory(num_bytes: int) -> Iterator[None]:
    """Let the process allocate at most this many more bytes in the block; above that, allocations fail."""
    if resource is None or not _MEMORY_STATUS.exists():  # only Linux limits private memory
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(_MEMORY_STATUS.read_text().split()[5]) * resource.getpagesize() + num_bytes
    given = [value for value in (soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limit, *given) if given else limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
