"""The one file of a llama2.c model: a header, then numbers without names, in the order of a table.

    version 0   7 int32                                                        28 bytes
    version 1   "24ka", 1, 7 int32, one byte (shared classifier)              256 bytes
    version 2   "24ka", 2, 7 int32, that byte, int32 (size of a group)        256 bytes

The 7 are dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, max_seq_len. In version 0 a
negative vocab_size says that the classifier is not shared. Version 2 has its matrices as int8 in
groups, and after each matrix a float32 factor for each group.

Source: karpathy/llama2.c, export.py.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import CheckpointError
from glassformer.interop.tensors import Tensors

NAMES = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
MAGIC, HEADER = b"24ka", 256
LEGACY = """
tok_embeddings.weight            vocab_size dim
layers.#.attention_norm.weight   dim
layers.#.attention.wq.weight     dim dim
layers.#.attention.wk.weight     kv_dim dim
layers.#.attention.wv.weight     kv_dim dim
layers.#.attention.wo.weight     dim dim
layers.#.ffn_norm.weight         dim
layers.#.feed_forward.w1.weight  hidden_dim dim
layers.#.feed_forward.w2.weight  dim hidden_dim
layers.#.feed_forward.w3.weight  hidden_dim dim
norm.weight                      dim
freqs_cos                        max_seq_len pairs
freqs_sin                        max_seq_len pairs
output.weight                    vocab_size dim
"""
NORMS = """
layers.#.attention_norm.weight   dim
layers.#.ffn_norm.weight         dim
norm.weight                      dim
"""
MATRICES = """
tok_embeddings.weight            vocab_size dim
layers.#.attention.wq.weight     dim dim
layers.#.attention.wk.weight     kv_dim dim
layers.#.attention.wv.weight     kv_dim dim
layers.#.attention.wo.weight     dim dim
layers.#.feed_forward.w1.weight  hidden_dim dim
layers.#.feed_forward.w2.weight  dim hidden_dim
layers.#.feed_forward.w3.weight  hidden_dim dim
output.weight                    vocab_size dim
"""
TABLES = {0: LEGACY, 1: NORMS + MATRICES, 2: NORMS + MATRICES}
"""Tensors in their order; a line with `#` stands for that of every layer."""
MOST_LAYERS = 10_000
NO_OTHER = ", and a model of another kind is given by its folder; give the folder."


@dataclass(frozen=True)
class Header:
    """What stands before the numbers."""

    version: int
    sizes: Mapping[str, int]
    shared: bool
    """Whether the classifier is the embedding."""
    group: int
    """Numbers that share a factor (version 2)."""
    end: int
    """Bytes of the header."""


def keys_in(file: Path) -> dict[str, Any]:
    """The header of a file as keys of a configuration; CheckpointError: it is of no such model, or
    its size is not the one that its header tells."""
    header = _header(file)
    needed = header.end + sum(_bytes(name, shape, header) for name, shape in _layout(header))
    if needed != (size := file.stat().st_size):
        raise CheckpointError(
            f"{file} has {size:,} bytes, and a llama2.c model with its header has {needed:,}; "
            "download it again, or give the folder of the model if it is of another kind."
        )
    return {"model_type": "llama2.c", **header.sizes, "shared_classifier": header.shared}


def tensors_in(file: Path) -> Tensors:
    """The tensors of a file, those in float32 mapped; CheckpointError: as `keys_in`."""
    keys_in(file)
    header, found = _header(file), dict[str, Tensor]()
    at = header.end
    content = torch.from_file(str(file), size=file.stat().st_size, dtype=torch.uint8)
    for name, shape in _layout(header):
        count = prod(shape)
        if _is_grouped(name, header):
            whole, scales = content[at : at + count], content[at + count :]
            factors = _floats(scales[: 4 * count // header.group])
            groups = whole.view(torch.int8).view(-1, header.group) * factors[:, None]
            found[name] = groups.view(shape)
        else:
            found[name] = _floats(content[at : at + 4 * count]).view(shape)
        at += _bytes(name, shape, header)
    shapes = {name: tuple(one.shape) for name, one in found.items()}
    names = {name: name for name in found}
    return Tensors(file.parent, dict.fromkeys(found, file.name), names, shapes, {file.name: found})


def _floats(content: Tensor) -> Tensor:
    """Bytes as float32; copied where they do not begin at a multiple of 4."""
    aligned = content.data_ptr() % 4 == 0 and content.storage_offset() % 4 == 0
    return (content if aligned else content.clone()).view(torch.float32)


def _header(file: Path) -> Header:
    try:
        with file.open("rb") as opened:
            raw = opened.read(HEADER)
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror or error}.") from None
    if raw[:4] == b"GGUF":
        raise CheckpointError(
            f"{file} is a file of GGUF, which is written and not read; give the folder of the "
            "model that it was made from."
        )
    if raw[8:10] in (b'{"', b"{}"):
        raise CheckpointError(f"{file} is a file of safetensors{NO_OTHER}")
    marked = raw[:4] == MAGIC
    whole = len(raw) >= (HEADER if marked else 28)
    version = int.from_bytes(raw[4:8], "little") if marked else 0
    if not whole or version not in TABLES:
        raise CheckpointError(
            f"{file} is no file of llama2.c in one of the versions 0, 1 and 2{NO_OTHER}"
        )
    numbers = struct.unpack_from("<7i", raw, 8 if marked else 0)
    shared, group = struct.unpack_from("<Bi", raw, 36) if marked else (numbers[5] > 0, 1)
    sizes: dict[str, int] = dict(zip(NAMES, numbers, strict=True))
    sizes["vocab_size"] = abs(sizes["vocab_size"]) if version == 0 else sizes["vocab_size"]
    _check(file, sizes, group if version == 2 else 1)
    return Header(version, sizes, bool(shared), group, HEADER if marked else 28)


def _check(file: Path, sizes: Mapping[str, int], group: int) -> None:
    """CheckpointError: sizes that no model has."""
    heads, kv_heads = sizes["n_heads"], sizes["n_kv_heads"]
    whole = min(group, *sizes.values()) > 0 and sizes["n_layers"] <= MOST_LAYERS
    if not whole or sizes["dim"] % heads or heads % kv_heads or sizes["dim"] % group:
        shown = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise CheckpointError(f"{file} is no file of llama2.c (it would have {shown}){NO_OTHER}")


def _layout(header: Header) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the tensors, in their order."""
    of = header.sizes
    width = of["dim"] // of["n_heads"]
    sizes = {**of, "kv_dim": of["n_kv_heads"] * width, "pairs": width // 2}
    for line in TABLES[header.version].split("\n"):
        if not line or (header.shared and line.startswith("output")):
            continue
        name, *axes = line.split()
        for layer in range(of["n_layers"] if "#" in name else 1):
            yield name.replace("#", str(layer)), tuple(sizes[axis] for axis in axes)


def _is_grouped(name: str, header: Header) -> bool:
    return header.version == 2 and "norm" not in name


def _bytes(name: str, shape: tuple[int, ...], header: Header) -> int:
    count = prod(shape)
    return count + 4 * count // header.group if _is_grouped(name, header) else 4 * count
