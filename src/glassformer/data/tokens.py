"""Running text as token ids, stored once for each split: one ragged column, a row a document.

A large text is encoded in shards, each its own store: those that are
whole stay after a killed start.
"""

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from glassformer.core.cuts import portions
from glassformer.core.errors import DataError, amount
from glassformer.data.config import DataConfig
from glassformer.data.formats.documents import Document
from glassformer.data.order import WindowOrder
from glassformer.data.sources import resolve
from glassformer.data.splits import parts, whole
from glassformer.data.store import Column, Store, Writer, check_split, place_of, request_of

KIND, SHARD_KIND = "tokens", "a shard of tokens"
SIZE = 32 << 20
"""Characters of a shard, about."""
PORTION = 1 << 20
"""Characters that are encoded at the same time, about."""
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class TokenSplit:
    """The tokens of one split, and the UTF-8 bytes of its text, separators not counted."""

    name: str
    tokens: np.ndarray
    """A memory map of uint16 or uint32 ids."""
    n_bytes: int
    document_ends: np.ndarray
    """Offsets after the last token of each document, int64, ascending; the last is the number of
    tokens."""
    documents: Literal["mixed", "separate"] = "mixed"

    @property
    def described(self) -> str:
        """The name of the split in error sentences."""
        return {"train": "training"}.get(self.name, self.name) + " text"


def store_tokens(
    folder: str | os.PathLike[str],
    tokenizer: Any,
    config: DataConfig,
    size: int = SIZE,
    executor: Executor | None = None,
    ahead: int = 1,
) -> Store:
    """Return the store of a text in `config.store`, else in `folder`; see `Store.open_or_build`.

    Files of more than `size` bytes are encoded in shards of about as many characters, which stay in
    a folder beside the store until it is whole. Portions are encoded by a thread, or by an
    `executor`, `ahead` of them at the same time. `counts` of each split: tokens, bytes, characters,
    documents. DataError: unreadable text.
    """
    place = place_of(config, folder).absolute()
    sources = {name: resolve(config.splits[name].path, config) for name in config.with_files}
    fields = {"format", "text_field", "word_field", "encoding"}
    request = request_of(KIND, config, sources, fields, made_by(tokenizer))
    work = place.with_name(f".{place.name}.shards")
    encode = partial(_encode, tokenizer=tokenizer, executor=executor, ahead=ahead)

    def write(writer: Writer) -> None:
        found = parts(config)
        text = found if tokenizer.in_pieces else whole(found)
        files = {source.file: source.size for of in sources.values() for source in of}
        if sum(files.values()) <= size:
            encode(writer, text, before={})
        else:
            _encode_shards(writer, text, encode, size, work, request)
        for name, own in writer.counts.items():
            column = _column(writer, name, tokenizer)
            if own["documents"] > 1 and not own["goes_on"]:
                column.extend(_separator(tokenizer))
            own["tokens"] = column.size
            del own["goes_on"]

    store = Store.open_or_build(place, request, write)
    shutil.rmtree(work, ignore_errors=True)
    return store


def made_by(tokenizer: Any) -> dict[str, Any]:
    """Return what the ids in a store depend on, of their tokenizer."""
    eos, size = tokenizer.specials.get("eos"), tokenizer.vocab_size
    return {"fingerprint": tokenizer.fingerprint, "vocab_size": size, "eos": eos}


def _encode_shards(
    writer: Writer,
    text: Iterator[Document],
    encode: Callable[..., None],
    size: int,
    work: Path,
    request: dict[str, Any],
) -> None:
    """Write the ids of a text, by stores of about `size` characters in the folder `work`."""
    work.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(text):
        shard = _take(chain([first], text), size)
        write = partial(encode, text=shard, before=writer.counts)
        own_request = request | {"kind": SHARD_KIND}
        store = Store.open_or_build(work / f"{number:06}", own_request, write)
        deque(shard, maxlen=0)  # the text of a shard that was kept is only read
        for name, own in store.counts.items():
            rows = store.ragged_column(name, KIND)
            writer.column(name, KIND, rows.values.dtype.name).join(rows)
            total = writer.counts.setdefault(name, zeros())
            for key in ("bytes", "characters", "documents"):
                total[key] += own[key]
            total["goes_on"] = own["goes_on"]


def _take(text: Iterator[Document], size: int) -> Iterator[Document]:
    """Yield parts of a text that have together about `size` characters."""
    for part in text:
        yield part
        size -= len(part.text)
        if size <= 0:
            return


def _encode(
    writer: Writer,
    text: Iterator[Document],
    before: Mapping[str, dict[str, Any]],
    tokenizer: Any,
    executor: Executor | None,
    ahead: int,
) -> None:
    """Write the ids of a text, <eos> between documents; `before`: the counts of the text before it,
    whose last document continues in the first row."""
    for part, ids in _encode_ahead(text, tokenizer, executor, ahead):
        column = _column(writer, part.split, tokenizer)
        if part.split not in writer.counts:
            writer.counts[part.split] = zeros()
            if part.split in before:
                writer.counts[part.split]["goes_on"] = before[part.split]["goes_on"]
                column.append(NOTHING)
        own = writer.counts[part.split]
        if not own["goes_on"]:
            if column.rows:
                column.extend(_separator(tokenizer))
            column.append(NOTHING)
            own["documents"] += 1
        column.extend(ids)
        own["bytes"] += len(part.text.encode())
        own["characters"] += len(part.text)
        own["goes_on"] = not part.ends


def zeros() -> dict[str, Any]:
    """Return the counts of a split without text; `goes_on`: its last document is not at its end."""
    return {"tokens": 0, "bytes": 0, "characters": 0, "documents": 0, "goes_on": False}


def _column(writer: Writer, split: str, tokenizer: Any) -> Column:
    """Return the column of a split, of the smallest type for all ids."""
    return writer.column(split, KIND, "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32")


def _separator(tokenizer: Any) -> np.ndarray:
    """Return the ids between two documents: <eos>, if there is one."""
    return np.array([tokenizer.specials[role] for role in ("eos",) if role in tokenizer.specials])


def _encode_ahead(
    text: Iterator[Document], tokenizer: Any, executor: Executor | None, ahead: int
) -> Iterator[tuple[Document, np.ndarray]]:
    """Yield each part with its ids; some portions are encoded ahead."""
    own = ThreadPoolExecutor(1, "encoding") if executor is None else nullcontext(executor)
    waiting = deque[tuple[Sequence[Document], Future[list[np.ndarray]]]]()
    with own as pool:
        for portion in portions(text, lambda part: len(part.text), PORTION):
            found = pool.submit(tokenizer.encode_all, [part.text for part in portion])
            waiting.append((portion, found))
            while len(waiting) > ahead:
                before, ids = waiting.popleft()
                yield from zip(before, ids.result(), strict=True)
        for before, ids in waiting:
            yield from zip(before, ids.result(), strict=True)


def tokens_of(
    store: Store, name: str, documents: Literal["mixed", "separate"] = "mixed"
) -> TokenSplit:
    """Return a split by its name: train, validation or test; DataError if it has no text."""
    check_split(store, name, f"there is no {name} text", "give more text, or hold out less of it")
    rows, count = store.ragged_column(name, KIND), store.counts[name]
    return TokenSplit(name, rows.values, count["bytes"], rows.ends, documents)


def training_order(split: TokenSplit, length: int, batch_size: int, seed: int) -> WindowOrder:
    """Return the order of a text's training windows; DataError: fewer than length + 1 tokens."""
    n = len(split.tokens)
    if n < length + 1:
        raise DataError(
            f"the {split.described} has {amount(n, 'token')} and a training sequence needs "
            f"{length + 1}; use a longer text, or set model.max_length to at most {max(n - 1, 1)}"
        )
    return WindowOrder(n, length, batch_size, seed)
