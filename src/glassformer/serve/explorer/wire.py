"""What an answer is on its way: a header of plain values and named arrays, as one safetensors file.

    8 bytes: length | JSON: dtype, shape, place of each array, and the header as text | the arrays'
    bytes

It is an ordinary safetensors file, so "download the numbers" needs no converter. Pixels are bytes
of square roots:

    byte = round(255 √v)        v = (byte / 255)²

They are off by at most 0.004, so they are for the eye alone.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from safetensors.numpy import load, save

from glassformer.axes import Tensor
from glassformer.errors import DataError
from glassformer.files import finite

KINDS = (np.uint8, np.int32, np.float16, np.float32)
"""What an array may hold on its way."""


@dataclass(frozen=True)
class Reply:
    """An answer: `header` of plain values, and `arrays` of `KINDS` by their names."""

    header: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The answer as a safetensors file, the header as the text `header` of its metadata."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        return save(arrays, {"header": text(self.header)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The answer in a safetensors file; DataError: it is none, or it has no header."""
        try:
            length = int.from_bytes(data[:8], "little")
            described = json.loads(data[8 : 8 + length])
            return cls(json.loads(described["__metadata__"]["header"]), load(data))
        except Exception as error:  # noqa: BLE001 - the library has errors of its own for every kind of damage
            raise DataError(f"This is no answer of the explorer ({error}); ask again.") from None


def text(value: Any) -> str:
    """A value as strict JSON on one line: a number that JSON does not have (NaN, infinity) is null.

    In ASCII, since a text from outside may hold half of a character pair.
    """
    return json.dumps(finite(value), allow_nan=False, separators=(",", ":"))


def root_bytes(values: Tensor) -> np.ndarray:
    """Numbers from 0 to 1 as pixels, uint8 of the same shape: round(255 √v)."""
    return values.clamp(0, 1).sqrt_().mul_(255).round_().to(torch.uint8).cpu().numpy()


def floats(values: Tensor) -> np.ndarray:
    """Numbers as float32."""
    return values.detach().to(torch.float32).cpu().numpy()


def integers(values: Tensor) -> np.ndarray:
    """Whole numbers as int32."""
    return values.detach().to(torch.int32).cpu().numpy()
