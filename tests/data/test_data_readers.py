"""Reading: every way to name text, every format, and one sentence for everything that is not
text."""

import gzip
import json
import os
import sys
from contextlib import ExitStack

import pytest

from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.data.config import DataConfig
from glassformer.data.formats.documents import read
from glassformer.data.records.labelled import read_labelled
from glassformer.data.sources import capture_stdin, resolve
from small_runs import data_config


def texts(path, **settings):
    config = data_config({"train.path": path if isinstance(path, list) else str(path), **settings})
    return [document.text for document in read(resolve(config.train.path, config))]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.txt").write_text("bee\r\n", newline="")
    (tmp_path / "a.md").write_text("ay 你")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "c.jsonl").write_text(
        '{"text": "one"}\n\n{"text": "two", "id": 3}\n'
    )
    (tmp_path / "deep" / "d.py.gz").write_bytes(gzip.compress(b"zipped = 1"))
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    (tmp_path / ".hidden.txt").write_text("hidden")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.txt").write_text("hidden")
    return tmp_path


def test_a_folder_is_read_recursively_in_order_text_files_only(folder):
    assert texts(folder) == ["ay 你", "bee\r\n", "zipped = 1", "one", "two"]


def test_files_globs_lists_and_roots(folder, monkeypatch):
    assert texts(folder / "b.txt") == ["bee\r\n"]
    assert texts(folder / "*.??") == ["ay 你"]
    assert texts(folder / "**" / "*.jsonl") == ["one", "two"]
    assert texts(["b.txt", "a.md", "*.txt"], root=str(folder)) == ["bee\r\n", "ay 你"]
    monkeypatch.chdir(folder)
    assert texts("b.txt") == ["bee\r\n"]
    (folder / "odd[1].txt").write_text("odd")
    assert texts("odd[1].txt") == ["odd"]


def test_sources_are_named_as_a_user_would(folder):
    config = data_config({"train.path": str(folder / "deep")})
    names = [document.source for document in read(resolve(config.train.path, config))]
    assert names == [
        f"{folder}/deep/d.py.gz",
        f"{folder}/deep/er/c.jsonl, line 1",
        f"{folder}/deep/er/c.jsonl, line 3",
    ]


def test_formats_can_be_forced(folder):
    (folder / "lines").write_text('{"body": "x"}\n{"body": "y"}')
    assert texts(folder / "lines", format="jsonl", text_field="body") == ["x", "y"]
    assert texts(folder / "deep/er/c.jsonl", format="text")[0].startswith('{"text"')
    (folder / "l.jsonl.gz").write_bytes(gzip.compress(b'{"text": "in gz"}'))
    assert texts(folder / "l.jsonl.gz") == ["in gz"]


def test_encodings_and_byte_order_marks(tmp_path):
    (tmp_path / "l.txt").write_bytes("é".encode("latin-1"))
    assert texts(tmp_path / "l.txt", encoding="latin-1") == ["é"]
    (tmp_path / "u.txt").write_bytes("é\n".encode("utf-16"))
    assert texts(tmp_path / "u.txt", encoding="utf-16") == ["é\n"]
    (tmp_path / "u.jsonl").write_bytes('{"text": "é"}\n{"text": "ਊ"}'.encode("utf-16"))
    assert texts(tmp_path / "u.jsonl", encoding="utf-16") == ["é", "ਊ"]
    (tmp_path / "m.txt").write_bytes(b"\xef\xbb\xbfmark")
    assert texts(tmp_path / "m.txt") == ["mark"]
    (tmp_path / "m.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "mark"}')
    assert texts(tmp_path / "m.jsonl") == ["mark"]


BAD = {
    "empty.txt": (b"", "empty.txt is empty"),
    "mark.txt": (b"\xef\xbb\xbf", "mark.txt is empty"),
    "nul.txt": (b"abc\0def", r"nul.txt looks binary \(a NUL byte at offset 3\)"),
    "binary.txt": (b"\x7fELF\xff\0", r"looks binary \(a NUL byte at offset 5\)"),
    "latin.txt": (
        "caf\xe9 \xe9".encode("latin-1"),
        r"is not utf-8: byte 0xe9 at offset 3 .*data.encoding=cp1252",
    ),
    "marked.txt": (b"\xef\xbb\xbfab\xff", "byte 0xff at offset 5"),
    "wide.txt": ("abc".encode("utf-16"), "data.encoding=utf-16"),
    "not.txt.gz": (b"plain text", "not.txt.gz is not a whole gzip file"),
    "cut.txt.gz": (gzip.compress(os.urandom(1000))[:-400], "cut.txt.gz is not a whole gzip file"),
    "rot.txt.gz": (
        gzip.compress(b"text" * 100)[:12] + b"\xff" * 40,
        "rot.txt.gz is not a whole gzip file",
    ),
    "bad.jsonl": (b'{"text": "a"}\n{"text": \n', r"bad.jsonl, line 2 is not JSON"),
    "deep.jsonl": (b"[" * 100_000, "deep.jsonl, line 1 is not JSON"),
    "list.jsonl": (b'["text"]', "line 1 is not a JSON object but"),
    "field.jsonl": (
        b'{"text": "a"}\n{"txt": "b"}',
        "line 2 has no field 'text'; did you mean 'txt'.*data.text_field",
    ),
    "other.jsonl": (b'{"body": "b", "id": 1}', "no field 'text'; known are body, id"),
    "none.jsonl": (b"{}", "no field 'text'; the object is empty"),
    "number.jsonl": (b'{"text": 3}', "has 'text' that is not a string but 3"),
    "half.jsonl": (b'{"text": "\\ud800"}', "unpaired surrogate in 'text'"),
    "blank.jsonl": (b"\n\n", "blank.jsonl is empty"),
    "latin.jsonl": (b'{"text": "a"}\n{"text": "\xe9"}', "byte 0xe9 at offset 24"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_text_is_one_sentence(name, tmp_path):
    content, sentence = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence) as problem:
        texts(tmp_path / name)
    assert name in str(problem.value)
    assert "\n" not in str(problem.value)


def test_what_is_not_there_is_one_sentence(folder):
    with pytest.raises(DataError, match=r"no file or folder .*/b.text; did you mean 'b.txt'\?"):
        texts(folder / "b.text")
    with pytest.raises(DataError, match=r"no file or folder .*; check the path"):
        texts(folder / "no" / "such")
    with pytest.raises(DataError, match=r"no file matches .*\*.csv"):
        texts(folder / "*.csv")
    with pytest.raises(DataError, match=r"has no text files .* in 0 files"):
        texts(make(folder / "nothing"))
    with pytest.raises(DataError, match=r"NUL character"):
        texts("a\0b")
    with pytest.raises(ConfigError, match=r"data.train.path is not set"):
        resolve(None)
    (folder / "empty2.txt").write_text("")
    with pytest.raises(DataError, match=r"all 2 files are empty"):
        texts(folder / "empty*.txt")
    os.mkfifo(folder / "pipe")
    with pytest.raises(DataError, match=r"not a regular file; pipe its content in"):
        texts(folder / "pipe")


def make(folder):
    folder.mkdir()
    return folder


def test_a_file_that_fails_while_read_is_one_sentence(folder, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("builtins.open", fail)
    with pytest.raises(DataError, match=r"cannot read .*b.txt: Input/output error"):
        texts(folder / "b.txt")


@pytest.fixture
def stdin(monkeypatch):
    """Put bytes into standard input, a pipe."""
    with ExitStack() as opened:

        def put(raw):
            read_end, write_end = os.pipe()
            os.write(write_end, raw)
            os.close(write_end)
            piped = opened.enter_context(os.fdopen(read_end, encoding="utf-8"))
            monkeypatch.setattr(sys, "stdin", piped)

        yield put


def test_standard_input_is_copied(tmp_path, stdin):
    stdin("piped é".encode())
    config = data_config({"train.path": "-"})
    captured = capture_stdin(config, tmp_path / "run")
    assert texts(captured.train.path) == ["piped é"]
    stdin(b"")  # as on --resume
    assert texts(capture_stdin(config, tmp_path / "run", reuse=True).train.path) == ["piped é"]
    stdin(b"another")
    assert texts(capture_stdin(config, tmp_path / "run").train.path) == ["another"]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["stdin.txt"]
    assert capture_stdin(data_config({"train.path": "x"}), tmp_path / "no") == data_config(
        {"train.path": "x"}
    )
    stdin(b'{"text": "a"}')
    captured = capture_stdin(
        data_config({"train.path": "x", "test.path": "-", "format": "jsonl"}), tmp_path / "lines"
    )
    assert texts(captured.test.path) == ["a"]


def test_standard_input_that_cannot_be_had_is_one_sentence(tmp_path, stdin):
    stdin(b"")
    with pytest.raises(DataError, match=r"standard input is empty"):
        capture_stdin(data_config({"train.path": "-"}), tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"read only once"):
        resolve("-")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"Cannot write .*stdin\.txt: "):
        capture_stdin(data_config({"train.path": "-"}), tmp_path / "file")


def test_unknown_and_impossible_settings_are_refused():
    bad = [
        {"train.paths": "x"},
        {"encoding": "utf-9"},
        {"encoding": "rot13"},
        {"validation.fraction": 1.0},
    ]
    bad += [
        {"validation.fraction": 0.6, "test.fraction": 0.4},
        {"format": "xml"},
        {"documents": "apart"},
    ]
    for settings in bad:
        with pytest.raises(ConfigError):
            data_config(settings)
    with_file = {"validation.fraction": 0.6, "test.fraction": 0.4, "test.path": "x"}
    assert data_config(with_file).held_out == (0.6, 0.0)
    assert all(field.description for field in DataConfig.model_fields.values())
    json.dumps(DataConfig.model_json_schema())


@pytest.mark.parametrize(("format", "mark"), [("csv", ","), ("tsv", "\t")])
def test_running_text_of_a_table_is_its_text_column(tmp_path, format, mark):
    path = tmp_path / f"t.{format}"
    path.write_text(f"id{mark}text\n1{mark}one two\n2{mark}three\n", encoding="utf-8")
    config = data_config({"train.path": str(path), "format": format})
    assert [document.text for document in read(resolve(config.train.path, config))] == [
        "one two",
        "three",
    ]
    auto = data_config({"train.path": str(path)})
    assert len(list(read(resolve(auto.train.path, auto)))) == 2
    path.write_text(f"id{mark}story\n1{mark}one two\n", encoding="utf-8")
    # a file that only happens to be a table is a text like any other, unless a setting names it
    assert [document.text for document in read(resolve(auto.train.path, auto))] == [
        path.read_text(encoding="utf-8")
    ]
    named = data_config({"train.path": str(path), "text_field": "story"})
    assert [document.text for document in read(resolve(named.train.path, named))] == ["one two"]


@pytest.mark.parametrize(
    "content",
    [
        '[{"text": "a b"}, {"text": "c"}]',
        '{"data": [{"text": "a b"},\n{"text": "c"}]}',
        '{"text": "a b"}\n{"text": "c"}\n',
    ],
)
@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_rows_of_json_are_read_whatever_holds_them(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    config = data_config({"train.path": str(tmp_path / name)})
    assert [one.text for one in read(resolve(config.train.path, config))] == ["a b", "c"]


@pytest.mark.parametrize("content", ['{"a": [1, 2]}', "{\n  'no': json\n}", '[{"story": "x"}]'])
def test_json_without_texts_is_text_like_any_other(tmp_path, content):
    (tmp_path / "t.json").write_text(content, encoding="utf-8")
    config = data_config({"train.path": str(tmp_path / "t.json")})
    assert [one.text for one in read(resolve(config.train.path, config))] == [content]


@pytest.mark.parametrize("first", ["", "sep=;\n", '"sep=;"\n'])
def test_semicolons_divide_cells_as_excel_writes_them(tmp_path, first):
    (tmp_path / "t.csv").write_text(
        f'{first}id;text\n1;"one; two"\n2;three, four\n', encoding="utf-8"
    )
    config = data_config({"train.path": str(tmp_path / "t.csv"), "text_field": "text"})
    found = list(read(resolve(config.train.path, config)))
    assert [one.text for one in found] == ["one; two", "three, four"]
    assert found[1].source.endswith(f"line {3 + bool(first)}")


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        (["text;label", "Well, fine;good", "bad;poor"], "Well, fine"),
        (['"no, id";text;label', '"1, 2";a, b;good'], "a, b"),
        ([f"I came, saw {i};{('good', 'poor')[i % 2]}" for i in range(9)], "I came, saw 0"),
        (["text,label", '"a; b",good', "c,poor"], "a; b"),
        (["text|label", "a, b|good"], "a, b"),
        (["text\tlabel", "a, b\tgood"], "a, b"),
        (["text,label", '"a', 'b; c",good'], "a\nb; c"),
        (["text,label", '"a ""b"" ; c",good'], 'a "b" ; c'),
    ],
)
def test_what_divides_cells_is_found_by_the_rows(tmp_path, rows, first):
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    found = read_labelled(data_config({"train.path": str(tmp_path / "t.csv")}))
    assert next((one.text, one.labels) for one in found) == (first, ("good",))


def test_running_text_of_a_table_without_the_column_names_those_that_exist(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,words\n1,one\n", encoding="utf-8")
    config = data_config({"train.path": str(path), "format": "csv", "text_field": "wrods"})
    with pytest.raises(
        DataError, match=r"t\.csv has no column 'wrods' in its first row; did you mean 'words'\?"
    ):
        list(read(resolve(config.train.path, config)))


def test_quotes_of_windows_name_their_encoding(tmp_path):
    text = "\u201cIt\u2019s \u20ac5 \u2013 caf\u00e9\u2026\u201d\n"
    (tmp_path / "w.txt").write_bytes(text.encode("cp1252"))
    path = tmp_path / "w.txt"
    with pytest.raises(DataError, match=r"byte 0x93 at offset 0 does not fit; set .*=cp1252 if"):
        texts(path)
    assert texts(path, encoding="cp1252") == [text]
    (tmp_path / "w.txt").write_bytes(b"caf\xe9\x85")
    assert texts(path, encoding="iso8859-1") == ["caf\u00e9\x85"]
