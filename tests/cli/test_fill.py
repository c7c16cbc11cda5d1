"""`glassformer fill`: words with their probabilities for each blank, of lines and of files."""

import csv
import json

import pytest


@pytest.fixture(scope="session")
def masked(saved):
    return saved("masked", head="masked_lm")


def test_lines_json_and_files_have_the_same_words(cli, masked, tmp_path):
    first, second = "a ___ ran", "[MASK] <mask>"
    said = cli("fill", masked, "--text", first, "--text", second, "--top", 3, "--json")
    found = said.lines
    assert [len(row["blanks"]) for row in found] == [1, 2]
    assert all(len(blank) == 3 for row in found for blank in row["blanks"])
    lines = cli("fill", masked, "--top", 3, stdin=f"{first}\n\n{second}\n".encode()).out
    whole = [text.splitlines() for text in lines.removesuffix("\n").split("\n\n")]
    assert len(whole[0]) == 3
    assert "\n\n\n" in lines, "an empty line is a text without blanks"
    number, share, word = lines.splitlines()[0].split("\t")
    best = found[0]["blanks"][0][0]
    assert (number, share, word) == ("1", f"{best['probability']:.4f}", best["word"])

    rows = [{"id": "a", "text": first}, {"id": "b", "text": " "}, {"id": "c", "text": second}]
    (tmp_path / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for suffix in ("jsonl", "csv"):
        out = tmp_path / f"out.{suffix}"
        said = cli("fill", masked, "--in", tmp_path / "in.jsonl", "--out", out, "--top", 2)
        assert said.code == 0, said.err
    filled = [found[0]["filled"], None, found[1]["filled"]]
    made = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["id"], row["filled"]) for row in made] == list(zip("abc", filled, strict=True))
    assert [len(blank) for blank in made[2]["blanks"]] == [2, 2]
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        assert [row["filled"] for row in csv.DictReader(file)] == [one or "" for one in filled]


def test_what_has_no_blank_is_refused(refused, masked, trained, tmp_path):
    keep = {"code": 2, "keep": tmp_path}
    (tmp_path / "in.csv").write_text("text\na ___\nnone\n")
    files = ("--in", tmp_path / "in.csv", "--out", tmp_path / "out.csv")
    assert "in.csv, line 3 has no blank" in refused("fill", masked, *files, **keep)
    assert "Text 2 has no blank" in refused("fill", masked, stdin=b"a ___\nb\n", **keep)
    assert "glassformer generate" in refused("fill", trained, "--text", "___", **keep)
    assert "--text has no use" in refused("fill", masked, "--text", "___", *files, **keep)
