"""The drawn signs and the synthesized notes are read as any other pictures and recordings are."""

import os
from dataclasses import replace

import numpy as np
import pytest

from glassformer.data.arrays import stamp_of
from glassformer.data.config import DataConfig
from glassformer.data.pictures import pictures
from glassformer.data.recordings import recordings
from glassformer.demos import glyphs
from glassformer.demos import instruments as notes
from glassformer.errors import ConfigError, DataError

FEW = {"train": 7, "validation": 2, "test": 4}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(glyphs, "COUNTS", FEW)
    monkeypatch.setattr(notes, "COUNTS", FEW)


def config(path: str, **fields) -> DataConfig:
    return DataConfig.parse({"path": path, **fields})


def test_signs_are_pictures_with_their_own_splits():
    found = pictures(config("builtin:glyphs", validation_fraction=0.5))
    for split, count in FEW.items():
        own = [one for one in found if one.split == split]
        pixels, labels = glyphs.glyphs(split, count)
        assert [one.labels for one in own] == [(label,) for label in labels]
        np.testing.assert_array_equal([one.pixels() for one in own], pixels)
        assert [one.where for one in own] == [f"builtin:glyphs/{split}/{i}" for i in range(count)]
    assert found[0].pixels().flags.writeable


@pytest.mark.parametrize(("field", "which"), [("label", 1), ("instrument", 1), ("pitch", 2)])
def test_notes_are_recordings_of_instruments_or_pitches(field, which):
    found = recordings(config("builtin:notes", label_field=field))
    for split, count in FEW.items():
        own = [one for one in found if one.split == split]
        played = notes.notes(split, count)
        assert [one.labels for one in own] == [(label,) for label in played[which]]
        sounds = [one.samples() for one in own]
        np.testing.assert_array_equal([samples for samples, _ in sounds], played[0])
        assert {rate for _, rate in sounds} == {notes.RATE}


def test_notes_have_no_other_classes():
    with pytest.raises(ConfigError, match="builtin:notes lack; did you mean 'pitch'"):
        recordings(config("builtin:notes", label_field="pitsh"))


def test_neither_is_taken_for_the_other():
    with pytest.raises(DataError, match="no pictures in builtin:notes"):
        pictures(config("builtin:notes"))
    with pytest.raises(DataError, match="no recordings in builtin:glyphs"):
        recordings(config("builtin:glyphs"))


def test_nothing_is_played_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(notes, "_clip", lambda *arguments: pytest.fail("a clip was made"))
    assert len(recordings(config("builtin:notes"))) == sum(FEW.values())


def test_a_changed_working_folder_does_not_change_the_demo_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = stamp_of(["builtin:glyphs", None])
    (tmp_path / "new").write_text("x")
    os.utime(tmp_path)
    assert stamp_of(["builtin:glyphs", None]) == first != stamp_of(["builtin:notes"])


def test_a_note_is_its_record_alone():
    one = recordings(config("builtin:notes"))[3]
    np.testing.assert_array_equal(replace(one).samples()[0], notes.note("train", 3))
