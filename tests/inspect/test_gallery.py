"""The page of pictures and sounds: whole, without anything from elsewhere, and true to the
pixels."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
from PIL import Image

from glassformer.inspect.gallery import HEAT, HEATED, Group, Shown, gallery_html

LOOKED = np.array([[0.0, 0.1], [0.2, 0.4]])
PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "meta", "input", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def of(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


def shown(**changes) -> Shown:
    return Shown(
        **{
            "picture": PIXELS,
            "looked": LOOKED,
            "gold": "A",
            "found": "A",
            "probability": 0.5,
            **changes,
        }
    )


def page(*rows: Shown) -> tuple[str, Page]:
    text = gallery_html(
        "A <title>", "What & why", [("this model", 0.9876)], [Group("g", "about", rows)]
    )
    return text, Page(text)


def content(address: str) -> bytes:
    return base64.b64decode(address.partition(",")[2])


def image(address: str) -> Image.Image:
    return Image.open(io.BytesIO(content(address)))


def test_the_page_is_whole_and_loads_nothing():
    text, read = page(shown(), shown(picture=np.eye(4), sound=b"RIFF"))
    assert read.open == []
    addresses = [
        a.get("src") or a.get("srcset") for tag in ("img", "source", "audio") for a in read.of(tag)
    ]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert not re.search(r"https?://|<script|<link", text)
    assert "A &lt;title&gt;" in text
    assert "98.76%" in text
    assert "prefers-color-scheme: dark" in text


def test_pixels_are_those_of_the_picture_grey_or_in_colour():
    for picture in (PIXELS, PIXELS[..., :1]):
        own = np.asarray(image(page(shown(picture=picture))[1].of("img")[0]["src"]))
        np.testing.assert_array_equal(own, picture.squeeze())


def test_a_spectrogram_has_one_picture_for_each_theme_more_being_further_from_the_page():
    values = np.array([[-1.0, 0.0], [0.5, 2.0]])
    _, read = page(shown(picture=values))
    for address, dark in (
        (read.of("img")[0]["src"], False),
        (read.of("source")[0]["srcset"], True),
    ):
        grey = np.asarray(image(address).convert("L")).astype(int) * (1 if dark else -1)
        assert grey[0, 0] == grey[0, 1] < grey[1, 0] < grey[1, 1]


def test_heat_is_as_opaque_as_the_share_of_the_strongest_patch():
    heat = np.asarray(image(page(shown())[1].of("img")[1]["src"]))
    assert heat.shape == (2, 2, 4)
    assert (heat[..., :3] == HEAT).all()
    np.testing.assert_allclose(heat[..., 3], 255 * HEATED * LOOKED / 0.4, atol=0.5)
    nothing = np.asarray(image(page(shown(looked=np.zeros((2, 2))))[1].of("img")[1]["src"]))
    assert not nothing[..., 3].any()


def test_what_is_wrong_says_what_is_right():
    text, _ = page(shown(gold="<O>", found="0"))
    assert 'class="wrong"><bdi>0</bdi>' in text
    assert "is <bdi>&lt;O&gt;</bdi>" in text
    assert "is <bdi>" not in page(shown())[0]


def test_a_sound_can_be_heard():
    (audio,) = page(shown(sound=b"RIFF..."))[1].of("audio")
    assert content(audio["src"]) == b"RIFF..."
    assert "controls" in audio


def test_a_group_of_nothing_is_left_out():
    assert "<h2>" not in page()[0]
