"""Files are whole or not there: whatever call fails, and wherever a process is killed."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import tree
from glassformer import files
from glassformer.errors import CheckpointError, ConfigError


def test_text_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "one")
    files.write_text(path, "zwei ü")
    assert path.read_text(encoding="utf-8") == "zwei ü"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_json_must_be_json(tmp_path):
    path = tmp_path / "a.json"
    files.write_json(path, {"a": [1, None]})
    assert json.loads(path.read_text()) == {"a": [1, None]}
    with pytest.raises(ValueError):
        files.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": [1, None]}


def test_a_name_that_is_no_utf8_survives(tmp_path):
    files.write_text(tmp_path / "a.txt", "x\udcffy")
    assert (tmp_path / "a.txt").read_bytes() == b"x\xffy"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EFBIG, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "choose another place"),
        (errno.EROFS, "choose another place"),
    ],
)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_refusal_is_one_sentence_and_the_old_file_stays(
    tmp_path, monkeypatch, number, remedy, call
):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fails(*arguments, **named):
        raise OSError(number, os.strerror(number))

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fails)
    else:
        monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(CheckpointError) as caught:
        files.write_text(path, "new")
    assert remedy in str(caught.value)
    assert str(caught.value).count(". ") == 0
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def fill(folder: Path, content: str) -> None:
    (folder / "one").write_text(content)
    (folder / "two").write_text(content * 3)


class Stop(BaseException):
    """What no handler expects: the process is gone."""


def calls_of(tmp_path, monkeypatch, stop_at: int, kill: bool) -> bool:
    """Replace a folder while the `stop_at`-th call to the file system fails (or kills); False if it
    had fewer calls."""
    count = 0

    def counted(real):
        def call(*arguments, **named):
            nonlocal count
            count += 1
            if count == stop_at or (
                kill and count > stop_at
            ):  # after a kill nothing is cleaned up either
                raise Stop if kill else OSError(errno.EIO, "Input/output error")
            return real(*arguments, **named)

        return call

    target = tmp_path / "step"
    with monkeypatch.context() as patch:
        removing = [(shutil, "rmtree")] if kill else []  # it ignores errors, so it cannot fail
        for module, name in [
            (os, "fsync"),
            (os, "open"),
            (Path, "rename"),
            (Path, "replace"),
            *removing,
        ]:
            patch.setattr(module, name, counted(getattr(module, name)))
        try:
            with files.new_folder(target) as folder:
                fill(folder, "new")
        except (Stop, CheckpointError):
            return True
    return False


@pytest.mark.parametrize("kill", [True, False])
def test_a_folder_is_the_old_one_or_the_new_one_wherever_it_stops(tmp_path, monkeypatch, kill):
    stopped, seen = 0, set()
    while True:
        place = tmp_path / str(stopped)
        place.mkdir()
        with files.new_folder(place / "step") as folder:
            fill(folder, "old")
        stopped += 1
        if not calls_of(place, monkeypatch, stopped, kill):
            break
        if kill:
            files.sweep(place, "step".__eq__)  # as the next start does
        files.check_manifest(place / "step", ("one", "two"))
        seen.add((place / "step" / "one").read_text())
        assert [p.name for p in place.iterdir()] == ["step"]
    assert stopped > 8
    assert seen == {"old", "new"}


def test_a_failed_folder_vanishes_and_sweep_takes_what_a_kill_left(tmp_path):
    with pytest.raises(CheckpointError), files.new_folder(tmp_path / "step") as folder:
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
    files.sweep(tmp_path, {"step", "a.json", "tokens"}.__contains__)
    assert {p.name for p in tmp_path.iterdir()} == {"step", *others}


def test_everything_is_synced_before_it_is_renamed(tmp_path, monkeypatch):
    events = []
    fsync, rename, replace = os.fsync, Path.rename, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))[1]
    )
    monkeypatch.setattr(
        Path, "rename", lambda a, b: (events.append(f"{a.name}>{b.name}"), rename(a, b))[1]
    )
    monkeypatch.setattr(
        Path, "replace", lambda a, b: (events.append(f"{a.name}>{b.name}"), replace(a, b))[1]
    )
    with files.new_folder(tmp_path / "step") as folder:
        fill(folder, "x")
    made = events.index(".tmp-step>step")
    for name in ("one", "two", ".manifest.json.tmp"):
        assert events.index(str(tmp_path / ".tmp-step" / name)) < made
    manifest = events.index(".manifest.json.tmp>manifest.json")
    assert events.index(str(tmp_path / ".tmp-step" / "two")) < manifest < made
    assert str(tmp_path / ".tmp-step") in events[manifest:made], (
        "the folder itself must be synced too"
    )
    assert events[made + 1 :] == [str(tmp_path)]


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
    with files.new_folder(tmp_path / "step") as folder:
        fill(folder, "content")
    files.check_manifest(tmp_path / "step", ("one", "two"))
    damaged(tmp_path / "step", how)
    with pytest.raises(CheckpointError):
        files.check_manifest(tmp_path / "step", ("one", "two"))


def test_a_manifest_does_not_lead_out_of_its_folder(tmp_path):
    (tmp_path / "step").mkdir()
    (tmp_path / "outside").write_text("x")
    entry = {"bytes": 1, "sha256": files.digest(tmp_path / "outside")}
    (tmp_path / "step" / "manifest.json").write_text(json.dumps({"files": {"../outside": entry}}))
    with pytest.raises(CheckpointError, match="missing"):
        files.check_manifest(tmp_path / "step")


def test_only_one_trainer_holds_the_lock(tmp_path):
    with files.locked(tmp_path / "run"):
        with (
            pytest.raises(ConfigError, match="Another process is training"),
            files.locked(tmp_path / "run"),
        ):
            pass
        code = (
            "import sys; from pathlib import Path; from glassformer.files import locked\n"
            "with locked(Path(sys.argv[1])): pass"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
        )
        assert "Another process is training" in other.stderr
    with files.locked(tmp_path / "run"):
        pass


def test_an_error_before_anything_was_written_leaves_no_trace(tmp_path):
    """A folder that a run began in keeps its mark, and one that was there stays."""
    run, own = tmp_path / "runs" / "x", tmp_path / "own"
    own.mkdir()
    for folder in (run, own):
        with pytest.raises(ConfigError, match="a bad file"), files.locked(folder):
            raise ConfigError("a bad file")
    assert not run.exists()
    assert list(own.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), files.locked(run):
        raise KeyboardInterrupt
    assert [p.name for p in run.iterdir()] == ["run.lock"], "it was stopped, and can be begun again"
    (run / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError), files.locked(run):
        raise ConfigError("a bad file")
    assert sorted(p.name for p in run.iterdir()) == ["run.lock", "tokenizer.json"]


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    import fcntl

    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with files.locked(tmp_path):
        pass


def test_a_real_limit_on_file_size_is_one_sentence(tmp_path):
    """EFBIG from the system itself, as a full disk would give it, in the writer of tensors too."""
    code = """
import resource, sys, torch
from pathlib import Path
from glassformer.errors import CheckpointError
from glassformer.files import write_text
from glassformer.models.weights import save_tensors
folder = Path(sys.argv[1])
write_text(folder / "a.txt", "old"); save_tensors({"a": torch.ones(3)}, folder / "a.safetensors")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for write in (lambda: write_text(folder / "a.txt", "x" * 100000),
              lambda: save_tensors({"a": torch.ones(100000)}, folder / "a.safetensors")):
    try:
        write()
    except CheckpointError as error:
        print(error)
"""
    assert resource.RLIMIT_FSIZE is not None
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("free some space" in line for line in lines)
    assert (tmp_path / "a.txt").read_text() == "old"
    assert (tmp_path / "a.safetensors").stat().st_size < 1000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "a.txt"]


def no_links(*names):
    raise OSError("this file system has no hard links")


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("error", [CheckpointError("ours"), ValueError("not foreseen")])
def test_what_is_refused_leaves_a_folder_as_it_was(tmp_path, monkeypatch, linked, error):
    if not linked:
        monkeypatch.setattr("os.link", no_links)
    for name in ("changed", "removed", "kept", "foreign"):
        (tmp_path / name).write_text(name)
    for name in ("store", "same"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "values").write_text(name)
    before, file = tree(tmp_path), (tmp_path / "same" / "values").stat().st_ino
    own = {"changed", "removed", "kept", "store", "same", "new", "new store", "absent"}

    def refused_after_changes():
        with files.unchanged_if_refused(tmp_path, own):
            files.write_text(tmp_path / "changed", "other")
            (tmp_path / "removed").unlink()
            (tmp_path / "new").write_text("")
            (tmp_path / "new store").mkdir()
            with files.new_folder(tmp_path / "store") as folder:
                (folder / "values").write_text("other")
            assert tree(tmp_path) != before
            raise error

    with pytest.raises(type(error)):
        refused_after_changes()
    assert tree(tmp_path) == before
    if linked:  # what nobody changed was not touched
        assert (tmp_path / "same" / "values").stat().st_ino == file


def test_what_is_not_refused_stays_changed(tmp_path):
    (tmp_path / "a").write_text("a")
    with files.unchanged_if_refused(tmp_path, {"a", "b"}):
        files.write_text(tmp_path / "a", "other")
        files.write_text(tmp_path / "b", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "other",
        "b": "new",
    }
