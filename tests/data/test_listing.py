"""What is below a folder: each real folder once, whatever links there are; what is not read is
counted."""

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.folders import list_folder
from glassformer.data.records.labelled_files import labelled_files
from glassformer.data.sources import left_out, resolve
from small_runs import data_config


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def names(root: Path) -> list[str]:
    return [os.path.relpath(file, root) for file in list_folder(root).files]


def test_files_in_order_without_hidden_ones(tmp_path):
    make(tmp_path, "b/2.txt", "a.txt", "b/1.txt", ".git/x.txt", "b/.y", "c d/ü.txt")
    assert names(tmp_path) == ["a.txt", "b/1.txt", "b/2.txt", "c d/ü.txt"]


def test_a_loop_of_links_is_entered_once(tmp_path):
    make(tmp_path, *(f"{label}/{i}.png" for label in ("cat", "dog") for i in range(12)))
    before = names(tmp_path)
    (tmp_path / "cat" / "again").symlink_to(tmp_path)
    (tmp_path / "cat" / "other").symlink_to(tmp_path / "dog")
    (tmp_path / "dog" / "other").symlink_to(tmp_path / "cat")
    (tmp_path / "dog" / "self").symlink_to(".")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    start = time.process_time()
    assert names(tmp_path) == before
    found = labelled_files(data_config({"train.path": str(tmp_path)}), (".png",), "image")
    assert Counter(file.labels[0] for file in found) == {"cat": 12, "dog": 12}
    assert len({file.where for file in found}) == 24
    globbed = resolve(f"{tmp_path}/**/*.png")
    assert [os.path.relpath(source.path, tmp_path) for source in globbed] == before
    assert time.process_time() - start < 1, "two loops take exponential time if they are followed"


def test_a_link_out_of_the_folder_is_followed_and_one_around_it_is_not(tmp_path):
    make(tmp_path, "data/a.txt", "far/cat/1.txt", "far/dog/2.txt", "secret.txt")
    (tmp_path / "data" / "far").symlink_to(tmp_path / "far")
    (tmp_path / "data" / "too").symlink_to(tmp_path / "far" / "cat")
    (tmp_path / "data" / "up").symlink_to("..")
    (tmp_path / "data" / "root").symlink_to("/")
    assert names(tmp_path / "data") == ["a.txt", "far/cat/1.txt", "far/dog/2.txt"]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6))
def test_links_change_nothing_but_order_of_names(tmp_path_factory, links):
    root = tmp_path_factory.mktemp("tree")
    places = [root, *(root / p for p in ("a", "b", "a/c", "a/c/d", "b/e"))]
    make(root, *(f"{place.relative_to(root)}/{i}.txt" for i, place in enumerate(places)))
    before = names(root)
    for number, (at, to) in enumerate(links):
        (places[at] / f"link{number}").symlink_to(places[to])
    assert names(root) == before
    found = resolve(f"{root}/**/*.txt")
    assert [os.path.relpath(source.path, root) for source in found] == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_without_permission_is_told(tmp_path):  # pragma: no cover - for other users
    make(tmp_path, "a.txt", "shut/b.txt")
    (tmp_path / "shut").chmod(0)
    try:
        assert list_folder(tmp_path).unreadable == [str(tmp_path / "shut")]
    finally:
        (tmp_path / "shut").chmod(0o700)


def test_what_is_not_read_is_counted_and_named(tmp_path, monkeypatch):
    make(tmp_path, "a.txt", "b.md.gz", "c.pdf", "d.PDF", "deep/e.docx", "LICENSE", "shut/f.txt")
    real = os.scandir

    def refused(place):
        if Path(place).name == "shut":
            raise PermissionError(13, "Permission denied", place)
        return real(place)

    monkeypatch.setattr(os, "scandir", refused)
    config = data_config({"train.path": str(tmp_path), "validation.path": str(tmp_path)})
    assert left_out(config, (".txt", ".md")) == [
        f"left out of {tmp_path}: 4 files that cannot be read here, such as {tmp_path}/LICENSE",
        f"left out of {tmp_path}: 1 folder that may not be read, such as {tmp_path}/shut",
    ]
    everything = (".txt", ".md", ".pdf", ".docx", "")
    assert len(left_out(config, everything)) == 1
    assert left_out(data_config({"train.path": str(tmp_path / "a.txt")}), ()) == []


def test_training_says_what_it_leaves_out(tmp_path, cli):
    make(tmp_path, "texts/notes.pdf", "texts/scan.tiff")
    (tmp_path / "texts" / "a.txt").write_text("the cat sat on the mat\n" * 40)
    small = ["train.steps=1", "model.max_length=8", "model.d_model=8", "model.n_heads=1"]
    said = cli(
        "train",
        "lm",
        f"data.train.path={tmp_path / 'texts'}",
        *small,
        *("train.device=cpu", "train.precision=float32", "processor.tokenizer={kind: byte}"),
        "--run",
        tmp_path / "run",
    )
    assert said.code == 0, said.err
    assert "2 files that cannot be read here, such as" in said.err


def test_a_link_that_leads_nowhere_or_to_itself_hides_nothing_else(tmp_path):
    make(tmp_path, "a.txt", "b/c.txt")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "b" / "gone").symlink_to(tmp_path / "missing")
    assert names(tmp_path) == ["a.txt", "b/c.txt"]
    assert len(resolve(f"{tmp_path}/**/*.txt")) == 2


def test_a_folder_with_a_dot_is_read_where_it_is_named(tmp_path):
    make(tmp_path, ".h/a.txt", "b/.h/c.txt", "b/d.txt")
    assert [os.path.relpath(s.path, tmp_path) for s in resolve(f"{tmp_path}/**/.h/*.txt")] == [
        ".h/a.txt",
        "b/.h/c.txt",
    ]
