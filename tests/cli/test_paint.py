"""`glassformer draw`, `evaluate`, `data show` and `plan` of a model that draws."""

from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from small_drawings import FLAGS, learn


@pytest.fixture(scope="module")
def painter(tmp_path_factory) -> Path:
    return learn(tmp_path_factory.mktemp("flags"))


def test_a_picture_is_drawn_into_a_file(cli, painter, tmp_path):
    out = tmp_path / "out.png"
    arguments = ["draw", painter, "--prompt", "a red flag", "--out", out, "--temperature", 0]
    said = cli(*arguments)
    assert (said.code, said.out, said.err) == (0, f"{out}: 4 x 6 pixels, 42 times enlarged\n", "")
    pixels = np.asarray(Image.open(out))
    assert pixels.shape == (168, 252, 3)
    assert (pixels[::42, ::42] == FLAGS["a red flag"]).all()
    assert (pixels == pixels[::42, ::42].repeat(42, 0).repeat(42, 1)).all()
    found = cli(*arguments, "--json", "--seed", 1).json
    assert (np.array(found["pixels"]) == FLAGS["a red flag"]).all()
    assert (found["prompt"], found["image"]) == ("a red flag", str(out))


A = ["--prompt", "a"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", "x.jpg", *A], "--out writes .png, not 'x.jpg'"),
        (["--out", "x.png"], "of one --prompt, not of 0"),
        (["--out", "x.png", *A, *A], "not of 2"),
        (["--out", "no/where/x.png", *A], "there is no folder no/where"),
        (
            ["--out", "x.png", "--prompt", "a " * 7],
            "The prompt has 9 elements and the model reads 7 at once; shorten it by 2",
        ),
    ],
)
def test_what_it_cannot_draw(refused, painter, arguments, sentence):
    assert sentence in refused("draw", painter, *arguments, code=2, keep=painter)


def test_it_writes_no_text(refused, painter):
    said = refused("generate", painter, *A, code=2, keep=painter)
    assert "so generating text is not for it; use `glassformer draw`" in said


def test_pictures_of_lines_are_characters_and_data_addresses(cli, painter):
    lines = "\n".join(FLAGS).encode()
    said = cli("draw", painter, "--temperature", 0, stdin=lines)
    assert len(said.out.splitlines()) == 2 * 2, "two rows of pixels a line"
    rows = cli("draw", painter, "--temperature", 0, "--json", stdin=lines).lines
    for row, name in zip(rows, FLAGS, strict=True):
        file = BytesIO(b64decode(row["image"].removeprefix("data:image/png;base64,")))
        assert row["prompt"] == name
        assert (np.asarray(Image.open(file)) == FLAGS[name]).all()


def test_a_model_that_does_not_draw(refused, trained):
    said = refused("draw", trained, *A, "--out", "x.png", code=2, keep=trained)
    assert "is a model for text-generation, so drawing is not for it; use `glassformer gen" in said


def test_it_is_scored_and_shown(cli, painter):
    scores = cli("evaluate", painter, "--json").json
    assert scores["accuracy"] == 1
    assert scores["bits_per_pixel"] < 0.2
    assert "bits per pixel" in cli("evaluate", painter).out
    other = cli("evaluate", painter, "--data", painter.parent / "rows.jsonl", "--json").json
    assert other["tokens"] == 16 * 24
    (row, *_) = cli("data", "show", painter, "--rows", 1, "--json").lines
    assert row["pieces"][:2] == ["<bos>", "a"] or row["pieces"][1] == "one"
    assert [piece for piece in row["pieces"] if piece.startswith("#")]
    assert cli("plan", painter / "recipe.yaml", "--json").json["epochs"] > 1
