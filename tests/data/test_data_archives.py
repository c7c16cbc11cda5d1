"""Zip archives are folders: the same texts as from the files themselves, and one sentence for each
that is broken."""

import gzip
import io
import json
import random
import struct
import time
import zipfile
from contextlib import suppress

import pytest

from glassformer.core.errors import DataError
from glassformer.data.config import DataConfig
from glassformer.data.formats import archives
from glassformer.data.formats.archives import matches
from glassformer.data.formats.documents import read
from glassformer.data.records.labelled_files import labelled_files
from glassformer.data.records.parts import read_parts
from glassformer.data.records.tagged import read_tagged
from glassformer.data.sources import Source, resolve
from small_runs import data_config

FILES = {
    "top.txt": b"top\n",
    "a/one.txt": "eins é\r\n".encode(),
    "a/two.txt.gz": gzip.compress(b"zwei"),
    "a/b/three.md": b"drei",
    "a/b/noun": b"vier",
    "a/b/x.png": b"\x89\0",
    "a/.hidden.txt": b"hidden",
    "__MACOSX/a/one.txt": b"hidden",
}


def packed(path, files: dict[str, bytes], how=zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", how) as file:
        file.mkdir("a")
        for name, content in files.items():
            file.writestr(name, content)


@pytest.fixture(
    params=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def folder(tmp_path, request):
    packed(tmp_path / "texts.zip", FILES, request.param)
    return tmp_path


def texts(folder, path, **fields):
    config = data_config({"train.path": path, "root": str(folder), **fields})
    return {
        document.source.removeprefix(f"{folder}/"): document.text
        for document in read(resolve(config.train.path, config))
    }


def refused(folder, path="texts.zip", **fields) -> str:
    with pytest.raises(DataError) as caught:
        texts(folder, path, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_archive_is_a_folder(folder):
    everything = {
        "texts.zip/a/b/three.md": "drei",
        "texts.zip/a/one.txt": "eins é\r\n",
        "texts.zip/a/two.txt.gz": "zwei",
        "texts.zip/top.txt": "top\n",
    }
    assert list(texts(folder, "texts.zip").items()) == list(everything.items()), (
        "sorted, text files only"
    )
    assert texts(folder, "*.zip") == texts(folder, "texts.zip/") == everything
    assert texts(folder, "texts.zip/a/b") == {"texts.zip/a/b/three.md": "drei"}
    assert texts(folder, "texts.zip/a/b/noun") == {"texts.zip/a/b/noun": "vier"}
    assert list(texts(folder, "texts.zip/a/*.txt*").values()) == ["eins é\r\n", "zwei"]
    assert list(texts(folder, "texts.zip/**/*o*").values()) == [
        "vier",
        "eins é\r\n",
        "zwei",
        "top\n",
    ]
    assert list(texts(folder, "texts.zip/a/b/n[n-p]??").values()) == ["vier"]
    assert not list(folder.glob("*/*")), "nothing is unpacked"


def test_every_way_to_match():
    yes = [
        ("a/b", "a/b"),
        ("a/b", "a/*"),
        ("a/b", "*/b"),
        ("a/b", "**"),
        ("a/b", "**/b"),
        ("b", "**/b"),
    ]
    yes += [("a/b/c/d", "a/**/d"), ("a/d", "a/**/d"), ("a/B", "a/[A-C]"), ("a/b", "a/?")]
    no = [
        ("a/b", "a"),
        ("a/b", "*"),
        ("a/b/c", "a/*"),
        ("a/b", "a/b/*"),
        ("a/b", "a/[!b]"),
        ("a/B", "a/b"),
        ("a", ""),
    ]
    assert [pair for pair in yes if not matches(*pair)] == []
    assert [pair for pair in no if matches(*pair)] == []


def test_a_source_is_a_plain_value_stamped_by_its_archive(tmp_path):
    packed(tmp_path / "texts.zip", FILES)
    [one] = resolve("texts.zip/a/one.txt", DataConfig(root=str(tmp_path)))
    [two] = resolve("texts.zip/a/two.txt.gz", DataConfig(root=str(tmp_path)))
    assert one == Source(f"{tmp_path}/texts.zip/a/one.txt", f"{tmp_path}/texts.zip")
    assert (one.member, one.suffix, two.suffix) == ("a/one.txt", ".txt", ".txt")
    assert resolve(["texts.zip/a/one.txt", "texts.zip/a/o*"], DataConfig(root=str(tmp_path))) == [
        one
    ]
    size = (tmp_path / "texts.zip").stat().st_size
    before = one.stamp()
    assert (before["path"], before["size"]) == (one.path, size)
    assert one.stamp() != two.stamp()
    packed(tmp_path / "texts.zip", {**FILES, "new.txt": b"new"})
    assert one.stamp() != before


def test_formats_and_encodings_inside(tmp_path):
    packed(
        tmp_path / "c.zip",
        {"c/ca01": b"\tthe/at dog/nn\n", "c/cb01": b"\xe9t\xe9/nn\n", "c/README": b"no tags"},
    )
    config = data_config(
        {
            "train.path": "c.zip/c/c[ab]01",
            "root": str(tmp_path),
            "format": "slash",
            "encoding": "latin-1",
        }
    )
    assert [found.words for found in read_tagged(config)] == [("the", "dog"), ("été",)]
    assert "c.zip/c/cb01 is not utf-8: byte 0xe9 at offset 0" in refused(tmp_path, "c.zip/c/c*")


def test_what_is_not_in_an_archive(tmp_path):
    packed(tmp_path / "texts.zip", FILES)
    assert "is named or matches a/once.txt; did you mean 'a/one.txt'" in refused(
        tmp_path, "texts.zip/a/once.txt"
    )
    assert "texts.zip is named or matches zzzz/*; it begins with" in refused(
        tmp_path, "texts.zip/zzzz/*"
    )
    assert "texts.zip/a/b/x.png looks binary" in refused(tmp_path, "texts.zip/a/b/x.png")
    packed(tmp_path / "none.zip", {"a/x.png": b"x"})
    assert "none.zip has no text files" in refused(tmp_path, "none.zip")
    assert "none.zip/a has no text files" in refused(tmp_path, "none.zip/a")
    with zipfile.ZipFile(tmp_path / "void.zip", "w"):
        pass
    assert "void.zip has no text files" in refused(tmp_path, "void.zip")
    assert "it begins with nothing: it is empty" in refused(tmp_path, "void.zip/x")


def test_a_member_that_is_gone_by_the_time_it_is_read(tmp_path):
    packed(tmp_path / "texts.zip", FILES)
    sources = resolve("texts.zip/top.txt", DataConfig(root=str(tmp_path)))
    packed(tmp_path / "texts.zip", {"other.txt": b""})
    with pytest.raises(
        DataError, match=r"there is no member top.txt in .*texts.zip; check the name"
    ):
        list(read(sources))


def test_broken_archives(tmp_path):
    (tmp_path / "texts.zip").write_bytes(b"no archive")
    assert (
        "texts.zip is not a whole zip archive (File is not a zip file); copy it again"
        in refused(tmp_path)
    )
    packed(
        tmp_path / "texts.zip", {"a.txt": b"text " * 100, "b.txt.gz": gzip.compress(b"x" * 99)[:-9]}
    )
    assert "texts.zip/b.txt.gz is not a whole gzip file" in refused(tmp_path, "texts.zip/b.txt.gz")
    whole = (tmp_path / "texts.zip").read_bytes()
    (tmp_path / "texts.zip").write_bytes(whole[:-30])
    assert "is not a whole zip archive" in refused(tmp_path)
    stored = io.BytesIO()
    packed(stored, {"a.txt": b"text " * 100}, zipfile.ZIP_STORED)
    (tmp_path / "texts.zip").write_bytes(stored.getvalue().replace(b"text text", b"test text"))
    assert "texts.zip/a.txt is not a whole member of its zip archive (Bad CRC-32" in refused(
        tmp_path
    )


def changed(path, at: int, value: int, form: str) -> None:
    """The last member's entry in the directory, with another field."""
    raw = bytearray(path.read_bytes())
    struct.pack_into(form, raw, raw.rindex(b"PK\x01\x02") + at, value)
    path.write_bytes(raw)


def test_passwords_unknown_packing_and_absurd_sizes(tmp_path, monkeypatch):
    path = tmp_path / "texts.zip"
    packed(path, {"a.txt": b"text " * 100})
    changed(path, 8, 1, "<H")
    assert "texts.zip/a.txt needs a password" in refused(tmp_path)
    packed(path, {"a.txt": b"text " * 100})
    changed(path, 10, 77, "<H")
    assert (
        "texts.zip is not a whole zip archive (That compression method is not supported)"
        in refused(tmp_path)
    )
    packed(path, {"a.txt": b"text " * 100})
    changed(path, 24, 0xFFFF0000, "<I")
    assert "texts.zip/a.txt would grow from 12 to 4,294,901,760 bytes" in refused(tmp_path)
    packed(path, {"a.txt": bytes(b"x" * 100_000)})
    assert len(texts(tmp_path, "texts.zip")["texts.zip/a.txt"]) == 100_000, (
        "small enough whatever it packs to"
    )
    monkeypatch.setattr(archives, "LARGEST_UNASKED", 99_999)
    assert "would grow from" in refused(tmp_path)


@pytest.mark.parametrize(
    "how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_damaged_archive_gives_its_texts_or_one_sentence(tmp_path, how):
    path, chance = tmp_path / "texts.zip", random.Random(how)
    packed(path, FILES, how)
    whole, begun = path.read_bytes(), time.process_time()
    for _ in range(150):
        raw = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        path.write_bytes(
            raw[: chance.randint(len(raw) // 2, len(raw))] if chance.random() < 0.2 else raw
        )
        with suppress(DataError):
            assert texts(tmp_path, "texts.zip", encoding="latin-1")
    assert time.process_time() - begun < 30


OUTSIDE = [
    "../../secret.png",
    "/etc/shadow",
    "../x.zip.png",
    "~/secret.png",
    "a/../../../secret.png",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_table_in_an_archive_names_no_file_outside(tmp_path, name):
    (tmp_path / "secret.png").write_bytes(b"secret")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("metadata.csv", f"file_name,label\n{name},a\nin.png,b\n")
        archive.writestr("in.png", b"")
        archive.writestr("rows.jsonl", json.dumps({"input": [{"image": name}, "x"], "label": "a"}))
    config = data_config({"train.path": str(tmp_path / "x.zip")})
    if not name.startswith("~"):  # which is a name like another in an archive
        with pytest.raises(DataError, match="which is not in its archive") as caught:
            labelled_files(config, (".png",), "image")
        assert "root:" not in str(caught.value)
    rows = data_config({"train.path": str(tmp_path / "x.zip/rows.jsonl")})
    with pytest.raises(DataError, match=r"not in its archive|which is not there"):
        list(read_parts(rows))
