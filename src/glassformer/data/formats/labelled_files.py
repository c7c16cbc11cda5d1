"""Labelled files: in a folder for each class, listed in a table, or with the class in their
names."""

import os
import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.data.formats.archives import check_inside
from glassformer.data.formats.file_names import fields_of, template
from glassformer.data.formats.lines import checked_text
from glassformer.data.formats.records import check_used, classes_at, named_class, values
from glassformer.data.sources import Source, placed, resolve, slashed, source_at
from glassformer.data.splits import in_splits

SPLITS: dict[str, SplitName] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "validation"),
    "test": "test",
}
"""Names of folders that stand for a split."""
TABLES = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **{".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"},
}
COLUMNS = ("file_field", "label_field", "label_columns")
"""Settings that name columns."""
METADATA = "metadata"
"""Name of a table in a folder of files that lists their classes."""
Folders = tuple[str, ...]
"""Names of folders, each in the one before."""


class Row(NamedTuple):
    """A file, its classes, their origin, and the folder around that of the classes."""

    source: Source
    labels: tuple[str, ...]
    where: str
    around: str


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A file, its distinct classes and its split."""

    source: Source
    labels: tuple[str, ...]
    split: SplitName

    @property
    def where(self) -> str:
        """The file's path, which errors name."""
        return self.source.path

    @property
    def file(self) -> str:
        """The file on disk that holds it."""
        return self.source.file


File = TypeVar("File", bound=LabelledFile)


def labelled_files(
    config: DataConfig, suffixes: Collection[str], noun: str, kind: type[File] = LabelledFile
) -> list[File]:
    """Every file with one of the suffixes (lower case, with a dot), in a fixed order.

    The class comes from `label_pattern`, the first folder that tells files apart, or a table's
    `label_field`. The split is that
    of the path that names the file; for `data.train.path`, the split whose `where` fits, or that of
    the folder around the class's if one of them is called train. Splits found nowhere are held out
    at random.
    ConfigError: contradictory settings. DataError: no files, or one without a class; `noun` names a
    file in errors.
    """
    _check(config)
    files = {
        split: list(_files(config, split, suffixes, noun, kind))
        for split, of in config.splits.items()
        if split == "train" or of.path is not None
    }
    folders = {SPLITS.get(around.lower()) for _, around in files["train"]}
    told = "train" in folders and not _wheres(config)
    mine = [
        replace(file, split=SPLITS.get(around.lower(), file.split)) if told else file
        for file, around in files["train"]
    ]
    for split, wanted in _wheres(config).items():
        if all(file.split != split for file in mine):
            raise DataError(
                f"data.{split}.where={wanted} fits no {noun}; change it, or leave it out"
            )
    elsewhere = sorted(
        (file for file in mine if file.split != "train"), key=lambda file: NAMES.index(file.split)
    )
    found = config.with_splits(**{file.split: {"fraction": None} for file in elsewhere})
    own = {split: [file for file, _ in rows] for split, rows in files.items()}
    own["train"] = [file for file in mine if file.split == "train"]
    drawn = in_splits(found, lambda split: iter(own[split]))
    return [*(replace(file, split=split) for split, file in drawn), *elsewhere]


def _files(
    config: DataConfig, split: SplitName, suffixes: Collection[str], noun: str, kind: type[File]
) -> Iterator[tuple[File, str]]:
    """The files of a split, and the folder around that of the class of each."""
    named, some = config.splits[split].path, False
    if not named:
        raise ConfigError(
            f"data.train.path is not set; give a folder or zip archive of {noun}s, or a table that "
            f"lists them"
        )
    for row in _rows(config, named, suffixes):
        some = True
        fields = _fields(row.source)
        classes = dict.fromkeys(named_class(label, config, row.where) for label in row.labels)
        own = _told_split(fields, config) if split == "train" else split
        yield kind(row.source, tuple(classes), own), row.around
    if not some:
        looked = ", ".join(sorted(suffixes))
        raise DataError(
            f"there are no {noun}s in {named} (looked for {looked}); check the path and data.root"
        )


def _rows(config: DataConfig, named: str | list[str], suffixes: Collection[str]) -> Iterator[Row]:
    """Rows of the tables, if there is a `METADATA` or nothing else; else the files themselves."""
    names = [named] if isinstance(named, str) else named
    sources, files = dict[Source, None](), dict[Source, Folders]()
    for name in names:
        found = dict.fromkeys(resolve(name, config, texts=False))
        sources |= found
        held = [s for s in found if posixpath.splitext(s.path)[1].lower() in suffixes]
        files = _below(held, slashed(placed(name, config))) | files
    tables = [source for source in sources if source.suffix in TABLES]
    metadata = [t for t in tables if posixpath.basename(t.path).startswith(f"{METADATA}.")]
    if files and not metadata:
        check_used(config, COLUMNS, used=False, path=named)
        yield from _folder_rows(files, config)
    else:
        check_used(config, ["label_pattern"], used=False, path=named)
        for table in metadata or tables:
            yield from _table_rows(table)


def _below(files: list[Source], named: str) -> dict[Source, Folders]:
    """The folders around each file, below what is named; of files beside each other their own."""
    base = posixpath.commonpath([named, *(file.path for file in files)])
    found = dict[Source, Folders]()
    for file in files:
        folder, top = posixpath.dirname(file.path), max(base, file.archive or "", key=len)
        found[file] = tuple(filter(None, folder[len(top) :].split("/")))
    if any(found.values()):
        return found
    return {
        file: () if file.member.count("/") == 0 else (posixpath.dirname(file.path).split("/")[-1],)
        for file in files
    }


def _folder_rows(files: dict[Source, Folders], config: DataConfig) -> Iterator[Row]:
    """The files with their classes: the first folders that differ, but for those of splits."""
    if "label" in _pattern_fields(config):
        for source in files:
            label = _fields(source)["label"]
            yield Row(source, (label,), source.path, _folder(source, 2) or "")
        return
    depth = around = _common_depth(files, 0)
    names = {folders[depth].lower() for folders in files.values() if len(folders) > depth}
    if len(names & SPLITS.keys()) > 1:
        if all(len(folders) > depth + 1 for folders in files.values()):
            depth = _common_depth(files, depth + 1)
        elif names <= SPLITS.keys():
            raise DataError(
                f"the only folders around {next(iter(files)).path} and the others are "
                f"{', '.join(sorted(names))}, which are splits, not classes; make a folder for "
                f"each class in them, or set data.label_pattern or a table"
            )
    for source, folders in files.items():
        if len(folders) <= depth:
            raise DataError(
                f"{source.path} lies in no folder, so its class is unknown; make a folder for each "
                f"class, or set data.label_pattern"
            )
        split = folders[around] if around < depth else ""
        yield Row(source, (folders[depth],), source.path, split)


def _common_depth(files: dict[Source, Folders], depth: int) -> int:
    """The depth below the folders, from this one on, that are around all other folders."""
    while (
        len({folders[depth : depth + 1] for folders in files.values()}) == 1
        and min(map(len, files.values())) > depth + 1
    ):
        depth += 1
    return depth


def _pattern_fields(config: DataConfig) -> tuple[str, ...]:
    """The fields of `label_pattern`."""
    return () if config.label_pattern is None else template(config.label_pattern)[1]


def _folder(source: Source, up: int) -> str | None:
    """Name of the folder `up` levels above a file, within its archive."""
    parts = source.member.split("/")
    return parts[-1 - up] or None if len(parts) > up else None


def _fields(source: Source) -> dict[str, str]:
    pattern = source.config.label_pattern
    if pattern is None:
        return {}
    fields = fields_of(pattern, source.path)
    if fields is None:
        raise DataError(
            f"{source.path} does not fit {pattern!r}; change data.label_pattern, or "
            f"narrow the path to the files that do, such as audio/*_*.wav"
        )
    return fields


def _told_split(fields: dict[str, str], config: DataConfig) -> SplitName:
    for split, wanted in _wheres(config).items():
        if all(fields[field] in values for field, values in wanted.items()):
            return split
    return "train"


def _wheres(config: DataConfig) -> dict[SplitName, dict[str, list[str]]]:
    """The fields of the splits that are picked out of `data.train.path` by their names."""
    return {name: of.where for name, of in config.splits.items() if of.where}


def _check(config: DataConfig) -> None:
    known = _pattern_fields(config)
    for split, wanted in _wheres(config).items():
        if config.label_pattern is None:
            raise ConfigError(
                f"data.{split}.where needs data.label_pattern, which finds the fields in a file's "
                "name; set it."
            )
        for field in wanted.keys() - set(known):
            raise ConfigError(
                f"data.{split}.where has {field!r}, no field of data.label_pattern; "
                f"{suggest(field, known)}"
            )


def _table_rows(table: Source) -> Iterator[Row]:
    """The rows of a table; `data.format` may be that of the files instead."""
    given = table.config.format
    kind = given if given in TABLES.values() else TABLES[table.suffix]
    config = table.config.model_copy(update={"format": kind})
    settings = ("file_field", "label_field")
    rows = values(replace(table, config=config), settings, "a file and its class")
    for (name, label), where in rows:
        held = name if isinstance(name, Source) else _listed(table, name, where)
        yield Row(held, classes_at(label, config, where), where, _folder(held, 2) or "")


def _listed(table: Source, name: Any, where: str) -> Source:
    field = table.config.file_field
    name = checked_text(name, field, where, "set data.file_field to the name of a file")
    if not name.strip() or "\0" in name:
        raise DataError(
            f"{where} names no file in {field!r}, but {name!r}; fill it or remove the row"
        )
    path = posixpath.normpath(posixpath.join(posixpath.dirname(table.path), name))
    if table.archive is None:
        return source_at(os.path.expanduser(path))
    check_inside(path, table.archive, where, name)
    return Source(path, table.archive)
