"""From sources to documents: text files, JSONL, gzip of both, the demo text.

One document is in memory at a time; a plain text file is one document. Knows: encodings and formats. Does not know:
splits, tokens.
"""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from glassformer.data.builtin import python_documents
from glassformer.data.config import DataConfig
from glassformer.data.sources import DATES, JSONL_SUFFIXES, PYTHON, Source, reading
from glassformer.errors import DataError, suggest


@dataclass(frozen=True)
class Document:
    """One text and where it comes from, as a user would name it."""

    text: str
    source: str


def read(sources: Iterable[Source], config: DataConfig) -> Iterator[Document]:
    """The documents of the sources in order, without empty ones.

    DataError: unreadable, binary, of another encoding, broken gzip or JSONL, or nothing but empty files.
    """
    names, some = [], False
    for source in sources:
        names.append(source.path)
        for document in _documents(source, config):
            if document.text:
                some = True
                yield document
    if not some:
        name = f"{names[0]} is" if len(names) == 1 else f"all {len(names)} files are"
        raise DataError(f"{name} empty; give text to read")


def decoded(raw: bytes, encoding: str, name: str, offset: int = 0) -> str:
    """The text of bytes that stand at `offset` of the named file, a byte order mark removed at its beginning.

    DataError: other encoding (with the byte's offset), or binary (a NUL).
    """
    unicode = codecs.lookup(encoding).name == "utf-8"
    mark = len(codecs.BOM_UTF8) if unicode and offset == 0 and raw.startswith(codecs.BOM_UTF8) else 0
    try:
        text = raw[mark:].decode(encoding)
    except UnicodeError as problem:
        wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if b"\0" in raw and not wide:
            raise _binary(name, offset + raw.index(b"\0")) from None
        at = mark + problem.start if isinstance(problem, UnicodeDecodeError) else 0
        other = "utf-16" if wide else "latin-1" if unicode else "utf-8"
        raise DataError(
            f"{name} is not {encoding}: byte 0x{raw[at]:02x} at offset {offset + at} does not fit; "
            f"set data.encoding={other} if that is its encoding"
        ) from None
    if "\0" in text:
        raise _binary(name, offset + mark + len(text[: text.index("\0")].encode(encoding, errors="replace")))
    return text


def _binary(name: str, at: int) -> DataError:
    return DataError(f"{name} looks binary (a NUL byte at offset {at}); give a text file")


def _documents(source: Source, config: DataConfig) -> Iterator[Document]:
    if source.path == DATES:
        raise DataError(
            f"{DATES} holds pairs, no running text; train an encoder-decoder on it (recipes/transduce.yaml)"
        )
    if source.path == PYTHON:
        yield from (Document(text, f"{source.path}/{name}") for name, text in python_documents())
        return
    lines = config.format == "jsonl" or (config.format == "auto" and source.suffix in JSONL_SUFFIXES)
    with opened(source) as file:
        if lines:
            yield from _json_lines(file, config, source.path)
        else:
            yield Document(decoded(file.read(), config.encoding, source.path), source.path)


@contextmanager
def opened(source: Source) -> Iterator[io.BufferedIOBase]:
    """The bytes of a source, decompressed; DataError where they cannot be had."""
    try:
        with reading(source.path):
            if source.path.endswith(".gz"):
                with gzip.open(source.path, "rb") as file:
                    yield file
            else:
                with open(source.path, "rb") as file:
                    yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise DataError(
            f"{source.path} is not a whole gzip file ({problem}); copy it again, or drop .gz from its name"
        ) from problem


def _json_lines(file: io.BufferedIOBase, config: DataConfig, name: str) -> Iterator[Document]:
    if codecs.lookup(config.encoding).name.startswith(("utf-16", "utf-32")):  # whose newline is not one byte
        file = io.BytesIO(decoded(file.read(), config.encoding, name).encode("utf-8"))
        config = config.model_copy(update={"encoding": "utf-8"})
    offset = 0
    for number, raw in enumerate(file, 1):
        line = decoded(raw, config.encoding, name, offset)
        offset += len(raw)
        if line.strip():
            yield Document(_field(line, config.text_field, f"{name}, line {number}"), f"{name}, line {number}")


def parsed(line: str, where: str) -> Any:
    """The JSON value of a line; DataError: it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise DataError(f"{where} is not JSON ({problem}); give one JSON object per line") from None


def checked_text(text: Any, field: str, where: str, setting: str) -> str:
    """A field's value as a text; DataError: another type, or half a character. `setting` names the field to read."""
    if not isinstance(text, str):
        raise DataError(f"{where} has {field!r} that is not a string but {text!r:.40}; set {setting} to a text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where} has an unpaired surrogate in {field!r}, which is no character; remove it") from None
    return text


def _field(line: str, field: str, where: str) -> str:
    record = parsed(line, where)
    if not isinstance(record, dict):
        raise DataError(
            f"{where} is not a JSON object but {line.strip()[:40]!r}; give one object with {field!r} per line"
        )
    if field not in record:
        rest = suggest(field, record) if record else "the object is empty"
        raise DataError(f"{where} has no field {field!r}; {rest} (set data.text_field)")
    return checked_text(record[field], field, where, "data.text_field")
