"""The tokenizers library, a Rust extension: building a tokenizer from a definition, encoding, and
errors as DataError."""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer import headway
from glassformer.cuts import chunks
from glassformer.errors import DataError, GlassformerError

if TYPE_CHECKING:
    from tokenizers.trainers import Trainer

    from tokenizers import Tokenizer as Library

GROUP = min(os.cpu_count() or 1, 16)
"""Chunks that are encoded at once, before Ctrl-C is heard again and memory is free again."""


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Turn any exception of the block, Rust panics included, into one DataError `cannot <doing>:
    <reason>`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, GlassformerError):
        raise
    except BaseException as problem:
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise DataError(
            f"cannot {doing}: {reason}; use another tokenizer file or restore it"
        ) from problem


def built(definition: dict[str, Any], name: str, symbols: bool = False) -> "Library":
    """The library's tokenizer of a definition, deterministic and safe for any text.

    Truncation and padding are dropped (text is never cut silently), so is BPE dropout, and special
    symbols in the text are read as ordinary characters, unless `symbols` are to count. DataError:
    the library refuses the definition.
    """
    from tokenizers import Tokenizer as Library

    definition = definition | {"truncation": None, "padding": None}
    if "dropout" in definition["model"]:
        definition["model"] = definition["model"] | {"dropout": None}
    with guarded(f"use {name} as a tokenizer"):
        library = Library.from_str(json.dumps(definition))
        library.encode_special_tokens = not symbols
    return library


def learn(library: "Library", trainer: "Trainer", texts: Iterable[str]) -> None:
    """Train on the texts in a thread, so that Ctrl-C is heard while the library computes.

    After Ctrl-C the thread gets no more texts, and is left to end by itself.
    """
    stopped, problems = threading.Event(), list[BaseException]()

    def given() -> Iterator[str]:
        for text in texts:
            if stopped.is_set():
                raise KeyboardInterrupt
            yield text

    def work() -> None:
        try:
            library.train_from_iterator(given(), trainer=trainer)
        except BaseException as problem:  # noqa: BLE001 - raised below
            problems.append(problem)

    thread = threading.Thread(target=work, name=headway.LEARNING, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.1)
            headway.report("learning the tokenizer")
    finally:
        stopped.set()
    if problems:
        raise problems[0]


def encode_chunks(library: "Library", text: str) -> np.ndarray:
    """The ids of the text, int32 [n]; chunks are encoded in parallel a group at a time, so that
    memory stays bounded."""
    pieces, ids = chunks(text), [np.empty(0, np.int32)]
    while group := list(islice(pieces, GROUP)):
        with guarded("encode the text"):
            encodings = library.encode_batch_fast(group, add_special_tokens=False)
            ids += [np.array(encoding.ids, np.int32) for encoding in encodings]
    return np.concatenate(ids)


def encode_whole(library: "Library", text: str) -> np.ndarray:
    """The ids of the text in one piece, int32 [n], for tokenizers whose cutting points are
    unknown."""
    with guarded("encode the text"):
        (found,) = library.encode_batch_fast([text], add_special_tokens=False)
        return np.array(found.ids, np.int32)


def encode_spans(library: "Library", text: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the text in one piece, int32 [n], and the characters that each came from, int64
    [n, 2]."""
    with guarded("encode the text"):
        found = library.encode(text, add_special_tokens=False)
        return np.array(found.ids, np.int32), np.array(found.offsets, np.int64).reshape(-1, 2)
