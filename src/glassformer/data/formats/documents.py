"""Documents of running text: text files, JSONL, Parquet, tables, the words of tagged files.

A text file is one document, and so is a row of a table. A long text file comes in pieces, one in
memory at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glassformer.core.cuts import pieces
from glassformer.core.errors import DataError
from glassformer.data.config import SplitName
from glassformer.data.formats.delimited import cells_of, is_default
from glassformer.data.formats.lines import objects, texts
from glassformer.data.formats.records import RECORDS, check_used, values
from glassformer.data.formats.tagged_words import sentences, words_text
from glassformer.data.sources import Source


@dataclass(frozen=True)
class Document:
    """A text, or a piece of one, its origin, for error messages, and its split."""

    text: str
    source: str
    ends: bool = True
    """Whether the document ends with this piece."""
    split: SplitName = "train"


def read(sources: Sequence[Source]) -> Iterator[Document]:
    """The documents of all sources in order, without empty ones.

    DataError: unreadable, binary, wrong encoding, damaged gzip, zip, JSONL or table, or only empty
    files.
    """
    first, n, some = sources[0], len(sources), False
    fields = any(source.kind in RECORDS for source in sources)
    check_used(first.config, ["text_field"], fields, first.path)
    for source in sources:
        for document in _documents(source):
            if document.text:
                some = True
                yield document
    if not some:
        name = f"{first.path} is" if n == 1 else f"all {n} files are"
        raise DataError(f"{name} empty; give text to read")


def _has_rows(source: Source) -> bool:
    """Return whether a table is read by rows: the settings say so, or it has the column of texts;
    else it is text like any other."""
    config = source.config
    if config.format != "auto" or source.suffix not in (".csv", ".tsv", ".json"):
        return True
    if not is_default(config, "text_field"):
        return True
    rows = objects(source) if source.suffix == ".json" else cells_of(source)
    try:
        first = next(rows)[0]
    except (DataError, StopIteration):  # JSON of another form, or nothing
        return False
    return isinstance(first, dict | list) and config.text_field in first


def _documents(source: Source) -> Iterator[Document]:
    match source.kind:
        case "conllu" | "conll" | "slash":
            text = "".join(words_text(words) for words, _, _ in sentences(source))
            yield Document(text, source.path)
        case "jsonl" | "parquet" | "csv" | "tsv" if _has_rows(source):
            for (text,), where in values(source, ["text_field"], "a text and more"):
                yield Document(text, where)
        case _:
            before = None
            for piece in pieces(texts(source)):
                if before is not None:
                    yield Document(before, source.path, ends=False)
                before = piece
            if before is not None:
                yield Document(before, source.path)
