"""Running text as token ids, stored once for each split: one ragged column, a row a document."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np

from glassformer.data.config import DataConfig
from glassformer.data.order import WindowOrder
from glassformer.data.sources import resolve
from glassformer.data.splits import Part, parts, whole
from glassformer.data.store import Store, Writer, check_split, place_of, request_of
from glassformer.errors import ConfigError, DataError, counted

KIND = "tokens"


class Encoder(Protocol):
    """A tokenizer, as far as a store needs it."""

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that its ids depend on."""
        ...

    @property
    def vocab_size(self) -> int:
        """Ids are below it."""
        ...

    @property
    def specials(self) -> Mapping[str, int]:
        """The ids of special symbols; `eos` follows each document of a split with more than one."""
        ...

    @property
    def in_pieces(self) -> bool:
        """Whether a text may be encoded in the pieces of `cuts`."""
        ...

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text."""
        ...


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
        """Its name in error sentences."""
        return {"train": "training"}.get(self.name, self.name) + " text"


def made_by(tokenizer: Encoder) -> dict[str, Any]:
    """What the ids in a store depend on, of its tokenizer."""
    eos, size = tokenizer.specials.get("eos"), tokenizer.vocab_size
    return {"fingerprint": tokenizer.fingerprint, "vocab_size": size, "eos": eos}


def store_tokens(folder: str | os.PathLike[str], tokenizer: Encoder, config: DataConfig) -> Store:
    """The store of a text in `config.store`, else in `folder`; see `Store.open_or_build`.

    `counts` of each split: tokens, bytes, characters, documents. DataError: unreadable text.
    """
    named = {
        name: of.path
        for name, of in config.splits.items()
        if of.path is not None or name == "train"
    }
    sources = {name: resolve(of, config.root) for name, of in named.items()}
    eos = tokenizer.specials.get("eos")
    size = tokenizer.vocab_size
    fields = {"format", "text_field", "word_field", "encoding"}
    request = request_of(KIND, config, sources, fields, made_by(tokenizer))
    dtype = "uint16" if size <= 1 << 16 else "uint32"

    def write(writer: Writer) -> None:
        separate: dict[str, bool] = {}  # whether a document of this split has ended
        found = parts(config)
        for part in found if tokenizer.in_pieces else whole(found):
            ids = _ids(tokenizer, part)
            column = writer.column(part.split, KIND, dtype)
            if part.begins:
                if eos is not None and separate.get(part.split):
                    column.extend(np.array([eos]))
                column.append(ids)
            else:
                column.extend(ids)
            separate[part.split] = part.ends
            count = writer.counts.setdefault(
                part.split, {"tokens": 0, "bytes": 0, "characters": 0, "documents": 0}
            )
            count["bytes"] += len(part.text.encode("utf-8"))
            count["characters"] += len(part.text)
            count["documents"] += part.begins
        for name, count in writer.counts.items():
            column = writer.column(name, KIND, dtype)
            if eos is not None and separate[name] and count["documents"] > 1:
                column.extend(np.array([eos]))
            count["tokens"] = column.size

    return Store.open_or_build(place_of(config, folder), request, write)


def _ids(tokenizer: Encoder, part: Part) -> np.ndarray:
    """The ids of a text; ConfigError: one beyond the vocabulary."""
    ids, size = tokenizer.encode(part.text), tokenizer.vocab_size
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise ConfigError(
            f"the tokenizer gave id {int(ids.max())} for {part.source}, beyond its "
            f"vocabulary of {size}; use the tokenizer that belongs to this model"
        )
    return ids


def tokens_of(
    store: Store, name: str, documents: Literal["mixed", "separate"] = "mixed"
) -> TokenSplit:
    """A split by its name: train, validation or test; DataError if it has no text."""
    check_split(store, name, f"there is no {name} text", "give more text, or hold out less of it")
    rows, count = store.ragged(name, KIND), store.counts[name]
    return TokenSplit(name, rows.values, count["bytes"], rows.ends, documents)


def training_order(split: TokenSplit, length: int, batch_size: int, seed: int) -> WindowOrder:
    """The order of a text's training windows; DataError: fewer than length + 1 tokens."""
    n = len(split.tokens)
    if n < length + 1:
        raise DataError(
            f"the {split.described} has {counted(n, 'token')} and a training sequence needs "
            f"{length + 1}; use a longer text, or set model.max_length to at most {max(n - 1, 1)}"
        )
    return WindowOrder(n, length, batch_size, seed)
