"""The columns of words and of tags in a column file, found by their values.

Files of spans have token numbers, comments and annotators beside them in any order.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from glassformer.data.config import DataConfig
from glassformer.data.formats.column_lines import column_lines
from glassformer.data.sources import Source
from glassformer.errors import DataError

ROWS = 4096
"""Rows that are looked at."""
FEW = 20
"""Different values that a column of tags may have in any number of rows."""
_NUMBER = re.compile(r"\d+(?:[-.]\d+)?")
_SPAN = re.compile(r"[BIESLUMW][-_:].+|.+[-_:][BIESLUMW]", re.DOTALL)

Column = Counter[str]
"""How often each value occurs in a column."""


def tag_columns(source: Source, config: DataConfig) -> tuple[dict[str, str], str | None]:
    """The settings of columns that are not the first and the last, and a sentence on them.

    DataError: no column has the values of tags.
    """
    rows = (line for line in column_lines(source, config) if line.cells)
    table = [[row.cell(i) for i in range(len(row.cells))] for row in islice(rows, ROWS)]
    columns = [Counter(cells) for cells in zip(*table, strict=True)]
    last, named = len(columns) - 1, config.tag_field
    if last < 2:
        return {}, None
    word, likely = _likely(columns, numbered=table[0][0] in ("0", "1"))
    examples = (max(column, key=len) for column in columns)
    shown = ", ".join(f"{i} such as {one!r:.40}" for i, one in enumerate(examples, 1))
    if named is None and not likely and len(table) > FEW:
        raise DataError(
            f"no column of {source.path} has the values of tags ({shown}); set data.word_field and "
            f"data.tag_field to the numbers of theirs"
        )
    tag = likely[-1] if likely and named is None else last
    found = {"word_field": (word, 0), "tag_field": (tag, last)}
    fields = {name: str(own + 1) for name, (own, usual) in found.items() if own != usual}
    if not fields and (named is not None or len(likely) < 2):
        return {}, None
    return fields, (
        f"reading words in column {word + 1} and tags in column {named or tag + 1} of "
        f"{source.path} (columns: {shown}); data.word_field and data.tag_field name others"
    )


def _likely(columns: Sequence[Column], numbered: bool) -> tuple[int, list[int]]:
    """Return the column of words, and those that may be of tags: the last with spans, or all with
    few values."""
    text = [i for i, column in enumerate(columns) if not all(map(_NUMBER.fullmatch, column))]
    word = text[0] if text and numbered else 0
    possible = [i for i in text if i != word]
    spans = [i for i in possible if _of_spans(columns[i])]
    return word, spans[-1:] or [i for i in possible if _of_tags(columns[i])]


def _of_spans(column: Column) -> bool:
    marked = [value for value in column if _SPAN.fullmatch(value)]
    return bool(marked) and all(value in marked or value in "Oo" for value in column)


def _of_tags(column: Column) -> bool:
    """Whether there are few values, which are single words, and none is nearly everywhere."""
    n, most = column.total(), column.most_common(1)[0][1]
    few = len(column) <= max(FEW, n // 4)
    return few and most < 0.95 * n and not any(re.search(r"\s", value) for value in column)
