"""The pool of an engine: how many slots, of which type; and sources in it."""

from collections.abc import Sequence

import numpy as np

from glassformer.core.errors import ConfigError
from glassformer.data.collate import pad_examples
from glassformer.data.example import Example
from glassformer.layers.attention.ragged import Pool
from glassformer.models.compiled_step import CompiledStep
from glassformer.models.transformer import Transformer
from glassformer.runtime.prefixes import BLOCK

CACHE_BYTES = 1 << 30
"""Default size of the pool, at most."""
TOGETHER = 1 << 10
"""Elements of sources, with their padding, that are encoded together: few enough for a cache."""


def program_of(model: Transformer) -> CompiledStep | None:
    """Return the model's compiled step, if it was made from the weights that the model has."""
    step = model.compiled_step
    return step if step is not None and step.current else None


def pool_of(
    model: Transformer,
    program: CompiledStep | None,
    max_rows: int = 1,
    cache_bytes: int | None = None,
    n_slots: int | None = None,
) -> Pool:
    """Return the pool for `max_rows` sequences of the whole context, of at most `cache_bytes`
    (None: 1 GiB); or of `n_slots`, which grows.

    ConfigError: it has no room for a block.
    """
    config, weight = model.config, next(model.parameters())
    shape = config.depth("decoder"), config.kv_heads, config.head_width
    dtype = weight.dtype if program is None else program.keys
    if n_slots is not None:
        return Pool(*shape, n_slots, dtype, weight.device, grows=True)
    size = Pool.slot_bytes(*shape, dtype)
    wanted = min(CACHE_BYTES, size * (1 + max_rows * max(BLOCK, config.max_length)))
    n_slots = (wanted if cache_bytes is None else cache_bytes) // size
    if n_slots <= BLOCK:
        raise ConfigError(
            f"A cache of {cache_bytes} bytes has no room; this model needs at least "
            f"{(1 + BLOCK) * size}, for {BLOCK} elements."
        )
    return Pool(*shape, n_slots, dtype, weight.device)


def write_sources(
    model: Transformer, pool: Pool, sources: Sequence[Example], tables: Sequence[np.ndarray]
) -> None:
    """Encode sources, some together, and write their keys and values at every layer to slots."""
    assert model.decoder is not None
    begin, lengths = 0, [len(own.ids) for own in sources]
    for end in range(1, len(sources) + 1):
        if end < len(sources) and max(lengths[begin : end + 1]) * (end + 1 - begin) <= TOGETHER:
            continue
        batch = pad_examples(sources[begin:end]).to(pool.numbers.device)
        memory = model.encode(batch)
        pool.write(tables[begin:end], model.decoder.source_keys_values(memory.hidden))
        begin = end
