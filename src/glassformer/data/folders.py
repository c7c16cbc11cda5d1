"""The files below a folder, each real folder once; paths with `/`."""

import heapq
import os
from pathlib import Path
from typing import NamedTuple


def with_slashes(path: str | Path) -> str:
    """A path with `/` between its folders, which Windows understands too: patterns, classes by
    folder and the order of files are those of other systems."""
    return str(path).replace(os.sep, "/")


class Folder(NamedTuple):
    """Files below a folder, by paths in order."""

    files: list[str]
    unreadable: list[str]
    """Folders and links that may not be read."""


def list_folder(folder: Path) -> Folder:
    """The files below a folder; names that begin with a dot are left out.

    Links are followed, but each folder is entered once: by the first of its names, real ones before
    links. A link to a folder around `folder` is not followed.
    """
    files, unreadable = list[str](), list[str]()
    entered = {os.path.realpath(place) for place in folder.resolve().parents}
    waiting = [(0, str(folder))]
    while waiting:
        links, place = heapq.heappop(waiting)
        if (real := os.path.realpath(place)) in entered:
            continue
        entered.add(real)
        try:
            paths = [one.path for one in os.scandir(place) if one.name[0] != "."]
        except OSError:
            unreadable.append(with_slashes(place))
            continue
        for path in paths:
            if os.path.isdir(path):
                heapq.heappush(waiting, (links + os.path.islink(path), path))
            elif os.path.isfile(path):
                files.append(with_slashes(path))
    return Folder(sorted(files), sorted(unreadable))
