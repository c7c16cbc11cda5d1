"""`demo audio`: shows its score beside simple ones and clips to hear, needs no network, learns what
it promises."""

import base64
import re

import numpy as np
import pytest

from glassformer.demos import instruments as notes
from glassformer.media.audio_file import read_audio

LABEL = re.compile(r'src="data:audio/wav;base64,([^"]+)"')


@pytest.fixture
def few(monkeypatch, quick):
    monkeypatch.setattr(notes, "COUNTS", {"train": 60, "validation": 5, "test": 40})


@pytest.mark.usefixtures("few")
def test_it_shows_scores_confusions_and_clips_to_hear(cli, tmp_path):
    run = tmp_path / "notes"
    said = cli("demo", "audio", "--steps", 2, "--run", run, "--json")
    assert said.code == 0, said.err
    accuracy = said.json["accuracy"]
    assert list(accuracy) == [
        "the most frequent instrument",
        "the nearest training spectrogram",
        "this model",
    ]
    instruments = [notes.note("test", i)[1] for i in range(40)]
    assert {row["gold"] for row in said.json["confused"]} <= set(instruments)
    assert sum(row["n"] for row in said.json["confused"]) == round(
        40 * (1 - accuracy["this model"])
    )
    page = (run / "instruments.html").read_text(encoding="utf-8")
    sounds = LABEL.findall(page)
    assert sounds
    heard, rate = read_audio(base64.b64decode(sounds[0]), "the page")
    assert rate == notes.RATE
    match = [np.corrcoef(heard, notes.note("test", i)[0])[0, 1] for i in range(40)]
    assert max(match) > 0.999
    again = cli("demo", "audio", "--steps", 2, "--run", run)
    assert "nothing to do" in again.err
    assert "40 notes at new pitches" in again.out


@pytest.mark.slow
def test_it_learns_instruments_at_new_pitches(cli, tmp_path):
    accuracy = cli("demo", "audio", "--run", tmp_path / "notes", "--json").json["accuracy"]
    assert accuracy["this model"] >= 0.93
    assert accuracy["this model"] > accuracy["the nearest training spectrogram"]
