"""File names that lead outside, wherever data and runs name files."""

import io
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, suppress
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image

import glassformer as gf
from adversary import Watch, run_program
from glassformer.core.errors import GlassformerError
from glassformer.core.manifest import write_manifest
from glassformer.data.config import DataConfig
from glassformer.data.formats.contents import content
from glassformer.data.formats.documents import read
from glassformer.data.records.labelled_files import labelled_files
from glassformer.data.records.parts import read_parts
from glassformer.data.sources import resolve, source_at
from glassformer.data.store import Store
from glassformer.serve.explorer.handler import Explorer

TEXT = """
OUT ../OUT ../../OUT ../../../OUT a/../../OUT a/../../../OUT ./../../OUT ..//..//OUT .././../OUT
/OUT //OUT ///OUT ABS /ABS ./ABS ../ABS ABS/ ABS/. ABS/../OUT file:ABS file://ABS http://h/OUT
~/OUT ~root/OUT $HOME/OUT ${HOME}/OUT %2e%2e/OUT %2e%2e%2fOUT ..%2f..%2fOUT ..%5c..%5cOUT
%252e%252e/OUT ..\\OUT ..\\..\\OUT ..\\..\\..\\OUT \\OUT C:\\OUT C:OUT c:/OUT \\\\h\\s\\OUT
\\\\?\\C:\\OUT ..∕OUT ..／OUT ..⧸OUT ..⁄OUT ．．/OUT ‥/OUT …/OUT ..\u202e/OUT ..\ufeff/OUT
a\u0000/../../OUT ../OUT\u0000.png .. . / ... ..../OUT ....//OUT ..;/OUT ../OUT;.png ../OUT?x
../OUT#x ../OUT::$DATA CON NUL.png aux.png /etc/passwd /etc/shadow /proc/self/environ /dev/stdin
../../../../../../../../etc/passwd link/OUT link/../OUT
"""
FORMS = TEXT.split()
"""Names that lead outside of a folder, or would on some system; OUT is a file, ABS its path."""


def file_names(run: Path, pictures: Path, place: Path) -> tuple[int, list[str]]:
    """The number of names that were tried, and the files outside that were opened."""
    home, elsewhere = place / "home" / "a", place / "elsewhere"
    home.mkdir(parents=True)
    elsewhere.mkdir()
    around = [place, home.parent, home, elsewhere]
    targets = [folder / "o.png" for folder in around]
    for target in targets:
        target.write_bytes(b"secret")
    watch = Watch(around, Watch.MASK | Watch.OPENED)  # Rust opens files too, unheard by Python
    tries = {
        "a table in an archive": _table,
        "rows in an archive": _rows,
        "members of an archive": _members,
        "links in an archive": _links,
        "the manifest of a run": _manifest(run, "manifest.json"),
        "the manifest of a checkpoint": _manifest(run, "checkpoints/step-00000002/manifest.json"),
        "the manifest of encoded data": _store(run),
        "the best checkpoint": _best(run),
        "inputs of an explorer": _inputs(pictures),
        "samples of a run": _samples(pictures),
    }
    forms = [one.replace("ABS", str(targets[0])).replace("OUT", "o.png") for one in FORMS]
    cases, problems = 0, list[str]()
    for (what, attempt), form in product(tries.items(), forms):
        cases += 1
        folder = home / str(cases)
        folder.mkdir()
        watch.names()
        with opened() as found, chdir(elsewhere), suppress(GlassformerError):
            attempt(folder, form)
        foreign = {str(path) for path in watch.names() if path in targets}
        foreign |= {one for one in found if not _allowed(one, (folder, run, pictures))}
        if foreign:
            problems.append(f"{what}, {form!r}: {sorted(foreign)}")
    return cases, problems


_FOUND: list[set[str] | None] = [None]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    found = _FOUND[0]
    if found is not None and event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename"):
        name = arguments[0]  # a file that is open has a number; one of an open folder is relative
        if isinstance(name, str | bytes | os.PathLike) and os.path.isabs(name):
            found.add(os.path.realpath(os.fsdecode(name)))


@cache
def _install() -> None:
    """A hook cannot be removed, so there is one."""
    sys.addaudithook(_hook)


@contextmanager
def opened() -> Iterator[set[str]]:
    """The files that Python opens or lists meanwhile."""
    _install()
    _FOUND[0] = found = set[str]()
    try:
        yield found
    finally:
        _FOUND[0] = None


def _allowed(path: str, folders: tuple[Path, ...]) -> bool:
    """Whether a file is Python's, the project's, or of folders that were given."""
    own = (*folders, sys.prefix, sys.base_prefix, Path(__file__).parents[2], os.devnull)
    return any(Path(path).is_relative_to(Path(one).resolve()) for one in own)


def _data(path: Path) -> Any:
    return DataConfig.parse({"train": {"path": str(path)}})


def _picture() -> bytes:
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "png")
    return file.getvalue()


def _table(folder: Path, form: str) -> None:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("metadata.csv", f'file_name,label\n"{form}",a\nin.png,b\n')
        archive.writestr("in.png", _picture())
    for record in labelled_files(_data(folder / "x.zip"), (".png",), "image"):
        content(source_at(record.file))


def _rows(folder: Path, form: str) -> None:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        row = {"input": [{"image": form}, "x"], "label": "a"}
        archive.writestr("rows.jsonl", json.dumps(row))
        archive.writestr("in.png", _picture())
    for record in read_parts(_data(folder / "x.zip/rows.jsonl")):
        for _, value in (one for one in record.parts if one[0] == "image"):
            content(source_at(value))


def _members(folder: Path, form: str) -> None:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{form}.txt"), b"text")
    list(read(resolve(str(folder / "x.zip"), _data(folder / "x.zip"))))


def _links(folder: Path, form: str) -> None:
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr(link, form)
    list(read(resolve(str(folder / "x.zip"), _data(folder / "x.zip"))))


def _copied(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "run", copy_function=os.link))


def _replaced(file: Path, change: Callable[[Any], None]) -> None:
    values = json.loads(file.read_text())
    change(values)
    file.unlink()
    file.write_text(json.dumps(values))


def _manifest(run: Path, name: str) -> Callable[[Path, str], None]:
    def attempt(folder: Path, form: str) -> None:
        copy = _copied(run, folder)
        entry = {"bytes": 6, "sha256": "0" * 64}
        _replaced(copy / name, lambda values: values["files"].update({form: entry}))
        with suppress(GlassformerError):
            gf.load(copy)
        with suppress(GlassformerError):
            gf.load(copy, checkpoint=2)
        gf.load(copy, accept_changed=True).look("the")

    return attempt


def _store(run: Path) -> Callable[[Path, str], None]:
    def attempt(folder: Path, form: str) -> None:
        def change(values: Any) -> None:
            columns = values["splits"]["train"]["columns"]
            columns[form] = columns.pop("tokens")

        copy = _copied(run, folder)
        _replaced(copy / "tokens" / "store.json", change)
        write_manifest(copy / "tokens")
        Store.open(copy / "tokens", "tokens")

    return attempt


def _best(run: Path) -> Callable[[Path, str], None]:
    def attempt(folder: Path, form: str) -> None:
        copy = _copied(run, folder)
        _replaced(copy / "checkpoints" / "best.json", lambda values: values.update(step=form))
        run_program("train", "--resume", "--run", copy, "train.steps=3")

    return attempt


def _inputs(run: Path) -> Callable[[Path, str], None]:
    explorer = Explorer(gf.load(run))

    def attempt(folder: Path, form: str) -> None:
        for value in (form, f"example:{form}", f"data:{form}", f"data:image/png;base64,{form}"):
            with suppress(GlassformerError):
                explorer.handle({"op": "look", "look": {"input": {"image": value}}})

    return attempt


def _samples(run: Path) -> Callable[[Path, str], None]:
    def attempt(folder: Path, form: str) -> None:
        copy = _copied(run, folder)
        lines = (copy / "metrics.jsonl").read_text()
        (copy / "metrics.jsonl").unlink()
        line = {"step": 2, "inputs": [{"image": form}, form, [{"image": form}, "a"]]}
        (copy / "metrics.jsonl").write_text(f"{lines}{json.dumps(line)}\n")
        explorer = Explorer(gf.load(copy))
        for example in explorer.handle({"op": "model"}).header["examples"]:
            explorer.handle({"op": "look", "look": {"input": example}})

    return attempt
