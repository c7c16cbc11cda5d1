"""Distorted signs: the same every time, legible, and of no split twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from glassformer.data.config import NAMES
from glassformer.demos import glyphs as module
from glassformer.demos.glyphs import CLASSES, SIZE, STROKES, glyphs
from glassformer.errors import ConfigError

SPLITS = st.sampled_from(NAMES)


@pytest.fixture(scope="module")
def some():
    return glyphs("train", 2400)


def test_form(some):
    pictures, labels = some
    assert pictures.shape == (2400, SIZE, SIZE, 1)
    assert pictures.dtype == np.uint8
    assert len(labels) == 2400
    assert set(labels) == set(CLASSES)
    assert len(set(CLASSES)) == len(CLASSES) == 60
    counts = [labels.count(sign) for sign in CLASSES]
    assert min(counts) > 15  # of 40 on average
    assert max(counts) < 75


@given(SPLITS, st.integers(0, 7), st.integers(0, 7))
def test_picture_n_does_not_depend_on_how_many_there_are(split, m, more):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH", 3)
        pictures, labels = glyphs(split, m + more)
    first, first_labels = glyphs(split, m)
    assert np.array_equal(pictures[:m], first)
    assert labels[:m] == first_labels


def test_splits_have_no_picture_in_common():
    drawn = [glyphs(split, 60)[0] for split in NAMES]
    assert len({picture.tobytes() for pictures in drawn for picture in pictures}) == 3 * 60


def test_nothing_random_is_global():
    before = np.random.get_state()[1].copy()  # noqa: NPY002  what must not change
    glyphs("test", 5)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_every_sign_is_drawn_and_differs_from_every_other():
    clean = module._clean().reshape(len(CLASSES), 4, -1)
    assert clean.mean(axis=2).min() > 0.01
    assert (np.diff(clean.mean(axis=2), axis=1) > 0).all()  # heavier and heavier
    edges = module._clean()[:, [0, -1, 0, 0], :].max(), module._clean()[:, :, [0, -1]].max()
    assert edges == (0, 0)  # nothing is cut off, and what lies beyond an edge is empty
    lines = clean[:, 1] - clean[:, 1].mean(axis=1, keepdims=True)
    lines /= np.linalg.norm(lines, axis=1, keepdims=True)
    alike = lines @ lines.T - np.eye(len(CLASSES))
    assert alike.max() < 0.92  # G and C


def test_the_font_has_every_sign_that_is_not_drawn_from_strokes():
    font = ImageFont.load_default(size=40)
    missing = bytes(font.getmask("\uffff"))
    for sign in set(CLASSES) - STROKES.keys():
        assert bytes(font.getmask(sign)) != missing


def test_labels_tell_what_is_seen(some):
    """Without turning and warping back, the average picture of each class already tells many
    pictures of others."""
    means, labels = _ink(some[0]), np.array(some[1])
    means = np.stack([means[labels == sign].mean(axis=0) for sign in CLASSES])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    others, their = glyphs("test", 600)
    found = (_ink(others) @ means.T).argmax(axis=1)
    right = np.mean([CLASSES[i] == label for i, label in zip(found, their, strict=True)])
    assert right > 0.2  # 0.26; by chance: 0.017


def test_classes_are_the_signs_they_are_named_after(some):
    """The average picture of a class is most like what the font itself draws for its name."""
    ink, labels = _ink(some[0]), np.array(some[1])
    named = [sign for sign in CLASSES if sign not in STROKES]
    means = np.stack([ink[labels == sign].mean(axis=0) for sign in named])
    drawn = np.stack([_plain(sign) for sign in named])
    means, drawn = (
        each - each.mean(axis=0) for each in (means, _ink(drawn[..., None]))
    )  # what is not in all of them
    found = (means @ drawn.T / np.linalg.norm(drawn, axis=1)).argmax(axis=1)
    assert np.mean(found == np.arange(len(named))) > 0.5  # 0.68; by chance: 0.025


def test_pictures_vary_but_stay_visible(some):
    grey = some[0][..., 0] / 255
    border = np.median(
        np.concatenate([grey[:, :2].reshape(2400, -1), grey[:, -2:].reshape(2400, -1)], axis=1),
        axis=1,
    )
    assert 0.4 < (border < 0.5).mean() < 0.6  # light on dark as often as dark on light
    contrast = np.percentile(np.abs(grey - border[:, None, None]).reshape(2400, -1), 97, axis=1)
    assert contrast.min() > 0.1
    noise = np.abs(np.diff(grey[:, :3, :], axis=2)).mean(axis=(1, 2))
    assert np.percentile(noise, 20) < 0.02
    assert np.percentile(noise, 90) > 0.06


def test_a_pillow_without_fonts(monkeypatch):
    def nothing(size):
        raise ImportError("The _imagingft C module is not installed")

    monkeypatch.setattr(ImageFont, "load_default", nothing)
    module._clean.cache_clear()
    with pytest.raises(ConfigError, match="pip install --force-reinstall pillow"):
        glyphs("train", 1)


def _plain(sign):
    """A sign as the font has it, in the middle of a picture, not very sharp."""
    picture = Image.new("L", (SIZE, SIZE))
    ImageDraw.Draw(picture).text(
        (SIZE / 2, SIZE / 2 + 1), sign, 255, ImageFont.load_default(size=25), "mm"
    )
    return np.asarray(picture.filter(ImageFilter.GaussianBlur(2)))


def _ink(pictures):
    """How far each pixel is from the ground, without its mean, [N, S * S]."""
    grey = pictures[..., 0].astype(float)
    ink = np.abs(grey - np.median(grey, axis=(1, 2), keepdims=True)).reshape(len(grey), -1)
    ink -= ink.mean(axis=1, keepdims=True)
    return ink / np.linalg.norm(ink, axis=1, keepdims=True)
