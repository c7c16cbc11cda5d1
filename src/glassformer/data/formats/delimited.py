"""Comma- and tab-separated tables: cells, and the columns of fields by header or number."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from glassformer.core.errors import DataError, amount, suggest
from glassformer.data.config import DataConfig
from glassformer.data.formats.lines import lines
from glassformer.data.sources import Source

DELIMITED = ("csv", "tsv")
"""Formats of rows of cells."""
LONGEST_CELL = (1 << 31) - 1
"""Longest cell that the csv module allows on every platform."""


SAMPLE = 50
"""Lines by which a table's delimiter is found."""
DELIMITERS = (",", ";", "\t", "|")
"""The comma first; Excel writes semicolons where numbers have decimal commas."""
PROBLEMS = {
    "unexpected end of data": "a quote that opens there is never closed",
    "new-line character": "its lines end with CR alone; save it with LF",
    "expected after": 'a quote inside a cell; write it as "", also after a backslash',
}
"""Reasons by a part of the csv module's sentence."""
EXCEL = re.compile(r"\ufeff?\"?sep=(.)\"?")
"""A first line by which Excel is given the character between cells."""


def is_default(config: DataConfig, setting: str) -> bool:
    """Whether a setting has its default."""
    return getattr(config, setting) == default_of(setting)


def default_of(setting: str) -> Any:
    """The default of a setting."""
    return DataConfig.model_fields[setting].default


def column_place(field: str, n: int, where: str, setting: str) -> int:
    """The index of the column with a number from 1 to `n`; DataError: out of range."""
    if not is_number(field) or not 1 <= int(field[:9]) <= n:
        raise DataError(
            f"{where} has {n} columns and none is {field!r}; set data.{setting} to a number from 1 "
            f"to {n}"
        )
    return int(field) - 1


def table(
    source: Source, wanted: Mapping[str, str], columns: str | None
) -> Iterator[tuple[dict[str, str], str]]:
    """Each row as an object, with fields by name if there is a header, and by number; see
    `records`. DataError: a row that is longer than the first, or that ends before a wanted cell."""
    places: dict[str, int] = {}
    width = needed = 0
    for row, line in cells_of(source):
        where = f"{source.path}, line {line}"
        if not places:
            width, (places, headed) = len(row), _places(row, source.config, wanted, columns, where)
            needed = 1 + max((places[field] for field in wanted), default=-1)
            if headed:
                continue
        if not needed <= len(row) <= width:
            rest = f"column {needed} is needed"
            if len(row) > width:
                rest = f"the first row has {width}"
            raise DataError(f"{where} has {amount(len(row), 'column')}, and {rest}; mend it")
        yield {field: row[place] for field, place in places.items() if place < len(row)}, where


def cells_of(source: Source) -> Iterator[tuple[list[str], int]]:
    """The rows of a table that are not empty, and the number of the line where each begins.

    If a space follows every comma of the first row, it is dropped after the commas of all rows.
    """
    csv.field_size_limit(LONGEST_CELL)
    texts = (f"{line}\n" for line, _ in lines(source))
    head, begin = list(islice(texts, SAMPLE)), 1
    if source.kind == "tsv":
        # a quote is a character like any other; in CSV one that is never closed would swallow the
        # rest
        dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    elif head and (found := EXCEL.fullmatch(head[0].strip())):
        dialect, head, begin = {"delimiter": found[1]}, head[1:], 2
    else:
        delimiter = _delimiter(head)
        cells = head[0].split(delimiter)[1:] if head and delimiter == "," else []
        spaced = bool(cells) and all(cell[:1] == " " for cell in cells)
        dialect = {"delimiter": delimiter, "skipinitialspace": spaced}
    table = csv.reader(chain(head, texts), strict=True, **dialect)
    skipped = begin - 1
    try:
        for row in table:
            if row:  # an empty line is no row
                yield row, begin
            begin = table.line_num + 1 + skipped
    except csv.Error as problem:
        reason = next((own for part, own in PROBLEMS.items() if part in str(problem)), problem)
        raise DataError(
            f"{source.path}, line {begin} is no {dialect['delimiter']!r} table ({reason})"
        ) from None


def _delimiter(head: list[str]) -> str:
    """Return what is between the cells of a table, by its first lines: a comma, unless only another
    character gives rows of equal length, or gives a column with fewer different cells."""
    found: dict[str, int] = {}
    for delimiter in DELIMITERS:
        rows = _sample_rows(head, delimiter)
        widths = {*map(len, rows)}
        if len(widths) == 1 and widths != {1}:
            different = [len({*cells}) for cells in zip(*rows, strict=True)]
            found[delimiter] = min((n for n in different if n > 1), default=len(rows))
    return min(found, key=lambda one: found[one], default=",")


def _sample_rows(head: list[str], delimiter: str) -> list[list[str]]:
    """Return the rows of a table's first lines; none if they are no table by this delimiter."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(head, delimiter=delimiter, strict=True):
            rows += [row] if row else []
    except csv.Error as problem:
        if "unexpected end" not in str(problem):  # a cell may go on after these lines
            return []
    return rows


def _places(
    first: list[str], config: DataConfig, wanted: Mapping[str, str], columns: str | None, where: str
) -> tuple[dict[str, int], bool]:
    """The index of each field's column, and whether the first row is a header."""
    first = [*map(str.strip, first)]
    names = [field for field in wanted if not is_number(field)]
    missing = [field for field in names if field not in first]
    default = columns is not None and all(is_default(config, name) for name in wanted.values())
    if default and missing == names:
        if len(first) < 2:
            raise DataError(f"{where} has 1 column, not {columns}; check data.format")
        if looks_like_header(first):
            raise _unknown_header(first, wanted, where)
        return dict(zip(wanted, (0, 1), strict=False)), False
    if missing:
        raise _missing(missing[0], wanted[missing[0]], first, where)
    places = {
        field: column_place(field, len(first), where, wanted[field])
        for field in wanted.keys() - set(names)
    }
    there = named_columns(first) if names else map(str, range(1, len(first) + 1))
    return {name: place for place, name in enumerate(there)} | places, bool(names)


def _unknown_header(first: list[str], wanted: Mapping[str, str], where: str) -> DataError:
    """The error for a first row that names columns, none of them a wanted one."""
    named = ", ".join(repr(" ".join(cell.split())[:40]) for cell in first)
    fields = " and ".join(f"data.{setting}" for setting in wanted.values())
    return DataError(
        f"{where} looks like a header ({named}), but has no column "
        f"{' or '.join(map(repr, wanted))}; set {fields} to its names, or to the numbers "
        f"of columns (from 1) if it is an ordinary row"
    )


def _missing(field: str, setting: str, first: list[str], where: str) -> DataError:
    """The error for a header without a column."""
    known = suggest(field, (" ".join(cell.split())[:40] for cell in first))
    listed = [one.strip(" []") for one in field.split(",")]
    if setting == "label_field" and len(listed) > 1 and {*listed} <= {*first}:
        known = f"set data.label_columns='[{', '.join(listed)}]' for columns of 0 and 1"
    return DataError(
        f"{where.rpartition(', ')[0]} has no column {field!r} in its first row; {known} "
        f"(set data.{setting} to a name, or to a number from 1 to {len(first)})"
    )


def named_columns(first: Sequence[str]) -> list[str]:
    """The names of columns by a header; a column without its own name has its number."""
    names: list[str] = []
    for number, cell in enumerate(map(str.strip, first), 1):
        names.append(cell if cell and cell not in names else str(number))
    return names


def is_number(field: str) -> bool:
    """Whether a column is named by its number."""
    return field.isascii() and field.isdigit()


_PUBLISHED = """
id ids idx index key uid guid number nr row line n
text texts sentence sentences document doc body content comment comments review reviews tweet
message messages conversation conversations post title headline abstract summary description
subject query passage paragraph
context utterance phrase word words token tokens premise hypothesis string input output
label labels class classes category categories sentiment topic intent emotion tag tags rating
stars score polarity genre language lang target source src tgt reference translation original
question answer response prompt completion instruction highlights dialogue article upos
file files filename path image images img picture photo audio clip recording url link
split set fold date time year author user username name gender age speaker group
english german french spanish italian portuguese dutch danish swedish norwegian finnish polish
czech slovak hungarian romanian bulgarian greek turkish russian ukrainian serbian croatian
arabic hebrew persian hindi urdu bengali tamil chinese mandarin japanese korean vietnamese thai
indonesian latin esperanto catalan basque irish welsh
en de fr es it pt nl da sv no fi pl cs sk hu ro bg el tr ru uk sr hr ar he fa hi zh ja ko vi
"""
NAMES = frozenset(re.findall(r"\w+", _PUBLISHED))
"""Names that columns of texts, classes, pairs and files have in published tables."""
_COMPOUND = re.compile(r"[a-z]+(?:[_-][a-z0-9]+)+|[a-z]+\d{1,2}")


def looks_like_header(first: Sequence[str]) -> bool:
    """True for a row of usual names of columns, in upper or lower case.

    Each is one of `NAMES`, or made of words and numbers as `sentence_1` is; at least one is of the
    former kind.
    """
    cells = [cell.strip().lower() for cell in first]
    known = [one in NAMES or one.rstrip("0123456789").rstrip("_-") in NAMES for one in cells]
    return any(known) and all(
        own or _COMPOUND.fullmatch(cell) for own, cell in zip(known, cells, strict=True)
    )
