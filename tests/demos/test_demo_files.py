"""The data of the demos are ordinary files, written whole, the same every time."""

import subprocess
import sys

import numpy as np
import pytest

from glassformer.data.pictures import pictures
from glassformer.data.recordings import recordings
from glassformer.demos import glyphs, instruments
from glassformer.demos.catalog import DATA, DEMOS
from glassformer.recipe import read_recipe
from glassformer.training.given_data import write_data
from small_runs import data_config

FEW = {"train": 7, "validation": 2, "test": 4}
PATHS = {"train.path": "train.tsv", "validation.path": "validation.tsv", "test.path": "test.tsv"}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(glyphs, "COUNTS", FEW)
    monkeypatch.setattr(instruments, "COUNTS", FEW)


def test_signs_are_pictures(tmp_path):
    glyphs.write_glyphs(tmp_path)
    found = pictures(data_config({"root": str(tmp_path), **PATHS}))
    for split, count in FEW.items():
        own = [one for one in found if one.split == split]
        pixels, labels = glyphs.glyphs(split, count)
        assert [one.labels for one in own] == [(label,) for label in labels]
        np.testing.assert_array_equal([one.pixels() for one in own], pixels)


@pytest.mark.parametrize(("field", "which"), [("instrument", 1), ("pitch", 2)])
def test_notes_are_recordings_of_instruments_or_pitches(field, which, tmp_path):
    instruments.write_notes(tmp_path)
    found = recordings(data_config({"root": str(tmp_path), "label_field": field, **PATHS}))
    for split, count in FEW.items():
        own = [one for one in found if one.split == split]
        notes = [instruments.note(split, number) for number in range(count)]
        assert [one.labels for one in own] == [(note[which],) for note in notes]
        for one, (samples, *_) in zip(own, notes, strict=True):
            heard, rate = one.samples()
            assert rate == instruments.RATE
            # half a step of 16 bits, and one whole step at +1, which 16 bits lack
            np.testing.assert_allclose(heard, samples, atol=2**-15)


def test_a_data_set_is_whole_or_absent_and_written_once(tmp_path):
    def fail(folder):
        (folder / "half").write_text("")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_data(fail, tmp_path / "data")
    assert not (tmp_path / "data").exists()
    write_data(lambda folder: (folder / "whole").touch(), tmp_path / "data")
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["whole"]
    write_data(fail, tmp_path / "data")
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_every_demo_has_a_recipe_without_a_place_on_this_machine():
    for demo in DEMOS.values():
        for training in demo.trainings:
            recipe = read_recipe(training.recipe)
            assert recipe.data.root is None
            assert not str(recipe.data.train.path).startswith("/")


def test_the_command_writes_a_data_set_and_refuses_a_folder_that_exists(tmp_path):
    command = [sys.executable, "-m", "glassformer.demos", "lm", str(tmp_path / "new")]
    subprocess.run(command, check=True, capture_output=True)
    assert len(list((tmp_path / "new" / "documents").glob("*.txt"))) > 100
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2
    assert "already exists" in again.stderr
    assert "shapes-judge" in DATA
