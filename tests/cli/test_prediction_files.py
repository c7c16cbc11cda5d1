"""`tag`, `classify` and `embed` with --in and --out: other columns stay as they are, a killed process
is continued, a bad row is reported before work begins."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest

from small_runs import go, probabilities
from small_tasks import tag_recipe

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TAGS = ("NOUN", "VERB", "ADJ", "DET")
CLASSES = ("neg", "pos", "so, so")
TEXTS = ["a dog runs", "", "naïve cat, sat", 'the "old" one', "x" * 300, "line\nbreak", " "]
ROWS = [
    {"id": f"{i:03}", "text": text, "label": "gold", "more": m}
    for i, (text, m) in enumerate(
        zip(TEXTS, ["", "a,b", '"q"', "é", "\t", "m\nn", "z"], strict=True)
    )
]
CONLLU = """# newdoc
# sent_id = 1
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tDo\tdo\tAUX\tVB\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tx\t_\t_
2.1\tto\tto\tPART\tTO\t_\t_\t_\t1:x\t_
3\tgo\tgo\tVERB\tVB\tA=1|B=2\t1\ty\t_\t_

# a comment\tonly
1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_

"""


@pytest.fixture(scope="session")
def tagger(saved) -> Path:
    return saved("tagger", head="tag", classes=TAGS)


@pytest.fixture(scope="session")
def classifier(saved) -> Path:
    return saved("classifier", head="classify", classes=CLASSES)


def written(path: Path, rows=ROWS) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=3)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(
                file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ","
            )
            out.writeheader()
            out.writerows(rows)
    return path


def read(path: Path) -> list[dict]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="session")
def expected(classifier):
    from glassformer.run import load

    run = load(classifier)
    rows = probabilities(run, [text for text in TEXTS if text.strip()])
    found = iter(rows.tolist())
    return [
        None if not text.strip() else dict(zip(CLASSES, next(found), strict=True)) for text in TEXTS
    ]


@pytest.mark.parametrize("inp", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("out", ["csv", "jsonl", "parquet"])
def test_classes_beside_every_other_column(cli, classifier, tmp_path, expected, inp, out):
    source, target = written(tmp_path / f"in.{inp}"), tmp_path / f"out.{out}"
    said = cli("classify", classifier, "--in", source, "--out", target)
    assert (said.code, said.out, said.err) == (0, "", f"{target}: 7 rows\n")
    rows = read(target)
    own = [{name: row[name] for name in ROWS[0]} for row in rows]
    assert own == ROWS
    assert list(rows[0]) == [*ROWS[0], "predicted_label", "score"]
    for row, chances in zip(rows, expected, strict=True):
        if chances is None:
            assert row["predicted_label"] in (None, "")
            continue
        best = max(chances, key=chances.__getitem__)
        assert row["predicted_label"] == best
        assert float(row["score"]) == pytest.approx(chances[best], abs=1e-6)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, target.name])


def test_probabilities_of_all_classes(cli, classifier, tmp_path, expected):
    rows = [{"text": text} for text in TEXTS]
    source = written(tmp_path / "in.parquet", rows)
    for name in ("out.jsonl", "out.parquet", "out.csv"):
        assert (
            cli("classify", classifier, "--in", source, "--out", tmp_path / name, "--scores").code
            == 0
        )
        for row, chances in zip(read(tmp_path / name), expected, strict=True):
            found = row["probabilities"]
            found = json.loads(found) if name == "out.csv" and found else found or None
            assert found == (chances and pytest.approx(chances, abs=1e-6))
            assert list(row) == ["text", "label", "score", "probabilities"]


def test_lines_in_lines_out(cli, classifier, tagger, tmp_path):
    (tmp_path / "in.txt").write_text("a dog\n\nthe cat runs\n")
    for command, run in (("classify", classifier), ("tag", tagger)):
        assert (
            cli(
                command, run, "--in", tmp_path / "in.txt", "--out", tmp_path / "out.txt", "--force"
            ).code
            == 0
        )
        piped = cli(command, run, stdin=(tmp_path / "in.txt").read_bytes()).out
        assert (tmp_path / "out.txt").read_text() == piped


def test_types_of_parquet_stay(cli, classifier, tmp_path):
    table = pa.table(
        {
            "n": pa.array([1, None], pa.int8()),
            "text": pa.array(["a b", None]).dictionary_encode(),
            "when": pa.array([1, 2], pa.timestamp("ns", "UTC")),
            "raw": pa.array([b"\0\xff", b""]),
            "of": pa.array([{"x": [1.5]}, None]),
        }
    ).replace_schema_metadata({"huggingface": "{}"})
    pq.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    assert cli("classify", classifier, "--in", tmp_path / "in.parquet", "--out", out).code == 0
    found = pq.read_table(out)
    assert found.select(table.column_names).schema.equals(
        pq.read_table(tmp_path / "in.parquet").schema
    )
    assert found.schema.metadata[b"huggingface"] == b"{}"
    assert found.select(table.column_names).equals(pq.read_table(tmp_path / "in.parquet"))
    assert found["label"].to_pylist()[1] is None
    told = cli(
        "classify", classifier, "--in", tmp_path / "in.parquet", "--out", tmp_path / "x.jsonl"
    )
    assert "cannot be read as Parquet (" in told.err


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_tags_of_rows(cli, tagger, tmp_path, form):
    from glassformer.run import load

    words = [["a", "dog"], ["the", "cat"], [], ["x"]]
    rows = [{"id": i, "tokens": own} for i, own in enumerate(words)]
    if form == "csv":
        rows = [{"id": i, "sentence": " ".join(own)} for i, own in enumerate(words)]
    source = written(tmp_path / f"in.{form}", rows)
    assert cli("tag", tagger, "--in", source, "--out", tmp_path / f"out.{form}").code == 0
    found = read(tmp_path / f"out.{form}")
    tags = [json.loads(row["tags"]) if form == "csv" else row["tags"] for row in found]
    assert tags == [[tag for _, tag in own] for own in load(tagger).tag(words)]
    assert [str(row["id"]) for row in found] == ["0", "1", "2", "3"]


def test_conllu_changes_in_one_column_alone(cli, tagger, tmp_path):
    from glassformer.run import load

    (tmp_path / "in.conllu").write_text(CONLLU)
    assert (
        cli("tag", tagger, "--in", tmp_path / "in.conllu", "--out", tmp_path / "out.conllu").code
        == 0
    )
    tags = iter(tag for own in load(tagger).tag([["Do", "n't", "go"], ["Yes"]]) for _, tag in own)
    expected = []
    for line in CONLLU.split("\n"):
        cells = line.split("\t")
        if cells[0].isdecimal():
            cells[3] = next(tags)
        expected.append("\t".join(cells))
    assert (tmp_path / "out.conllu").read_text() == "\n".join(expected)


def test_numbers_of_other_columns_are_none_of_conllu(cli, tmp_path):
    (tmp_path / "s.iob2").write_text("1\tAnn\tB-X\t-\n2\tsaw\tO\t-\n\n" * 8)
    data = {"train.path": str(tmp_path / "s.iob2"), "format": "conll"}
    go(tag_recipe(tmp_path, data=data, train={"steps": 1}), tmp_path / "run")
    (tmp_path / "in.conllu").write_text("1\tAnn\tann\tPROPN" + "\t_" * 6 + "\n\n")
    out = tmp_path / "out.conllu"
    assert cli("tag", tmp_path / "run", "--in", tmp_path / "in.conllu", "--out", out).code == 0
    cells = out.read_text().split("\t")
    assert cells[:3] == ["1", "Ann", "ann"]
    assert cells[3] in ("B-X", "O")


def test_a_column_file_of_words_alone_gets_one_more_column(cli, tagger, tmp_path):
    (tmp_path / "in.conll").write_text("a\ndog\n\nx\n")
    assert (
        cli("tag", tagger, "--in", tmp_path / "in.conll", "--out", tmp_path / "out.conll").code == 0
    )
    lines = [line.split("\t") for line in (tmp_path / "out.conll").read_text().split("\n")]
    assert [line[0] for line in lines] == ["a", "dog", "", "x", ""]
    assert [len(line) for line in lines] == [2, 2, 1, 2, 1]


def test_vectors_in_an_array_and_in_columns(cli, classifier, tmp_path):
    from glassformer.run import load

    texts = [text for text in TEXTS if text.strip()]
    vectors = load(classifier).embed(texts)
    source = written(tmp_path / "in.csv", [{"text": text} for text in texts])
    for form in ("npy", "jsonl", "parquet", "csv"):
        assert cli("embed", classifier, "--in", source, "--out", tmp_path / f"out.{form}").code == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), vectors)
    assert np.array_equal(
        np.array([r["vector"] for r in read(tmp_path / "out.jsonl")], np.float32), vectors
    )
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.field("vector").type == pa.list_(pa.float32())
    assert np.array_equal(np.array(found["vector"].to_pylist(), np.float32), vectors)
    assert (
        json.loads(read(tmp_path / "out.csv")[0]["vector"])
        == read(tmp_path / "out.jsonl")[0]["vector"]
    )


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "txt"])
def test_a_killed_process_is_continued_to_the_same_bytes(cli, classifier, tmp_path, form):
    rows = [{"id": i, "text": 'a "b"\n' * (i % 3) + f"{i}"} for i in range(12)]
    if form in ("tsv", "txt"):
        rows = [row | {"text": row["text"].replace("\n", " ")} for row in rows]
    source, whole = written(tmp_path / "in.csv", rows), tmp_path / f"whole.{form}"
    if form == "txt":
        source = tmp_path / "in.txt"
        source.write_text("".join(f"{row['text']}\n" for row in rows))
    arguments = ("classify", classifier, "--in", source, "--out")
    assert cli(*arguments, whole).code == 0
    made, out = whole.read_bytes(), tmp_path / f"out.{form}"
    for cut in (0, 5, len(made) // 3, len(made) // 2, len(made) - 1, len(made)):
        out.write_bytes(made[:cut])
        reply = cli(*arguments, out, "--resume")
        assert reply.code == 0, reply
        assert out.read_bytes() == made
    assert reply.err == f"{out}: 12 rows (12 of them by an earlier process)\n"
    assert f"would replace {out}" in cli(*arguments, out).err
    if form != "txt":
        out.write_bytes(made)
        other = cli("embed", *arguments[1:], out, "--resume")
        assert "was begun with other columns or rows" in other.err
        assert out.read_bytes() == made
    out.write_bytes(2 * made + b"no end")
    assert "was begun with other columns or rows" in cli(*arguments, out, "--resume").err
    assert out.read_bytes() == 2 * made + b"no end"


@pytest.mark.parametrize("form", ["parquet", "conllu"])
def test_a_file_that_is_written_whole_is_not_continued(cli, tagger, tmp_path, form):
    (tmp_path / "in.conllu").write_text(CONLLU)
    out = tmp_path / f"out.{form}"
    command = ("tag", tagger, "--in", tmp_path / "in.conllu", "--out", out)
    assert f"--out {out} is written whole in the end" in cli(*command, "--resume").err
    assert not out.exists()


def test_images_in_cells_and_beside_a_table(cli, tmp_path):
    from PIL import Image

    from glassformer.run import load
    from small_kinds import run_of

    run = run_of("pictures", tmp_path / "run")
    for i in range(3):
        Image.new("L", (8, 8), 80 * i).save(tmp_path / f"{i}.png")
    names = [str(tmp_path / f"{i}.png") for i in range(3)]
    expected = load(run).classify(names)
    cells = [{"bytes": Path(name).read_bytes(), "path": None} for name in names]
    written(tmp_path / "in.parquet", [{"image": one, "id": i} for i, one in enumerate(cells)])
    written(tmp_path / "in.csv", [{"file_name": f"{i}.png"} for i in range(3)])
    for form in ("parquet", "csv"):
        out = tmp_path / f"out.{form}"
        assert cli("classify", run, "--in", tmp_path / f"in.{form}", "--out", out).code == 0
        assert [row["label"] for row in read(out)] == expected
    assert [row["image"] for row in read(tmp_path / "out.parquet")] == cells
    (tmp_path / "1.png").write_bytes(b"no image")
    said = cli(
        "classify", run, "--in", tmp_path / "in.csv", "--out", tmp_path / "s.csv", "--skip-bad"
    )
    assert said.err.endswith("left out: 1 file that cannot be read\n")
    assert [row["label"] for row in read(tmp_path / "s.csv")] == [expected[0], "", expected[2]]


BAD = {
    "long.csv": (b"text,b\na,1,2\n", "line 2 has 3 columns, and the first row has 2; mend it"),
    "quote.csv": (b'text,b\n"a,1\n', "a quote that opens there is never closed"),
    "missing.csv": (b"review,b\na,1\n", "has no column 'text'; known are b, review"),
    "coding.csv": (b"text,b\n\xff\xfe,1\n", "is not utf-8: byte 0xff at offset 7"),
    "list.jsonl": (b"[1]\n", "line 1 is not a JSON object but [1]"),
    "late.jsonl": (b'{"text": "a"}\n{"b": 1}\n', "line 2 has no field 'text'"),
    "number.jsonl": (b'{"text": "a"}\n{"text": 1}\n', "line 2 has 1 where a text is read"),
    "bad.parquet": (b"PAR1", "cannot be read as Parquet"),
    "array.json": (b'{"a": 1}', "is not a JSON array but"),
    "x.conllu": (b"x\ta\t_\t_\t_\t_\t_\t_\t_\t_\n", "is read as conllu, which has no fields"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_told_before_anything_is_written(
    refused, classifier, tmp_path, name
):
    content, told = BAD[name]
    (tmp_path / name).write_bytes(content)
    out = ("--out", tmp_path / "out.jsonl")
    assert told in refused(
        "classify", classifier, "--in", tmp_path / name, *out, code=1, keep=tmp_path
    )


WRONG = [
    (["--in", "in.csv"], "--in needs --out"),
    (["--out", "x.csv"], "--out needs --in"),
    (["--resume"], "--resume needs --out"),
    (["--in", "in.csv", "--out", "x.docx"], "--out writes .txt or .jsonl"),
    (["--in", "in.csv", "--out", "in.csv", "--force"], "is the file that --in reads"),
    (["--in", "in.csv", "--out", "there.csv"], "would replace there.csv, which does not say"),
    (["--in", "in.csv", "--out", "x.txt"], "would hold lines, and --in has csv"),
    (["--in", "in.csv", "--out", "x.conllu"], "would hold conllu, and --in has csv"),
    (["--in", "in.csv", "--out", "x.csv", "--json"], "--json has no use"),
    (
        ["--in", "in.csv", "--out", "x.csv", "--field", "a", "--field", "b"],
        "--field names 2 columns",
    ),
    (["--in", "in.csv", "--out", "x.csv", "--field", "nil"], "has no column 'nil'"),
]


@pytest.mark.parametrize(("options", "told"), WRONG)
def test_wrong_options(cli, classifier, tmp_path, monkeypatch, options, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("text\na\n")
    (tmp_path / "there.csv").write_text("mine")
    said = cli("classify", classifier, *options)
    assert said.code in (1, 2)
    assert told in said.err
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "there.csv"]


def test_a_table_without_header_by_number_and_another_column_by_name(cli, classifier, tmp_path):
    (tmp_path / "in.csv").write_text("7,a dog\n8,x\n")
    out = tmp_path / "out.csv"
    assert (
        cli("classify", classifier, "--in", tmp_path / "in.csv", "--out", out, "--field", "2").code
        == 0
    )
    with out.open(newline="") as file:
        rows = list(csv.reader(file))
    assert [row[:2] for row in rows] == [["7", "a dog"], ["8", "x"]]
    assert [len(row) for row in rows] == [4, 4]
    named = written(tmp_path / "n.jsonl", [{"id": 1, "review": "a dog"}])
    options = ("--out", tmp_path / "n2.jsonl", "--field", "review")
    assert cli("classify", classifier, "--in", named, *options).code == 0
    assert read(tmp_path / "n2.jsonl")[0]["label"] == rows[0][2]


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.txt"])
def test_files_without_rows(cli, classifier, tmp_path, name):
    (tmp_path / name).write_text("text,id\n" if name == "in.csv" else "")
    out = tmp_path / f"out{Path(name).suffix}"
    assert cli("classify", classifier, "--in", tmp_path / name, "--out", out).code == 0
    assert out.read_text() == ("text,id,label,score\n" if name == "in.csv" else "")


def test_columns_without_a_name_of_their_own_and_short_rows_stay(cli, classifier, tmp_path):
    (tmp_path / "in.csv").write_text("text,text,\na,1,x\nb\n")
    out = tmp_path / "out.csv"
    assert cli("classify", classifier, "--in", tmp_path / "in.csv", "--out", out).code == 0
    rows = [list(row.values())[:3] for row in read(out)]
    assert (list(read(out)[0]), rows) == (
        ["text", "2", "3", "label", "score"],
        [["a", "1", "x"], ["b", "", ""]],
    )


def test_new_predictions_replace_those_of_an_earlier_file(cli, classifier, tmp_path):
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    source = written(tmp_path / "in.jsonl")
    for inp, out in ((source, first), (first, again)):
        assert cli("classify", classifier, "--in", inp, "--out", out).code == 0
    assert [*read(again)[0]] == [*read(first)[0], "predicted_score"]
    assert read(again)[0]["predicted_label"] == read(first)[0]["predicted_label"]


def test_rows_of_another_shape_than_the_first(cli, classifier, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "b", "of": [1]}\n')
    said = cli("classify", classifier, "--in", tmp_path / "in.jsonl", "--out", tmp_path / "o.csv")
    assert said.code == 0
    assert [row["of"] for row in read(tmp_path / "o.csv")] == ["", "[1]"]
    assert (
        cli(
            "classify", classifier, "--in", tmp_path / "in.jsonl", "--out", tmp_path / "o.parquet"
        ).code
        == 0
    )
    assert [row["n"] for row in read(tmp_path / "o.parquet")] == [1, None]
    (tmp_path / "m.jsonl").write_text('{"text": "a", "n": 1}\n{"text": "b", "n": "x"}\n')
    said = cli(
        "classify", classifier, "--in", tmp_path / "m.jsonl", "--out", tmp_path / "m.parquet"
    )
    assert "has values of several types in a column, which Parquet cannot hold" in said.err
    (tmp_path / "t.csv").write_text('text,n\n"a\tb",1\n')
    said = cli("classify", classifier, "--in", tmp_path / "t.csv", "--out", tmp_path / "t.tsv")
    assert "has a tab or a line break in a cell, which TSV cannot hold" in said.err
