"""Running text as token ids, stored once for each split: one ragged column, a row a document."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Literal

import numpy as np

from glassformer import headway
from glassformer.data.config import DataConfig, SplitName
from glassformer.data.formats.documents import refuse_empty
from glassformer.data.order import WindowOrder
from glassformer.data.shards import (
    KIND,
    SHARD_KIND,
    SIZE,
    Encoder,
    Job,
    count,
    dtype_of,
    encode,
    join,
    made_by,
    planned,
)
from glassformer.data.shards import write as write_shard
from glassformer.data.sources import Source, resolve
from glassformer.data.splits import borders
from glassformer.data.store import MANIFEST, Store, Writer, check_split, place_of, request_of
from glassformer.errors import DataError, counted

Each = Callable[[Callable[[Job], int], Sequence[Job]], Iterable[int]]
"""Calls a function for each job, and gives the results in their order."""


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


def store_tokens(
    folder: str | os.PathLike[str],
    tokenizer: Encoder,
    config: DataConfig,
    size: int = SIZE,
    each: Each = map,
) -> Store:
    """The store of a text in `config.store`, else in `folder`; see `Store.open_or_build`.

    A text of more than `size` bytes is encoded in shards of about as many, one after the other, or
    as `each` calls a function for all; they stay in a folder beside the store until it is whole.
    `counts` of each split: tokens, bytes, characters, documents. DataError: unreadable text.
    """
    place = place_of(config, folder).absolute()
    sources: dict[SplitName, list[Source]] = {
        name: resolve(of.path, config.root)
        for name, of in config.splits.items()
        if of.path is not None or name == "train"
    }
    fields = {"format", "text_field", "word_field", "encoding"}
    request = request_of(KIND, config, sources, fields, made_by(tokenizer))
    work = place.with_name(f".{place.name}.shards")

    def write(writer: Writer) -> None:
        jobs = _with_borders(planned(work, config, sources, tokenizer, size), config, each)
        if len(jobs) == len(sources):  # one for each split
            read = [write_shard(writer, job, tokenizer, alone=True) for job in jobs]
        else:
            work.mkdir(parents=True, exist_ok=True)
            read = _encode(jobs, tokenizer, each)
            shards = (Store.open(Path(job.place), SHARD_KIND, hashed=False) for job in jobs)
            join(writer, shards, made_by(tokenizer)["eos"], dtype_of(tokenizer.vocab_size))
        for name, of in sources.items():
            if not sum(n for job, n in zip(jobs, read, strict=True) if job.split == name):
                refuse_empty(of)

    store = Store.open_or_build(place, request, write)
    shutil.rmtree(work, ignore_errors=True)
    return store


def _with_borders(jobs: list[Job], config: DataConfig, each: Each) -> list[Job]:
    """The jobs with the borders of the splits that are held out of train, if any are."""
    validation, test = config.held_out
    if not validation and not test:
        return jobs
    train = [job for job in jobs if job.split == "train"]
    starts = [*accumulate(each(count, train), initial=0)]
    ends = [0, *borders(starts[-1], validation, test), starts[-1]]
    cut = [replace(of, borders=ends, start=at) for of, at in zip(train, starts, strict=False)]
    return cut + jobs[len(train) :]


def _encode(jobs: Sequence[Job], tokenizer: Encoder, each: Each) -> list[int]:
    """Make the store of each shard, and report how far this has come; the characters of each."""
    pace, results = headway.Pace("encoding text", sum(job.size for job in jobs)), list[int]()
    kept = [(Path(job.place) / MANIFEST).is_file() for job in jobs]
    for result in each(partial(_encode_shard, tokenizer), jobs):
        pace.add(jobs[len(results)].size, kept[len(results)])
        results.append(result)
    return results


def _encode_shard(tokenizer: Encoder, job: Job) -> int:
    with headway.following(lambda what: None):
        return encode(job, tokenizer)


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
