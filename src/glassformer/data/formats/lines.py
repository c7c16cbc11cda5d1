"""Text, lines and JSON values of a source, in any encoding.

Errors name the file and the line or byte.
"""

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from typing import Any

from glassformer import headway
from glassformer.data.config import DataConfig
from glassformer.data.formats.contents import opened
from glassformer.data.sources import Source
from glassformer.errors import DataError, suggest

PART = 1 << 22
LONGEST_LINE = 1 << 28
"""Bytes of one line, which is in memory as a whole."""
_C1 = re.compile("[\x80\x82-\x84\x86-\x8c\x8e\x91-\x9c\x9e\x9f]")
"""Control characters of latin-1 that are letters and signs in cp1252, but NEL, which is in use."""


def decoded(raw: bytes, encoding: str, name: str, offset: int = 0) -> str:
    """Decode bytes at `offset` of the named file, without a byte order mark at its start.

    DataError: another encoding (with the offset of the byte), or binary (a NUL).
    """
    try:
        text = raw.decode(encoding)
    except UnicodeError as problem:
        raise _misfit(raw, encoding, name, offset, problem) from None
    return _checked(text, encoding, name, offset)


def texts(source: Source, config: DataConfig) -> Iterator[str]:
    """The text of a source, decoded in parts of PART bytes; errors as of `decoded`."""
    name, encoding, offset = source.path, config.encoding, source.begin
    decoder = codecs.getincrementaldecoder(encoding)()
    with opened(source) as file:
        size = source.size
        while True:
            raw = file.read(PART)
            held = decoder.getstate()[0]  # the beginning of a character
            begin = offset - len(held)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeError as problem:
                raise _misfit(held + raw, encoding, name, begin, problem) from None
            yield _checked(text, encoding, name, begin)
            if not raw:
                return
            offset += len(raw)
            headway.report_reading(name, offset, size)


def _misfit(raw: bytes, encoding: str, name: str, offset: int, problem: UnicodeError) -> DataError:
    """The error for bytes of another encoding, with the likely one."""
    wide = offset == 0 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in raw and not wide:
        return _binary(name, offset + raw.index(b"\0"))
    at = problem.start if isinstance(problem, UnicodeDecodeError) else 0
    unicode = codecs.lookup(encoding).name == "utf-8"
    other = "utf-16" if wide else _western(raw) if unicode else "utf-8"
    return DataError(
        f"{name} is not {encoding}: byte 0x{raw[at]:02x} at offset {offset + at} does not fit; "
        f"set data.encoding={other} if that is its encoding"
    )


def _checked(text: str, encoding: str, name: str, offset: int) -> str:
    """The text without a mark at the start of the file; DataError: it is binary, or cp1252 that
    was read as latin-1."""
    kind = codecs.lookup(encoding).name
    if offset == 0 and kind == "utf-8" and text.startswith("\ufeff"):
        text, offset = text[1:], len(codecs.BOM_UTF8)
    if kind == "iso8859-1" and (found := _C1.search(text)):
        byte = ord(found[0])
        raise DataError(
            f"{name} is not latin-1: byte 0x{byte:02x} at offset {offset + found.start()} is a "
            f"control character there and {bytes([byte]).decode('cp1252')!r} in cp1252; set "
            f"data.encoding=cp1252"
        )
    if "\0" in text:
        before = text.partition("\0")[0].encode(encoding, errors="replace")
        raise _binary(name, offset + len(before))
    return text


def _western(raw: bytes) -> str:
    """The likelier of two encodings of one byte a character: cp1252 has quotes where latin-1 has
    control characters, and five bytes that are no characters."""
    try:
        raw.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _binary(name: str, at: int) -> DataError:
    return DataError(f"{name} looks binary (a NUL byte at offset {at}); give a text file")


def lines(source: Source, config: DataConfig) -> Iterator[tuple[str, str]]:
    """Each line without its end, and its origin; only \\n ends a line."""
    for line, where in ended_lines(source, config):
        yield line.rstrip("\r\n"), where


def lines_beside(left: Source, right: Source, config: DataConfig) -> Iterator[tuple[str, str, str]]:
    """Line n of two files, and the origin of the first; DataError: one has more lines."""
    both = zip_longest(lines(left, config), lines(right, config), fillvalue=(None, ""))
    for number, ((one, where), (other, _)) in enumerate(both, 1):
        if one is None or other is None:
            longer, shorter = (right, left) if one is None else (left, right)
            raise DataError(
                f"{longer.path} goes on at line {number} where {shorter.path} has ended after "
                f"{number - 1} lines; line n of one file must belong to line n of the other"
            )
        yield one, other, where


def ended_lines(source: Source, config: DataConfig) -> Iterator[tuple[str, str]]:
    """Each line with its end, and its origin; only \\n ends a line."""
    name, encoding = source.path, config.encoding
    with opened(source) as file:
        if len("\n".encode(encoding)) != 1:  # whose newline is not one byte
            text = io.StringIO(decoded(file.read(), encoding, name), newline="\n")
            for number, line in enumerate(text, 1):
                yield line, f"{name}, line {number}"
            return
        offset = source.begin
        behind = f" behind byte {offset:,}" if offset else ""
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if len(raw) > LONGEST_LINE:
                raise DataError(
                    f"{name}, line {number}{behind} has more than {LONGEST_LINE:,} bytes, the most "
                    f"of one line; divide it"
                )
            yield decoded(raw, encoding, name, offset), f"{name}, line {number}{behind}"
            if offset // PART < (offset + len(raw)) // PART:
                headway.report_reading(name, offset + len(raw), source.size)
            offset += len(raw)


def objects(
    source: Source, config: DataConfig, made: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Iterator[tuple[Any, str]]:
    """Yield the JSON value of each line that is not blank, or of each row of an array (also of
    {"data": [...]}), and its origin; `made`: of an object's pairs.

    DataError: invalid JSON.
    """
    read = lines(source, config)
    first = next(((line, where) for line, where in read if line.strip()), None)
    rows = _array(first[0], source, config, made) if first and not source.begin else None
    if rows is not None:
        yield from ((row, f"{source.path}, row {at}") for at, row in enumerate(rows, 1))
        return
    for line, where in chain([first] if first else [], read):
        if line.strip():
            try:
                value = json.loads(line, object_pairs_hook=made)
            except (ValueError, RecursionError) as problem:
                raise DataError(
                    f"{where} is not JSON ({problem}); give one JSON object per line"
                ) from None
            yield value, where


def _array(
    first: str, source: Source, config: DataConfig, made: Callable[..., Any] | None
) -> list[Any] | None:
    """Return the rows of a file that is one array, by its first line; None: its lines are rows.

    DataError: a .json file that is neither.
    """
    whole, begin = source.suffix == ".json", first.lstrip("\ufeff \t")
    alone = _parse(first)
    if not whole and (not begin.startswith(("[", "{")) or (alone and not _rows_in(alone))):
        return None
    with opened(source) as file:
        text = decoded(file.read(), config.encoding, source.path)
    try:
        value = json.loads(text, object_pairs_hook=made)
    except (ValueError, RecursionError) as problem:
        if not whole or alone is not None:
            return None
        raise DataError(
            f"{source.path} is not JSON ({problem}); set data.format=jsonl if each line is"
        ) from None
    listed = value.get("data") if isinstance(value, dict) else None
    rows: Any = listed if isinstance(listed, list) else value
    if whole and not isinstance(rows, list):
        raise DataError(
            f"{source.path} is not a JSON array but {text.strip()!r:.40}; give an array of rows"
        )
    return rows if whole else _rows_in(rows)


def _parse(line: str) -> Any:
    """Return the JSON value of a line; None: it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _rows_in(value: Any) -> list[Any] | None:
    """Return a list of objects; None: another value."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return value
    return None


def found(record: Any, field: str, where: str, setting: str) -> Any:
    """The value at a dotted path of a JSON object; a key that itself has dots takes precedence.

    DataError: missing, or not an object; `setting` is the field of DataConfig that names it.
    """
    if not isinstance(record, dict):
        raise DataError(
            f"{where} is not a JSON object but {record!r:.40}; give one object with {field!r} per "
            f"line"
        )
    value: Any = record
    for name in [field] if field in record else field.split("."):
        if not isinstance(value, dict) or name not in value:
            known = f"there is {value!r:.40}"
            if isinstance(value, dict):
                known = suggest(name, value) if value else "the object is empty"
            raise DataError(f"{where} has no field {field!r}; {known} (set data.{setting})")
        value = value[name]
    return value


def checked_text(text: Any, field: str, where: str, remedy: str) -> str:
    """A field's value if it is text; DataError: another type, or an unpaired surrogate."""
    if not isinstance(text, str):
        raise DataError(f"{where} has {field!r} that is not a string but {text!r:.40}; {remedy}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(
            f"{where} has an unpaired surrogate in {field!r}, which is no character; remove it"
        ) from None
    return text
