"""Labelled texts from every kind of file: what is read, how it is split, one sentence for all that
is no such."""

import csv
import gzip
import io
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.formats.records import MISSING, WHOLE
from glassformer.data.records.labelled import Labelled, read_labelled
from small_runs import data_config


def read(folder, **fields) -> list[Labelled]:
    return list(
        read_labelled(data_config({"root": str(folder), "validation.fraction": 0.0, **fields}))
    )


def rows(folder, **fields) -> list[tuple[str, tuple[str, ...]]]:
    return [(found.text, found.labels) for found in read(folder, **fields)]


def written(folder, name: str, content: str | bytes) -> dict[str, str]:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return {"train.path": name}


def refused(folder, error=DataError, **fields) -> str:
    with pytest.raises(error) as caught:
        read(folder, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Round trips


def texts(without: str = "", least: int = 1):
    kinds = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff" + without)
    some = st.text(kinds | st.sampled_from("\"',;# \u2028"), min_size=least, max_size=8)
    return some.filter(lambda text: text.strip() not in ("", "text", "label"))


def is_kept(label: str) -> bool:
    return label.casefold() not in MISSING and not WHOLE.fullmatch(label)


def classes(without: str = ""):
    """Classes that are read as they are written: no header, no missing value, no 1.0 for 1."""
    return texts(without).map(str.strip).filter(is_kept)


@given(st.lists(st.tuples(texts("\n\t"), classes("\n\t")), min_size=1, max_size=5))
def test_a_table_with_tabs_takes_every_quote_as_it_is(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("labelled")
    body = "".join(f"{text}\t{label}\n" for text, label in corpus)
    expected = [(text, (label,)) for text, label in corpus]
    assert rows(folder, **written(folder, "bare.tsv", body)) == expected
    swapped = "".join(f"{label}\tx\t{text}\n" for text, label in corpus)
    numbers = {"text_field": "3", "label_field": "1"}
    assert rows(folder, **written(folder, "swapped.tsv", swapped), **numbers) == expected
    headed = written(folder, "headed.tsv", "category\tid\ttext\n" + swapped)
    assert rows(folder, **headed, label_field="category") == expected
    assert rows(folder, **headed, label_field="1") == expected, (
        "text is a name, so the first row is a header"
    )


@given(st.lists(st.tuples(texts(), texts(), classes()), min_size=1, max_size=5))
def test_a_table_with_commas_and_a_second_text(tmp_path_factory, corpus):
    folder, out = tmp_path_factory.mktemp("labelled"), io.StringIO()
    csv.writer(out).writerows([("text", "hypothesis", "label"), *corpus])
    fields = written(folder, "a.csv", out.getvalue()) | {"pair_field": "hypothesis"}
    assert [(found.text, found.pair, found.labels) for found in read(folder, **fields)] == [
        (text, pair, (label,)) for text, pair, label in corpus
    ]


@given(
    st.lists(
        st.tuples(texts(), st.lists(classes(), max_size=4, unique=True)), min_size=1, max_size=5
    )
)
def test_json_lists_are_several_classes(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("labelled")
    corpus = [*corpus, ("last", ["some"])]
    body = "\n".join(json.dumps({"d": {"t": text}, "label": labels}) for text, labels in corpus)
    expected = [(text, tuple(labels)) for text, labels in corpus]
    assert rows(folder, **written(folder, "a.jsonl", body), text_field="d.t") == expected


def test_classes_with_numbers_may_have_names(tmp_path):
    fields = written(tmp_path, "a.csv", "a good film,1\na bad one,0\n")
    found = rows(tmp_path, **fields, class_names=("bad", "good"))
    assert found == [("a good film", ("good",)), ("a bad one", ("bad",))]
    said = refused(tmp_path, **fields, class_names=("bad",))
    assert "a.csv, line 1 is of class 1, but data.class_names has 1 names" in said


word = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="\ufeff_"),
    min_size=1,
    max_size=5,
)
label = word.filter(is_kept)


@given(
    st.lists(
        st.tuples(st.lists(label, min_size=1, max_size=3, unique=True), st.lists(word, min_size=1)),
        min_size=1,
    ),
    st.sampled_from([" ", "\t", "  "]),
)
def test_the_first_words_of_a_line_are_its_classes(tmp_path_factory, corpus, space):
    folder = tmp_path_factory.mktemp("labelled")
    marked = [
        space.join([*(f"__label__{label}" for label in labels), " ".join(text)])
        for labels, text in corpus
    ]
    fields = written(folder, "a.txt", "\n\n".join(marked)) | {"format": "label_first"}
    assert rows(folder, **fields) == [(" ".join(text), tuple(labels)) for labels, text in corpus]
    plain = [f" {labels[0]}{space}{' '.join(text)} " for labels, text in corpus]
    fields = written(folder, "b.txt", "\n".join(plain)) | {"format": "label_first"}
    assert rows(folder, **fields) == [(" ".join(text), (labels[0],)) for labels, text in corpus]


# What each setting says


def test_a_class_of_json_is_a_string_a_number_or_a_truth(tmp_path):
    values = ["a", " b ", 3, 2.5, True, False, ["x", 1, False, "x"]]
    fields = written(
        tmp_path,
        "a.jsonl",
        "\n".join(json.dumps({"text": "t", "label": value}) for value in values),
    )
    expected = [("a",), ("b",), ("3",), ("2.5",), ("true",), ("false",), ("x", "1", "false")]
    assert [labels for _, labels in rows(tmp_path, **fields)] == expected


def test_several_classes_in_a_cell(tmp_path):
    fields = written(tmp_path, "a.tsv", "one\tjoy, love,joy\ntwo\tfear\n") | {
        "label_separator": ","
    }
    assert rows(tmp_path, **fields) == [("one", ("joy", "love")), ("two", ("fear",))]
    fields = written(
        tmp_path, "a.jsonl", '{"text": "t", "label": "a|b"}\n{"text": "t", "label": ["a|b"]}'
    )
    assert [labels for _, labels in rows(tmp_path, **fields, label_separator="|")] == [
        ("a", "b"),
        ("a|b",),
    ]
    fields = written(tmp_path, "a.txt", "a|b text") | {"format": "label_first"}
    assert rows(tmp_path, **fields, label_separator="|") == [("text", ("a", "b"))]
    assert rows(tmp_path, **fields) == [("text", ("a|b",))]


def test_a_classs_name_may_end_earlier_but_not_be_empty(tmp_path):
    fields = written(tmp_path, "a.txt", "DESC:manner:x How ?\n:odd Why ?\n") | {
        "format": "label_first"
    }
    assert rows(tmp_path, **fields, label_delimiter=":") == [
        ("How ?", ("DESC",)),
        ("Why ?", (":odd",)),
    ]
    fields = written(tmp_path, "a.jsonl", '{"text": "t", "label": ["A:x", "A:y", "B"]}')
    assert rows(tmp_path, **fields, label_delimiter=":") == [("t", ("A", "B"))], (
        "classes that become one count once"
    )


def test_where_a_text_stands(tmp_path):
    fields = written(tmp_path, "a.csv", 'text,label\n"two\nlines",a\n\n,\nx,b\n')
    assert rows(tmp_path, **fields) == [("two\nlines", ("a",)), ("x", ("b",))]
    assert [found.where for found in read(tmp_path, **fields)] == [
        f"{tmp_path}/a.csv, line 2", f"{tmp_path}/a.csv, line 6"
    ]  # fmt: skip


def test_splits_are_drawn_or_from_files_of_their_own(tmp_path):
    fields = written(tmp_path, "a.tsv", "".join(f"t{i}\t{i % 2}\n" for i in range(40)))
    drawn = read(tmp_path, **fields, validation_fraction=0.25, test_fraction=0.1)
    assert [found.text for found in drawn] == [f"t{i}" for i in range(40)]
    assert Counter(found.split for found in drawn) == {"train": 26, "validation": 10, "test": 4}
    written(tmp_path, "b.tsv", "v\t1\n")
    own = read(
        tmp_path, **fields, validation_path="b.tsv", validation_fraction=0.5, test_fraction=0.2
    )
    assert Counter(found.split for found in own) == {"train": 32, "validation": 1, "test": 8}


# What is no labelled text

FIRST = {"format": "label_first"}
BAD = {
    "text.tsv": (
        "a\t1\n\t0\n",
        {},
        "text.tsv, line 2 has an empty text beside its class; fill it or remove the line",
    ),
    "label.tsv": ("a\t1\nb\t \n", {}, "label.tsv, line 2 has no class, or an empty one"),
    "short.tsv": ("a\t1\nb\n", {}, "short.tsv, line 2 has 1 column, and column 2 is needed"),
    "one.csv": ("a\nb\n", {}, "one.csv, line 1 has 1 column, not a text and a label"),
    "header.csv": (
        "text,category\na,b\n",
        {},
        "no column 'label' in its first row; known are category, text (set data.",
    ),
    "near.csv": (
        "text,labels\na,b\n",
        {},
        "no column 'label' in its first row; did you mean 'labels'?",
    ),
    "named.csv": (
        "a,b\n",
        {"label_field": "mood"},
        "(set data.text_field to a name, or to a number from 1 to 2)",
    ),
    "second.csv": (
        "text,label,other\na,b,\n",
        {"pair_field": "other"},
        "second.csv, line 2 has an empty second text",
    ),
    "third.csv": (
        "text,label\na,b\n",
        {"pair_field": "3"},
        "has 2 columns and none is '3'; set data.pair_field to a",
    ),
    "open.csv": ('a,b\nc,"d\n', {}, "open.csv, line 2 is no ',' table"),
    "bits.tsv": (
        "a\tx,,y\n",
        {"label_separator": ","},
        "bits.tsv, line 1 has no class, or an empty one",
    ),
    "list.jsonl": ("[1]", {}, "list.jsonl, line 1 is not a JSON object but [1]"),
    "field.jsonl": (
        '{"text": "a", "lable": 1}',
        {},
        "no field 'label'; did you mean 'lable'? (set data.label_field)",
    ),
    "deep.jsonl": (
        '{"text": "a", "label": {"x": 1}}',
        {"label_field": "label.y"},
        "no field 'label.y'; known are x",
    ),
    "null.jsonl": (
        '{"text": "a", "label": null}',
        {},
        "has no class, or an empty one; fill it or remove the row",
    ),
    "nested.jsonl": (
        '{"text": "a", "label": [["x"]]}',
        {},
        "has 'label' that is not a string but ['x']",
    ),
    "void.jsonl": (
        '{"text": "a", "label": ""}',
        {},
        "void.jsonl, line 1 has no class, or an empty one",
    ),
    "number.jsonl": (
        '{"text": 1, "label": "x"}',
        {},
        "has 'text' that is not a string but 1; set data.text_field",
    ),
    "silent.jsonl": ('{"text": " ", "label": "x"}', {}, "silent.jsonl, line 1 has an empty text"),
    "alone.txt": (
        "HUM Who ?\nLOC\n",
        FIRST,
        "alone.txt, line 2 has an empty text beside its class",
    ),
    "mark.txt": ("__label__ text\n", FIRST, "mark.txt, line 1 has no class, or an empty one"),
    "empty.csv": ("", {}, "there are no labelled texts in"),
    "headed.csv": ("text,label\n", {}, "there are no labelled texts in"),
    "blank.txt": ("\n \n", FIRST, "there are no labelled texts in"),
    "binary.csv": (b"a,1\nb\0,2\n", {}, "binary.csv looks binary (a NUL byte at offset 5)"),
    "latin.txt": (
        b"a x\nb \xf0\n",
        FIRST,
        "byte 0xf0 at offset 6 does not fit; set data.encoding=cp1252",
    ),
    "rot.tsv.gz": (gzip.compress(b"a\tO\n" * 99)[:-9], {}, "rot.tsv.gz is not a whole gzip file"),
    "plain.txt": (
        "a b",
        {},
        "is read as text, where texts have no classes; set data.format to csv, tsv, jsonl,",
    ),
    "words.conll": ("a O", {}, "is read as conll, where texts have no classes"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_labelled_is_one_sentence(name, tmp_path):
    content, fields, sentence = BAD[name]
    said = refused(tmp_path, **written(tmp_path, name, content), **fields)
    assert sentence in said
    assert name in said


def test_settings_that_cannot_be(tmp_path):
    fields = written(tmp_path, "a.tsv", "a\tb\n")
    assert "data.label_separator: " in refused(tmp_path, ConfigError, **fields, label_separator="")


# A file for each text


def test_a_folder_for_each_class(tmp_path):
    """As IMDB and 20 Newsgroups are published: splits are folders around the classes."""
    for split, label, name, text in [
        ("train", "neg", "0_2.txt", "a dull film\n"),
        ("train", "neg", "1_1.txt", "worse\nstill"),
        ("train", "pos", "0_9", "a fine film"),
        ("test", "pos", "batch/7_8.txt", "fine again"),
    ]:
        (tmp_path / split / label / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / split / label / name).write_text(text)
    train = [("a dull film", ("neg",)), ("worse\nstill", ("neg",)), ("a fine film", ("pos",))]
    assert rows(tmp_path, **{"train.path": "train"}) == train
    found = read(tmp_path, **{"train.path": "."})
    assert [(one.text, one.labels) for one in found if one.split == "train"] == train
    assert [(one.text, one.split) for one in found if one.split == "test"] == [
        ("fine again", "test")
    ]
    held = read(tmp_path, **{"train.path": "train", "validation.fraction": 0.34})
    assert Counter(one.split for one in held) == {"train": 2, "validation": 1}
    sentence = refused(tmp_path, ConfigError, text_field="body", **{"train.path": "train"})
    assert "data.text_field='body' is not used by train" in sentence
    named = {"label_pattern": "{n}_{label}.txt", "train.path": "train/neg"}
    assert [labels for _, labels in rows(tmp_path, **named)] == [("2",), ("1",)]
    (tmp_path / "train" / "neg" / "2_2.txt").write_text(" \n")
    assert "2_2.txt has an empty text" in refused(tmp_path, **{"train.path": "train"})
    (tmp_path / "train" / "neg" / "2_2.txt").write_bytes(b"\xff")
    assert "2_2.txt is not utf-8" in refused(tmp_path, **{"train.path": "train"})


def test_classes_in_a_second_file(tmp_path):
    both = written(tmp_path, "texts", "a\nb c\n\nd\n") | {"train.labels": "classes"}
    written(tmp_path, "classes", "x\ny\n\n0.0\n")
    assert rows(tmp_path, **both) == [("a", ("x",)), ("b c", ("y",)), ("d", ("0",))]
    for classes, sentence in {
        "x\ny\n\n": r"texts goes on at line 4 where .*classes has ended after 3 lines",
        "x\n\n\nz\n": "line 2 has no class",
        "x\ny\nz\nz\n": "line 3 has an empty text",
    }.items():
        written(tmp_path, "classes", classes)
        with pytest.raises(DataError, match=sentence):
            read(tmp_path, **both)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_columns_of_zeros_and_ones(tmp_path, name):
    """As Toxic Comments has them: each names a class, and a text may have none."""
    table = [("a", 1, 0), ("b", 1, 1), ("c", 0, 0)]
    marked = [{"text": text, "rude": one, "odd": other} for text, one, other in table]
    if name.endswith("csv"):
        body = "text,rude,odd\n" + "".join(f"{a},{b},{c}\n" for a, b, c in table)
        written(tmp_path, name, body)
    elif name.endswith("jsonl"):
        written(tmp_path, name, "".join(json.dumps(row) + "\n" for row in marked))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        made = pytest.importorskip("pyarrow").Table.from_pylist(marked)
        parquet.write_table(made, tmp_path / name)
    given = {"train.path": name, "label_columns": ["rude", "odd"]}
    assert rows(tmp_path, **given) == [("a", ("rude",)), ("b", ("rude", "odd")), ("c", ())]
    assert "'rood'" in refused(tmp_path, **given | {"label_columns": ["rood"]})
    if name.endswith("csv"):
        sentence = refused(tmp_path, **{"train.path": name, "label_field": "rude,odd"})
        assert "set data.label_columns='[rude, odd]' for columns of 0 and 1" in sentence
    sentence = refused(tmp_path, **given | {"label_columns": ["text", "odd"]})
    assert "has 'a' in the column 'text'; give 0 or 1" in sentence
