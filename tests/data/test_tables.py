"""The first row of a table, spaces behind its commas, and a quote that stays open."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import DataError
from glassformer.data.formats.delimited import NAMES, looks_like_header
from glassformer.data.records.labelled import read_labelled
from glassformer.data.records.pairs import pairs
from glassformer.tasks.objectives.labels import check_counts
from small_runs import data_config

HEADERS = [
    "review,sentiment",
    "Review,Sentiment",
    "English,German",
    "id,source,target",
    "sentence1,sentence2,label",
    "tweet_text,airline_sentiment,label",
    "Text,Label",
    "file,class",
    "src,tgt",
    "de,en",
    " text , label",
]
ROWS = [
    "good,positive",
    "Hello,Hallo",
    "Go.,Geh.",
    "text,Text des Liedes",
    "a dog runs,1",
    "1,2",
    "the film,good_film",
    "x,y",
    "German,Deutsch",
    ",",
]


@pytest.mark.parametrize("row", HEADERS)
def test_usual_names_of_columns(row):
    assert looks_like_header(row.split(","))


@pytest.mark.parametrize("row", ROWS)
def test_what_is_data(row):
    assert not looks_like_header(row.split(","))


@given(st.lists(st.sampled_from(sorted(NAMES)), min_size=1, max_size=4))
def test_any_of_the_names_in_any_case(names):
    assert looks_like_header(names)
    assert looks_like_header([name.upper() for name in names])
    assert not looks_like_header([*names, f"{names[0]} is a word."])


def labels(tmp_path, content: str, **fields):
    (tmp_path / "t.csv").write_text(content)
    values = {"train.path": str(tmp_path / "t.csv"), "validation.fraction": 0.0}
    return [(row.text, *row.labels) for row in read_labelled(data_config(values | fields))]


def test_a_header_of_other_names_asks_for_the_fields(tmp_path):
    content = "review,sentiment\ngood,pos\nbad,neg\n"
    with pytest.raises(DataError) as caught:
        labels(tmp_path, content)
    assert str(caught.value).removeprefix(f"{tmp_path}/") == (
        "t.csv, line 1 looks like a header ('review', 'sentiment'), but has no column 'text' or "
        "'label'; set data.text_field and data.label_field to its names, or to the numbers of "
        "columns (from 1) if it is an ordinary row"
    )
    named = {"text_field": "review", "label_field": "sentiment"}
    assert labels(tmp_path, content, **named) == [("good", "pos"), ("bad", "neg")]
    numbered = {"text_field": "1", "label_field": "2"}
    assert labels(tmp_path, content, **numbered)[0] == ("review", "sentiment")
    (tmp_path / "p.tsv").write_text("English\tGerman\nGo.\tGeh.\n")
    with pytest.raises(DataError, match=r"\('English', 'German'\), but has no column 'source' or"):
        list(pairs(data_config({"train.path": str(tmp_path / "p.tsv")})))


@pytest.mark.parametrize(
    "header", ["text, label", "text , label ", '"text", "label"', "text,label"]
)
def test_spaces_around_the_names_of_columns(tmp_path, header):
    assert labels(tmp_path, f"{header}\ngood,pos\n") == [("good", "pos")]


def test_a_space_behind_every_comma_is_not_part_of_a_cell(tmp_path):
    content = 'text, label\n"well, good", "pos"\n"a ""b""", neg\n'
    assert labels(tmp_path, content) == [("well, good", "pos"), ('a "b"', "neg")]
    assert labels(tmp_path, "text,label\n  kept , pos\n") == [("  kept ", "pos")]


@pytest.mark.parametrize("before", [0, 3])
def test_a_quote_that_never_closes_is_reported_where_it_opened(tmp_path, before):
    content = "text,label\n" + "good,pos\n" * before + '"open,neg\n' + "bad,neg\n" * 50
    line = before + 2
    with pytest.raises(DataError, match=rf"line {line} .*\(a quote that opens there is never"):
        labels(tmp_path, content)


def classes(tmp_path, rows, header="text,label\n"):
    from glassformer.run import load
    from small_runs import go
    from small_tasks import class_recipe

    (tmp_path / "c.csv").write_text(header + "".join(rows))
    made = class_recipe(tmp_path, data={"train.path": str(tmp_path / "c.csv")}, train={"steps": 1})
    go(made, tmp_path / "run")
    return load(tmp_path / "run").model.config.classes


@pytest.mark.parametrize("header", ["", "v1,v2\n"])
def test_classes_before_the_texts_are_known_by_their_values(tmp_path, header):
    rows = [f"{('ham', 'spam')[i % 3 == 0]},a message of length {i}\n" for i in range(40)]
    assert {*classes(tmp_path, rows, header)} == {"ham", "spam"}


def test_a_number_is_one_class_however_it_is_written(tmp_path):
    rows = [f"word {i} here,{('0', '0.0', '1', '1.00')[i % 4]}\n" for i in range(40)]
    assert {*classes(tmp_path, rows)} == {"0", "1"}


@pytest.mark.parametrize("missing", ["", "nan", "NaN", "NULL"])
def test_a_missing_label_is_named_by_its_line(tmp_path, missing):
    rows = [f"word {i} here,{missing if i == 7 else i % 2}\n" for i in range(40)]
    with pytest.raises(DataError, match=r"line 9 has no class"):
        classes(tmp_path, rows)


@pytest.mark.parametrize("form", ["{:.1f}", "{:.0e}", '"{}"'])
def test_decimals_are_no_classes(tmp_path, form):
    numbers = [form.format(i / 2 + 0.5) for i in range(6)]
    if form == '"{}"':
        numbers = [one.replace(".", ",") for one in numbers]
    rows = [f"word {i} here,{numbers[i % 6]}\n" for i in range(40)]
    with pytest.raises(DataError, match=r"\d numbers with decimals .* only a regression predicts"):
        classes(tmp_path, rows)


def test_more_classes_than_texts_are_swapped_columns(tmp_path):
    rows = [f"{('ham', 'spam')[i % 2]},see message {i % 20}\n" for i in range(40)]
    with pytest.raises(DataError, match=r"2 different ones of 20 classes; swap data\.text_field"):
        classes(tmp_path, rows)


def test_a_column_of_texts_is_no_column_of_classes(tmp_path):
    rows = [f"the text {i} here,a text {i if i > 4 else 0}\n" for i in range(40)]
    with pytest.raises(DataError, match=r"3\d different classes"):
        classes(tmp_path, rows)


@pytest.mark.parametrize("mark", [";", ",", "|"])
def test_several_classes_in_a_cell_need_their_separator(mark):
    counts = Counter({f"toxic{mark} rude": 2, "toxic": 3, "a, b": 1})
    check_counts(counts, "text", multi=False)
    with pytest.raises(DataError, match=re.escape(f"data.label_separator={mark!r}")):
        check_counts(counts, "text", multi=True)


def test_numbers_of_rows_are_no_classes(tmp_path):
    from small_runs import go
    from small_tasks import class_recipe

    (tmp_path / "c.csv").write_text(
        "text,id,label\n" + "".join(f"word {i} here,{i},{'ab'[i % 2]}\n" for i in range(30))
    )
    data = {"train.path": str(tmp_path / "c.csv"), "label_field": "id"}
    with pytest.raises(
        DataError, match=r"the 27 training texts have 27 different classes \('0', '1', '10',"
    ):
        go(class_recipe(tmp_path, data=data), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_lines_that_end_with_cr_alone_are_told(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"text,label\rgood,pos\rbad,neg\r")
    config = data_config({"train.path": str(tmp_path / "t.csv")})
    with pytest.raises(DataError, match="its lines end with CR alone; save it with LF"):
        list(read_labelled(config))
