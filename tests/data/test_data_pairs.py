"""Pairs from every kind of file: what is read, how it is split, and one sentence for everything
that is no pair."""

import csv
import gzip
import io
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.records.pairs import Pair, pair_sources, pairs, training_texts
from small_runs import data_config

ALL = {"validation.fraction": 0.0}
"""Nothing is held out."""


def read(folder, **fields) -> list[Pair]:
    return list(pairs(data_config({"root": str(folder), **ALL, **fields})))


def texts(folder, **fields) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read(folder, **fields)]


def refused(folder, error=DataError, **fields) -> str:
    with pytest.raises(error) as caught:
        read(folder, **fields)
    return str(caught.value)


def two_files(folder, sources: bytes, targets: bytes) -> dict[str, str]:
    (folder / "s.txt").write_bytes(sources)
    (folder / "t.txt").write_bytes(targets)
    return {"train.path": "s.txt", "train.targets": "t.txt"}


def lines(characters: str):
    """Lines of a file: whatever is no line's end, never nothing but spaces."""
    line = st.text(characters, min_size=1, max_size=6).filter(
        lambda text: text.strip() and not text.endswith("\r")
    )
    return st.lists(st.tuples(line, line), min_size=1, max_size=6)


LATIN, ANY = "ab \t\"',é\x85\r\x1c", "ab \t\"',é\x85\r\x1c\u2028你🙂"
ENCODINGS = {
    "utf-8": ANY,
    "latin-1": LATIN,
    "utf-16": ANY,
    "utf-16-le": ANY,
    "utf-8-sig": ANY,
    "utf-32": ANY,
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(st.data(), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_line_n_of_one_file_belongs_to_line_n_of_the_other(
    tmp_path_factory, encoding, data, end, last, zipped
):
    folder, rows = tmp_path_factory.mktemp("pairs"), data.draw(lines(ENCODINGS[encoding]))
    for side, name in enumerate("st"):
        raw = (end.join(row[side] for row in rows) + (end if last else "")).encode(encoding)
        (folder / f"{name}.txt{'.gz' * zipped}").write_bytes(gzip.compress(raw) if zipped else raw)
    names = {"train.path": f"s.txt{'.gz' * zipped}", "train.targets": f"t.txt{'.gz' * zipped}"}
    assert texts(folder, encoding=encoding, **names) == rows


def test_files_are_paired_in_order_and_each_pair_says_where_it_stands(tmp_path):
    for name in ("s1", "s2", "t1", "t2"):
        (tmp_path / name).write_text(f"{name} a\n\n{name} b\n")
    found = read(tmp_path, train_path=["s1", "s2"], train_targets=["t1", "t2"])
    assert [(pair.source, pair.target) for pair in found] == [
        ("s1 a", "t1 a"), ("s1 b", "t1 b"), ("s2 a", "t2 a"), ("s2 b", "t2 b")
    ]  # fmt: skip
    assert [pair.where for pair in found][1:3] == [
        f"{tmp_path}/s1, line 3",
        f"{tmp_path}/s2, line 1",
    ]
    assert {pair.split for pair in found} == {"train"}
    assert {pair.group for pair in found} == {None}


def test_one_files_byte_order_mark_is_no_text(tmp_path):
    assert texts(tmp_path, **two_files(tmp_path, b"\xef\xbb\xbfa\n", b"b\n")) == [("a", "b")]


@given(lines("ab é你\u2028\x85'\",;"))
def test_a_table_with_tabs_takes_every_quote_as_it_is(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("pairs")
    body = "".join(f"{source}\t{target}\n" for source, target in rows)
    (folder / "bare.tsv").write_text(body, encoding="utf-8", newline="")
    assert texts(folder, train_path="bare.tsv") == rows
    (folder / "headed.tsv").write_text(
        f"target\tid\tsource\n{body.replace(chr(9), f'{chr(9)}7{chr(9)}')}", newline=""
    )
    assert texts(folder, train_path="headed.tsv") == [(target, source) for source, target in rows]
    (folder / "named.txt").write_text(f"de\ten\n{body}", newline="")
    named = {"train.path": "named.txt", "format": "tsv", "source_field": "en", "target_field": "de"}
    assert texts(folder, **named) == [(target, source) for source, target in rows]


def test_columns_of_a_table_may_be_numbers(tmp_path):
    (tmp_path / "p.tsv").write_text("1\tx\ta\n2\ty\tb\n")
    fields = {"train.path": "p.tsv", "source_field": "3", "target_field": "2", "group_field": "1"}
    assert [(pair.source, pair.target, pair.group) for pair in read(tmp_path, **fields)] == [
        ("a", "x", "1"), ("b", "y", "2")
    ]  # fmt: skip
    (tmp_path / "p.csv").write_text("id,source,\n1,a,x\n")
    assert texts(tmp_path, train_path="p.csv", target_field="3") == [("a", "x")], (
        "a name among them: the first row is a header"
    )


@given(lines("ab é\u2028'\",;\n"), st.sampled_from(["\n", "\r\n"]))
def test_a_table_with_commas_may_have_quotes_and_line_ends_in_its_cells(
    tmp_path_factory, rows, end
):
    folder, out = tmp_path_factory.mktemp("pairs"), io.StringIO()
    csv.writer(out, lineterminator=end).writerows(
        [("group", "source", "target"), *(("x", *row) for row in rows)]
    )
    (folder / "p.csv").write_text(out.getvalue(), newline="")
    assert texts(folder, train_path="p.csv") == rows
    assert {pair.group for pair in read(folder, train_path="p.csv", group_field="group")} == {"x"}


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_empty_lines_of_a_table_are_no_rows(tmp_path, suffix):
    mark = "," if suffix == "csv" else "\t"
    rows = [f"source{mark}target", "", f"a{mark}b", "", f"c{mark}d", ""]
    for leading in ([], ["", ""]):
        (tmp_path / f"p.{suffix}").write_text("\n".join([*leading, *rows]))
        assert texts(tmp_path, train_path=f"p.{suffix}") == [("a", "b"), ("c", "d")]


def test_a_cell_may_be_as_long_as_a_document(tmp_path):
    long = "word " * 40_000  # the csv module's own limit is 131,072 characters
    for suffix, mark in (("csv", ","), ("tsv", "\t")):
        (tmp_path / f"p.{suffix}").write_text(f"{long}{mark}short\n")
        assert texts(tmp_path, train_path=f"p.{suffix}") == [(long, "short")]


def test_json_lines_flat_nested_and_with_dots_in_their_names(tmp_path):
    rows = [
        {
            "source": "a\nb",
            "target": "b",
            "translation": {"en": "one", "de": "eins"},
            "x.y": "dotted",
            "lang": "de",
        },
        {
            "source": "c",
            "target": "d",
            "translation": {"en": "two", "de": "zwei"},
            "x.y": "too",
            "lang": 3,
        },
    ]
    (tmp_path / "p.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    assert texts(tmp_path, train_path="p.jsonl") == [("a\nb", "b"), ("c", "d")]
    nested = {"source_field": "translation.en", "target_field": "translation.de"}
    assert texts(tmp_path, train_path="p.jsonl", **nested) == [("one", "eins"), ("two", "zwei")]
    assert texts(tmp_path, train_path="p.jsonl", source_field="x.y")[0] == ("dotted", "b")
    assert [pair.group for pair in read(tmp_path, train_path="p.jsonl", group_field="lang")] == [
        "de",
        "3",
    ]
    (tmp_path / "p.txt").write_text((tmp_path / "p.jsonl").read_text(), encoding="utf-16")
    assert texts(tmp_path, train_path="p.txt", format="jsonl", encoding="utf-16")[1] == ("c", "d")


@given(st.integers(1, 60), st.floats(0, 0.45), st.floats(0, 0.45))
@settings(max_examples=15)
def test_drawn_splits_are_disjoint_whole_of_the_right_size_and_always_the_same(
    tmp_path_factory, n, validation, test
):
    folder = tmp_path_factory.mktemp("pairs")
    rows = [(f"s{i}", f"t{i}") for i in range(n)]
    (folder / "p.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows))
    fields = {"train.path": "p.tsv", "validation.fraction": validation, "test.fraction": test}
    found = read(folder, **fields)
    assert [(pair.source, pair.target) for pair in found] == rows, (
        "every pair once, none apart from its other side"
    )
    sizes = Counter(pair.split for pair in found)
    assert sizes["validation"] == round(n * validation)
    assert sizes["validation"] + sizes["test"] == round(n * (validation + test))
    assert read(folder, **fields) == found
    if min(sizes["train"], sizes["validation"]) > 10:
        places = [i for i, pair in enumerate(found) if pair.split == "validation"]
        assert places != list(range(places[0], places[0] + len(places))), (
            "drawn from everywhere, not one stretch"
        )


def test_splits_with_files_of_their_own_take_nothing_from_path(tmp_path):
    for name in ("train", "val", "test"):
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text(
                "".join(f"{name} {side} {i}\n" for i in range(5))
            )
    fields = {
        "train.path": "train.en", "train.targets": "train.de", "validation.path": "val.en",
        "validation.targets": "val.de", "test.path": "test.en", "test.targets": "test.de",
    }  # fmt: skip
    found = read(tmp_path, **fields, validation_fraction=0.4, test_fraction=0.2)
    assert Counter(pair.split for pair in found) == {"train": 5, "validation": 5, "test": 5}
    for pair in found:
        name = {"validation": "val"}.get(pair.split, pair.split)
        assert (pair.source.split()[:2], pair.target.split()[:2]) == ([name, "en"], [name, "de"])
        assert pair.source.split()[2] == pair.target.split()[2]
    sources = pair_sources(data_config({"root": str(tmp_path), **fields}))
    assert {field: [source.path for source in named] for field, named in sources.items()} == {
        field: [f"{tmp_path}/{name}"] for field, name in fields.items()
    }


def test_a_tokenizer_sees_training_pairs_alone_with_the_prefix(tmp_path):
    (tmp_path / "p.tsv").write_text("".join(f"s{i}\tt{i}\n" for i in range(40)))
    config = data_config(
        {
            "root": str(tmp_path),
            "train.path": "p.tsv",
            "validation.fraction": 0.3,
            "prefix": "to de: ",
        }
    )
    training = [pair for pair in pairs(config) if pair.split == "train"]
    assert len(training) == 28
    assert list(training_texts(config, ("source",))) == [
        f"to de: {pair.source}" for pair in training
    ]
    assert list(training_texts(config, ("target",))) == [pair.target for pair in training]
    both = list(training_texts(config, ("source", "target")))
    assert Counter(both) == Counter(f"to de: {p.source}" for p in training) + Counter(
        p.target for p in training
    )


# What is no pair


@pytest.mark.parametrize(("sources", "targets"), [(b"a\nb\nc\n", b"x\n"), (b"x", b"a\nb\nc")])
def test_files_of_unequal_lengths(tmp_path, sources, targets):
    longer, shorter = ("s.txt", "t.txt") if len(sources) > len(targets) else ("t.txt", "s.txt")
    said = refused(tmp_path, **two_files(tmp_path, sources, targets))
    assert said.startswith(
        f"{tmp_path}/{longer} goes on at line 2 where {tmp_path}/{shorter} has ended after 1 lines;"
    )


@pytest.mark.parametrize("blank", ["", "  ", "\u3000"])
def test_a_pair_of_two_empty_sides_is_left_out_and_one_empty_side_is_named(tmp_path, blank):
    raw = blank.encode()
    both = two_files(tmp_path, b"a\n" + raw + b"\nc\n", b"x\n" + raw + b"\nz\n")
    assert texts(tmp_path, **both) == [("a", "x"), ("c", "z")]
    for sources, targets, side in ((raw, b"y", "source"), (b"y", raw, "target")):
        said = refused(
            tmp_path, **two_files(tmp_path, b"a\n" + sources + b"\n", b"x\n" + targets + b"\n")
        )
        assert f"s.txt, line 2 has an empty {side} beside a" in said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.tsv", "\n\n"),
        ("p.tsv", "\t\n \t \n"),
        ("p.csv", ""),
        ("p.jsonl", "\n \n"),
        ("p.csv", "source,target\n"),
    ],
)
def test_nothing_but_empty_lines(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert "there are no pairs in" in refused(tmp_path, train_path=name)
    assert "there are no pairs in" in refused(tmp_path, train_path=name, validation_fraction=0.5)


def test_two_empty_files(tmp_path):
    assert "there are no pairs in" in refused(tmp_path, **two_files(tmp_path, b"\n\n", b"\n\n"))
    assert "there are no pairs in" in refused(tmp_path, **two_files(tmp_path, b"", b""))


def test_another_encoding_is_named_by_file_and_byte(tmp_path):
    files = two_files(tmp_path, b"ab\n\xe9t\xe9\n", b"x\ny\n")
    assert "s.txt is not utf-8: byte 0xe9 at offset 3 does not fit" in refused(tmp_path, **files)
    assert "set data.encoding=cp1252" in refused(tmp_path, **files)
    assert texts(tmp_path, **files, encoding="latin-1") == [("ab", "x"), ("été", "y")]
    wide = two_files(tmp_path, "a\n".encode("utf-16"), b"x\n")
    assert "set data.encoding=utf-16" in refused(tmp_path, **wide)
    assert "looks binary" in refused(tmp_path, **two_files(tmp_path, b"a\nb\0c\n", b"x\ny\n"))
    (tmp_path / "s.txt.gz").write_bytes(gzip.compress(b"a\n" * 99)[:-9])
    (tmp_path / "t.txt").write_bytes(b"x\n" * 99)
    assert "is not a whole gzip file" in refused(
        tmp_path, train_path="s.txt.gz", train_targets="t.txt"
    )


@pytest.mark.parametrize(
    ("line", "fields", "sentence"),
    [
        ("{", {}, "p.jsonl, line 2 is not JSON"),
        ("[" * 100_000, {}, "p.jsonl, line 2 is not JSON"),
        (
            '{"source": "a", "targte": "b"}',
            {},
            "p.jsonl, line 2 has no field 'target'; did you mean 'targte'?",
        ),
        ('{"src": "a", "target": "b"}', {}, "(set data.source_field)"),
        ('["a", "b"]', {}, "p.jsonl, line 2 is not a JSON object but ['a', 'b']"),
        ("{}", {}, "p.jsonl, line 2 has no field 'source'"),
        ('{"source": 5, "target": "b"}', {}, "has 'source' that is not a string but 5"),
        ('{"source": "\\ud800", "target": "b"}', {}, "has an unpaired surrogate in 'source'"),
        (
            '{"source": "a", "target": ""}',
            {},
            "p.jsonl, line 2 has an empty target beside a source",
        ),
        ('{"source": "a", "target": "b"}', {"group_field": "lang"}, "has no field 'lang'"),
    ],
)
def test_json_lines_that_are_no_pairs(tmp_path, line, fields, sentence):
    good = {"source": "a", "target": "b", "lang": "de"}
    (tmp_path / "p.jsonl").write_text(f"{json.dumps(good)}\n{line}\n")
    said = refused(tmp_path, train_path="p.jsonl", **fields)
    assert sentence in said
    assert len(said) < 600 + len(str(tmp_path))


def test_a_nested_field_that_is_not_there(tmp_path):
    (tmp_path / "p.jsonl").write_text(json.dumps({"translation": {"en": "a", "de": "b"}}))
    fields = {"source_field": "translation.en", "target_field": "translation.fr"}
    assert "has no field 'translation.fr'; known are de, en (set data.target_field)" in refused(
        tmp_path, train_path="p.jsonl", **fields
    )


@pytest.mark.parametrize(
    ("name", "content", "fields", "sentence"),
    [
        ("p.tsv", "a\tb\nc\n", {}, "p.tsv, line 2 has 1 column, and column 2 is needed"),
        ("p.csv", 'a,b\n"c\nd",e\nf\n', {}, "p.csv, line 4 has 1 column,"),
        ("p.tsv", "a\nb\n", {}, "p.tsv, line 1 has 1 column, not a source and a target"),
        (
            "p.tsv",
            "eng\tde\na\tb\n",
            {"source_field": "emg"},
            "has no column 'emg' in its first row; did you mean 'eng'",
        ),
        ("p.tsv", "source\ttarget\na\tb\n", {"group_field": "lang"}, "has no column 'lang'"),
        (
            "p.tsv",
            "source\tlang\ttarget\na\tb\tc\nd\te\n",
            {},
            "p.tsv, line 3 has 2 columns, and column 3 is needed",
        ),
        (
            "p.tsv",
            "source\ttranslation\na\tb\n",
            {},
            "no column 'target' in its first row; known are source, trans",
        ),
        (
            "p.tsv",
            "a\tb\n",
            {"source_field": "1", "target_field": "3"},
            "has 2 columns and none is '3'",
        ),
        ("p.csv", 'a,b\nc,"d\ne,f\n', {}, "p.csv, line 2 is no ',' table"),
        ("p.csv", 'a,b\nc,"d"e\n', {}, "p.csv, line 2 is no ',' table"),
        ("p.tsv", "a\tb\n\tc\n", {}, "p.tsv, line 2 has an empty source beside a target"),
    ],
)
def test_tables_that_hold_no_pairs(tmp_path, name, content, fields, sentence):
    (tmp_path / name).write_text(content)
    assert sentence in refused(tmp_path, train_path=name, **fields)


def test_text_with_one_side_only(tmp_path):
    (tmp_path / "s.txt").write_text("a\n")
    said = refused(tmp_path, train_path="s.txt")
    assert (
        f"{tmp_path}/s.txt is a text file with one side only; set `targets` beside its path" in said
    )
    (tmp_path / "p.tsv").write_text("a\tb\n")
    assert "set `targets`" in refused(tmp_path, train_path="p.tsv", validation_path="s.txt")


def test_a_target_without_its_source(tmp_path):
    (tmp_path / "p.tsv").write_text("a\tb\n")
    for split in ("validation", "test"):
        said = refused(tmp_path, ConfigError, train_path="p.tsv", **{f"{split}.targets": "p.tsv"})
        assert f"data.{split}.targets is set but data.{split}.path, its other side, is not" in said
    refused(tmp_path, ConfigError, train_targets="p.tsv")


def test_different_numbers_of_files(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("x\n")
    said = refused(tmp_path, train_path=["a", "b"], train_targets="c")
    assert "there are 2 files of sources and 1 of targets; give one for each" in said


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "sources.txt").write_text("x\n")
    assert "there is no file or folder" in refused(
        tmp_path, train_path="sources.txt", train_targets="targets.txt"
    )
