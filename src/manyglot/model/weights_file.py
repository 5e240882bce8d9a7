"""Files of tensors. Weights may come from an untrusted source, so their header is checked before they are loaded."""

from __future__ import annotations

import errno
import os
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyglot.errors import FolderError, UnreadableFileError
from manyglot.files import read_first_bytes
from manyglot.model.transformer import Transformer

MAX_HEADER_BYTES = 2**24
"""Maximum size of the header with names and shapes; a model of a thousand layers needs a quarter of it."""

UNREADABLE_WEIGHTS_ERRORS = (OSError, RuntimeError, SafetensorError)
"""Exceptions of safetensors for a file that it cannot open or that is damaged."""

WeightsHeader = Mapping[str, tuple[str, tuple[int, ...]]]
"""The data type and shape of each tensor, by name."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a file, with metadata in its header. Errors are OSErrors, as those of `Path.write_bytes`."""
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:  # it quotes the error of the system, such as a full disk
        number = re.search(r"os error (\d+)", str(error))
        code, reason = (int(number[1]), os.strerror(int(number[1]))) if number else (errno.EIO, str(error))
        raise OSError(code, reason, str(path)) from None


def read_weights_header(path: Path) -> WeightsHeader:
    """Read the names, types and shapes of the tensors without reading the weights."""
    size = int.from_bytes(read_first_bytes(path, 8), "little")
    if size > MAX_HEADER_BYTES:
        raise FolderError(f"The weights {path} cannot be read (the header has {size:,} bytes, which is too many).")
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    except UNREADABLE_WEIGHTS_ERRORS as error:
        raise FolderError(f"The weights {path} cannot be read ({reprlib.repr(str(error))}).") from None


def stored_dtype(path: Path) -> torch.dtype:
    """Return the type in which all weights of a model are stored: float32, or bfloat16 for a model of half the size."""
    stored = {dtype for dtype, _ in read_weights_header(path).values()}
    return torch.bfloat16 if stored == {"BF16"} else torch.float32


def check_header_matches_model(header: WeightsHeader, model: Transformer, path: Path) -> None:
    """Raise a FolderError unless names, shapes and types match the model that the settings describe."""
    expected = {name: ("F32", tuple(tensor.shape)) for name, tensor in model.state_dict().items()}
    for name in sorted(expected.keys() | header.keys()):
        dtype, shape = header.get(name, ("", ()))
        if expected.get(name) != ("F32" if dtype == "BF16" else dtype, shape):
            stored, wanted = _format_entry(header.get(name), "missing"), _format_entry(expected.get(name), "nothing")
            raise FolderError(
                f"The weights {path} do not fit config.yaml: {name[:100]} is {stored}, expected {wanted}."
            )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file whose checksum has been verified, so that only the system can be why it fails."""
    try:
        return load_file(path)
    except UNREADABLE_WEIGHTS_ERRORS as error:
        raise UnreadableFileError(f"Cannot read {path}: {reprlib.repr(str(error))}.") from None


def load_weights(path: Path, model: Transformer) -> None:
    """Load weights with a checked header into a model on the meta device, as float32; they must all be finite."""
    try:
        weights = load_file(path)
    except UNREADABLE_WEIGHTS_ERRORS as error:
        raise FolderError(f"The weights {path} cannot be read ({reprlib.repr(str(error))}).") from None
    for name, tensor in weights.items():
        if not is_all_finite(tensor):
            raise FolderError(f"The weights in {path.parent} contain NaN or infinity ({name}).")
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, assign=True)


def is_all_finite(tensor: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinity; checks the extremes, so that no copy is needed."""
    return tensor.numel() == 0 or bool(torch.stack(tensor.aminmax()).isfinite().all())


def _format_entry(entry: tuple[str, tuple[int, ...]] | None, if_missing: str) -> str:
    return if_missing if entry is None else f"{entry[0]} {reprlib.repr(list(entry[1]))}"
