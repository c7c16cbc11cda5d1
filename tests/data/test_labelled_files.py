"""Files with classes: folders, tables, patterns and archives of the same files say the same."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.formats.contents import content
from glassformer.data.records.labelled_files import LabelledFile, labelled_files
from glassformer.data.sources import source_at
from small_runs import data_config


def write(root: Path, files: dict[str, bytes]) -> None:
    for name, raw in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw)


def pack(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)


def read(root: Path, path, **fields) -> list[LabelledFile]:
    fields = {"validation.fraction": 0.0} | fields
    return labelled_files(
        data_config({"train.path": path, "root": str(root), **fields}), (".png", ".jpg"), "image"
    )


def told(root: Path, files: list[LabelledFile]) -> list[tuple]:
    return [(file.where.removeprefix(f"{root}/"), *file.labels, file.split) for file in files]


ANIMALS = {
    f"{label}/{i}.{suffix}": f"{label}{i}".encode()
    for label in ("cat", "dog")
    for i, suffix in enumerate(("png", "JPG"))
}


@pytest.mark.parametrize(
    "path", ["photos", "photos/*/*", "photos.zip", "photos.zip/*/*", "a [b].zip", "all.zip/a [b]"]
)
def test_a_folder_for_each_class_on_disk_or_in_an_archive(tmp_path, path):
    write(tmp_path / "photos", ANIMALS | {"notes.txt": b"", "cat/.hidden.png": b""})
    for name in ("photos.zip", "a [b].zip"):
        pack(tmp_path / name, ANIMALS | {"notes.txt": b"", "__MACOSX/cat/0.png": b""})
    pack(
        tmp_path / "all.zip",
        {f"a [b]/{name}": raw for name, raw in ANIMALS.items()} | {"b/pig/1.png": b""},
    )
    files = read(tmp_path, path)
    assert [content(file.source) for file in files] == [b"cat0", b"cat1", b"dog0", b"dog1"]
    assert [file.labels for file in files] == [("cat",), ("cat",), ("dog",), ("dog",)]
    assert {file.split for file in files} == {"train"}


@pytest.mark.parametrize("packed", [False, True])
def test_folders_of_splits(tmp_path, packed):
    files = {
        f"{split}/{c}/{i}.png": b""
        for split in ("Train", "val", "test")
        for c in "ab"
        for i in range(2)
    }
    (pack if packed else write)(tmp_path / ("x.zip" if packed else "x"), files)
    found = read(
        tmp_path, "x.zip" if packed else "x", validation_fraction=0.5
    )  # which is not used: there is a folder
    wanted = {"Train": "train", "val": "validation", "test": "test"}
    assert sorted(told(tmp_path, found)) == sorted(
        (f"{'x.zip' if packed else 'x'}/{name}", name.split("/")[1], wanted[name.split("/")[0]])
        for name in files
    )


def test_a_folder_of_a_split_counts_only_beside_one_for_training(tmp_path):
    write(tmp_path, {f"test/{label}/{i}.png": b"" for label in "ab" for i in range(5)})
    assert {file.split for file in read(tmp_path, ".")} == {"train"}
    drawn = read(tmp_path, "test", validation_fraction=0.2, test_fraction=0.3)
    assert [
        sum(file.split == split for file in drawn) for split in ("train", "validation", "test")
    ] == [5, 2, 3]
    assert drawn == read(tmp_path, "test", validation_fraction=0.2, test_fraction=0.3)


def test_classes_may_be_called_like_splits_inside_a_split(tmp_path):
    write(tmp_path, {"train/train/1.png": b"", "train/bus/2.png": b"", "test/train/3.png": b""})
    assert [file.labels for file in read(tmp_path, ".")] == [("bus",), ("train",), ("train",)]


def test_files_of_their_own_for_a_split(tmp_path):
    write(tmp_path, {"one/train/a/1.png": b"", "two/train/b/2.png": b"", "two/train/c/3.png": b""})
    files = read(tmp_path, "one", test_path="two", validation_fraction=0.0)
    assert told(tmp_path, files) == [
        ("one/train/a/1.png", "a", "train"),
        ("two/train/b/2.png", "b", "test"),
        ("two/train/c/3.png", "c", "test"),
    ]


@pytest.mark.parametrize("above", ["", "wrapped/", "deep/down/"])
@pytest.mark.parametrize("splits", [("",), ("train/", "test/"), ("Training/", "val/", "extra/")])
@pytest.mark.parametrize("packed", ["folder", "zip", "glob"])
def test_the_first_folder_names_the_class_whatever_is_below_it(tmp_path, above, splits, packed):
    files = {
        f"{above}{split}{label}/{below}{i}.png": b""
        for split in splits
        for label in ("dog", "cat")
        for below in ("", "batch1/", "batch2/raw/")
        for i in range(2)
    }
    named = {"folder": "x", "zip": "x.zip", "glob": "x/**/*.png"}[packed]
    (pack if packed == "zip" else write)(tmp_path / named.partition("/")[0], files)
    found = read(tmp_path, named)
    for where, label, split in told(tmp_path, found):
        first, _, rest = where.partition("/")[2].removeprefix(above).partition("/")
        own = {"train": "train", "val": "validation", "test": "test"}.get(first.lower(), "train")
        assert (label, split) == (rest.split("/")[0] if splits[0] else first, own)
    assert len(found) == len(files)


def test_folders_of_splits_without_classes_and_files_beside_classes_are_refused(tmp_path):
    write(tmp_path, {"x/train/dog/1.png": b"", "x/train/cat/1.png": b"", "x/test/3.png": b""})
    write(tmp_path, {"y/dog/1.png": b"", "y/2.png": b""})
    with pytest.raises(DataError, match="test, train, which are splits, not classes"):
        read(tmp_path, "x")
    with pytest.raises(DataError, match=r"y/2.png lies in no folder"):
        read(tmp_path, "y")
    listed = read(tmp_path, ["x/train/dog", "x/train/cat"])
    assert {file.labels for file in listed} == {("dog",), ("cat",)}


TABLES = {
    "csv": "label,file_name\n cat ,pictures/1.png\ndog,pictures/2.png\n",
    "tsv": "file_name\tlabel\npictures/1.png\tcat\npictures/2.png\tdog\n",
    "jsonl": "".join(
        json.dumps({"file_name": f"pictures/{i}.png", "label": label}) + "\n"
        for i, label in ((1, "cat"), (2, ["dog"]))
    ),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    "place", ["folder/metadata.{}", "folder", "x.zip/folder/metadata.{}", "x.zip", "x.zip/folder"]
)
@pytest.mark.parametrize("written", ["auto", "images", "itself"])
def test_a_table_beside_its_files(tmp_path, kind, place, written):
    raw = {
        f"folder/metadata.{kind}": TABLES[kind].encode(),
        "folder/pictures/1.png": b"1",
        "folder/pictures/2.png": b"2",
    }
    write(tmp_path, raw)
    pack(tmp_path / "x.zip", raw)
    files = read(tmp_path, place.format(kind), format=kind if written == "itself" else written)
    assert [(file.labels, content(file.source)) for file in files] == [
        (("cat",), b"1"),
        (("dog",), b"2"),
    ]


def test_several_classes_and_names_of_numbers(tmp_path):
    (tmp_path / "list.csv").write_text("a,who,what\n1.png,me,0;1;0\n../2.png,you,1\n")
    fields = {
        "file_field": "a",
        "label_field": "what",
        "label_separator": ";",
    }
    files = read(
        tmp_path, "list.csv", class_names=("DESC:x", "HUM:y"), label_delimiter=":", **fields
    )
    assert [file.labels for file in files] == [("DESC", "HUM"), ("HUM",)]
    assert files[1].where == str(tmp_path.parent / "2.png")
    with pytest.raises(
        DataError, match=r"list.csv, line 2 is of class 1, but data.class_names has 1 names"
    ):
        read(tmp_path, "list.csv", class_names=("a",), **fields)


def test_names_tell_classes_and_splits(tmp_path):
    pack(
        tmp_path / "x.zip",
        {
            f"r/{label}_{who}_{i}.png": b""
            for label in "07"
            for who in ("ann", "bo")
            for i in range(3)
        },
    )
    fields = {"label_pattern": "{label}_{who}_{i}.png"}
    files = read(
        tmp_path,
        "x.zip",
        test_where={"i": ["0"]},
        validation_where={"who": ["bo"], "i": ["1"]},
        **fields,
    )
    wanted = {("ann", "0"): "test", ("bo", "0"): "test", ("bo", "1"): "validation"}
    for file in files:
        label, who, i = Path(file.where).stem.split("_")
        assert (file.labels, file.split) == ((label,), wanted.get((who, i), "train"))
    assert len(files) == 12
    with pytest.raises(DataError, match=r"data\.test\.where=.*'9'.* fits no image; change it"):
        read(tmp_path, "x.zip", test_where={"i": ["9"]}, **fields)
    assert (
        sum(file.split == "test" for file in read(tmp_path, "x.zip", test_fraction=0.25, **fields))
        == 3
    )


@pytest.mark.parametrize(
    ("path", "fields", "sentence"),
    [
        (None, {}, r"data.train.path is not set; give a folder"),
        ("nowhere", {}, r"there is no file or folder .*nowhere"),
        (
            "empty",
            {},
            r"there are no images in empty \(looked for .jpg, .png\); check the path",
        ),
        (
            "empty.zip",
            {},
            r"there are no images in empty.zip \(looked for .jpg, .png\); check the path",
        ),
        (
            "out.zip",
            {},
            r"out.zip has the member '../x/a/1.png', whose name leads out of it; pack it again",
        ),
        ("texts", {}, r"there are no images in texts \(looked for .jpg, .png\)"),
        ("splits", {}, r"test, train, which are splits, not classes"),
        ("flat.zip", {}, r"flat.zip/1.png lies in no folder"),
        ("splits", {"label_pattern": "{label}_{n}.png"}, r"2.png does not fit '{label}_{n}.png'"),
        ("splits", {"label_pattern": "{label}{n}"}, r"two fields with nothing between"),
        (
            "splits",
            {"test.where": {"n": ["1"]}},
            r"data.test.where needs data.label_pattern",
        ),
        ("splits", {"test.were": {}, "label_pattern": "{label}"}, r"did you mean 'where'"),
        (
            "splits",
            {"test.where": {"labels": []}, "label_pattern": "{label}"},
            r"did you mean 'label'",
        ),
        ("table.csv", {}, r"table.csv, line 3 has no class"),
        ("table.csv", {"label_field": "x"}, r"has no column 'x'"),
        ("nameless.csv", {}, r"line 2 names no file in 'file_name'"),
        ("rows.jsonl", {}, r"line 1 has no class, or an empty one"),
        (
            "rows.jsonl",
            {"file_field": "label", "label_field": "file_name"},
            r"line 1 has 'label' that is not a string",
        ),
        (
            "rows.jsonl",
            {"file_field": "flie_name"},
            r"no field 'flie_name'; did you mean 'file_name'",
        ),
    ],
)
def test_one_sentence_for_what_cannot_be_read(tmp_path, path, fields, sentence):
    (tmp_path / "empty").mkdir()
    write(tmp_path, {"texts/a/1.txt": b"", "splits/train/1.png": b"", "splits/test/2.png": b""})
    pack(tmp_path / "flat.zip", {"1.png": b""})
    pack(tmp_path / "empty.zip", {})
    pack(tmp_path / "out.zip", {"a/1.png": b"", "../x/a/1.png": b""})
    (tmp_path / "table.csv").write_text("file_name,label\n1.png,cat\n2.png, \n")
    (tmp_path / "nameless.csv").write_text("file_name,label\n ,cat\n")
    (tmp_path / "rows.jsonl").write_text('{"file_name": "1.png", "label": null}\n')
    with pytest.raises((DataError, ConfigError), match=sentence) as caught:
        read(tmp_path, path, **fields)
    assert "\n" not in str(caught.value)


def test_contents_of_archives_that_change_break_or_lack_a_file(tmp_path):
    path = tmp_path / "x.zip"
    pack(path, {"a/1.png": b"one" * 50})
    source = source_at(f"{path}/a/1.png")
    assert content(source) == b"one" * 50
    pack(path, {"a/1.png": b"two"})
    os.utime(path, ns=(1, 1))
    assert content(source) == b"two"
    with pytest.raises(DataError, match=r"there is no member a/2.png in .*x.zip; check"):
        content(source_at(f"{path}/a/2.png"))
    with pytest.raises(DataError, match=r"cannot read .*3.png: No such file"):
        content(source_at(str(tmp_path / "3.png")))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"two", b"owt"))
    with pytest.raises(
        DataError, match=r"1.png is not a whole member of its zip archive \(Bad CRC"
    ):
        content(source)
    path.write_bytes(raw[:-5])
    with pytest.raises(
        DataError, match=r"x.zip is not a whole zip archive \(File is not a zip file"
    ):
        content(source)


def test_a_password_and_a_file_beyond_all_measure_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    pack(path, {"a/1.png": b"one"})
    monkeypatch.setattr("glassformer.data.formats.contents.LARGEST", 2)
    with pytest.raises(DataError, match=r"1.png has more than 2 bytes"):
        content(source_at(f"{path}/a/1.png"))
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="needs a password"):
        content(source_at(f"{path}/a/1.png"))
