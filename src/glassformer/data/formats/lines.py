"""Text, lines and JSON values of a source, in any encoding.

Errors name the file and the line or byte.
"""

import codecs
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Any

from glassformer.core import progress
from glassformer.core.errors import DataError, suggest
from glassformer.data.formats.contents import open_source
from glassformer.data.sources import Source

PART = 1 << 22
LONGEST_LINE = 1 << 28
"""Bytes of one line, which is in memory as a whole."""


def texts(source: Source) -> Iterator[str]:
    """The text of a source, decoded in parts of PART bytes.

    DataError: another encoding (with the offset of the byte), or binary (a NUL).
    """
    name, encoding, offset = source.path, source.config.encoding, 0
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_source(source) as file:
        size = source.size
        while True:
            raw = file.read(PART)
            held = decoder.getstate()[0]  # the beginning of a character
            begin = offset - len(held)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeError as problem:
                raise _misfit(held + raw, encoding, name, begin, problem) from None
            if "\0" in text:
                before = text.partition("\0")[0].encode(encoding, errors="replace")
                raise _binary(name, begin + len(before))
            yield text.removeprefix("\ufeff") if begin == 0 else text
            if not raw:
                return
            offset += len(raw)
            progress.report_reading(name, offset, size)


def _misfit(raw: bytes, encoding: str, name: str, offset: int, problem: UnicodeError) -> DataError:
    """The error for bytes of another encoding, with a likely one."""
    wide = offset == 0 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in raw and not wide:
        return _binary(name, offset + raw.index(b"\0"))
    at = problem.start if isinstance(problem, UnicodeDecodeError) else 0
    unicode = codecs.lookup(encoding).name == "utf-8"
    other = "utf-16" if wide else "cp1252" if unicode else "utf-8"
    return DataError(
        f"{name} is not {encoding}: byte 0x{raw[at]:02x} at offset {offset + at} does not fit; "
        f"set data.encoding={other} if that is its encoding"
    )


def _binary(name: str, at: int) -> DataError:
    return DataError(f"{name} looks binary (a NUL byte at offset {at}); give a text file")


def lines(source: Source) -> Iterator[tuple[str, str]]:
    """Each line without its end, and its origin; only \\n ends a line."""
    for line, _, where in ended_lines(source):
        yield line.rstrip("\r"), where


def lines_beside(left: Source, right: Source) -> Iterator[tuple[str, str, str]]:
    """Line n of two files, and the origin of the first; DataError: one has more lines."""
    both = zip_longest(lines(left), lines(right), fillvalue=(None, ""))
    for number, ((one, where), (other, _)) in enumerate(both, 1):
        if one is None or other is None:
            longer, shorter = (right, left) if one is None else (left, right)
            raise DataError(
                f"{longer.path} goes on at line {number} where {shorter.path} has ended after "
                f"{number - 1} lines; line n of one file must belong to line n of the other"
            )
        yield one, other, where


def ended_lines(source: Source) -> Iterator[tuple[str, str, str]]:
    """Each line, its end (\\n, or nothing), and its origin."""
    name, number, rest = source.path, 0, ""
    for text in texts(source):
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            number += 1
            yield line, "\n", f"{name}, line {number}"
        if len(rest) > LONGEST_LINE:
            raise DataError(
                f"{name}, line {number + 1} has more than {LONGEST_LINE:,} bytes, the most of one "
                "line; divide it"
            )
    if rest:
        yield rest, "", f"{name}, line {number + 1}"


def objects(source: Source) -> Iterator[tuple[Any, str]]:
    """Yield the JSON value of each line that is not blank, or of each row of an array (also of
    {"data": [...]}), and its origin.

    DataError: invalid JSON.
    """
    filled = ((line, where) for line, where in lines(source) if line.strip())
    first = next(filled, None)
    rows = _array(first[0], source) if first else None
    if rows is not None:
        yield from ((row, f"{source.path}, row {at}") for at, row in enumerate(rows, 1))
        return
    for line, where in chain([first] if first else [], filled):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise DataError(
                f"{where} is not JSON ({problem}); give one JSON object per line"
            ) from None
        yield value, where


def _array(first: str, source: Source) -> list[Any] | None:
    """Return the rows of a file that is one array, by its first line; None: its lines are rows.

    DataError: a .json file that is neither.
    """
    line, whole = None, source.suffix == ".json"
    with suppress(ValueError, RecursionError):
        line = json.loads(first)
    if not whole and (first.lstrip()[:1] not in "[{" or not (line is None or _rows_in(line))):
        return None
    text = "".join(texts(source))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        if not whole or line is not None:
            return None
        raise DataError(
            f"{source.path} is not JSON ({problem}); set data.format=jsonl if each line is"
        ) from None
    if found := _rows_in(value):
        return found
    if whole and not isinstance(value, list):
        raise DataError(
            f"{source.path} is not a JSON array but {text.strip()!r:.40}; give an array of rows"
        )
    return value if whole else None


def _rows_in(value: Any) -> list[Any] | None:
    """Return a list of objects, also in {"data": [...]}; None: another value."""
    listed = value.get("data") if isinstance(value, dict) else value
    if isinstance(listed, list) and listed and all(isinstance(row, dict) for row in listed):
        return listed
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
