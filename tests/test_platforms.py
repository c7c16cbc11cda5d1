"""What differs between systems, tried on one: another encoding, another separator of folders, workers
that are started and not forked. docs/platforms.md says what has run where."""

import io
import json
import os
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from glassformer.cli import main
from glassformer.data import folders
from glassformer.models import weights
from glassformer.training.loop.batches import _Steps
from glassformer.training.loop.prepare import prepare
from small_runs import pair_recipe, recipe
from small_senses import picture_recipe, sound_recipe
from small_tasks import masked_recipe, tag_recipe

COMMANDS = """
import json, sys, warnings
warnings.filterwarnings("error", category=EncodingWarning, module="glassformer")
from glassformer.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["glassformer", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
"""


@pytest.mark.skipif(not sys.prefix.isascii(), reason="Python itself cannot read its path in ASCII")
def test_no_file_is_read_or_written_in_the_encoding_of_the_system(tmp_path):
    """The system's is ASCII here, and an encoding that is left open is an error in our code."""
    text = tmp_path / "text.txt"
    text.write_text("Щука плавает. naïve café — 猫が好き\n" * 40, encoding="utf-8")
    made = recipe(tmp_path, data={"train.path": str(text)}, train={"steps": 2})
    own, run = tmp_path / "own.yaml", str(tmp_path / "run")
    own.write_text(made.yaml(), encoding="utf-8")
    commands = [
        ["train", str(own), "--run", run],
        ["data", "show", str(own), "--html", str(tmp_path / "page.html")],
        ["evaluate", run],
        ["generate", run, "--prompt", "猫", "--max-new-tokens", "8"],
    ]
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", COMMANDS, json.dumps(commands)],
        env={**os.environ, **ascii_only, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"\\u732b" in done.stdout, "what the output lacks is escaped, and no error"
    assert "猫" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("windows", "asked", "expected"),
    [(True, False, "猫\n".encode()), (False, False, b"\\u732b\n"), (True, True, b"\\u732b\n")],
)
def test_output_to_a_file_is_utf8_on_windows(monkeypatch, windows, asked, expected):
    out = io.BytesIO()
    monkeypatch.setattr(main, "WINDOWS", windows)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, "cp1252"))
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    if asked:
        monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    main._prepare_output()
    print("猫", flush=True)
    assert out.getvalue() == expected


def test_paths_have_slashes(monkeypatch):
    assert folders.with_slashes("a/b\\c") == "a/b\\c", "a name may hold a backslash here"
    monkeypatch.setattr(os, "sep", "\\")
    assert folders.with_slashes("C:\\data\\cat\\1.png") == "C:/data/cat/1.png"


def test_folders_without_numbers_are_told_apart(tmp_path, monkeypatch):
    """As a file system of Windows may have none."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("")
    real = os.stat

    def without(place, **named):
        return os.stat_result([*real(place, **named)[:1], 0, *real(place, **named)[2:]])

    monkeypatch.setattr(folders.os, "stat", without)
    assert len(folders.list_folder(Path(tmp_path)).files) == 2


def test_memory_that_the_system_does_not_tell_is_no_limit(monkeypatch):
    assert weights._memory() > 1 << 20
    monkeypatch.delattr(os, "sysconf", raising=False)  # Windows
    assert weights._memory() == float("inf")


MAKERS = [recipe, pair_recipe, masked_recipe, tag_recipe, picture_recipe, sound_recipe]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_a_worker_that_is_started_makes_the_same_batches(tmp_path, maker):
    """macOS and Windows start workers, and send them what they need; Linux forks them."""
    run = tmp_path / "run"
    run.mkdir()
    steps = _Steps(prepare(maker(tmp_path), run, False, 1, lambda text: None).open().feed.batches)
    sent = ForkingPickler.loads(ForkingPickler.dumps(steps))
    for one, other in zip(steps[3], sent[3], strict=True):
        assert one.elements.equal(other.elements)
