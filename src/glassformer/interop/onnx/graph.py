"""An ONNX graph while it is written: operations, weights, inputs and outputs.

Values are names. Operations are named by the module that they belong to, weights as in the model.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError
from glassformer.files import replacing
from glassformer.models.account import Account, weights_of

OPSET, IR_VERSION = 20, 9
"""Of ONNX 1.15 (2023): the first with GELU; every onnxruntime since 1.17 runs it."""
LARGEST = 1 << 31
"""Bytes of a protocol buffer; larger weights lie in a file of their own."""
Value = str
Dim = int | str


@dataclass(frozen=True)
class Port:
    """An input or output of a graph."""

    dtype: Any
    shape: tuple[Dim, ...]
    """Numbers, and names of sizes that may differ."""

    @property
    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"type": np.dtype(self.dtype).name, "shape": list(self.shape)}


class Graph:
    """Operations on values, written one after another; `module`: the model whose weights it has."""

    def __init__(self, module: nn.Module | None = None):
        modules = () if module is None else module.named_modules()
        self._paths = {id(one): path for path, one in modules}
        parameters = () if module is None else module.named_parameters()
        self._names = {id(one): name for name, one in parameters}
        self.account = Account("An ONNX graph", {} if module is None else weights_of(module))
        self._scope = ""
        self._nodes: list[tuple[str, list[Value], list[Value], dict[str, Any]]] = []
        self._weights: dict[Value, np.ndarray] = {}
        self._constants: dict[Value, np.ndarray] = {}
        self._known: dict[tuple[Any, ...], Value] = {}
        self.inputs: dict[Value, Port] = {}
        self.outputs: dict[Value, Port] = {}

    @contextmanager
    def within(self, module: nn.Module) -> Iterator[None]:
        """Name the operations of the body by a module."""
        before, self._scope = self._scope, f"{self.path(module)}/"
        try:
            yield
        finally:
            self._scope = before

    def path(self, module: nn.Module) -> str:
        """The name of a module in the model."""
        return self._paths[id(module)]

    def op(self, kind: str, *inputs: Value | np.ndarray, **attributes: Any) -> Value:
        """The value of an operation; arrays become constants."""
        return self.ops(kind, *inputs, **attributes)[0]

    def ops(
        self, kind: str, *inputs: Value | np.ndarray, n: int = 1, **attributes: Any
    ) -> list[Value]:
        """The n values of an operation."""
        given = [self.constant(x) if isinstance(x, np.ndarray) else x for x in inputs]
        stem = f"{self._scope}{kind}_{len(self._nodes)}"
        found = [stem if number == 0 else f"{stem}_{number}" for number in range(n)]
        self._nodes.append((kind, given, found, attributes))
        return found

    def constant(self, array: np.ndarray) -> Value:
        """A small array by its content."""
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._known:
            self._known[key] = name = f"constant_{len(self._known)}"
            self._constants[name] = array
        return self._known[key]

    def weight(self, name: str, values: Tensor) -> Value:
        """A tensor of the model in float32, once."""
        if name not in self._weights:
            self._weights[name] = floats(values)
        return name

    def parameter(self, parameter: Tensor) -> Value:
        """A parameter by its name in the model; a shared one is stored once."""
        self.account.take(parameter)
        return self.weight(self._names[id(parameter)], parameter)

    def optional(self, parameter: Tensor | None) -> tuple[Value, ...]:
        """A parameter that a module may lack."""
        return () if parameter is None else (self.parameter(parameter),)

    def input(self, name: Value, dtype: Any, *shape: Dim) -> Value:
        """A new input."""
        self.inputs[name] = Port(dtype, shape)
        return name

    def output(self, name: Value, value: Value, *shape: Dim) -> None:
        """Give a value, in float32, as an output."""
        self._nodes.append(("Identity", [value], [name], {}))
        self.outputs[name] = Port(np.float32, shape)

    def reshape(self, x: Value, *shape: int) -> Value:
        """x in another shape: 0 keeps a size, -1 is what remains."""
        return self.op("Reshape", x, np.array(shape))

    def unsqueeze(self, x: Value, *axes: int) -> Value:
        """x with new axes of size 1."""
        return self.op("Unsqueeze", x, np.array(axes))

    def transpose(self, x: Value, *axes: int) -> Value:
        """x with its axes in this order."""
        return self.op("Transpose", x, perm=axes)

    def cast(self, x: Value, dtype: Any) -> Value:
        """x as another type."""
        return self.op("Cast", x, to=_onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def size(self, x: Value, axis: int) -> Value:
        """The size of one axis, int64 [1]."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def save(self, file: Path) -> None:
        """Write the graph as a model; ConfigError: the library is not installed.

        Weights of more than `LARGEST` bytes go into FILE.data beside it.
        """
        made = self._model(file.name)
        with replacing(file) as temporary:
            temporary.write_bytes(made.SerializeToString())
        if self._apart:
            apart = file.with_name(f"{file.name}.data")
            with replacing(apart) as temporary, temporary.open("wb") as data:
                for array in self._weights.values():
                    data.write(_bytes(array))

    @property
    def _apart(self) -> bool:
        return sum(array.nbytes for array in self._weights.values()) >= LARGEST

    def _model(self, name: str) -> Any:
        onnx, h = _onnx(), _onnx().helper
        ports = {
            key: [
                h.make_tensor_value_info(
                    of, h.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), list(port.shape)
                )
                for of, port in side.items()
            ]
            for key, side in (("inputs", self.inputs), ("outputs", self.outputs))
        }
        nodes = [
            h.make_node(kind, inputs, outputs, name=outputs[0], **attributes)
            for kind, inputs, outputs, attributes in self._nodes
        ]
        graph = h.make_graph(nodes, Path(name).stem, **ports)
        offset = 0
        for key, array in {**self._constants, **self._weights}.items():
            kind = h.np_dtype_to_tensor_dtype(array.dtype)
            tensor = onnx.TensorProto(name=key, data_type=kind, dims=array.shape)
            # other programs read shapes from constants, which must be in the graph
            if self._apart and key in self._weights:
                tensor.data_location = onnx.TensorProto.EXTERNAL
                about = {"location": f"{name}.data", "offset": offset, "length": array.nbytes}
                for field, value in about.items():
                    tensor.external_data.add(key=field, value=str(value))
                offset += array.nbytes
            else:
                tensor.raw_data = _bytes(array)
            graph.initializer.append(tensor)
        opsets = [h.make_opsetid("", OPSET)]
        return h.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="glassformer"
        )


def floats(values: Tensor) -> np.ndarray:
    """A tensor as a float32 array."""
    return np.ascontiguousarray(values.detach().to("cpu", torch.float32).numpy())


def number(value: float) -> np.ndarray:
    """A float32 constant."""
    return np.array(value, np.float32)


def sizes(x: Sequence[int]) -> np.ndarray:
    """Whole numbers as a constant."""
    return np.array(x, np.int64)


def _bytes(array: np.ndarray) -> bytes:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.tobytes()


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ConfigError(
            "ONNX files are written by the library onnx, which is not installed; run pip install "
            "'glassformer[onnx]'."
        ) from None
    return onnx
