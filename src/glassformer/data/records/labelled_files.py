"""Labelled files: in a folder for each class, in a table, or with the class in their names."""

import os
import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from glassformer.core.errors import ConfigError, DataError, suggest
from glassformer.data.config import NAMES, DataConfig, SplitName
from glassformer.data.formats.archives import check_inside
from glassformer.data.formats.lines import checked_text
from glassformer.data.formats.records import check_used, classes_at, named_class, values
from glassformer.data.sources import (
    Source,
    absolute_path,
    list_names,
    resolve,
    source_at,
    with_slashes,
)
from glassformer.data.splits import in_splits

SPLITS: dict[str, SplitName] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "dev"), "validation"),
    "test": "test",
}
"""The split of a folder with this name."""
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
Wheres = dict[SplitName, dict[str, list[str]]]
"""The fields of the splits that are picked out of `data.train.path` by their names."""


Found = tuple[Source, tuple[str, ...], str]
"""A file, its distinct classes, and the folder around that of the classes."""


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

    The class comes from `label_pattern`, the first folder that differs, or a table's `label_field`.
    The split is that of the path that names the file; for `data.train.path`, the split whose
    `where` fits, or that of the folder around the class's if one of them is called train. Splits
    found nowhere are held out at random.
    ConfigError: contradictory settings. DataError: no files, or one without a class; `noun` names a
    file in errors.
    """
    wheres: Wheres = {split: of.where for split, of in config.splits.items() if of.where}
    _check(config, wheres)
    rows = {split: list(_files(config, split, suffixes, noun)) for split in config.with_files}
    named = {SPLITS.get(around.lower()) for _, _, around in rows["train"]}
    files = {split: [(source, labels) for source, labels, _ in of] for split, of in rows.items()}
    files["train"], elsewhere = [], list[File]()
    for source, labels, around in rows["train"]:
        split = _picked_split(source, wheres)
        if "train" in named and not wheres:
            split = SPLITS.get(around.lower(), split)
        if split == "train":
            files[split].append((source, labels))
        else:
            elsewhere.append(kind(source, labels, split))
    for split in sorted(wheres.keys() - {file.split for file in elsewhere}, reverse=True):
        raise DataError(
            f"data.{split}.where={wheres[split]} fits no {noun}; change it, or leave it out"
        )
    elsewhere.sort(key=lambda file: NAMES.index(file.split))
    others = config.with_splits(**{file.split: {"fraction": None} for file in elsewhere})
    drawn = in_splits(others, files.__getitem__)
    return [*(kind(*file, split) for split, file in drawn), *elsewhere]


def _files(
    config: DataConfig, split: SplitName, suffixes: Collection[str], noun: str
) -> Iterator[Found]:
    """The files of a split: rows of the tables, if there is a `METADATA` or nothing else; else the
    files themselves."""
    named = config.splits[split].path
    if not named:
        raise ConfigError(
            f"data.train.path is not set; give a folder or zip archive of {noun}s, or a table that "
            "lists them"
        )
    sources, files = dict[Source, None](), dict[Source, Folders]()
    for name in list_names(named):
        found = resolve(name, config, texts=False)
        sources |= dict.fromkeys(found)
        held = [s for s in found if posixpath.splitext(s.path)[1].lower() in suffixes]
        files = _below(held, with_slashes(absolute_path(name, config))) | files
    tables = [source for source in sources if source.suffix in TABLES]
    metadata = [t for t in tables if posixpath.basename(t.path).startswith(f"{METADATA}.")]
    in_folders = files and not metadata
    check_used(config, COLUMNS if in_folders else ["label_pattern"], used=False, path=named)
    row = None
    for row in _folder_rows(files, config) if in_folders else _table_rows(metadata or tables):
        _fields(row[0])
        yield row
    if row is None:
        looked = ", ".join(sorted(suffixes))
        raise DataError(
            f"there are no {noun}s in {named} (looked for {looked}); check the path and data.root"
        )


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


def _folder_rows(files: dict[Source, Folders], config: DataConfig) -> Iterator[Found]:
    """The files with their classes: the first folders that differ, but for those of splits."""
    if "label" in _pattern_fields(config):
        for source in files:
            label = named_class(_fields(source)["label"], config, source.path)
            yield source, (label,), _folder(source)
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
        label = named_class(folders[depth], config, source.path)
        yield source, (label,), folders[around] if around < depth else ""


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


def _folder(source: Source) -> str:
    """Name of the folder around that of a file, within its archive."""
    return next(iter(source.member.split("/")[-3:-2]), "")


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


def _picked_split(source: Source, wheres: Wheres) -> SplitName:
    """The split that picks a file by the fields in its name."""
    fields = _fields(source)
    for split, wanted in wheres.items():
        if all(fields[field] in values for field, values in wanted.items()):
            return split
    return "train"


def _check(config: DataConfig, wheres: Wheres) -> None:
    known = _pattern_fields(config)
    for split, wanted in wheres.items():
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


def _table_rows(tables: list[Source]) -> Iterator[Found]:
    """The rows of tables; `data.format` may be that of the files instead."""
    for table in tables:
        given = table.config.format
        kind = given if given in TABLES.values() else TABLES[table.suffix]
        config = table.config.model_copy(update={"format": kind})
        settings = ("file_field", "label_field")
        rows = values(replace(table, config=config), settings, "a file and its class")
        for (name, label), where in rows:
            held = name if isinstance(name, Source) else _file_of(table, name, where)
            yield held, classes_at(label, config, where), _folder(held)


def _file_of(table: Source, name: Any, where: str) -> Source:
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


def fields_of(pattern: str, name: str) -> dict[str, str] | None:
    """The text of each field of a template in a path; None if the path does not match.

    A template with n slashes is matched against the last n + 1 parts of the path. A field is one
    character or more within one part; of several matches, earlier fields are longer:
    `{label}_{index}.jpg` finds the label `basset_hound` in `basset_hound_12.jpg`. ConfigError: see
    `template`.
    """
    expression, fields = template(pattern)
    found = expression.fullmatch("/".join(name.split("/")[-pattern.count("/") - 1 :]))
    return found and dict(zip(fields, found.groups(), strict=True))


@lru_cache
def template(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """An expression for the end of a path, and the names of its fields.

    ConfigError: no field, a repeated one, two without a literal between them, a stray brace.
    """
    pieces = re.split(r"\{(\w+)\}", pattern)
    literals, fields = tuple(pieces[::2]), tuple(pieces[1::2])
    if any("{" in literal or "}" in literal for literal in literals):
        problem = "has a brace that belongs to no field"
    elif not fields:
        problem = "has no field"
    elif len(set(fields)) < len(fields):
        problem = "has a field twice"
    elif not all(literals[1:-1]):
        problem = "has two fields with nothing between them"
    else:
        parts = ["([^/]+)" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces)]
        return re.compile("".join(parts)), fields
    example = "{label}_{speaker}_{index}.wav"
    raise ConfigError(f"data.label_pattern {pattern!r} {problem}; write it like {example}")
