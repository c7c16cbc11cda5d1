"""A folder and its manifest: whole or not there wherever a process stops, and every damage seen."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from glassformer.core.errors import CheckpointError
from glassformer.core.files import sweep
from glassformer.core.manifest import (
    difference,
    digest,
    new_folder,
    replacing_files,
    write_manifest,
)


def fill(folder: Path, content: str) -> None:
    (folder / "one").write_text(content)
    (folder / "two").write_text(content * 3)


class Stop(BaseException):
    """What no handler expects: the process is gone."""


@contextmanager
def failing_at(stop_at: int, kill: bool, monkeypatch) -> Iterator[list[bool]]:
    """Make the `stop_at`-th call to the file system fail, or kill; the list is [True] if it had
    fewer."""
    count = 0

    def counted(real):
        def call(*arguments, **named):
            nonlocal count
            count += 1
            if count == stop_at or (kill and count > stop_at):  # the dead clean nothing up
                raise Stop if kill else OSError(errno.EIO, "Input/output error")
            return real(*arguments, **named)

        return call

    ended: list[bool] = []
    with monkeypatch.context() as patch:
        removing = [(shutil, "rmtree")] if kill else []  # it ignores errors, so it cannot fail
        calls = [(os, "fsync"), (os, "open"), (Path, "rename"), (Path, "replace"), *removing]
        for module, name in calls:
            patch.setattr(module, name, counted(getattr(module, name)))
        with suppress(Stop, CheckpointError):
            yield ended
            ended.append(True)


@pytest.mark.parametrize("kill", [True, False])
def test_a_folder_is_the_old_one_or_the_new_one_wherever_it_stops(tmp_path, monkeypatch, kill):
    stopped, seen = 0, set()
    while True:
        place = tmp_path / str(stopped)
        place.mkdir()
        with new_folder(place / "step") as folder:
            fill(folder, "old")
        stopped += 1
        with failing_at(stopped, kill, monkeypatch) as ended, new_folder(place / "step") as folder:
            fill(folder, "new")
        if ended:
            break
        if kill:
            sweep(place, "step".__eq__)  # as the next start does
        assert difference(place / "step", ("one", "two")) is None
        seen.add((place / "step" / "one").read_text())
        assert [p.name for p in place.iterdir()] == ["step"]
    assert stopped > 8
    assert seen == {"old", "new"}


def test_a_failed_folder_vanishes_and_sweep_takes_what_a_kill_left(tmp_path):
    with pytest.raises(CheckpointError), new_folder(tmp_path / "step") as folder:
        fill(folder / "nowhere", "x")
    assert not list(tmp_path.iterdir())
    (tmp_path / ".tmp-step").mkdir()
    (tmp_path / ".old-step").mkdir()
    (tmp_path / "step").mkdir()
    (tmp_path / ".a.json.tmp").write_text("")
    (tmp_path / ".tokens.0123456789ab.tmp").mkdir()
    others = {"kept", ".tmp-notes", ".old-photos", ".thesis.tmp", ".tmp-", ".old-", "..tmp"}
    for name in others - {".old-photos"}:
        (tmp_path / name).write_text("")
    (tmp_path / ".old-photos").mkdir()
    sweep(tmp_path, {"step", "a.json", "tokens"}.__contains__)
    assert {p.name for p in tmp_path.iterdir()} == {"step", *others}


def damaged(folder: Path, how: str) -> None:
    file = folder / "two"
    content = file.read_bytes()
    match how:
        case "flipped":
            file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        case "cut":
            file.write_bytes(content[:-1])
        case "longer":
            file.write_bytes(content + b"x")
        case "deleted":
            file.unlink()
        case "a folder":
            file.unlink()
            file.mkdir()
        case "no manifest":
            (folder / "manifest.json").unlink()
        case "empty manifest":
            (folder / "manifest.json").write_text('{"files": {}}')
        case "odd manifest":
            (folder / "manifest.json").write_text('{"files": 3}')
        case "cut manifest":
            (folder / "manifest.json").write_bytes((folder / "manifest.json").read_bytes()[:-20])
        case "deep manifest":
            (folder / "manifest.json").write_text("[" * 100_000)


DAMAGES = [
    "flipped",
    "cut",
    "longer",
    "deleted",
    "a folder",
    "no manifest",
    "empty manifest",
    "odd manifest",
]
DAMAGES += ["cut manifest", "deep manifest"]


@pytest.mark.parametrize("how", DAMAGES)
def test_every_damage_is_seen(tmp_path, how):
    with new_folder(tmp_path / "step") as folder:
        fill(folder, "content")
    assert difference(tmp_path / "step", ("one", "two")) is None
    damaged(tmp_path / "step", how)
    assert difference(tmp_path / "step", ("one", "two"))


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../outside", "", "..", "a/b"])
def test_a_manifest_does_not_lead_out_of_its_folder(tmp_path, name):
    (tmp_path / "step").mkdir()
    (tmp_path / "outside").write_text("x")
    entry = {"bytes": 1, "sha256": digest(tmp_path / "outside")}
    (tmp_path / "step" / "manifest.json").write_text(
        json.dumps({"format": 1, "files": {name: entry}})
    )
    found = difference(tmp_path / "step")
    assert found == f"{tmp_path / 'step'} has no readable manifest.json"


def model(folder: Path) -> tuple[str, ...]:
    return tuple((folder / name).read_text() for name in ("one", "two"))


@pytest.mark.parametrize("kill", [True, False])
def test_replaced_files_are_as_the_manifest_says_wherever_it_stops(tmp_path, monkeypatch, kill):
    stopped, seen = 0, set()
    while True:
        place = tmp_path / str(stopped)
        place.mkdir()
        (place / "card").write_text("by hand")
        fill(place, "old")
        write_manifest(place, ("one", "two"))
        stopped += 1
        with failing_at(stopped, kill, monkeypatch) as ended, replacing_files(place) as new:
            fill(new, "new")
        assert difference(place, ("one", "two")) is None
        seen.add(model(place))
        if ended:
            break
        with replacing_files(place) as new:  # as the next start does, and goes on
            (new / "two").write_text("newest")
        assert difference(place, ("one", "two")) is None
        (place / "two").write_text("oldest")
        assert "two has 6 bytes" not in (difference(place) or "")
        assert difference(place), "only one content is accepted afterwards"
    sweep(place, "manifest.json".__eq__)  # a refused removal is made good at the next start
    assert {path.name for path in place.iterdir()} == {"one", "two", "card", "manifest.json"}
    assert stopped > 10
    assert {("old", "oldoldold"), ("new", "oldoldold"), ("new", "newnewnew")} == seen


def test_the_last_of_the_first_files_is_there_only_with_all_others(tmp_path, monkeypatch):
    stopped, ended, seen = 0, [], set()
    while not ended:
        stopped += 1
        (place := tmp_path / str(stopped)).mkdir()
        with (
            failing_at(stopped, True, monkeypatch) as ended,
            replacing_files(place, last="one") as new,
        ):
            fill(new, "new")
        names = {path.name for path in place.iterdir() if path.is_file()}
        seen.add(frozenset(names & {"one", "two"}))
        if "one" in names:
            assert difference(place, ("one", "two")) is None
        with replacing_files(place, last="one") as new:  # as the next start does
            fill(new, "new")
        assert difference(place, ("one", "two")) is None
    assert seen == {frozenset(), frozenset({"two"}), frozenset({"one", "two"})}


def test_a_reader_who_comes_while_files_are_replaced_sees_no_damage(tmp_path, monkeypatch):
    fill(tmp_path, "old")
    write_manifest(tmp_path)
    times = []

    def slow(file):
        if not times:  # the trainer saves between the reader's manifest and its files
            times.append(1)
            with replacing_files(tmp_path) as new:
                fill(new, "new")
        return digest(file)

    monkeypatch.setattr("glassformer.core.manifest.digest", slow)
    assert difference(tmp_path, ("one", "two")) is None
    assert times


def test_some_files_alone_are_compared(tmp_path):
    fill(tmp_path, "content")
    write_manifest(tmp_path)
    (tmp_path / "two").write_text("other")
    assert difference(tmp_path, ("one",), only=("one",)) is None
    assert difference(tmp_path, ("one",), only=("two",))


@pytest.mark.parametrize(
    "files",
    [
        '{"one": []}',
        '{"one": null}',
        '{"one": [null, 0]}',
        '{"one": {"bytes": 1e999, "sha256": ""}}',
        '{"one": {"bytes": "x"}}',
        "[]",
        "3",
    ],
)
def test_a_manifest_of_odd_values_is_not_readable(tmp_path, files):
    (tmp_path / "one").write_text("x")
    (tmp_path / "manifest.json").write_text(f'{{"format": 1, "files": {files}}}')
    assert difference(tmp_path) == f"{tmp_path} has no readable manifest.json"
