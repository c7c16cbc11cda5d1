"""Laws over whole commands and whole run folders; `bench/adversary.py` has the cases and counts more
of them."""

import re
from functools import cache
from pathlib import Path

import pytest

import adversary
from small_kinds import MAKERS, run_of

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return adversary.trained(tmp_path_factory.mktemp("adversary"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of these kinds, each made once."""
    folder = tmp_path_factory.mktemp("damaged")
    made = cache(lambda kind: run_of(kind, folder / kind))
    return lambda *kinds: [made(kind) for kind in kinds]


def test_a_refused_command_changes_nothing(run, monkeypatch, capsys):
    monkeypatch.chdir(run.parent)
    (run.parent / "notes.txt").write_text("mine")
    assert adversary.refusals(run) == (len(adversary.REFUSED), 0), capsys.readouterr().out
    assert len(adversary.REFUSED) == 59


def test_no_command_changes_a_users_files(tmp_path, monkeypatch, capsys):
    pytest.importorskip("fcntl", reason="inotify is of Linux")
    run = adversary.trained(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert adversary.others(run, adversary.foreign(tmp_path)) == (40, 0), capsys.readouterr().out


def test_a_damaged_run_is_told_or_gives_the_same_answers(runs, tmp_path, capsys):
    found = adversary.corruptions(runs("text", "pairs", "parts"), tmp_path, 22)
    assert found.keys() == {"told", "harmless"}, capsys.readouterr().out
    assert found["told"] > 8


@pytest.mark.slow
def test_two_thousand_damaged_runs(runs, tmp_path, capsys):
    found = adversary.corruptions(runs(*MAKERS), tmp_path, 2200)
    assert found.keys() == {"told", "harmless"}, capsys.readouterr().out


def test_every_promise_names_a_test_that_is_there():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    promises = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    assert len(promises) > 15
    for line in promises:
        named = re.findall(r"`((?:tests|bench)/[\w/]+\.py)`", line)
        assert named, line
        assert all((ROOT / name).is_file() for name in named), line
