"""Builds ONNX graphs from NumPy arrays. All methods take and return the names of tensors.

The weights of all graphs are in one file beside them, where equal arrays are stored once. With `quantize`, the weights
of linear layers and embeddings are 8-bit integers with a scale for each output, and the inputs of linear layers are
quantized at run time. Tables of languages and positions are then float16.

Shape letters: D input width, E output width, V rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from manyglot.exporters.onnx import import_onnx

OPSET, IR_VERSION = 17, 8
"""The first opset with LayerNormalization, and the format of its time, which ONNX Runtime reads since 1.12."""
WEIGHTS_NAME = "weights.bin"
ALIGNMENT = 4096
MAX_FLOAT16 = 65504

Array = npt.NDArray[Any]


class WeightsFile:
    """The file with the weights of several graphs."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offsets: dict[bytes, int] = {}

    def offset_of(self, content: bytes) -> int:
        """Return the offset of some bytes in the file; write them unless they are already in it."""
        digest = hashlib.sha256(content).digest()
        if digest not in self._offsets:
            self._file.write(bytes(-self._file.tell() % ALIGNMENT))
            self._offsets[digest] = self._file.tell()
            self._file.write(content)
        return self._offsets[digest]


class GraphBuilder:
    """Collects the nodes and weights of one graph."""

    def __init__(self, name: str, weights: WeightsFile, quantize: bool = False) -> None:
        self._onnx, self._name, self._weights, self.quantize = import_onnx(), name, weights, quantize
        self._nodes: list[Any] = []
        self._initializers: dict[Any, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._gathered: dict[tuple[str, str], str] = {}

    def input(self, name: str, shape: Sequence[str | int], dtype: Any = np.float32) -> str:
        """Declare an input; text in the shape names a dimension of variable size."""
        self._inputs.append(self._tensor_info(name, shape, dtype))
        return name

    def output(self, name: str, tensor: str, shape: Sequence[str | int], dtype: Any = np.float32) -> None:
        """Declare a tensor as an output of this name."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [tensor], [name], name=name))
        self._outputs.append(self._tensor_info(name, shape, dtype))

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output."""
        return self.nodes(operator, 1, *inputs, **attributes)[0]

    def nodes(self, operator: str, num_outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        name = f"{operator}_{len(self._nodes)}"
        outputs = [name] if num_outputs == 1 else [f"{name}_{i}" for i in range(num_outputs)]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, outputs, name=name, **attributes))
        return outputs

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return a small constant, which is stored in the graph itself."""
        array = np.asarray(values, dtype=dtype)
        key = (array.tobytes(), array.dtype.str, array.shape)
        if key not in self._initializers:
            name = f"constant_{len(self._initializers)}"
            self._initializers[key] = self._onnx.numpy_helper.from_array(array, name)
        return str(self._initializers[key].name)

    def weight(self, array: Array) -> str:
        """Return an array in the weights file."""
        content = np.ascontiguousarray(array).tobytes()
        offset = self._weights.offset_of(content)
        key = (offset, array.dtype.str, array.shape)
        if key not in self._initializers:
            tensor = self._onnx.TensorProto(
                name=f"weight_{len(self._initializers)}",
                data_type=self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
                dims=array.shape,
                data_location=self._onnx.TensorProto.EXTERNAL,
            )
            for name, value in (("location", WEIGHTS_NAME), ("offset", offset), ("length", len(content))):
                tensor.external_data.add(key=name, value=str(value))
            self._initializers[key] = tensor
        return str(self._initializers[key].name)

    def embedding(self, weight_VD: Array, ids: str) -> str:
        """Look up rows of a table."""
        if not self.quantize:
            return self.node("Gather", self.weight(weight_VD), ids)
        int8_VD, scale_V1 = quantize_rows(weight_VD)
        rows = self.to_float32(self.node("Gather", self.weight(int8_VD), ids))
        return self.node("Mul", rows, self.node("Gather", self.weight(scale_V1), ids))

    def gather_language(self, table: Array, language: str) -> str:
        """Look up the entries of the languages in a table with one entry for each language. Repeated calls are free."""
        key = (self.table(table), language)
        if key not in self._gathered:
            self._gathered[key] = self.to_float32(self.node("Gather", *key))
        return self._gathered[key]

    def table(self, array: Array) -> str:
        """Return a weight whose rows are looked up; if quantizing, it is float16 unless its values are too large."""
        fits_float16 = self.quantize and np.abs(array).max() <= MAX_FLOAT16
        return self.weight(array.astype(np.float16) if fits_float16 else array)

    def to_float32(self, x: str) -> str:
        """Cast what was looked up in a table."""
        return self.node("Cast", x, to=self._onnx.TensorProto.FLOAT) if self.quantize else x

    def linear(self, x: str, weight_ED: Array, bias_E: Array | None = None) -> str:
        """Return x W^T + b, like `nn.Linear`."""
        if self.quantize:
            y = self._quantized_matmul(x, weight_ED)
        else:
            y = self.node("MatMul", x, self.node("Transpose", self.weight(weight_ED), perm=[1, 0]))
        return y if bias_E is None else self.node("Add", y, self.weight(bias_E))

    def _quantized_matmul(self, x: str, weight_ED: Array) -> str:
        """Return x W^T with 8-bit integers, in the form that ONNX Runtime replaces by a single operation."""
        int8_ED, scale_E1 = quantize_rows(weight_ED)
        int8_DE = self.node("Transpose", self.weight(int8_ED), perm=[1, 0])
        int8_x, scale, zero_point = self.nodes("DynamicQuantizeLinear", 3, x)
        product = self.node("MatMulInteger", int8_x, int8_DE, zero_point)
        return self.node("Mul", self.to_float32(product), self.node("Mul", scale, self.weight(scale_E1[:, 0])))

    def save(self, path: Path) -> None:
        """Write the graph; the weights are already in their file."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, self._name, self._inputs, self._outputs, list(self._initializers.values())
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="manyglot")
        path.write_bytes(model.SerializeToString())

    def _tensor_info(self, name: str, shape: Sequence[str | int], dtype: Any) -> Any:
        helper = self._onnx.helper
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))


def quantize_rows(weight_VD: Array) -> tuple[Array, Array]:
    """Round to 8-bit integers with a scale for each row, which is the row's largest absolute value / 127."""
    scale_V1 = np.maximum(np.abs(weight_VD).max(axis=1, keepdims=True) / 127, np.finfo(np.float32).tiny)
    return np.rint(weight_VD / scale_V1).astype(np.int8), scale_V1.astype(np.float32)
