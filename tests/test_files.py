"""Files are whole or not there: whatever call fails, and wherever a process is killed."""

import errno
import json
import os
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from command_line import tree
from glassformer.core import files, locks
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.manifest import new_folder
from glassformer.models.weights import save_tensors


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


def test_only_one_trainer_holds_the_lock(tmp_path):
    with locks.lock(tmp_path / "run"):
        with (
            pytest.raises(ConfigError, match="Another process is training"),
            locks.lock(tmp_path / "run"),
        ):
            pass
        code = (
            "import sys; from pathlib import Path; from glassformer.core.locks import lock\n"
            "with lock(Path(sys.argv[1])): pass"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True
        )
        assert "Another process is training" in other.stderr
    with locks.lock(tmp_path / "run"):
        pass


def test_an_error_before_anything_was_written_leaves_no_trace(tmp_path):
    """A folder that a run began in keeps its mark, and one that was there stays."""
    run, own = tmp_path / "runs" / "x", tmp_path / "own"
    own.mkdir()
    for folder in (run, own):
        with pytest.raises(ConfigError, match="a bad file"), locks.lock(folder):
            raise ConfigError("a bad file")
    assert not run.exists()
    assert list(own.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), locks.lock(run):
        raise KeyboardInterrupt
    assert [p.name for p in run.iterdir()] == ["run.lock"], "it was stopped, and can be begun again"
    (run / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError), locks.lock(run):
        raise ConfigError("a bad file")
    assert sorted(p.name for p in run.iterdir()) == ["run.lock", "tokenizer.json"]


@pytest.mark.parametrize("taken", [True, False])
def test_windows_locks_by_another_call(tmp_path, monkeypatch, taken):
    """By a stand-in for its module: nothing here has run on Windows itself."""
    calls = []

    def locking(handle, mode, size):
        calls.append((mode, size))
        if taken:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    refusal = pytest.raises(ConfigError, match="Another process is training")
    with refusal if taken else nullcontext(), locks.lock(tmp_path / "run"):
        pass
    assert calls == [(2, 1)]


def test_windows_syncs_files_and_no_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WINDOWS", True)
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files.sync(tmp_path)
    assert not synced
    files.write_text(tmp_path / "a.txt", "x")
    assert len(synced) == 1


def test_windows_removes_a_lock_when_it_is_closed(tmp_path, monkeypatch):
    """By a stand-in: an open file cannot be removed there."""
    opened, unlink = [], Path.unlink
    real = Path.open

    def held(path, *arguments, **named):
        opened.append(real(path, *arguments, **named))
        return opened[-1]

    def refuses(path, **named):
        if not opened[-1].closed:
            raise PermissionError(errno.EACCES, "it is open")
        unlink(path, **named)

    monkeypatch.setattr(locks, "WINDOWS", True)
    monkeypatch.setattr(Path, "open", held)
    monkeypatch.setattr(Path, "unlink", refuses)
    with pytest.raises(ConfigError, match="a bad file"), locks.lock(tmp_path / "run"):
        raise ConfigError("a bad file")
    assert not (tmp_path / "run").exists()


def test_text_has_the_same_bytes_everywhere(tmp_path, monkeypatch):
    """Windows writes a newline as two bytes, unless it is told not to; hashes would differ."""
    monkeypatch.setattr("os.linesep", "\r\n")
    given = []
    real = Path.write_text
    monkeypatch.setattr(
        Path, "write_text", lambda self, *a, **named: (given.append(named), real(self, *a, **named))
    )
    files.write_text(tmp_path / "a.txt", "a\nb\n")
    assert (tmp_path / "a.txt").read_bytes() == b"a\nb\n"
    assert given[0]["newline"] == "\n"


def test_a_scratch_folder_goes():
    with files.scratch_folder() as folder:
        (folder / "a").write_text("")
    assert not folder.exists()


@pytest.mark.parametrize("number", files.NO_SYNC)
def test_a_folder_that_cannot_be_synced_is_no_obstacle(tmp_path, monkeypatch, number):
    real = os.fsync

    def no_folders(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", no_folders)
    files.write_text(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").read_text() == "x"


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    import fcntl

    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with locks.lock(tmp_path):
        pass


def test_a_real_limit_on_file_size_is_one_sentence(tmp_path):
    """EFBIG from the system itself, as a full disk would give it, in the writer of tensors too."""
    resource = pytest.importorskip("resource", reason="limits of Unix")
    files.write_text(tmp_path / "a.txt", "old")
    save_tensors({"a": torch.ones(3)}, tmp_path / "a.safetensors")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(CheckpointError, match="free some space"):
            files.write_text(tmp_path / "a.txt", "x" * 100_000)
        with pytest.raises(CheckpointError, match="free some space"):
            save_tensors({"a": torch.ones(100_000)}, tmp_path / "a.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
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
        with locks.unchanged_if_refused(tmp_path, own):
            files.write_text(tmp_path / "changed", "other")
            (tmp_path / "removed").unlink()
            (tmp_path / "new").write_text("")
            (tmp_path / "new store").mkdir()
            with new_folder(tmp_path / "store") as folder:
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
    with locks.unchanged_if_refused(tmp_path, {"a", "b"}):
        files.write_text(tmp_path / "a", "other")
        files.write_text(tmp_path / "b", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "other",
        "b": "new",
    }
