"""What `data show` prints and draws of pictures, recordings and sequences of parts is what training
is fed."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.inspect.fedpicture import (
    MOST_PATCHES,
    Chip,
    Cut,
    FedPicture,
    FedSequence,
    FedSound,
    fed_html,
)
from glassformer.inspect.images import heard, picture, shaded, thumbnail
from glassformer.training.encoded import FedSense, as_fed, fed_page
from small_runs import recipe
from small_senses import picture_recipe, prepared, sound_recipe

MIXED = {"crop": 1, "mixup": 0.4}


def opened(address: str) -> np.ndarray:
    return np.asarray(
        Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")
    )


@pytest.mark.parametrize("make", [picture_recipe, sound_recipe])
def test_rows_are_those_of_training(tmp_path, make):
    made = make(
        tmp_path,
        **({"augment": MIXED} if make is picture_recipe else {"sound_augment": {"noise": 0.5}}),
    )
    rows = list(as_fed(made, 3, 2))
    task = prepared(made, tmp_path / "x")
    (batch,) = task.batches(2)
    assert batch.targets is not None
    assert len(rows) == 3
    for i, row in enumerate(rows):
        assert isinstance(row, FedSense)
        values = json.loads(json.dumps(row.as_json(), allow_nan=False))
        assert values["patches"] == batch.elements[i].tolist()
        assert values["file"] == task.training.where[int(task.numbers(2)[i])]
        target = batch.targets[i]
        wanted = (
            {task.classes.names[int(target)]: 1.0}
            if target.ndim == 0
            else dict(zip(task.classes.names, target.tolist(), strict=True))
        )
        assert values["classes"] == {name: share for name, share in wanted.items() if share > 0}
        text = row.as_text(i, 24, colour=False).splitlines()
        assert text[0] == f"row {i}: {values['file']}"
        assert text[2].startswith("  2 x 2 patches of ")
        assert len(text) == 5
    assert len(list(as_fed(made, 99, 0))) == 4


def test_rows_go_on_over_micro_batches(tmp_path):
    whole, parts = (
        list(as_fed(picture_recipe(tmp_path, train={"micro_batches": n}), 4, 1)) for n in (1, 2)
    )
    assert [row.as_json() for row in whole] == [row.as_json() for row in parts]
    text = recipe(tmp_path, train={"micro_batches": 2})
    assert len(list(as_fed(text, 3, 0))) == 3


def test_the_shades_are_brighter_where_the_picture_is(tmp_path):
    for row in as_fed(picture_recipe(tmp_path), 4, 0):
        assert isinstance(row, FedSense)
        left, right = (
            row.as_text(0, 24, colour=False).splitlines()[-1][2:4],
            row.as_text(0, 24, False)[-2:],
        )
        bright = left if row.drawn.classes[0][0] == "left" else right
        assert (
            " ·░▒▓█".index(bright[0])
            >= 3
            > " ·░▒▓█".index((left + right).replace(bright, "", 1)[0])
        )


class Page(HTMLParser):
    """The tags of a page that are not closed, and everything that would be loaded."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "polygon", "line"):
            self.open.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "srcset")]
        for name, value in attrs:
            if name == "style":
                self.loads += re.findall(r"url\(([^)]*)\)", value)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("make", [picture_recipe, sound_recipe, recipe])
def test_a_page_is_whole_and_loads_nothing(tmp_path, make):
    made = fed_page(make(tmp_path), 2, 1, "Fed <b> & more")
    page = Page(made)
    assert page.open == []
    assert all(address.startswith("data:image/png;base64,") for address in page.loads)
    assert "<script" not in made
    assert "Fed &lt;b&gt; &amp; more" in made
    assert "prefers-color-scheme: dark" in made
    assert made.count('<section class="fed') == 2
    if make is not recipe:
        assert made.count("patches in the order in which they enter") == 2
        assert made.count('<span class="numbers">') == 2 * 4


def test_a_page_of_a_picture_shows_it_and_its_numbers():
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    patches = np.arange(4 * 18, dtype=np.float32).reshape(4, 18) / 36 - 1
    one = FedPicture(
        "a<b>.png",
        [("cat", 0.7), ("dog", 0.3), ("none", 0.0)],
        pixels,
        pixels[::-1].copy(),
        patches,
        (2, 2),
    )
    made = fed_html("x", [], [one])
    page = Page(made)
    shown = [opened(address) for address in page.loads]
    np.testing.assert_array_equal(shown[0], pixels)
    np.testing.assert_array_equal(shown[1], pixels[::-1])
    words = "".join(page.words)
    assert "a<b>.png" in words
    assert "cat 70%" in words
    assert "dog 30%" in words
    assert "none 0%" not in words
    assert "2 rows x 3 columns in three channels = 18 numbers" in words
    red = re.findall(r"red: row by column</caption>(.*?)</table>", made)[1]
    cells = re.findall(r">(-?\d+\.\d\d)<", red)
    assert cells == [f"{value:.2f}" for value in patches[1].reshape(2, 3, 3)[..., 0].flatten()]


def test_many_patches_and_many_numbers_are_told_in_short():
    patches = np.zeros((900, 400), np.float32)
    made = fed_html(
        "x", [], [FedPicture("a", [], np.zeros((600, 600, 1), np.uint8), None, patches, (30, 30))]
    )
    assert made.count('class="patch ') == MOST_PATCHES
    assert f"and {900 - MOST_PATCHES} more" in made
    assert "<table" not in made
    assert "from 0.00 to 0.00, mean 0.00" in made


def test_a_spectrogram_stands_on_its_low_bands():
    """Element k is time k // bands and band k % bands, counted from below."""
    spectrogram = np.zeros((4, 6), np.float32)
    spectrogram[1, 0] = 2.0
    values = heard(spectrogram)
    assert values.shape == (6, 4)
    assert values[5, 1] == 1.0
    assert values.sum() == pytest.approx(1 + 23 / 2)
    patches = np.zeros((4, 6), np.float32)
    one = FedSound(
        "s", [], np.zeros(100, np.float32), 100, spectrogram, [(0.5, "1 kHz")], patches, (2, 2)
    )
    made = fed_html("x", [], [one])
    assert re.findall(r'<i class="c(\d)"', made) == ["1", "3", "0", "2"], "from the upper left"
    assert re.findall(r"background-position:(\S+ \S+)\"", made) == [
        "0% 100%",
        "0% 0%",
        "100% 100%",
        "100% 0%",
    ]
    assert ">1 kHz<" in made


def test_a_sequence_counts_its_elements():
    cut = Cut("image", np.zeros((4, 4, 1), np.uint8), (2, 2))
    one = FedSequence(
        "row 1", [Chip("<bos>"), cut, Chip(" is", "a"), Chip("a", "<eos>")], [Chip("x")]
    )
    made = fed_html("t", [], [one])
    words = " ".join(Page(made).words)
    assert "7 elements, 2 bear loss" in words
    assert "image, 4 patches: elements 1 to 4" in words
    assert 'title="element 5"><span>␣is</span><b>a</b>' in made
    assert "&lt;bos&gt;" in made
    assert "what the encoder reads" in words


def test_images_are_what_they_were():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    np.testing.assert_array_equal(opened(picture(pixels)), pixels)
    np.testing.assert_array_equal(opened(picture(pixels[..., :1])), pixels[..., :1].repeat(3, 2))
    light = opened(shaded(np.array([[0.0, 1.0]]), dark=False)).sum(-1)
    dark = opened(shaded(np.array([[0.0, 1.0]]), dark=True)).sum(-1)
    assert light[0, 0] > light[0, 1], "more is further from the page"
    assert dark[0, 0] < dark[0, 1]
    assert thumbnail(pixels, 10) is pixels
    assert thumbnail(np.zeros((100, 50, 1), np.uint8), 20).shape == (20, 10, 1)
    assert torch.equal(
        torch.from_numpy(thumbnail(np.full((64, 3000, 3), 9, np.uint8), 32)).unique(),
        torch.tensor([9], dtype=torch.uint8),
    )
