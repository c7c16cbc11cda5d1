"""A disk that loses power: what a body does to a folder, operation by operation, and every folder
that could be found afterwards.

The model is the one of POSIX, at its strictest. The content of a file is sure after fsync of the
file; its name, a rename, a removal and a new folder after fsync of the folder that has the name (of a
rename: the new name). What is not sure may be there or not, each by itself; a write may also be
there in part.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT, SECTOR = 0, 512
CHANGES = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "link")
Change = tuple[int, str, int | None]
"""In a folder, a name leads to another file or folder, or (None) nowhere."""


@dataclass
class Tree:
    """Folders as names of what is in them, files as bytes; both by a number that is never used
    again."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    files: dict[int, bytes] = field(default_factory=dict)

    def write(self, place: Path, of: int = ROOT) -> None:
        """Make these folders and files."""
        place.mkdir()
        for name, own in self.folders[of].items():
            if own in self.folders:
                self.write(place / name, own)
            else:
                (place / name).write_bytes(self.files[own])

    def paths(self, of: int = ROOT, at: str = "") -> Iterator[tuple[str, bytes | None]]:
        """Every folder and every file with its bytes."""
        for name, own in self.folders[of].items():
            if own in self.folders:
                yield f"{at}{name}/", None
                yield from self.paths(own, f"{at}{name}/")
            else:
                yield f"{at}{name}", self.files[own]


@dataclass(frozen=True)
class Step:
    """One change of names (one of them sure after fsync of `sure_by`), the content of a file, or an
    fsync of `sure_by`."""

    kind: str
    sure_by: int
    changes: tuple[Change, ...] = ()
    content: bytes = b""


@dataclass(frozen=True)
class Loss:
    """Steps that did not reach the disk, and one that did in part."""

    steps: frozenset[int] = frozenset()
    torn: int | None = None
    filled: bool = False
    """The rest of the torn file is zeros, instead of missing."""


class Trace:
    """The steps of a body, and what is on disk if power is lost after some of them."""

    def __init__(self, root: Path):
        self.root, self.steps = root, list[Step]()
        self._numbers, self._last = {os.stat(root).st_ino: ROOT}, ROOT
        self._now = Tree()
        self.look()
        self.begin, self.steps = self._now, []

    def __len__(self) -> int:
        return len(self.steps)

    def look(self) -> None:
        """Turn what changed since the last look into steps."""
        found, numbers = Tree(), {os.stat(self.root).st_ino: ROOT}
        self._read(self.root, ROOT, found, numbers)
        self._numbers = numbers
        gone, come = [], []
        for folder in {*self._now.folders, *found.folders}:
            before, now = (tree.folders.get(folder, {}) for tree in (self._now, found))
            gone += [(folder, n, own) for n, own in before.items() if now.get(n) != own]
            come += [(folder, n, own) for n, own in now.items() if before.get(n) != own]
        known = {*self._now.files, *self._now.folders}
        for folder, name, own in come:
            left = [(f, n) for f, n, other in gone if other == own]
            gone = [one for one in gone if one[2] != own and one[:2] != (folder, name)]
            away = tuple((f, n, None) for f, n in left if own in known)
            kind = "rename" if away else "folder" if own in found.folders else "name"
            self.steps.append(Step(kind, folder, (*away, (folder, name, own))))
        for folder, name, _ in gone:
            self.steps.append(Step("remove", folder, ((folder, name, None),)))
        for own, content in found.files.items():
            if content != self._now.files.get(own, b""):
                self.steps.append(Step("write", own, (), content))
        self._now = found

    def synced(self, handle: int) -> None:
        """An fsync of what is open there."""
        if (own := self._numbers.get(os.fstat(handle).st_ino)) is not None:
            self.steps.append(Step("fsync", own))

    def _read(self, place: Path, number: int, found: Tree, numbers: dict[int, int]) -> None:
        found.folders[number] = {}
        for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
            own = numbers.get(entry.inode(), self._numbers.get(entry.inode()))
            if own is None:
                own = self._last = self._last + 1
            numbers[entry.inode()] = own
            found.folders[number][entry.name] = own
            if entry.is_dir(follow_symlinks=False):
                self._read(Path(entry.path), own, found, numbers)
            else:
                found.files[own] = Path(entry.path).read_bytes()

    def pending(self, end: int) -> list[int]:
        """The steps before `end` that are not sure at `end`."""
        left: list[int] = []
        for at, step in enumerate(self.steps[:end]):
            if step.kind == "fsync":
                left = [one for one in left if self.steps[one].sure_by != step.sure_by]
            else:
                left.append(at)
        return left

    def losses(self, end: int) -> Iterator[Loss]:
        """None, all that is not sure, each alone, all but each; the last write in part."""
        pending = self.pending(end)
        every = frozenset(pending)
        yield from {Loss(lost) for lost in (frozenset(), every, *map(frozenset, zip(pending)))}
        if len(pending) > 2:
            yield from (Loss(every - {one}) for one in pending)
        if writes := [at for at in pending if self.steps[at].kind == "write"]:
            yield from (Loss(torn=writes[-1], filled=filled) for filled in (False, True))

    def after(self, end: int, loss: Loss) -> Tree:
        """What is on disk after `end` steps and a loss."""
        tree = Tree({n: dict(of) for n, of in self.begin.folders.items()}, dict(self.begin.files))
        for at, step in enumerate(self.steps[:end]):
            if step.kind == "fsync" or at in loss.steps:
                continue
            if step.kind == "write":
                tree.files[step.sure_by] = (
                    torn(step.content, loss) if at == loss.torn else step.content
                )
                continue
            *away, (folder, name, own) = step.changes
            if any(tree.folders.get(f, {}).get(n) != own for f, n, _ in away):
                continue  # its old name was lost, and with it the file
            for place, old, _ in away:
                del tree.folders[place][old]
            if own is None:
                tree.folders.get(folder, {}).pop(name, None)
                continue
            if step.kind == "folder":
                tree.folders.setdefault(own, {})
            elif own not in tree.folders:
                tree.files.setdefault(own, b"")
            tree.folders.setdefault(folder, {})[name] = own
        return tree

    def disks(self, every: bool) -> Iterator[tuple[int, Loss, Tree]]:
        """What may be on disk after each step, each once: with `every` loss, or none and all."""
        seen = set()
        for end in range(len(self) + 1):
            few = {Loss(), Loss(frozenset(self.pending(end)))}
            for loss in self.losses(end) if every else few:
                tree = self.after(end, loss)
                key = end == len(self), frozenset(tree.paths())
                if key not in seen:
                    seen.add(key)
                    yield end, loss, tree

    def told(self, end: int, loss: Loss) -> str:
        """The last steps before the power went, for a message."""
        lines = [
            f"{at}{' LOST' if at in loss.steps else ' TORN' if at == loss.torn else ''} {step.kind} "
            f"{step.sure_by} {step.changes}"
            for at, step in enumerate(self.steps[:end])
        ]
        return "\n".join(lines)


def torn(content: bytes, loss: Loss) -> bytes:
    """The sectors before the last one that was to be written, and perhaps zeros."""
    kept = content[: (len(content) - 1) // SECTOR * SECTOR]
    return kept + bytes(len(content) - len(kept)) if loss.filled else kept


@contextmanager
def traced(root: Path) -> Iterator[Trace]:
    """The trace of what the body does in a folder."""
    trace = Trace(root)

    def followed(real, name):
        def call(*arguments, **named):
            trace.look()
            result = real(*arguments, **named)
            if name == "fsync":
                trace.synced(arguments[0])
            trace.look()
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, followed(getattr(os, name), name))
        yield trace
    trace.look()
