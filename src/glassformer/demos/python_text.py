"""Text that every Python installation has: the language reference and the standard library's
docstrings."""

import hashlib
import inspect
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import DataError

_LEFT_OUT = [
    "idlelib",
    "lib2to3",
    "turtledemo",
    "site-packages",
    "dist-packages",
    "ensurepip",
    "pydoc_data",
]

# A triple-quoted string at the top of a file or right after a line that ends in a colon. Python's
# own parser finds the same strings in ten times the time (10 s for the whole library).
_DOCSTRING = re.compile(
    r"(?:\A(?:[ \t]*(?:#[^\n]*)?\n)*|:[ \t]*(?:#[^\n]*)?\n\s*)"
    r"[rRuU]?(\"\"\"|''')((?:[^\\]|\\.)*?)\1",
    re.DOTALL,
)


def write_documents(folder: Path) -> None:
    """Write each document as a text file into FOLDER/documents."""
    (folder / "documents").mkdir()
    for number, (name, text) in enumerate(python_documents()):
        path = folder / "documents" / f"{number:04}-{name}.txt"
        path.write_text(text, encoding="utf-8", newline="")


def python_documents() -> list[tuple[str, str]]:
    """Name and text of every document: one per topic of the language reference and one per module
    with docstrings.

    Sorted by a hash of the name, which mixes topics and modules, so that the last documents
    (validation) are like the others. DataError: this Python has neither.
    """
    found = [*_topics(), *_modules()]
    if not found:
        raise DataError(
            "this Python has neither pydoc_data nor the sources of its standard library, so this "
            "demo has no text; use another Python"
        )
    return [
        (name.replace("/", "-"), text)
        for name, text in sorted(found, key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    ]


def docstrings(source: str) -> list[str]:
    """The docstrings of a module's source in order, without indentation, escapes as written."""
    return [inspect.cleandoc(found[2]) for found in _DOCSTRING.finditer(source)]


def _topics() -> Iterator[tuple[str, str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions leave it out
        return
    for name, text in sorted(topics.items()):
        yield f"topic/{name}", inspect.cleandoc(text)


def _modules() -> Iterator[tuple[str, str]]:
    for file, name in python_sources():
        try:
            found = docstrings(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        text = "\n\n".join(filter(None, found))
        if text:
            yield f"module/{name}", text


def python_sources() -> Iterator[tuple[Path, str]]:
    """The modules of the standard library with their dotted names, sorted; none without sources."""
    yield from _sources(Path(sysconfig.get_path("stdlib")))


def _sources(folder: Path, prefix: str = "") -> Iterator[tuple[Path, str]]:
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = place.stem
        if name in _LEFT_OUT or "test" in name or name.startswith((".", "config-")):
            continue
        if place.suffix == ".py":
            yield place, prefix + name
        elif place.is_dir():
            yield from _sources(place, f"{prefix}{name}.")
