"""The bytes of a GGUF file, all little-endian.

    "GGUF"   version u32   number of tensors u64   number of values u64
    values   name   type u32   value             a string is its length u64 and its UTF-8
    tensors  name   dimensions u32   sizes u64, the innermost first   type u32   place in data u64
    data     each tensor at a multiple of 32 bytes

Source: ggml-org/ggml, docs/gguf.md.
"""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
"""Types of values."""
TENSOR_F32 = 0
"""The type of a tensor of float32."""
Scalar = str | int | float
Value = Scalar | Sequence[str] | Sequence[int] | Sequence[float]


def write_gguf(path: Path, values: Mapping[str, Value], tensors: Mapping[str, Tensor]) -> None:
    """Write values and tensors; these are stored in float32."""
    with path.open("wb") as file:
        file.write(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(values)))
        for name, value in values.items():
            file.write(_string(name) + _typed(value))
        place = 0
        for name, tensor in tensors.items():
            sizes = [*reversed(tensor.shape)]
            file.write(_string(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes))
            file.write(struct.pack("<IQ", TENSOR_F32, place))
            place += -(-4 * tensor.numel() // ALIGNMENT) * ALIGNMENT
        for tensor in tensors.values():
            _align(file)
            file.write(tensor.detach().cpu().float().contiguous().numpy().astype("<f4").data)
        _align(file)


def _align(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % ALIGNMENT))


def _string(text: str) -> bytes:
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: Value) -> bytes:
    if isinstance(value, Scalar):
        kind, packed = _scalar(value)
        return struct.pack("<I", kind) + packed
    kinds, packed = zip(*map(_scalar, value), strict=True) if value else ((STRING,), ())
    kind = {U32: I32}.get(kinds[0], kinds[0])  # whose bytes are the same
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(packed)


def _scalar(value: Scalar) -> tuple[int, bytes]:
    match value:
        case str():
            return STRING, _string(value)
        case bool():
            return BOOL, struct.pack("<?", value)
        case int():
            return U32, struct.pack("<I", value)
        case float():
            return F32, struct.pack("<f", value)
