"""`demo vision`: shows its score beside simple ones and a page of signs, needs no network, learns
what it promises."""

import re

import numpy as np
import pytest

from glassformer.demos import glyphs
from glassformer.demos.vision import drawn


@pytest.fixture
def few(monkeypatch, quick):
    monkeypatch.setattr(glyphs, "COUNTS", {"train": 400, "validation": 30, "test": 90})


@pytest.mark.usefixtures("few")
def test_it_shows_scores_confusions_and_a_page(cli, tmp_path):
    run = tmp_path / "signs"
    said = cli("demo", "vision", "--steps", 2, "--run", run, "--json")
    assert said.code == 0, said.err
    accuracy = said.json["accuracy"]
    assert list(accuracy) == [
        "the most frequent sign",
        "the nearest training image",
        "this model",
    ]
    assert accuracy["the most frequent sign"] < accuracy["the nearest training image"] < 1
    missed = sum(row["n"] for row in said.json["confused"])
    assert missed == round(90 * (1 - accuracy["this model"]))
    assert all(row["gold"] != row["predicted"] for row in said.json["confused"])
    page = (run / "signs.html").read_text(encoding="utf-8")
    assert page.count('class="wrong"') >= min(missed, 60)
    assert "Most often confused" in page
    again = cli("demo", "vision", "--steps", 3, "--run", run)
    assert "resuming at step 2" in again.err
    assert "the nearest training image" in again.out
    assert "90 images not in training" in again.out
    scores = cli("evaluate", run, "--split", "test", "--json").json
    assert scores["accuracy"] == pytest.approx(
        cli("demo", "vision", "--steps", 3, "--run", run, "--json").json["accuracy"]["this model"]
    )


def test_signs_on_the_terminal_are_means_of_their_pixels():
    pixels = np.zeros((2, 32, 32, 1), np.uint8)
    pixels[0, :2, :2, 0] = [[10, 20], [30, 40]]
    pixels[0, 2:4, :2] = 200
    pixels[1] = 7
    lines = list(drawn(pixels, ["A", "ヲ"]))
    assert len(lines) == 9
    assert lines[0].startswith(
        "  \x1b[38;2;25;25;25;48;2;200;200;200m▀\x1b[38;2;0;0;0;48;2;0;0;0m▀"
    )
    assert {line.count("▀") for line in lines[:8]} == {32}
    assert {len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines} == {36}
    assert lines[5].count("38;2;7;7;7") == 16


@pytest.mark.slow
def test_it_learns_to_read_signs(cli, tmp_path):
    accuracy = cli("demo", "vision", "--run", tmp_path / "signs", "--json").json["accuracy"]
    assert accuracy["this model"] >= 0.95
