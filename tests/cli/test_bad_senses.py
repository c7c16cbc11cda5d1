"""Pictures, recordings and rows that cannot be read: every command says so in one sentence and
leaves all as it was."""

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from glassformer.media.audio_file import write_wav
from small_parts import parts_recipe, rows_file
from small_runs import go
from small_senses import (
    RATE,
    TONES,
    half,
    picture_folder,
    picture_recipe,
    sound_folder,
    sound_recipe,
    tone,
)

DRAW = np.random.default_rng(0)
SIZE_OF_DATA, CHANNELS = 40, 22
"""Where they stand in a WAV file."""


def picture(channels: int, kind: str = "png") -> bytes:
    pixels, file = half("left", DRAW, channels, 32), io.BytesIO()
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(file, kind)
    return file.getvalue()


def said(raw: bytes, at: int, form: str, *values: int) -> bytes:
    """A file whose header says something else at a place."""
    changed = bytearray(raw)
    struct.pack_into(form, changed, at, *values)
    return bytes(changed)


def huge() -> bytes:
    """A small PNG file of 50,000 x 50,000 pixels, by its header."""
    raw = said(picture(1), 16, ">II", 50_000, 50_000)
    return said(raw, 29, ">I", zlib.crc32(raw[12:29]))


def encoded(form: str) -> bytes:
    """A tone in another format."""
    file = io.BytesIO()
    soundfile.write(file, tone(TONES["low"], DRAW), RATE, format=form)
    return file.getvalue()


WAV = write_wav(tone(TONES["low"], DRAW), RATE)
PICTURES = {
    "cut.png": (picture(3)[:400], "is a damaged image"),
    "cut.jpg": (picture(3, "jpeg")[:400], "is a damaged image"),
    "text.png": (b"hello, world", "is not an image; give PNG, JPEG, WebP, BMP, GIF or TIFF files"),
    "huge.png": (
        huge(),
        "has 2500000000 pixels by its header, and 1 to 67,108,864 can be read; make it smaller",
    ),
    "huge.bmp": (
        said(picture(3, "bmp"), 18, "<ii", 50_000, 50_000),
        "has 2500000000 pixels by its header",
    ),
    "colour.png": (
        picture(3),
        "has 3 channels and the first training image 1; set processor.image.channels to 3, or to 1",
    ),
}
SOUNDS = {
    "long.wav": (
        said(WAV, SIZE_OF_DATA, "<I", 1 << 30),
        "is cut off or damaged (its header does not fit its samples); copy it again",
    ),
    "empty.wav": (b"", "is not an audio file, it begins with b''"),
    "none.wav": (said(WAV, CHANNELS, "<H", 0), "is cut off or damaged (Channel count is zero)"),
    "text.wav": (b"hello, world", "is not an audio file, it begins with b'hello, world'"),
    "cut.flac": (encoded("FLAC")[:-1], "is cut off or damaged (flac decoder lost sync)"),
    "cut.mp3": (encoded("MP3")[:-1], "is cut off or damaged (its header does not fit its samples)"),
    "cut.ogg": (encoded("OGG")[:-1], "holds no sound"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A run of pictures, one of recordings, one that answers to rows of parts and one that tells
    their classes."""
    folder = tmp_path_factory.mktemp("runs")
    go(picture_recipe(folder), folder / "pictures-run")
    go(sound_recipe(folder), folder / "sounds-run")
    go(parts_recipe(folder), folder / "answers-run")
    classes = {"architecture": "encoder", "head": "classify", "pool": "mean"}
    go(parts_recipe(folder, model=classes), folder / "classes-run")
    return folder


@pytest.mark.parametrize("name", [*PICTURES, *SOUNDS])
def test_a_file_that_cannot_be_read(refused, runs, tmp_path, name):
    raw, sentence = (PICTURES | SOUNDS)[name]
    folder, recipe = (
        (picture_folder, picture_recipe) if name in PICTURES else (sound_folder, sound_recipe)
    )
    data = Path(folder(tmp_path, 8))
    own, run = (
        next(data.iterdir()) / f"z{name}",
        runs / f"{data.name}-run",
    )  # behind the first, which tells the form
    own.write_bytes(raw)
    (tmp_path / "r.yaml").write_text(recipe(tmp_path, data={"train.path": str(data)}).yaml())
    hint = ", or set data.bad_files=skip to go on without such files"
    for command in (
        ["train", "--run", runs / "new"],
        ["data", "show"],
        ["data", "show", "--html", tmp_path / "page.html"],
    ):
        found = refused(*command, tmp_path / "r.yaml", code=1, keep=tmp_path)
        assert found.startswith(f"{own} {sentence}")
        assert found.endswith(hint)
    assert not list((runs / "new").glob("*.*"))[1:], "nothing but its lock"
    for command in (["evaluate", run, "--data", data], ["classify", run, own]):
        found = refused(*command, code=1, keep=runs)
        assert found.startswith(f"{own} {sentence}")
        assert hint not in found, "there is no recipe to set it in"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"smell": "x"}, "part 3 is of type 'smell', which is none; known are audio, image, text"),
        (
            {"type": "imgae", "imgae": "x"},
            "part 3 is of type 'imgae', which is none; did you mean 'image'?",
        ),
        ({"image": "x", "text": "y"}, "part 3 is both text and image; make it two parts"),
        (7, "part 3 is no part but 7; write {'text': ...} or {'image': ...}"),
        ({"image": "pictures/0.png"}, "0.png, which is not there; did you mean '0"),
    ],
)
def test_a_row_with_a_part_that_cannot_be(refused, runs, tmp_path, part, sentence):
    path = Path(rows_file(tmp_path, 4))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2]["input"].append(part)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "r.yaml").write_text(parts_recipe(tmp_path, data={"train.path": str(path)}).yaml())
    for command in (
        ["train", tmp_path / "r.yaml", "--run", tmp_path / "run"],
        ["data", "show", tmp_path / "r.yaml", "--html", tmp_path / "page.html"],
        ["evaluate", runs / "answers-run", "--data", path],
        ["evaluate", runs / "classes-run", "--data", path],
    ):
        found = refused(*command, code=1, keep=tmp_path)
        assert found.startswith(f"{path}, line 3")
        assert sentence in found
    if "not there" not in sentence:
        line = json.dumps(["a", "b", part]).encode()
        found = refused("classify", runs / "classes-run", stdin=line, code=1, keep=runs)
        assert found == f"Line 1, {sentence}"


@pytest.mark.parametrize("where", ["empty", "void.zip", "out.zip"])
def test_a_place_without_pictures(refused, runs, tmp_path, where):
    (tmp_path / "empty").mkdir()
    with (
        zipfile.ZipFile(tmp_path / "void.zip", "w"),
        zipfile.ZipFile(tmp_path / "out.zip", "w") as out,
    ):
        for name in ("left/a.png", "right/b.png", "../x/left/c.png"):
            out.writestr(name, picture(1))
    values = (
        picture_recipe(runs, data={"train.path": str(runs / "pictures")})
        .yaml()
        .replace(str(runs / "pictures"), where)
    )
    (tmp_path / "r.yaml").write_text(values)
    says = (
        "out.zip has the member '../x/left/c.png'"
        if where == "out.zip"
        else f"there are no images in {tmp_path}/{where}"
    )
    for command in (
        ["train", tmp_path / "r.yaml", f"data.root={tmp_path}", "--run", tmp_path / "run"],
        ["data", "show", tmp_path / "r.yaml", f"data.root={tmp_path}"],
        ["evaluate", runs / "pictures-run", "--data", tmp_path / where],
    ):
        assert says in refused(*command, code=1, keep=tmp_path)


def test_a_class_that_training_never_saw(cli, refused, runs, tmp_path):
    data = Path(picture_folder(tmp_path, 8))
    (data / "left").rename(data / "up")
    found = cli("evaluate", runs / "pictures-run", "--data", data)
    assert found.code == 0
    assert "unseen         4 of classes that the model does not know: up (4)" in found.out
    recipe = picture_recipe(
        tmp_path, data={"train.path": str(data)}, model={"classes": ["left", "right"]}
    )
    (tmp_path / "r.yaml").write_text(recipe.yaml())
    for command in (["train", "--run", runs / "newer"], ["data", "show"]):
        found = refused(*command, tmp_path / "r.yaml", code=1, keep=tmp_path)
        assert "has the class 'up', which model.classes lacks; known are left, right" in found
