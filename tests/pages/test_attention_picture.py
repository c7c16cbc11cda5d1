"""Pictures of cross-attention: everything in them, nothing from outside, readable in light and
dark."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.core.errors import CheckpointError
from glassformer.inspect.alignment import CrossAttention
from glassformer.pages import kit
from glassformer.pages.attention import attention_html, attention_png
from glassformer.processors.tokens.word_spans import Side
from pages import reading
from pages.reading import Page


def side(text: str) -> Side:
    words = tuple(text.split())
    pieces = tuple(f" {word}" for word in words)
    return Side(text, (*pieces, "<eos>"), words, (*range(len(words)), None))


def look(source: str, target: str, layers: int = 2, heads: int = 3) -> CrossAttention:
    one, other = side(source), side(target)
    shape = layers, heads, len(other.pieces), len(one.pieces)
    patterns = (3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))).softmax(-1)
    return CrossAttention(one, other, patterns)


def pixels(file) -> np.ndarray:
    with Image.open(file) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


HOSTILE = "<script>alert('x')</script> \"quoted\" & </td> שלום 日本語 🙂 e\u0301 {braces} %s"


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 3), (4, 8)])
def test_the_page_is_whole_and_holds_every_word(layers, heads):
    source, target = HOSTILE, "un & <b>mot</b> مرحبا"
    page = Page(attention_html(look(source, target, layers, heads), "A <title> & more"))
    for word in (*source.split(), *target.split(), "A <title> & more"):
        assert word in page.words, word
    assert page.tags.count("b") == 0  # the sentence has none
    for layer in range(layers):
        for head in range(heads):
            assert page.text.count(f"layer {layer} · head {head}:") == 2, "light and dark"


def test_the_numbers_of_the_page_are_those_of_the_words():
    pair = look("ein kleines Haus", "a small house")
    made = attention_html(pair, "t")
    table, pairs = pair.words(), pair.align()
    expected = [
        f"{s} → {t}: {table[j, i]:.4f}{', largest of its row' if (i, j) in pairs else ''}"
        for j, t in enumerate(pair.target.words)
        for i, s in enumerate(pair.source.words)
    ]
    titles = re.findall("<title>([^<]*→[^<:]*: [^<]*)</title></rect>", made)
    assert [title for title in titles if not title.startswith("other")] == expected
    assert sum("largest" in title for title in titles) == len(pairs) == 3
    rows = reading.tables(made)[0][1:]  # to four digits, with what went to no word
    other = 1 - table.sum(1, keepdim=True)
    assert [row[1:] for row in rows] == [
        [f"{weight:.4f}" for weight in row] for row in torch.cat([table, other], 1).tolist()
    ]


def test_the_small_pictures_are_the_patterns_in_both_themes():
    pair = look("ein kleines Haus", "a house", layers=1, heads=2)
    page = Page(attention_html(pair, "t"))
    for dark in (False, True):
        shown = [reading.pixels(address) for address in page.values("href", "image")[dark::2]]
        steps = kit.weight_steps(pair.patterns[0].numpy())
        np.testing.assert_array_equal(shown, kit.ramp(dark=dark)[steps])


def test_pairs_without_words_have_a_page_and_a_picture(tmp_path):
    for source, target in (("", ""), ("a", ""), ("", "a")):
        assert "There are no words to compare" in attention_html(look(source, target), "t")
        attention_png(look(source, target), tmp_path / "a.png")
        assert pixels(tmp_path / "a.png").shape[1] > 100


def test_long_names_are_turned_and_small_cells_hide_numbers():
    few, long, many = (
        attention_html(look(words, "a b"), "t") for words in ("w " * 5, "words " * 5, "w " * 130)
    )
    assert long.count("rotate(-90)") == 6  # five words and "other"
    assert [made.count('fill="var(--t') for made in (few, many)] == [12, 0]


def test_the_picture_grows_with_the_sentence(tmp_path):
    sizes = {}
    for source, target in ((4, 4), (12, 4), (4, 12), (100, 150)):
        attention_png(look("wort " * source, "word " * target, heads=1), tmp_path / "a.png")
        sizes[source, target] = pixels(tmp_path / "a.png").shape[1::-1]
    assert sizes[12, 4][0] - sizes[4, 4][0] == 8 * 84
    assert sizes[4, 12][1] > sizes[4, 4][1]
    assert max(sizes[100, 150]) < 8000
    assert not list(tmp_path.glob(".*"))  # nothing half-written


def test_the_picture_draws_what_fonts_have(tmp_path):
    file = tmp_path / "a.png"
    attention_png(look(HOSTILE, "x" * 400 + " Ελλάδα Кириллица"), file)
    image = pixels(file)
    assert (image == kit.ramp(dark=False)[0]).all(-1).any()
    assert image.shape[1] < 4000  # a long word is cut


def test_the_marked_cells_are_in_the_picture(tmp_path):
    attention_png(look("a b c", "x y z", layers=1, heads=1), tmp_path / "a.png")
    image = pixels(tmp_path / "a.png")
    assert (image == (0xB3, 0x47, 0x00)).all(-1).sum() > 3 * 4 * 60 * 3  # three rings, four sides


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"Cannot write .*missing"):
        attention_png(look("a", "b"), tmp_path / "missing" / "a.png")
