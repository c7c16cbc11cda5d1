"""The page of encoded inputs shows the pixels, the patches in input order and their numbers."""

import re

import numpy as np

from glassformer.pages.batch_page import (
    MOST_PATCHES,
    EncodedAudio,
    EncodedImage,
    EncodedSequence,
    PatchGrid,
    Token,
    batch_html,
)
from pages.reading import Page, pixels


def test_a_page_of_a_picture_shows_it_and_its_numbers():
    image = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    patches = np.arange(4 * 18, dtype=np.float32).reshape(4, 18) / 36 - 1
    one = EncodedImage(
        "a<b>.png",
        [("cat", 0.7), ("dog", 0.3), ("none", 0.0)],
        image,
        image[::-1].copy(),
        patches,
        (2, 2),
    )
    made = batch_html("x", [], [one])
    page = Page(made)
    shown = [pixels(address) for address in page.addresses()]
    np.testing.assert_array_equal(shown, [image[::-1], image])
    words = page.text
    assert "a<b>.png" in words
    assert "cat 70%" in words
    assert "dog 30%" in words
    assert "none 0%" not in words
    assert "2 rows x 3 columns in three channels = 18 numbers" in words
    red = re.findall(r"red: row by column</caption>(.*?)</table>", made, re.DOTALL)[1]
    cells = re.findall(r">(-?\d+\.\d\d)<", red)
    assert cells == [f"{value:.2f}" for value in patches[1].reshape(2, 3, 3)[..., 0].flatten()]


def test_many_patches_and_many_numbers_are_told_in_short():
    patches = np.zeros((900, 400), np.float32)
    made = batch_html(
        "x", [], [EncodedImage("a", [], np.zeros((600, 600, 1), np.uint8), None, patches, (30, 30))]
    )
    assert made.count("<details>") == MOST_PATCHES
    assert f"and {900 - MOST_PATCHES} more" in made
    assert "<table" not in made
    assert "from 0.00 to 0.00, mean 0.00" in made


def test_a_spectrogram_stands_on_its_low_bands():
    """Element k is time k // bands and band k % bands, counted from below."""
    spectrogram = np.zeros((4, 6), np.float32)
    patches = np.zeros((4, 6), np.float32)
    one = EncodedAudio(
        "s", [], np.zeros(100, np.float32), 100, spectrogram, [(0.5, "1 kHz")], patches, (2, 2)
    )
    made = batch_html("x", [], [one])
    assert re.findall(r'<i title="patch (\d)"', made) == ["1", "3", "0", "2"], "from the upper left"
    assert re.findall(r"background-position:(\S+ \S+)\"", made) == [
        "0% 100%",
        "0% 0%",
        "100% 100%",
        "100% 0%",
    ]
    assert ">1 kHz<" in made


def test_a_sequence_counts_its_elements():
    cut = PatchGrid("image", np.zeros((4, 4, 1), np.uint8), (2, 2))
    one = EncodedSequence(
        "row 1", [Token("<bos>"), cut, Token(" is", "a"), Token("a", "<eos>")], [Token("x")]
    )
    made = batch_html("t", [], [one])
    words = " ".join(Page(made).words)
    assert "7 elements, 2 bear loss" in words
    assert "image, 4 patches: elements 1 to 4" in words
    target = "<b><bdi>a</bdi></b>"
    assert f'title="element 5"><span><bdi>␣is</bdi></span>{target}' in made
    assert "<bos>" in words
    assert "encoder" in words
