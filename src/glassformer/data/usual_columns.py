"""Columns by their usual names, where no setting names them: a table's columns become settings.

The names are those of published tables, as the `datasets` library has them. If two columns could be
meant, the user is asked. In a column file, words and tags are found by their values: files of spans
have token numbers, comments and annotators beside them in any order.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from glassformer.core.errors import DataError
from glassformer.data.config import DataConfig
from glassformer.data.formats.column_lines import column_lines
from glassformer.data.formats.delimited import (
    cells_of,
    is_default,
    looks_like_header,
    named_columns,
)
from glassformer.data.formats.lines import objects
from glassformer.data.formats.parquet import table_columns
from glassformer.data.sources import Source, resolve

Columns = Mapping[str, Sequence[str]]
"""The columns of a table, each with the fields of its objects."""
Fields = dict[str, str]
"""A column by the setting that names it."""

PREDICTED = ("label_field", "tag_field", "target_field")
"""Settings of columns that a table without answers lacks."""
USUAL: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    ("text_field", "label_field"): (("text", "label"), ("sentence", "label")),
    ("text_field", "pair_field", "label_field"): (
        ("premise", "hypothesis", "label"),
        ("sentence1", "sentence2", "label"),
        ("question1", "question2", "label"),
        ("question", "sentence", "label"),
    ),
    ("word_field", "tag_field"): tuple(
        product(("words", "tokens"), ("tags", "ner_tags", "pos_tags", "chunk_tags", "upos"))
    ),
    ("source_field", "target_field"): (
        ("source", "target"),
        ("question", "answer"),
        ("document", "summary"),
        ("article", "highlights"),
        ("dialogue", "summary"),
        ("prompt", "completion"),
    ),
    ("messages_field",): (("messages",), ("conversations",), ("conversation",)),
    ("file_field", "label_field"): tuple(
        (file, "label") for file in ("file_name", "image", "img", "audio")
    ),
}
"""Settings that go together, and the columns that they usually name: the default ones first."""
SAMPLE, FEW_ROWS = 1000, 6
"""Rows that are compared, and the fewest of them."""
NAME_WORDS = 3
"""Words in the name of a column, at most."""
FIRST_TWO = ("text_field", "label_field", "source_field", "target_field")
"""Settings that the first two columns are read by, unless they have other names."""
RUNNING = ("text", "sentence")
"""Columns of running text, which is cut at spaces where words are read."""
TRANSLATION = "translation"
"""A column with a text for each of two languages, of which the first is the source."""

ROWS = 4096
"""Rows that are looked at."""
FEW = 20
"""Different values that a column of tags may have in any number of rows."""
_NUMBER = re.compile(r"\d+(?:[-.]\d+)?")
_SPAN = re.compile(r"[BIESLUMW][-_:].+|.+[-_:][BIESLUMW]", re.DOTALL)

Column = Counter[str]
"""How often each value occurs in a column."""


def with_usual_columns(
    config: DataConfig, settings: Sequence[str]
) -> tuple[DataConfig, str | None]:
    """The settings with the usual columns of the training data, and a sentence on them.

    `settings`: fields of DataConfig that name columns. Nothing changes if one of them is set, or if
    the table has the default columns or none of the usual. DataError: columns that fit in two ways.
    """
    free = [name for name in settings if is_default(config, name)]
    tagged = {*settings} == {"word_field", "tag_field"} and "word_field" in free
    if config.train.path is None or not (tagged or free == [*settings]):
        return config, None
    try:
        first = resolve(config.train.path, config)[0]
    except DataError:  # who reads the data reports it; and a folder of images is no table
        return config, None
    fields, sentence = Fields(), None
    if tagged and first.kind == "conll":
        fields, sentence = _tag_columns(first)
    elif free == [*settings]:
        fields = _named_columns(first, settings)
    if fields and sentence is None:
        listed = " and ".join(f"{field!r} (data.{name})" for name, field in fields.items())
        sentence = f"reading the columns {listed} of {first.path}"
    return config.model_copy(update=fields), sentence


def _named_columns(source: Source, settings: Sequence[str]) -> Fields:
    """The usual columns of a table; empty: the default ones, or others."""
    if "file_field" in settings:  # the format is that of the files
        config = source.config.model_copy(update={"format": "auto"})
        source = replace(source, config=config)
    columns = columns_of(source)
    found = _fitting(_usual_fields(columns), columns, settings)
    if any(one.items() <= _DEFAULT.items() for one in found):
        return {}
    return _only(found, source.path) or _by_values(source, settings)


_DEFAULT = {
    name: field for names, rows in USUAL.items() for name, field in zip(names, rows[0], strict=True)
} | {"text_field": "text"}
"""The default columns."""


def _by_values(source: Source, settings: Sequence[str]) -> Fields:
    """Return the columns of a table without usual names; empty: the first two, without a header.

    DataError: more columns than two, and the first one is not of classes.
    """
    wanted = [name for name in FIRST_TWO if name in settings]
    if source.kind not in ("csv", "tsv") or len(wanted) != 2:
        return {}
    rows = [[cell.strip() for cell in cells] for cells, _ in islice(cells_of(source), SAMPLE)]
    if len(rows) < FEW_ROWS or min(map(len, rows)) < 2:
        return {}
    first, one, other = rows[0], *zip(*(row[:2] for row in rows[1:]), strict=True)
    if "label_field" in wanted and _are_classes(one, other):
        return _classes_first(first, named=first[0] not in one, paired="pair_field" in settings)
    if looks_like_header(first):
        return {}
    if len(first) > 2:
        raise _unknown_columns(source.path, rows, wanted)
    return dict(zip(wanted, first, strict=True)) if _are_names(first, one, other, wanted) else {}


def _classes_first(first: Sequence[str], named: bool, paired: bool) -> Fields:
    """Return the columns of a class and one or two texts, as AG News is published."""
    names = first if named else ["1", "2", "3"][: len(first)]
    pair = {"pair_field": names[2]} if len(first) == 3 and paired else {}
    return {"text_field": names[1], "label_field": names[0], **pair}


def _are_names(
    first: Sequence[str], one: Sequence[str], other: Sequence[str], wanted: Sequence[str]
) -> bool:
    """Whether the first row of two columns is short, and its class is in no other row, or all other
    cells of a pair are longer."""
    if max(map(_words, first)) > NAME_WORDS:
        return False
    if "label_field" in wanted:
        return first[1] not in other and _repeat(other)
    return min(map(_words, (*one, *other))) > NAME_WORDS


def _unknown_columns(path: str, rows: Sequence[list[str]], wanted: Sequence[str]) -> DataError:
    """The error for a table of more columns than two, of which none has a usual name."""
    columns = enumerate(zip(*rows[:2], strict=False), 1)
    shown = ", ".join(f"{i} {name[:30]!r} with {value[:30]!r}" for i, (name, value) in columns)
    settings = " and ".join(f"data.{name}" for name in wanted)
    return DataError(
        f"{path} has {len(rows[0])} columns and none of the usual names (the first two rows: "
        f"{shown}); set {settings} to the names, or to numbers if the first row is an ordinary one"
    )


def _are_classes(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether a column has the classes of the texts in the other one: few short values that repeat,
    before longer ones that hardly do."""
    different = len({*other}) >= 2 * len({*one})
    return _repeat(one) and different and sum(map(len, one)) < sum(map(len, other)) / 2


def _repeat(cells: Sequence[str]) -> bool:
    return len({*cells}) <= len(cells) / 3


def _words(cell: str) -> int:
    return len(cell.split())


def input_fields(columns: Columns, settings: Sequence[str], where: str) -> Fields:
    """The column of each of these settings in a table of inputs; empty: these are no usual ones.

    DataError: columns that fit in two ways.
    """
    known = [
        {name: field for name, field in one.items() if name not in PREDICTED}
        for one in _usual_fields(columns)
    ]
    if "word_field" in settings:
        known += [{"word_field": text} for text in RUNNING]
    found = _fitting(known, columns, settings)
    return _only([one for one in found if one.keys() == {*settings}], where)


def columns_of(source: Source) -> dict[str, tuple[str, ...]]:
    """The columns of a table, each with the fields of its objects; none of another file."""
    match source.kind:
        case "csv" | "tsv":
            first = next(iter(cells_of(source)), ([], 0))[0]
            return dict.fromkeys(named_columns(first), ())
        case "jsonl":
            row = next((value for value, _ in islice(objects(source), 1)), None)
            named = row.items() if isinstance(row, dict) else ()
            return {name: tuple(of) if isinstance(of, dict) else () for name, of in named}
        case "parquet":
            return table_columns(source)
    return {}


def _usual_fields(columns: Columns) -> list[Fields]:
    usual = list(USUAL.items())
    languages = tuple(f"{TRANSLATION}.{one}" for one in columns.get(TRANSLATION, ()))
    if len(languages) == 2:
        usual.append((("source_field", "target_field"), (languages,)))
    return [dict(zip(settings, row, strict=True)) for settings, rows in usual for row in rows]


def _fitting(known: Sequence[Fields], columns: Columns, settings: Sequence[str]) -> list[Fields]:
    """Keep those whose settings are wanted and whose columns exist."""
    there = {*columns, *(f"{name}.{one}" for name, of in columns.items() for one in of)}
    return [one for one in known if one.keys() <= {*settings} and {*one.values()} <= there]


def _only(found: Sequence[Fields], where: str) -> Fields:
    """The only one, of those that are no part of another; DataError: there are several."""
    named = {frozenset(one.values()): one for one in found}
    longest = [one for names, one in named.items() if not any(names < other for other in named)]
    if len(longest) > 1:
        ways = " or ".join(" and ".join(map(repr, one.values())) for one in longest)
        settings = " and ".join(f"data.{name}" for name in longest[0])
        raise DataError(f"{where} has the columns {ways}; set {settings} to those that are meant")
    return dict(longest[0]) if longest else {}


def _tag_columns(source: Source) -> tuple[dict[str, str], str | None]:
    """The settings of columns that are not the first and the last, and a sentence on them.

    DataError: no column has the values of tags.
    """
    rows = filter(None, (line.cells for line in column_lines(source)))
    columns = [Counter(cells) for cells in zip(*islice(rows, ROWS), strict=True)]
    last, named = len(columns) - 1, source.config.tag_field
    if last < 2:
        return {}, None
    word, likely = _likely(columns)
    longest = [max(column, key=len) for column in columns]
    shown = ", ".join(f"{i} such as {one!r:.40}" for i, one in enumerate(longest, 1))
    if named is not None:
        likely = []
    elif not likely and columns[0].total() > FEW:
        raise DataError(
            f"no column of {source.path} has the values of tags ({shown}); set data.word_field and "
            f"data.tag_field to the numbers of theirs"
        )
    tag = likely[-1] if likely else last
    found = {"word_field": (word, 0), "tag_field": (tag, last)}
    fields = {name: str(own + 1) for name, (own, usual) in found.items() if own != usual}
    if not fields and len(likely) < 2:
        return {}, None
    return fields, (
        f"reading words in column {word + 1} and tags in column {named or tag + 1} of "
        f"{source.path} (columns: {shown}); data.word_field and data.tag_field name others"
    )


def _likely(columns: Sequence[Column]) -> tuple[int, list[int]]:
    """Return the column of words, and those that may be of tags: the last with spans, or all with
    few values."""
    text = [i for i, column in enumerate(columns) if not all(map(_NUMBER.fullmatch, column))]
    numbered = next(iter(columns[0])) in ("0", "1")
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
