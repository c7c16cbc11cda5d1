"""Laws of palettes: exact where they can be, the nearest colour otherwise."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.vq import vq

from glassformer.core.errors import ConfigError, DataError
from glassformer.media.palette import Palette, PaletteConfig

COLOURS = arrays(
    np.uint8, st.tuples(st.integers(2, 12), st.just(3)), elements=st.integers(0, 255), unique=True
)
PIXELS = arrays(np.uint8, st.tuples(st.integers(1, 4), st.just(2), st.just(3), st.just(3)))


def config(**changes) -> PaletteConfig:
    return PaletteConfig.parse({"size": (2, 3), "colours": 12, **changes})


@given(COLOURS, st.data())
def test_a_picture_of_palette_colours_comes_back(colours, data):
    palette = Palette(config(), np.unique(colours, axis=0))
    ids = data.draw(arrays(np.int64, (3, 6), elements=st.integers(0, len(palette.colours) - 1)))
    pixels = palette.pixels(ids)
    assert pixels.shape == (3, 2, 3, 3)
    assert pixels.dtype == np.uint8
    assert (pixels[1, 1, 2] == palette.colours[ids[1, 5]]).all()  # reading order
    assert (palette.ids(pixels) == ids).all()


@given(COLOURS, PIXELS)
def test_each_pixel_becomes_the_nearest_colour(colours, pixels):
    palette = Palette(config(), colours)
    ids = palette.ids(pixels)
    points, whole = pixels.reshape(-1, 3).astype(float), colours.astype(float)
    assert (
        ids.ravel() == ((points[:, None] - whole) ** 2).sum(2).argmin(1)
    ).all()  # of equals the first
    _, distances = vq(points, whole)
    assert np.allclose(np.linalg.norm(points - whole[ids.ravel()], axis=1), distances)


def test_few_colours_are_kept_as_they_are():
    pixels = np.array(
        [[[0, 0, 0], [255, 0, 0], [0, 0, 0]], [[7, 8, 9], [255, 0, 0], [0, 0, 0]]], np.uint8
    )[None]
    palette = Palette.learn(config(colours=5), pixels)
    assert palette.colours.tolist() == [[0, 0, 0], [7, 8, 9], [255, 0, 0]]
    assert (palette.pixels(palette.ids(pixels)) == pixels).all()


def test_clusters_are_found_and_it_is_the_same_again():
    draw = np.random.default_rng(1)
    truth = np.array([[20, 20, 20], [200, 30, 30], [30, 200, 30], [240, 240, 240]])
    stack = np.clip(
        truth[draw.integers(0, 4, (50, 2, 3))] + draw.integers(-8, 9, (50, 2, 3, 3)), 0, 255
    )
    stack = stack.astype(np.uint8)
    palette = Palette.learn(config(colours=4), stack, seed=3)
    assert len(palette.colours) == 4
    _, distances = vq(truth.astype(float), palette.colours.astype(float))
    assert (distances < 6).all()
    assert (palette.colours == Palette.learn(config(colours=4), stack, seed=3).colours).all()


def test_many_pixels_are_sampled(monkeypatch):
    monkeypatch.setattr("glassformer.media.palette.SAMPLE", 50)
    stack = np.random.default_rng(0).integers(0, 256, (40, 2, 3, 3)).astype(np.uint8)
    palette = Palette.learn(config(colours=12), stack)
    assert 2 <= len(palette.colours) <= 12
    assert (palette.colours == Palette.learn(config(colours=12), stack).colours).all()


def test_pictures_are_fitted():
    grey = np.full((4, 9, 1), 77, np.uint8)
    assert config().fit(grey).tolist() == np.full((2, 3, 3), 77).tolist()
    assert PaletteConfig().dims == (16, 16)
    assert config().n_pixels == 6


def test_saved_and_loaded(tmp_path):
    palette = Palette(config(resize="pad"), np.array([[1, 2, 3], [4, 5, 6]], np.uint8))
    palette.save(tmp_path)
    again = Palette.load(tmp_path)
    assert again.config == palette.config
    assert again.colours.dtype == np.uint8
    assert again.colours.tolist() == palette.colours.tolist()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rgb": [[1, 2, 256]]}, "no list"),
        ({"rgb": [[1, 2]]}, "no list"),
        ({"rgb": []}, "no list"),
        ({"colours": 1}, "damaged"),
        ({"more": 1}, "damaged"),
        ({"size": None}, "damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, said):
    Palette(config(), np.array([[1, 2, 3]], np.uint8)).save(tmp_path)
    file = tmp_path / "palette.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=said):
        Palette.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"), [("[1]", "not a JSON object"), ("{", "not JSON"), ("{}", "no list")]
)
def test_no_palette_at_all(tmp_path, text, said):
    (tmp_path / "palette.json").write_text(text)
    with pytest.raises(DataError, match=said):
        Palette.load(tmp_path)
    with pytest.raises(DataError, match="cannot read"):
        Palette.load(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("values", "said"), [({"size": 0}, "1 x 1"), ({"size": 300}, "256"), ({"colours": 257}, "256")]
)
def test_what_cannot_be_is_said(values, said):
    with pytest.raises(ConfigError, match=said):
        PaletteConfig.parse(values)


def test_no_pictures():
    with pytest.raises(DataError, match="no training images"):
        Palette.learn(config(), np.zeros((0, 2, 3, 3), np.uint8))
