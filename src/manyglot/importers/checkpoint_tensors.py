"""The tensors of a checkpoint of transformers: one safetensors file, or several with an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from manyglot.errors import FolderError
from manyglot.files import read_json_object
from manyglot.model.weights_file import (
    UNREADABLE_WEIGHTS_ERRORS,
    WeightsHeader,
    is_all_finite,
    read_weights_header,
)

WEIGHTS_NAME, INDEX_NAME = "model.safetensors", "model.safetensors.index.json"
PICKLE_NAMES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
FLOATING_TYPES = ("F64", "F32", "F16", "BF16")
MAX_INDEX_BYTES = 2**24
CONVERSION_COMMAND = (
    'python -c "from transformers import AutoModelForSeq2SeqLM as M, AutoTokenizer as T; '
    'M.from_pretrained({old!r}).save_pretrained({new!r}); T.from_pretrained({old!r}).save_pretrained({new!r})"'
)
"""Converts pickled weights. It runs where transformers is installed."""


class CheckpointTensors(Mapping[str, Tensor]):
    """The tensors by name. Each one is read when it is used, and converted to float32."""

    def __init__(self, headers: Mapping[Path, WeightsHeader]) -> None:
        """`headers` maps the files to the names, types and shapes of their tensors."""
        self._entries = {name: (path, entry) for path, header in headers.items() for name, entry in header.items()}
        self._files: dict[Path, Any] = {}

    @classmethod
    def read_headers(cls, folder: Path) -> CheckpointTensors:
        """Check the headers of the files in a folder; raise a FolderError if a file or a tensor is missing."""
        if (folder / WEIGHTS_NAME).exists():
            headers = {folder / WEIGHTS_NAME: read_weights_header(folder / WEIGHTS_NAME)}
        elif (folder / INDEX_NAME).exists():
            headers = _read_headers_of_parts(folder)
        else:
            raise FolderError(_missing_weights_message(folder))
        for path, header in headers.items():
            for name, (dtype, _) in header.items():
                if dtype not in FLOATING_TYPES:
                    raise FolderError(
                        f"{path}: {name[:100]} has the data type {dtype}. Save the weights in a floating-point type."
                    )
        return cls(headers)

    def __getitem__(self, name: str) -> Tensor:
        path, _ = self._entries[name]
        try:
            if path not in self._files:
                self._files[path] = safe_open(path, framework="pt")
            tensor: Tensor = self._files[path].get_tensor(name).to(torch.float32)
        except UNREADABLE_WEIGHTS_ERRORS as error:
            raise FolderError(f"The weights {path} cannot be read ({' '.join(str(error).split())[:100]}).") from None
        if not is_all_finite(tensor):
            raise FolderError(f"The weights {path} contain NaN or infinity ({name[:100]}). Give another checkpoint.")
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it."""
        return self._entries[name][1][1]


def _read_headers_of_parts(folder: Path) -> dict[Path, WeightsHeader]:
    """Read the headers of the files that the index names."""
    index = read_json_object(folder / INDEX_NAME, MAX_INDEX_BYTES)
    parts = index.get("weight_map")
    if not isinstance(parts, dict) or not parts or not all(isinstance(part, str) for part in parts.values()):
        raise FolderError(f"{folder / INDEX_NAME} is damaged: it has no weight_map. Copy it again.")
    headers: dict[Path, WeightsHeader] = {}
    for part in sorted(set(parts.values())):
        if Path(part).name != part or not part.endswith(".safetensors"):
            raise FolderError(
                f"{folder / INDEX_NAME}: {part[:100]!r} is not the name of a safetensors file. Copy it again."
            )
        if not (folder / part).exists():
            raise FolderError(f"{folder / part} is missing, but {INDEX_NAME} lists it. Copy it there.")
        header = read_weights_header(folder / part)
        headers[folder / part] = {name: entry for name, entry in header.items() if parts.get(name) == part}
    stored = {name for header in headers.values() for name in header}
    if missing := sorted(parts.keys() - stored):
        raise FolderError(
            f"{folder / parts[missing[0]]} lacks {missing[0][:100]}, which {INDEX_NAME} lists. Copy it again."
        )
    return headers


def _missing_weights_message(folder: Path) -> str:
    """Say why there are no weights, and how to convert pickled ones."""
    pickled = next((name for name in PICKLE_NAMES if (folder / name).exists()), None)
    if pickled is None:
        return (
            f"{folder} has no {WEIGHTS_NAME}. Give a folder written by save_pretrained of transformers. Pickled "
            f"weights (pytorch_model.bin) are not downloaded from the hub; convert them with save_pretrained first."
        )
    old = str(folder)
    command = CONVERSION_COMMAND.format(old=old, new=f"{old.rstrip('/')}-safetensors")
    return (
        f"{folder / pickled} is pickled, and reading a pickle can execute code. If you trust it, convert it: {command}"
    )
