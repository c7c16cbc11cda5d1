"""Laws of every page: whatever the texts are, they stay texts; nothing is loaded, nothing runs; it
can be read in light, in dark, and by those who cannot see it."""

import html
import re

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassformer.core.errors import printable
from glassformer.demos.vqa import Answer, answers_html
from glassformer.inspect.alignment import CrossAttention
from glassformer.inspect.contextual import Contexts, Occurrence
from glassformer.pages import images, kit
from glassformer.pages.attention import attention_html
from glassformer.pages.batch_page import (
    EncodedAudio,
    EncodedImage,
    EncodedSequence,
    PatchGrid,
    Token,
    batch_html,
)
from glassformer.pages.charts import line_chart
from glassformer.pages.scene import MARGIN, Box, Line, Scene, Shades
from glassformer.pages.training_report import report_html
from glassformer.pages.verification import verification_html
from glassformer.pages.word_contexts import contexts_html
from glassformer.processors.tokens.word_spans import Side
from pages.reading import Page, pixels

PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
PATCHES = np.zeros((4, 12), np.float32)


def report(text: str, n_classes: int = 2) -> str:
    names = [text] * n_classes
    table = [{"class": text, f"<{text}>": 0.5}]
    lines = [
        {"step": 1, "train_loss": 2.0, "validation_loss": 1.0, "validation_bleu_signature": text},
        {
            "step": 1,
            "validation_confusion": {"names": names, "counts": [[1] * n_classes] * n_classes},
        },
        {
            "step": 2,
            "validation_reliability": [
                {"low": 0.0, "high": 0.5, "n": 3, "confidence": 0.25, "accuracy": 0.5}
            ],
        },
        {"step": 2, "validation_worst": table, "validation_table": table, "samples": table},
        {"step": 2, "sample": text},
    ]
    return report_html(lines, text, text)


def thumbnails(text: str) -> str:
    row = {"text": text, "predicted": text, "class": text, "probability": 0.5, "loss": 1.0}
    metrics = [{"step": 1, "validation_worst": [row]}]
    return report_html(metrics, text, text, lambda _: images.png(PIXELS))


def batch(text: str) -> str:
    sound = np.zeros(100, np.float32), 100, np.zeros((4, 6), np.float32), [(0.5, text)]
    parts = [Token(text, text), Token(text), PatchGrid(text, PIXELS, (2, 2))]
    inputs = [
        EncodedImage(text, [(text, 1.0)], PIXELS, PIXELS, PATCHES, (2, 2)),
        EncodedAudio(text, [(text, 0.5)], *sound, np.zeros((4, 6), np.float32), (2, 2)),
        EncodedSequence(text, parts, parts),
    ]
    return batch_html(text, [text], inputs)


def attention(text: str) -> str:
    side = Side(text, (text,), (text,), (0,))
    return attention_html(CrossAttention(side, side, torch.ones(2, 2, 1, 1)), text)


def contexts(text: str) -> str:
    one = Occurrence(1, 3 * text, len(text), 2 * len(text), (text,))
    vectors = np.eye(2, dtype=np.float32)
    return contexts_html(Contexts(text, (one, one), np.stack([vectors, vectors]), True), text)


def verification(text: str) -> str:
    row = dict.fromkeys(("note", "equation", "formula", "function", "detail"), text)
    rows = [
        row | {"max_abs_error": error, "tolerance": 1e-9, "passed": True} for error in (None, 0.0)
    ]
    return verification_html(rows, text, text)


PAGES = {
    "report": report,
    "report of many classes": lambda text: report(text, 21),
    "report of images": thumbnails,
    "batch": batch,
    "attention": attention,
    "contexts": contexts,
    "answers": lambda text: answers_html(
        text,
        text,
        [(text, 0.5, 0.5)],
        [(PIXELS, [Answer("", text, text), Answer(text, text, f"{text}x")])],
        [(text, PIXELS, PIXELS)],
    ),
    "verification": verification,
}
every_page = pytest.mark.parametrize("name", PAGES)
hostile = st.text(
    st.sampled_from("<>&\"'/ a\0\x1b\u202e\n\t{}%") | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=20,
)


@every_page
@given(text=hostile)
@example(text="<script>alert('x')</script> \"quoted\" & </td></style> שלום 日本語 \x1b[31m\x00")
@settings(max_examples=15, deadline=None)
def test_no_text_becomes_markup(name, text):
    made = PAGES[name](text)
    page, plain = Page(made), Page(PAGES[name]("a"))
    assert [t for t in page.tags if t != "wbr"] == [t for t in plain.tags if t != "wbr"]
    keys, known = (
        [key for tag, key, _ in one.attributes if tag != "text"]  # long ones are turned
        for one in (page, plain)
    )
    assert keys == known
    drawn = {key for tag, key, _ in page.attributes if tag == "text"}
    assert drawn <= {
        *["x", "y", "text-anchor", "transform", "font-size", "fill", "dominant-baseline"]
    }
    assert printable(text).replace("\r", "") in page.text
    assert not [c for c in made if ord(c) < 32 and c not in "\n\t"]


@every_page
def test_nothing_is_loaded_and_nothing_runs(name):
    made = PAGES[name]("https://evil.example/x.js url(x)")
    page = Page(made)
    assert all(address.startswith("data:") for address in page.addresses() if address != "x")
    assert all(link.startswith("#") for link in page.values("href", "a"))
    assert not {"script", "link", "iframe", "object", "form"} & {*page.tags}
    assert not [key for _, key, _ in page.attributes if key.startswith("on")]
    style = made[made.index("<style>") : made.index("</style>")]
    assert not re.search(r"url\(|@import|http", style)


@every_page
def test_a_page_can_be_read_on_a_phone_and_by_those_who_cannot_see(name):
    page = Page(PAGES[name]("a"))
    assert ("html", "lang", "en") in page.attributes
    assert "width=device-width, initial-scale=1" in page.values("content")
    assert page.tags.count("h1") == page.tags.count("style") == 1
    assert page.tags.count("caption") == page.tags.count("table")
    assert len(page.values("alt", "img")) == page.tags.count("img")
    assert len([label for label in page.values("aria-label", "svg") if label]) == page.tags.count(
        "svg"
    )


@given(st.text())
def test_escaped_text_is_read_back_and_markup_is_left(text):
    made = kit.escape(text)
    assert html.unescape(made) == printable(text)
    assert kit.escape(made) is made
    assert not {"<", ">", '"', "'"} & {*made}


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, 1 to 21: (L₁ + 0.05) / (L₂ + 0.05). Source: WCAG 2.1, 1.4.3."""
    srgb = np.array([[*bytes.fromhex(colour[1:])] for colour in (one, other)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    low, high = sorted((linear @ [0.2126, 0.7152, 0.0722] + 0.05).tolist())
    return high / low


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_on_the_page(dark):
    """WCAG 2.1, 1.4.3: at least 4.5."""
    theme = {name: both[dark] for name, both in kit.COLOURS.items()}
    for ground in ("paper", "card"):
        for text in ("ink", "soft", "mark", "accent", "good", "bad"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("dark", [False, True])
def test_the_ramp_is_one_hue_of_oklab(dark):
    """Lightness in equal steps, chroma largest at the end of the first three quarters, 255°."""
    lab_to_lms = [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728]]
    lab_to_lms += [[1, -0.0894841775, -1.291485548]]
    lms_to_rgb = [[4.0767416621, -3.3077115913, 0.2309699292]]
    lms_to_rgb += [[-1.2684380046, 2.6097574011, -0.3413193965]]
    lms_to_rgb += [[-0.0041960863, -0.7034186147, 1.707614701]]
    x, hue = np.linspace(0, 1, kit.STEPS), np.deg2rad(255.0)
    lightness = np.linspace(*((0.20, 0.93) if dark else (0.985, 0.30)), kit.STEPS)
    chroma = 0.008 + 0.12 * np.sin(np.pi * np.minimum(x, 0.72))
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)])
    linear = np.clip(np.array(lms_to_rgb) @ (np.array(lab_to_lms) @ lab) ** 3, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    np.testing.assert_array_equal(kit.ramp(dark=dark), np.rint(255 * srgb.T))


@pytest.mark.parametrize("dark", [False, True])
def test_every_shade_is_readable_and_further_from_the_page(dark):
    names = range(kit.STEPS)
    shades, inks = ([kit.COLOURS[f"{kind}{i}"][dark] for i in names] for kind in "st")
    assert min(map(contrast, shades, inks)) >= 4.5
    away = [contrast(shade, shades[0]) for shade in shades]
    assert away == sorted(away)
    assert away[-1] > 10
    assert f"s{kit.STEPS}" not in kit.COLOURS


def test_steps_go_from_none_to_all():
    assert kit.weight_steps(np.array([0.0, 0.25, 1.0, 1.5])).tolist() == [0, 16, 32, 32]
    assert [kit.steps(x) for x in (-1, 0, 0.5, 1, 2)] == [0, 0, 16, 32, 32]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.874, ".87"), (-0.05, "-.05"), (1, "1.00"), (-0.001, ".00"), (10.5, "10.50")],
)
def test_two_digits(value, shown):
    assert kit.decimal(value) == shown


def test_images_are_those_of_the_arrays():
    made = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    np.testing.assert_array_equal(pixels(images.png(made)), made)
    np.testing.assert_array_equal(pixels(images.png(made[..., :1])), made[..., :1].repeat(3, 2))
    light, dark = (
        pixels(shown).sum(-1) for shown in images.palette(kit.steps(np.array([[0.0, 1.0]])))
    )
    assert light[0, 0] > light[0, 1], "more is further from the page"
    assert dark[0, 0] < dark[0, 1]
    np.testing.assert_array_equal(pixels(images.small(made)), made)
    thin = pixels(images.small(np.full((64, 3000, 3), 9, np.uint8)))
    assert (thin == 9).all()
    assert thin.shape == (2, images.SMALL, 3)


def test_a_spectrogram_has_its_low_bands_at_the_bottom():
    spectrogram = np.zeros((4, 6), np.float32)
    spectrogram[1, 0] = 2.0
    values = images.brightness(spectrogram)
    assert values.shape == (6, 4)
    assert values[5, 1] == 1.0
    assert values.sum() == pytest.approx(1 + 23 / 2)


def test_only_points_of_a_number_are_drawn():
    lines = {"a": [(1, 2.0), (2, np.nan), (3, 1.0)], "b": [(1, np.inf)]}
    page = Page(line_chart("x", lines, "a"))
    assert page.text.count("step 1: 2.0000") == page.text.count("step 3: 1.0000") == 1
    assert "step 2" not in page.text
    assert line_chart("x", {"b": [(1, np.nan)]}, None) == ""


def test_a_scene_has_its_marks_in_the_image_and_in_the_file():
    line = Line([(0, 20), (20, 20)], "accent", 4)
    scene = Scene(
        [Box(0, 0, 20, 10, "mark"), line, Shades(0, 30, 20, 10, np.array([[32]], "uint8"))]
    )
    image = np.asarray(scene.image(scale=2))
    assert image.shape == (2 * (40 + 2 * MARGIN), 2 * (20 + 2 * MARGIN), 3)
    file = scene.file("x")
    for y, name in ((5, "mark"), (20, "accent"), (35, "s32"), (15, "paper")):
        light = kit.COLOURS[name][0]
        assert image[2 * (y + MARGIN), 2 * (10 + MARGIN)].tolist() == [*bytes.fromhex(light[1:])]
        assert light in file or name == "s32"
    assert pixels(Page(file).values("href", "image")[0])[0, 0].tolist() == image[118, 60].tolist()
