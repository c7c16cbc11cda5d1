"""Pictures of cross-attention: everything in them, nothing from outside, readable in light and
dark."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from glassformer.errors import CheckpointError
from glassformer.inspect import ramp
from glassformer.inspect.alignment import CrossAttention
from glassformer.inspect.drawing import attention_png
from glassformer.inspect.picture import attention_html
from glassformer.processors.word_spans import Side

VOID = {"meta", "img", "source", "br"}


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


class Page(HTMLParser):
    """A strict reading: every element is closed in order."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)


HOSTILE = "<script>alert('x')</script> \"quoted\" & </td> שלום 日本語 🙂 e\u0301 {braces} %s"


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 3), (4, 8)])
def test_the_page_is_whole_and_holds_every_word(layers, heads):
    source, target = HOSTILE, "un & <b>mot</b> مرحبا"
    page = Page(attention_html(look(source, target, layers, heads), "A <title> & more"))
    for word in (*source.split(), *target.split(), "A <title> & more"):
        assert word in page.words, word
    assert page.tags.count("script") == page.tags.count("style") == page.tags.count("h1") == 1
    assert page.tags.count("figure") == layers * heads
    assert page.tags.count("b") == len(ramp.TICKS)  # the legend's, not the sentence's
    for layer in range(layers):
        for head in range(heads):
            assert f"layer {layer} · head {head}" in page.words


def test_nothing_is_loaded_from_anywhere():
    html = attention_html(look("https://evil.example/x.js two", "one"), "t")
    page = Page(html)
    for tag, name, value in page.attributes:
        if name in ("src", "srcset", "href", "action", "data"):
            assert value.startswith("data:image/png;base64,"), (tag, name, value)
        assert not name.startswith("on")
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    script = html[html.index("<script>") : html.index("</script>")]
    assert not re.search(r"fetch|XMLHttp|import|innerHTML|eval", script)
    assert "//" not in script
    assert "link" not in page.tags


def test_the_numbers_of_the_page_are_those_of_the_words():
    found = look("ein kleines Haus", "a small house")
    page = Page(attention_html(found, "t"))
    titles = [value for tag, name, value in page.attributes if (tag, name) == ("td", "title")]
    table, pairs = found.words(), found.align()
    expected = [
        f"{s} → {t}: {table[j, i]:.4f}{', the most of its row' if (i, j) in pairs else ''}"
        for j, t in enumerate(found.target.words)
        for i, s in enumerate(found.source.words)
    ]
    assert titles == expected
    stops = [value for tag, name, value in page.attributes if (tag, name) == ("td", "tabindex")]
    assert stops == ["0"] + ["-1"] * 8  # one stop for the keyboard; arrows move from there
    classes = [value for tag, name, value in page.attributes if (tag, name) == ("td", "class")]
    assert sum("best" in value.split() for value in classes) == len(pairs) == 3


def test_the_small_pictures_are_the_patterns_in_both_themes():
    found = look("ein kleines Haus", "a house", layers=1, heads=2)
    page = Page(attention_html(found, "t"))
    for name, dark in (("src", False), ("srcset", True)):
        images = [value for _, key, value in page.attributes if key == name]
        assert len(images) == 2
        for head, address in enumerate(images):
            image = pixels(io.BytesIO(base64.b64decode(address.partition(",")[2])))
            expected = np.array(ramp.ramp(dark=dark), dtype=np.uint8)[
                ramp.steps(found.patterns[0, head].numpy())
            ]
            np.testing.assert_array_equal(image, expected)


def test_pairs_without_words_have_a_page_and_a_picture(tmp_path):
    for source, target in (("", ""), ("a", ""), ("", "a")):
        assert "There are no words to compare" in attention_html(look(source, target), "t")
        attention_png(look(source, target), tmp_path / "a.png")
        assert pixels(tmp_path / "a.png").shape[1] > 100


def test_long_sentences_turn_names_and_hide_numbers():
    few, more, many = (attention_html(look("w " * n, "a b"), "t") for n in (5, 15, 30))
    assert '<table class=""' in few
    assert '<table class="side"' in more
    assert '<table class="side dense"' in many


@pytest.mark.parametrize("dark", [False, True])
def test_every_shade_is_readable_and_further_from_the_page(dark):
    shades = ramp.ramp(dark=dark)
    assert len(shades) == ramp.STEPS
    assert min(ramp.contrast(ramp.ink(shade), shade) for shade in shades) >= 4.5
    paper = shades[0]
    away = [ramp.contrast(shade, paper) for shade in shades]
    assert away == sorted(away)
    assert away[-1] > 10


def test_text_on_the_page_is_readable():
    html = attention_html(look("a", "b"), "t")
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in html.split("@media", 2)[:2]
    )
    for theme in (light, dark):
        colours = {name: tuple(bytes.fromhex(value[1:])) for name, value in theme.items()}
        for text in ("ink", "soft", "mark"):
            for page in ("paper", "card"):
                assert ramp.contrast(colours[text], colours[page]) >= 4.5, (text, page)


def test_steps_go_from_none_to_all():
    assert ramp.steps(np.array([0.0, 0.25, 1.0, 1.5])).tolist() == [0, 16, 32, 32]
    assert ramp.contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert ramp.css((255, 0, 16)) == "#ff0010"


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
    shades = ramp.ramp(dark=False)
    assert {tuple(shades[0])} <= {tuple(pixel) for pixel in image.reshape(-1, 3)[::7].tolist()}
    assert image.shape[1] < 4000  # a long word is cut


def test_the_marked_cells_are_in_the_picture(tmp_path):
    found = look("a b c", "x y z", layers=1, heads=1)
    attention_png(found, tmp_path / "a.png")
    image = pixels(tmp_path / "a.png")
    assert (image == (179, 71, 0)).all(-1).sum() > 3 * 4 * 60 * 3  # three rings, four sides


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"Cannot write .*missing"):
        attention_png(look("a", "b"), tmp_path / "missing" / "a.png")
