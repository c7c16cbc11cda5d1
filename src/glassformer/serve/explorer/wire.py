"""An answer as bytes: a header of plain values and named arrays, as one safetensors file.

    8 bytes: length | JSON: dtype, shape, place of each array, and the header as text | the arrays'
    bytes

It is an ordinary safetensors file, so its download needs no converter. Pixels are bytes of square
roots, off by at most 0.004, for display only:

    byte = round(255 √v)        v = (byte / 255)²
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save

from glassformer.core.axes import Tensor
from glassformer.core.files import finite

Arrays = Mapping[str, np.ndarray | Tensor]


class Reply:
    """An answer: `header` of plain values, and `arrays` by name.

    Tensors become float32, int32, or uint8 if they are that or Boolean.
    """

    def __init__(self, header: dict[str, Any], arrays: Arrays = MappingProxyType({})):
        self.header = header
        self.arrays = {name: _array(array) for name, array in arrays.items()}

    def to_bytes(self) -> bytes:
        """The answer as a safetensors file, the header as the text `header` of its metadata."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        return save(arrays, {"header": text(self.header)})


def text(value: Any) -> str:
    """A value as strict JSON on one line: a number that JSON does not have (NaN, infinity) is null.

    In ASCII, since a text from outside may hold half of a character pair.
    """
    return json.dumps(finite(value), allow_nan=False, separators=(",", ":"))


def root_bytes(values: Tensor) -> np.ndarray:
    """Numbers from 0 to 1 as pixels, uint8 of the same shape: round(255 √v)."""
    return _array(values.clamp(0, 1).sqrt_().mul_(255).round_().to(torch.uint8))


def _array(value: np.ndarray | Tensor) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    kind = torch.float32 if value.is_floating_point() else torch.int32
    small = value.dtype in (torch.uint8, torch.bool)
    return value.detach().to(torch.uint8 if small else kind).cpu().numpy()
