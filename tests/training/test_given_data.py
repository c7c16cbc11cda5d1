"""Rows in place of files, and listeners: what other programs give to `gf.train`, and hear."""

import json
import random

import numpy as np
import pytest
from PIL import Image

import glassformer as gf
from glassformer.core.errors import ConfigError
from small_runs import WORDS, hashes, losses
from torchrun import torchrun

SMALL = {
    "model": {"d_model": 16, "n_layers": 1, "n_heads": 2, "max_length": 16},
    "train": {"steps": 4, "batch_size": 4, "precision": "float32", "device": "cpu"},
}
TEXT = {
    "task": "text-generation",
    **SMALL,
    "processor": {"tokenizer": {"kind": "character"}},
    "train": {
        **SMALL["train"],
        "save": {"every": 2},
        "evaluate": {"every": 2, "batches": 1},
        "sample": {"tokens": 0},
    },
}


def texts(n: int = 40, seed: int = 0) -> list[dict[str, str]]:
    draw = random.Random(seed)
    return [{"text": " ".join(draw.choices(WORDS, k=12))} for _ in range(n)]


class Dataset:
    """As `datasets.Dataset`: rows as new dicts each time, columns, no list."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return (dict(row) for row in self.rows)


def test_rows_train_as_the_same_rows_in_a_file(tmp_path):
    rows = texts()
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    gf.train(TEXT, {"data.train.path": tmp_path / "rows.jsonl"}, tmp_path / "file")
    for name, given in (("list", rows), ("dataset", Dataset(rows)), ("iterator", iter(rows))):
        run = gf.train(TEXT, {"data.train.path": given}, tmp_path / name)
        assert run.folder == tmp_path / name
        assert hashes(tmp_path / name) == hashes(tmp_path / "file")
    inside = {**TEXT, "data": {"train": {"path": rows}, "validation": {"path": texts(8, 1)}}}
    run = gf.train(inside, run=tmp_path / "inside")
    assert run.evaluate()["loss"] > 0
    assert (tmp_path / "inside" / "data" / "validation.jsonl").is_file()


def test_a_run_of_rows_is_resumed_with_them_or_without(tmp_path):
    rows = texts()
    gf.train(TEXT, {"data.train.path": rows, "train.steps": 8}, tmp_path / "whole")
    for name, again in (("with", rows), ("without", tmp_path / "without/data/train.jsonl")):
        gf.train(TEXT, {"data.train.path": rows}, tmp_path / name)
        changes = {"data.train.path": again, "train.steps": 8}
        gf.train(TEXT, changes, tmp_path / name, resume=True)
        assert hashes(tmp_path / name) == hashes(tmp_path / "whole")
    for others in (rows[:-1], [*rows, rows[0]], [rows[1], *rows[1:]]):
        with pytest.raises(ConfigError, match=r"Row \d+ of data.train.path is not the one"):
            gf.train(TEXT, {"data.train.path": others}, tmp_path / "with", resume=True)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (7, "must be files or rows, not '7'"),
        ([{"text": "a"}, "b"], "Row 2 of data.train.path is 'b', no dict"),
        ([{"text": {1, 2}}], "Row 1 of data.train.path cannot be written as JSON"),
        ([{"text": float("nan")}], "Row 1 of data.train.path cannot be written as JSON"),
        ([{"text": "a \ud800"}], "Row 1 of data.train.path cannot be written as JSON"),
        ([{"words": "a b"}] * 9, "text"),
    ],
)
def test_rows_that_cannot_be_are_one_sentence_and_leave_nothing(tmp_path, rows, sentence):
    with pytest.raises(gf.GlassformerError, match=sentence):
        gf.train(TEXT, {"data.train.path": rows}, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    wrong = {"data.train.path": texts(), "train.stpes": 3}
    with pytest.raises(ConfigError, match="stpes"):
        gf.train(TEXT, wrong, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_not_a_runs_keeps_its_data(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("mine")
    with pytest.raises(ConfigError, match="already holds data"):
        gf.train(TEXT, {"data.train.path": texts()}, tmp_path)
    assert (tmp_path / "data" / "mine").read_text() == "mine"


def test_images_and_audio_of_rows_become_files(tmp_path):
    draw = np.random.default_rng(0)
    pixels = [draw.integers(0, 256, (8, 8, 3), np.uint8) for _ in range(12)]
    rows = [
        {"image": Image.fromarray(p) if i % 2 else p, "label": np.int64(i % 2)}
        for i, p in enumerate(pixels)
    ]
    recipe = {
        "task": "image-classification",
        "processor": {"image": {"patch": 4}},
        "data": {"file_field": "image", "validation": {"fraction": 0.25}},
        **SMALL,
    }
    run = gf.train(recipe, {"data.train.path": rows}, tmp_path / "images")
    assert run.classes == ("0", "1")
    for i, line in enumerate((tmp_path / "images/data/train.jsonl").read_text().splitlines()):
        file = tmp_path / "images" / "data" / json.loads(line)["image"]
        assert np.array_equal(np.asarray(Image.open(file)), pixels[i])
    tones = [np.sin(np.arange(800) * (1 + i % 2) / 3).astype(np.float32) for i in range(12)]
    heard = [
        {"audio": {"array": t, "sampling_rate": 8000, "path": None}, "label": "ab"[i % 2]}
        for i, t in enumerate(tones)
    ]
    recipe |= {
        "task": "audio-classification",
        "processor": {"audio": {"rate": 8000, "seconds": 0.1, "n_mels": 16, "patch": [5, 4]}},
        "data": {"file_field": "audio", "validation": {"fraction": 0.25}},
    }
    run = gf.train(recipe, {"data.train.path": heard}, tmp_path / "audio")
    assert run.classify((tones[0], 8000)) in ("a", "b")


def test_a_listener_hears_every_line_and_may_end_training(tmp_path):
    heard = []
    changes = {"data.train.path": texts()}
    gf.train(TEXT, changes, tmp_path / "x", listener=heard.append)
    assert [line for line in heard if "train_loss" in line]
    assert [line["step"] for line in heard if "validation_loss" in line] == [2, 4]
    lines = (tmp_path / "x" / "metrics.jsonl").read_text().splitlines()
    assert list(map(json.loads, lines)) == heard

    class Enough(Exception):
        """What a search for good settings raises."""

    def impatient(line):
        if "validation_loss" in line:
            raise Enough

    with pytest.raises(Enough):
        gf.train(TEXT, changes, tmp_path / "y", listener=impatient)
    gf.train(TEXT, changes, tmp_path / "y", resume=True)
    assert losses(tmp_path / "y") == losses(tmp_path / "x")
    assert hashes(tmp_path / "y") == hashes(tmp_path / "x")


@pytest.mark.slow
@pytest.mark.parametrize("own", [0, 1])
def test_processes_train_on_rows_that_are_the_same_in_each(tmp_path, own):
    """A script under torchrun; `own`: what differs between rows of its processes."""
    script = f"""
import os
import glassformer as gf
recipe = {TEXT!r}
end = str({own} * int(os.environ["RANK"]))
recipe["data"] = {{"train": {{"path": ({{"text": "the cat sat " * 20 + end}} for _ in range(8))}}}}
gf.train(recipe, run={str(tmp_path / "run")!r})
"""
    done = torchrun(2, "-c", script)
    if own:
        assert done.returncode
        assert "In process 1: Row 1 of data.train.path is not the one" in done.stderr
        assert not (tmp_path / "run").exists()
    else:
        assert done.returncode == 0, done.stderr
        assert losses(tmp_path / "run")[-1]["step"] == 4
        assert len((tmp_path / "run" / "data" / "train.jsonl").read_text().splitlines()) == 8
