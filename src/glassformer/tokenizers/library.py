"""The tokenizers library, a Rust extension: building a tokenizer from a definition, encoding, and
errors as DataError."""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core import progress
from glassformer.core.cuts import chunks, portions
from glassformer.core.errors import DataError, GlassformerError

if TYPE_CHECKING:
    from tokenizers.trainers import Trainer

    from tokenizers import Tokenizer as Library

GROUP = 1 << 20
"""Characters that the library's threads encode in one call, about; each takes some 100 bytes."""


@contextmanager
def guard(doing: str) -> Iterator[None]:
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


def utf8(text: str) -> bytes:
    """The text in UTF-8; DataError at an unpaired surrogate, which no UTF-8 text can hold."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as problem:
        raise DataError(
            f"the text has an unpaired surrogate (U+{ord(text[problem.start]):04X}) at character "
            f"{problem.start}, which UTF-8 cannot hold; remove it, or decode its source with the "
            f"right encoding"
        ) from None


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
    with guard(f"use {name} as a tokenizer"):
        library = Library.from_str(json.dumps(definition))
        library.encode_special_tokens = not symbols
    return library


def learn(library: "Library", trainer: "Trainer", texts: Iterable[str]) -> None:
    """Train on the texts in a thread, so that Ctrl-C is heard while the library computes.

    After Ctrl-C the thread gets no more texts, and nothing waits for its end.
    """
    stopped, problems = threading.Event(), list[BaseException]()

    def read() -> Iterator[str]:
        for text in texts:
            if stopped.is_set():
                raise KeyboardInterrupt
            yield text

    def work() -> None:
        try:
            library.train_from_iterator(read(), trainer=trainer)
        except BaseException as problem:  # noqa: BLE001 - raised below
            problems.append(problem)

    thread = threading.Thread(target=work, name=progress.LEARNING, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.1)
            progress.report("learning the tokenizer")
    finally:
        stopped.set()
    for problem in problems:
        raise problem


def encode_texts(library: "Library", texts: Sequence[str], cut: bool) -> list[np.ndarray]:
    """The ids of each text, int32 [n], by all threads of the library.

    `cut`: long texts are cut into chunks, so that memory stays bounded; not for a tokenizer whose
    cutting points are unknown.
    """
    parts = [
        (at, part) for at, text in enumerate(texts) for part in (chunks(text) if cut else [text])
    ]
    ids = [[np.empty(0, np.int32)] for _ in texts]
    for group in portions(parts, lambda part: len(part[1]), GROUP):
        with guard("encode the text"):
            found = library.encode_batch_fast([part for _, part in group], add_special_tokens=False)
        for (at, _), encoding in zip(group, found, strict=True):
            ids[at].append(np.array(encoding.ids, np.int32))
    return [np.concatenate(own) for own in ids]


def encode_spans(library: "Library", text: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids of the text in one piece, int32 [n], and the characters that each came from, int64
    [n, 2]."""
    with guard("encode the text"):
        found = library.encode(text, add_special_tokens=False)
        return np.array(found.ids, np.int32), np.array(found.offsets, np.int64).reshape(-1, 2)
