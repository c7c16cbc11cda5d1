"""tools/replies: equal code gives equal replies, and compare finds each change of one."""

import json
import re
from pathlib import Path

import pytest
import torch

from replies.commands import spell
from replies.compare import compare, differences
from replies.make import make
from replies.record import FILES, HERE, cases, record

WANTED = ("tag-classify/tag/json", "tag-classify/tag/top-3", "files/files/resume-nothing")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> tuple[Path, Path]:
    """Two recordings of a few cases."""
    place, threads = tmp_path_factory.mktemp("replies"), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("COLUMNS", "100")
        make(["tags"])
        for name in ("old.jsonl", "new.jsonl"):
            record(place / name, WANTED)
        torch.set_num_threads(threads)
    return place / "old.jsonl", place / "new.jsonl"


def rows(path: Path) -> dict[str, dict]:
    return {row["case"]: row for row in map(json.loads, path.read_text().splitlines())}


def changed(path: Path, case: str, field: str, was: str, now: str) -> Path:
    """A recording with another text in one reply."""
    found = rows(path)
    assert was in found[case][field]
    found[case][field] = found[case][field].replace(was, now, 1)
    own = path.with_name("changed.jsonl")
    own.write_text("".join(json.dumps(row) + "\n" for row in found.values()))
    return own


def test_two_recordings_of_the_same_code_are_equal(recorded, capsys):
    old, new = recorded
    assert set(rows(old)) == {*WANTED}
    assert {row["code"] for row in rows(old).values() if row["code"] != [0] * 4} == {0}
    assert rows(old)["files/files/resume-nothing"]["files"]["out/o.txt"].startswith("the/DET")
    assert compare(old, new) == 0
    assert capsys.readouterr().out == "3 cases: 3 equal, 0 accepted, 0 different\n"


def test_a_changed_reply_is_reported_until_a_rule_accepts_it(recorded, tmp_path, capsys):
    old, new = recorded
    other = changed(new, WANTED[0], "out", '"NOUN"', '"NAME"')
    assert compare(old, other) == 1
    assert capsys.readouterr().out == (
        "tag-classify/tag/json\n  out.0.tags.1\n    - NOUN\n    + NAME\n"
        "3 cases: 2 equal, 0 accepted, 1 different\n"
    )
    rule = "- {cases: tag-classify/*, path: out.*.tags.*, was: NOUN, is: NAME, changelog: Names.}\n"
    for text, code in ((rule, 0), (rule.replace("NAME", "X"), 1), (rule.replace("out", "err"), 1)):
        (tmp_path / "rules.yaml").write_text(text)
        assert compare(old, other, tmp_path / "rules.yaml") == code
    assert "1  tag-classify/*: Names.\n" in capsys.readouterr().out
    assert compare(old, other, None, ["files/*"]) == 0


def test_last_digits_are_a_class_of_their_own_that_fails_too(recorded, capsys):
    old, new = recorded
    number = re.search(r"0\.\d{5}[1-8](?=,)", rows(old)[WANTED[0]]["out"])[0]
    near = f"{float(number) + 1e-6:.6f}"
    assert compare(old, changed(new, WANTED[0], "out", number, near)) == 1
    said = capsys.readouterr().out
    assert f"(last digits)\n    - {number}\n    + {near}\n" in said
    assert said.endswith("1 of these only in last digits\n")
    far = f"{float(number) - 1e-3:.6f}"
    assert compare(old, changed(new, WANTED[0], "out", number, far)) == 1
    assert "last digits" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("was", "now", "paths"),
    [
        ("a\nb\nc\n", "a\nc\n", ["out.1"]),
        ("a\n", "a\nb\nc\n", ["out.1", "out.2"]),
        ("", "a\nb\n", ["out.0", "out.1"]),
        ('{"a": 1}\n', '{"b": 1}\n', ["out.0.a", "out.0.b"]),
        ('{"a": [1, 2]}', '{"a": [1, 3]}', ["out.a.1"]),
        ("true", True, ["out"]),
        (None, 0, ["out"]),
        (1, 1.0, ["out"]),
        ("a", "a", []),
    ],
)
def test_paths_name_lines_and_values(was, now, paths):
    assert [one.path for one in differences("x", {"out": was}, {"out": now})] == paths


@pytest.mark.parametrize(
    ("new", "is_known"),
    [
        ("tag runs/tags --columns < in/lines.txt", True),
        ("tag runs/tags --column", False),
        ("tag runs/tags --columns-of", False),
        ("tagging runs/tags", False),
    ],
)
def test_a_new_spelling_is_run_where_the_command_line_knows_it(new, is_known):
    assert [*spell({"old": "tag runs/tags", "new": new})] == [new if is_known else "tag runs/tags"]


def test_every_case_has_a_name_of_its_own():
    names = [name for name, _ in cases(())]
    assert len(names) == len({*names}) > 500
    assert {path.stem for path in (HERE / "cases").iterdir()} == {*FILES}
