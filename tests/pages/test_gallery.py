"""The gallery of images and recordings is true to the pixels, the sound and the attention."""

import numpy as np

from glassformer.pages.gallery import HEAT, OPACITY, Group, Item, gallery_html
from pages.reading import Page, content, pixels

ATTENTION = np.array([[0.0, 0.1], [0.2, 0.4]])
PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)


def shown(**changes) -> Item:
    return Item(
        **{
            "picture": PIXELS,
            "attention": ATTENTION,
            "gold": "A",
            "found": "A",
            "probability": 0.5,
            **changes,
        }
    )


def page(*rows: Item) -> tuple[str, Page]:
    text = gallery_html(
        "A <title>", "What & why", [("this model", 0.9876)], [Group("g", "about", rows)]
    )
    return text, Page(text)


def test_pixels_are_those_of_the_picture_grey_or_in_colour():
    for picture in (PIXELS, PIXELS[..., :1]):
        own = pixels(page(shown(picture=picture))[1].values("src", "img")[0])
        np.testing.assert_array_equal(own, np.broadcast_to(picture, (4, 4, 3)))


def test_a_spectrogram_has_one_picture_for_each_theme_more_being_further_from_the_page():
    values = np.array([[-1.0, 0.0], [0.5, 2.0]])
    _, read = page(shown(picture=values))
    for address, dark in (
        (read.values("src", "img")[0], False),
        (read.values("srcset")[0], True),
    ):
        grey = pixels(address, "L").astype(int) * (1 if dark else -1)
        assert grey[0, 0] == grey[0, 1] < grey[1, 0] < grey[1, 1]


def test_heat_is_as_opaque_as_the_share_of_the_strongest_patch():
    heat = pixels(page(shown())[1].values("src", "img")[1], "RGBA")
    assert heat.shape == (2, 2, 4)
    assert (heat[..., :3] == HEAT).all()
    np.testing.assert_allclose(heat[..., 3], 255 * OPACITY * ATTENTION / 0.4, atol=0.5)
    _, read = page(shown(attention=np.zeros((2, 2))))
    nothing = pixels(read.values("src", "img")[1], "RGBA")
    assert not nothing[..., 3].any()


def test_what_is_wrong_says_what_is_right():
    text, _ = page(shown(gold="<O>", found="0"))
    assert "98.76%" in text
    assert 'class="wrong"><bdi>0</bdi>' in text
    assert "is <bdi>&lt;O&gt;</bdi>" in text
    assert "is <bdi>" not in page(shown())[0]


def test_a_sound_can_be_heard():
    _, read = page(shown(sound=b"RIFF..."))
    assert [content(address) for address in read.values("src", "audio")] == [b"RIFF..."]
    assert read.values("controls", "audio") == [""]


def test_a_group_of_nothing_is_left_out():
    assert "<h2>" not in page()[0]
