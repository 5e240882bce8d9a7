"""Checks the files that CTranslate2 reads. They may come from an untrusted source.

CTranslate2 trusts `model.bin`: sizes that contradict each other end the process, and NaN or infinite weights translate
into nonsense. So before it gets the folder, the file is compared with the only layout that an export has. Nothing large
is allocated: the file is mapped into memory.

Shape letters: V vocabulary, P positions, D model width, F feed-forward width, R rows of a weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyglot.errors import FolderError
from manyglot.files import open_regular_file, read_json, read_json_object
from manyglot.vocabulary.subword_model import EOS, PAD, UNK

STACKS = ("encoder", "decoder")
EMBEDDINGS, POSITIONS = "decoder/embeddings/weight", "decoder/position_encodings/encodings"
OUTPUT_BIAS = "decoder/projection/bias"
MODEL_NAME, CONFIG_NAME, VOCABULARY_NAME = "model.bin", "config.json", "shared_vocabulary.json"
BINARY_VERSION, SPEC_NAME, SPEC_REVISION = 6, "TransformerSpec", 7
MAX_VARIABLES, MAX_RANK = 2**17, 2
CHUNK_VALUES = 2**22
"""Number of values that are checked at once."""
BFLOAT16 = np.dtype([("bfloat16", "<u2")])
"""A type of its own for NumPy, which has no bfloat16."""
TYPES = (*map(np.dtype, ("<f4", "<i1", "<i2", "<i4", "<f2")), BFLOAT16)
"""The types of variables, by their number in the file."""
FLOAT_TYPES, INTEGER_TYPES, QUANTIZED_TYPES = (TYPES[0], TYPES[4], BFLOAT16), TYPES[1:4], TYPES[1:3]
MIN_SCALE = 32767 / float(np.finfo(np.float32).max)
"""With a smaller scale, a quantized weight can be infinite."""

FIXED_SCALARS = {
    "decoder/alibi": 0,
    "decoder/alibi_use_positive_positions": 0,
    "decoder/alignment_heads": 1,
    "decoder/alignment_layer": -1,
    "decoder/scale_alibi": 0,
    "decoder/start_from_zero_embedding": 0,
    "encoder/embeddings_merge": 0,
    "encoder/multi_query_attention": 0,
}
"""Scalars that are the same in every export. They select the kind of Transformer."""
POSSIBLE_VALUES = {"pre_norm": (0, 1), "scale_embeddings": (0, 1), "activation": (0, 2, 3)}
"""Scalars that are the same in both stacks, and their values. The activation is relu, silu or gelu."""
FREE_SCALARS = tuple(f"{stack}/{name}" for stack in STACKS for name in ("num_heads", *POSSIBLE_VALUES))


class Variable(NamedTuple):
    """A variable of the file: its shape, and its values in the mapped file."""

    shape: tuple[int, ...]
    values: npt.NDArray[Any]

    @property
    def scalar(self) -> int:
        """The value of a variable without dimensions."""
        return int(self.values[0])


class _DamagedModel(Exception):
    """The file is not what an export writes."""


def check_model_files(folder: Path, num_positions: int) -> list[str]:
    """Raise a FolderError unless CTranslate2 can safely load the model; return the symbols of its vocabulary."""
    names = read_json(folder / VOCABULARY_NAME)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise FolderError(f"{folder / VOCABULARY_NAME} is damaged: it should hold distinct symbols.")
    if len(names) <= UNK:
        raise FolderError(f"{folder / VOCABULARY_NAME} is damaged: it has too few symbols.")
    _check_config(folder / CONFIG_NAME, names)
    path = folder / MODEL_NAME
    try:
        with open_regular_file(path) as file:
            variables = _ModelReader(np.memmap(file, np.uint8, "r")).read()
        _check_model(variables, len(names), num_positions)
    except (_DamagedModel, ValueError, UnicodeDecodeError) as error:
        raise FolderError(f"{path} cannot be used: {error!s:.200}. Export the model again.") from None
    return names


def _check_config(path: Path, names: Sequence[str]) -> None:
    """Compare config.json with what an export writes."""
    values = read_json_object(path)
    epsilon = values.pop("layer_norm_epsilon", None)
    expected = {
        "add_source_bos": False,
        "add_source_eos": True,
        "bos_token": names[EOS],
        "decoder_start_token": values.get("decoder_start_token"),
        "eos_token": names[EOS],
        "multi_query_attention": False,
        "unk_token": names[UNK],
    }
    is_started = expected["decoder_start_token"] in (names[EOS], names[PAD])
    if values != expected or not is_started or not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise FolderError(f"{path} is not the configuration of an exported model. Export the model again.")


def _check_model(variables: Mapping[str, Variable], num_symbols: int, num_positions: int) -> None:
    """Raise a _DamagedModel unless the variables are those of an export, and all weights are finite."""
    scalars = {name: variables[name] for name in (*FIXED_SCALARS, *FREE_SCALARS) if name in variables}
    for name, variable in scalars.items():
        if variable.shape or variable.values.dtype not in INTEGER_TYPES:
            raise _DamagedModel(f"{name} is not an integer")
        if name in FIXED_SCALARS and variable.scalar != FIXED_SCALARS[name]:
            raise _DamagedModel(f"{name} is {variable.scalar}")
        if variable.scalar not in POSSIBLE_VALUES.get(name.split("/")[1], [variable.scalar]):
            raise _DamagedModel(f"{name} is {variable.scalar}")
    expected = _expected_shapes(variables, num_symbols)
    for name in sorted(expected.keys() | (variables.keys() - scalars.keys())):
        if name.endswith("weight_scale") and name.removesuffix("_scale") in expected:
            continue
        if name not in expected or name not in variables or variables[name].shape != expected[name]:
            raise _DamagedModel(f"{name:.80} is missing or has another shape than in an export")
        _check_values(name, variables[name], variables.get(f"{name}_scale"))
    if num_positions > variables[POSITIONS].shape[0]:
        raise _DamagedModel(f"it has fewer than {num_positions:,} positions")


def _expected_shapes(variables: Mapping[str, Variable], num_symbols: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight in an export of a Transformer of this size."""
    try:
        width, ffn_width = variables[EMBEDDINGS].shape[1], variables["encoder/layer_0/ffn/linear_0/weight"].shape[0]
        num_positions = variables[POSITIONS].shape[0]
        heads = [variables[f"{stack}/num_heads"].scalar for stack in STACKS]
        shared = {name: [variables[f"{stack}/{name}"].scalar for stack in STACKS] for name in POSSIBLE_VALUES}
    except (KeyError, IndexError):
        raise _DamagedModel("an important variable is missing") from None
    if (
        min(width, ffn_width) < 1
        or any(number < 1 or width % number for number in heads)
        or any(len(set(values)) > 1 for values in shared.values())
    ):
        raise _DamagedModel("the number of heads, the kind of norms or the activation is wrong")
    pre_norm = shared["pre_norm"][0]
    has_embedding_norm = any(f"{stack}/layernorm_embedding/gamma" in variables for stack in STACKS)
    shapes: dict[str, tuple[int, ...]] = {EMBEDDINGS: (num_symbols, width)}
    shapes["encoder/embeddings_0/weight"] = shapes["decoder/projection/weight"] = shapes[EMBEDDINGS]
    if OUTPUT_BIAS in variables:
        shapes[OUTPUT_BIAS] = (num_symbols,)
    for stack in STACKS:
        shapes[f"{stack}/position_encodings/encodings"] = num_positions, width
        norms = [f"{stack}/layernorm_embedding"] * has_embedding_norm + [f"{stack}/layer_norm"] * pre_norm
        for layer in _layer_names(variables, stack):
            sizes = {"self_attention/linear_0": (3 * width, width), "self_attention/linear_1": (width, width)}
            if stack == "decoder":
                sizes |= {"attention/linear_0": (width, width), "attention/linear_1": (2 * width, width)}
                sizes |= {"attention/linear_2": (width, width)}
            sizes |= {"ffn/linear_0": (ffn_width, width), "ffn/linear_1": (width, ffn_width)}
            for name, size in sizes.items():
                shapes |= {f"{layer}/{name}/weight": size, f"{layer}/{name}/bias": size[:1]}
            norms += [f"{layer}/{name}/layer_norm" for name in dict.fromkeys(name.split("/")[0] for name in sizes)]
        shapes |= {f"{norm}/{name}": (width,) for norm in norms for name in ("gamma", "beta")}
    return shapes


def _layer_names(variables: Mapping[str, Variable], stack: str) -> list[str]:
    """Return the names of the layers of a stack; the variables of a missing layer are then missing."""
    layers = {name.split("/")[1] for name in variables if name.startswith(f"{stack}/layer_") and name.count("/") > 2}
    return [f"{stack}/layer_{index}" for index in range(len(layers))]


def _check_values(name: str, variable: Variable, scale: Variable | None) -> None:
    """Raise a _DamagedModel if a weight is NaN or infinite, as it is stored or after multiplication with its scale."""
    dtype = variable.values.dtype
    is_quantized = name.endswith("weight") and dtype in QUANTIZED_TYPES
    if is_quantized != (scale is not None) or not (is_quantized or dtype in FLOAT_TYPES):
        raise _DamagedModel(f"{name} has the wrong type")
    if scale is None:
        if not _is_finite(variable.values):
            raise _DamagedModel(f"{name} contains NaN or infinity")
        return
    expected_shape = variable.shape[:1] if dtype == TYPES[1] else ()
    if scale.shape != expected_shape or scale.values.dtype != TYPES[0] or not _is_finite(scale.values):
        raise _DamagedModel(f"the scale of {name} is wrong, or contains NaN or infinity")
    if scale.values.min() < MIN_SCALE:
        raise _DamagedModel(f"{name} contains infinity, because its scale is too small")


def _is_finite(values: npt.NDArray[Any]) -> bool:
    """Whether all values are finite: a number whose exponent has all bits set is NaN or infinite."""
    for start in range(0, len(values), CHUNK_VALUES):
        chunk = values[start : start + CHUNK_VALUES]
        if chunk.dtype == BFLOAT16:
            bits = chunk["bfloat16"] & 0x7F80
            if (bits == 0x7F80).any():
                return False
        elif not np.isfinite(chunk).all():
            return False
    return True


@dataclass
class _ModelReader:
    """Reads the variables of a model.bin, in the format that CTranslate2's Python package writes."""

    content: npt.NDArray[np.uint8]
    offset: int = 0
    variables: dict[str, Variable] = field(default_factory=dict)

    def read(self) -> dict[str, Variable]:
        """Return all variables, and those that have several names under each of them."""
        header = self._integer(4), self._text(), self._integer(4)
        if header != (BINARY_VERSION, SPEC_NAME, SPEC_REVISION):
            raise _DamagedModel("it has another version or kind of model")
        for _ in range(self._count()):
            name = self._text()
            self._add(name, self._variable())
        aliases = [(self._text(), self._text()) for _ in range(self._count())]
        if self.offset != len(self.content):
            raise _DamagedModel("it has bytes after the last variable")
        variables = dict(self.variables)
        for alias, name in aliases:
            if name not in variables:
                raise _DamagedModel(f"{alias:.80} stands for a missing variable")
            self._add(alias, variables[name])
            if f"{name}_scale" in variables:
                self.variables.setdefault(f"{alias}_scale", variables[f"{name}_scale"])
        return self.variables

    def _add(self, name: str, variable: Variable) -> None:
        if name in self.variables:
            raise _DamagedModel(f"it has {name:.80} twice")
        self.variables[name] = variable

    def _count(self) -> int:
        count = self._integer(4)
        if count > MAX_VARIABLES:
            raise _DamagedModel(f"it has {count:,} variables")
        return count

    def _variable(self) -> Variable:
        rank = self._integer(1)
        if rank > MAX_RANK:
            raise _DamagedModel(f"a variable has {rank} dimensions")
        shape = tuple(self._integer(4) for _ in range(rank))
        number, num_bytes = self._integer(1), self._integer(4)
        if number >= len(TYPES) or math.prod(shape) * TYPES[number].itemsize != num_bytes:
            raise _DamagedModel("the size of a variable contradicts its shape")
        start = self.offset
        self._skip(num_bytes)
        return Variable(shape, self.content[start : self.offset].view(TYPES[number]))

    def _text(self) -> str:
        length = self._integer(2)
        start = self.offset
        self._skip(length)
        text = self.content[start : self.offset].tobytes()
        if not text.endswith(b"\0"):
            raise _DamagedModel("a name is damaged")
        return text[:-1].decode("utf-8")

    def _integer(self, num_bytes: int) -> int:
        start = self.offset
        self._skip(num_bytes)
        return int.from_bytes(self.content[start : self.offset].tobytes(), "little")

    def _skip(self, num_bytes: int) -> None:
        self.offset += num_bytes
        if self.offset > len(self.content):
            raise _DamagedModel("it is truncated")
