"""Resolve what the user names (files, globs, folders, zip archives, standard input) to single
files."""

import difflib
import glob
import os
import posixpath
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BufferedReader
from itertools import takewhile
from pathlib import Path
from typing import cast

from glassformer.core import progress
from glassformer.core.errors import ConfigError, DataError, amount, suggest
from glassformer.core.files import replacing
from glassformer.data.config import DataConfig, Paths
from glassformer.data.folders import Folder, list_folder, with_slashes
from glassformer.data.formats.archives import matches, members

STDIN = "-"
FORMATS = {
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".bmes", ".annotated"), "conll"),
    **{".csv": "csv", ".tsv": "tsv", ".conllu": "conllu", ".parquet": "parquet"},
}
"""Formats by suffix; every other file is text."""
_TEXTS = """
.txt .text .md .rst .org .tex .html .xml .srt .yaml .yml .toml .py .pyi .c .h .cc .cpp .hpp .cs
.java .js .ts .go .rs .rb .jl .lua .sh .sql
"""
TEXT_SUFFIXES = FORMATS.keys() | {*_TEXTS.split()}
"""Suffixes that are read in a folder, each also with .gz."""
_HIDDEN = re.compile(r"(?:^|/)(?:\.|__MACOSX)")
"""In names of an archive's members."""


PLAIN = DataConfig()
"""The settings of a file of which nothing is set."""


@dataclass(frozen=True)
class Source:
    """One file that is read: an absolute path with slashes, which may end inside an archive."""

    path: str
    archive: str | None = None
    """The zip file of which `path` is a member, or the Parquet table of which it is a cell."""
    row: tuple[int, int] | None = None
    """Of a cell, the numbers from 0 of its row group and of its row in there."""
    config: DataConfig = field(default=PLAIN, compare=False, repr=False)
    """Settings by which it is read."""

    @property
    def file(self) -> str:
        """The file on disk."""
        return self.archive or self.path

    @property
    def member(self) -> str:
        """The member's name in the archive."""
        return self.path.removeprefix(f"{self.archive}/")

    @property
    def suffix(self) -> str:
        """The file's suffix in lower case, without .gz."""
        return Path(self.path.removesuffix(".gz")).suffix.lower()

    @property
    def size(self) -> int:
        """Bytes of the file on disk, compressed if it is."""
        return os.stat(self.file).st_size

    @property
    def kind(self) -> str:
        """The format by the settings, or by the suffix."""
        given = self.config.format
        return FORMATS.get(self.suffix, "text") if given == "auto" else given

    def stamp(self) -> dict[str, str | int]:
        """Path, size and modification time of the file."""
        with reading(self.path):
            status = os.stat(self.file)
        return {"path": self.path, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def list_names(named: Paths) -> list[str]:
    """The names in a setting."""
    return [named] if isinstance(named, str) else named or []


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn a failed system call on `path` into a DataError."""
    try:
        yield
    except OSError as problem:
        if problem.strerror is None:  # not the system's: gzip's complaint about the content
            raise
        raise DataError(
            f"cannot read {path}: {problem.strerror}; check that it exists and may be read"
        ) from problem


def resolve(named: Paths, config: DataConfig = PLAIN, texts: bool = True) -> list[Source]:
    """The distinct sources of a path, glob, folder or list of these, in order.

    Files of a glob or folder are sorted by path; a zip archive is a folder. Of a folder `texts`
    are read, or every file. ConfigError: nothing
    named. DataError: nothing found, or `-`, which `capture_stdin` must replace first.
    """
    if not named:
        raise ConfigError(
            "data.train.path is not set; give a text file, folder, glob, or '-' for standard input"
        )
    found = (source for name in list_names(named) for source in _resolve(name, config, texts))
    return list(dict.fromkeys(found))


def is_gone(config: DataConfig) -> bool:
    """Whether a source that the settings name is not there (any more)."""
    try:
        for of in config.splits.values():
            for name in (*list_names(of.path), *list_names(of.targets)):
                resolve(name, config)
    except DataError:
        return True
    return False


def capture_stdin(
    config: DataConfig, folder: str | os.PathLike[str], reuse: bool = False
) -> DataConfig:
    """Replace `-` in the settings by a copy of standard input in `folder`.

    Standard input can be read only once, but training reads its text several times; with `reuse`,
    as when it resumes, an earlier copy stays. DataError: standard input is empty; CheckpointError:
    the copy cannot be written.
    """
    copy = Path(folder).absolute() / ("stdin.jsonl" if config.format == "jsonl" else "stdin.txt")
    changed = {
        split: {"path": [str(copy) if name == STDIN else name for name in list_names(of.path)]}
        for split, of in config.splits.items()
        if STDIN in list_names(of.path)
    }
    if changed and not (reuse and copy.exists()):
        _copy_stdin(copy)
    return config.with_splits(**changed)


def _copy_stdin(copy: Path) -> None:
    with replacing(copy) as part:
        copy.parent.mkdir(parents=True, exist_ok=True)
        stream = cast(BufferedReader, sys.stdin.buffer)
        with part.open("wb") as out:
            while arrived := stream.read1(1 << 16):
                out.write(arrived)
                progress.report(f"reading standard input: {out.tell() / 1e6:,.0f} MB")
        if part.stat().st_size == 0:
            raise DataError(
                "standard input is empty; pipe text into it or set data.train.path to a file"
            )


def _resolve(name: str, config: DataConfig, texts: bool) -> Iterator[Source]:
    if name == STDIN:
        raise DataError(
            "standard input can be read only once and no copy was made; call "
            "capture_stdin(config, folder)"
        )
    path = absolute_path(name, config)
    if "\0" in name:
        raise DataError(f"the path {name!r} has a NUL character; give a path without one")
    with reading(str(path)):
        archive = archive_of((path, *path.parents))
        if archive is not None:
            found = _in_archive(archive, with_slashes(path)[len(archive) + 1 :], texts)
        elif path.is_dir():
            found = map(Source, list_folder(path).files)
            if texts:
                found = _texts(found, f"the folder {path}", f"{with_slashes(path)}/*")
        elif path.is_file():
            found = [Source(with_slashes(path))]
        elif path.exists():  # a pipe or device would be read up on the first of several passes
            raise DataError(
                f"{path} is not a regular file; pipe its content in and set data.train.path to '-'"
            )
        elif glob.has_magic(name):
            found = _matching(path, texts)
        else:
            rest = near(path.name, beside(path))
            raise DataError(f"there is no file or folder {path}; {rest}")
        yield from (replace(one, config=config) for one in found)


def left_out(config: DataConfig, suffixes: Collection[str]) -> list[str]:
    """A sentence for each folder that the settings name, if it has files of other suffixes than
    these, or folders that may not be read."""
    names = (name for of in config.splits.values() for name in list_names(of.path))
    found: list[str] = []
    for folder in dict.fromkeys(absolute_path(name, config) for name in names if "\0" not in name):
        below = list_folder(folder) if folder.is_dir() else Folder([], [])
        others = [file for file in below.files if Source(file).suffix not in suffixes]
        for paths, noun, rest in (
            (others, "file", "that cannot be read here"),
            (below.unreadable, "folder", "that may not be read"),
        ):
            if paths:
                n = amount(len(paths), noun)
                found.append(f"left out of {folder}: {n} {rest}, such as {paths[0]}")
    return found


def absolute_path(name: str, config: DataConfig) -> Path:
    """The absolute path of a name in the settings."""
    return Path(config.root or ".").expanduser().joinpath(Path(name).expanduser()).absolute()


def _in_archive(archive: str, inside: str, texts: bool) -> Iterator[Source]:
    """The members of an archive that a path, glob or folder means; `inside` is empty for all."""
    names = members(archive)
    shown = [name for name in names if not _HIDDEN.search(name)]
    folder = posixpath.join(inside, "")
    below = [name for name in shown if name.startswith(folder)]
    found = [inside] if inside in names else below
    if not found and inside:
        found = [name for name in shown if matches(name, inside)]
        if not found:
            begins = f"it begins with {', '.join(names[:3]) or 'nothing: it is empty'}"
            raise DataError(
                f"nothing in {archive} is named or matches {inside}; {near(inside, names, begins)}"
            )
    sources = (Source(f"{archive}/{name}", archive) for name in found)
    if texts and found == below:
        place = f"{archive}/{inside}".rstrip("/")
        sources = _texts(sources, place, f"{archive}/{folder}*")
    yield from sources


def _texts(found: Iterable[Source], place: str, pattern: str) -> Iterator[Source]:
    found = list(found)
    texts = [source for source in found if source.suffix in TEXT_SUFFIXES]
    if not texts:
        raise DataError(
            f"{place} has no text files (looked for .txt, .md, .py, .jsonl and the like, also "
            f".gz, in "
            f"{len(found)} files); give a file or a glob such as {pattern}"
        )
    yield from texts


def _matching(pattern: Path, texts: bool) -> Iterator[Source]:
    parts, whole = pattern.parts, with_slashes(pattern)
    hidden = any(part.startswith(".") for part in parts)
    if "**" in parts and not hidden:  # links in a loop are entered once
        base = Path(*takewhile(lambda part: not glob.has_magic(part), parts))
        found = [path for path in list_folder(base).files if matches(path, whole)]
    else:
        places = filter(os.path.isfile, sorted(glob.glob(str(pattern), recursive=hidden)))
        found = list({os.path.realpath(path): with_slashes(path) for path in places}.values())
    if not found:
        raise DataError(
            f"no file matches {pattern}; check the pattern, or put it in quotes for the shell"
        )
    for path in found:
        yield from _in_archive(path, "", texts) if path.lower().endswith(".zip") else [Source(path)]


def beside(path: Path) -> list[str]:
    """Names in the folder of a path."""
    return os.listdir(path.parent) if path.parent.is_dir() else []


def archive_of(places: Iterable[Path]) -> str | None:
    """The first of these places that is a zip archive."""
    return next(
        (with_slashes(p) for p in places if p.suffix.lower() == ".zip" and p.is_file()), None
    )


def source_at(path: str) -> Source:
    """The source at a path that may continue inside a zip archive: `photos.zip/train/cat/1.jpg`."""
    place = Path(path).absolute()
    return Source(with_slashes(place), archive_of(place.parents))


CHECK = "check the path, which is relative to data.root"


def near(name: str, names: Sequence[str], otherwise: str = CHECK) -> str:
    """Advice for a file that is not there: the names that are like it, if there are any."""
    close = difflib.get_close_matches(name, names, n=2)
    return suggest(name, close) if close else otherwise
