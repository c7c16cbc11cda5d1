"""`glassformer classify`, `evaluate` and `plan` on pictures and recordings."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from small_runs import go, probabilities
from small_senses import picture_folder, picture_recipe, sound_folder, sound_recipe, write_picture


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    go(
        picture_recipe(
            folder, processor={"image": {"patch": [4, 8]}}, augment={"image": {"erase": 0.1}}
        ),
        folder / "run",
    )
    return folder


@pytest.fixture(scope="module")
def sounds(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    go(sound_recipe(folder), folder / "run")
    return folder


def files(folder: Path, n: int = 5) -> list[str]:
    return sorted(str(path) for path in (folder).rglob("*.*") if path.suffix in (".png", ".wav"))[
        :n
    ]


def chances(run: Path, given: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    from glassformer.run import load

    opened = load(run)
    return opened.classes, probabilities(opened, given)


@pytest.mark.parametrize("kind", ["pictures", "sounds"])
def test_the_class_of_each_file_in_order(cli, request, kind):
    folder = request.getfixturevalue(kind)
    given = files(folder / kind)[::-1]
    names, rows = chances(folder / "run", given)
    expected = [f"{names[row.argmax()]}\t{file}" for row, file in zip(rows, given, strict=True)]
    said = cli("classify", folder / "run", *given)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == expected
    for arguments in (["--batch-size", 2], ["--batch-size", 1]):
        assert cli("classify", folder / "run", *given, *arguments).out == said.out
    listed = "\n".join([*given[:2], "", *given[2:]]).encode()
    assert cli("classify", folder / "run", stdin=listed).out == said.out, "names on standard input"


def test_columns_and_json(cli, pictures):
    given = files(pictures / "pictures", 3)
    names, rows = chances(pictures / "run", given)
    lines = cli("classify", pictures / "run", *given, "--top", 2, "--scores").out.splitlines()
    best = [np.argsort(-row, kind="stable") for row in rows]
    assert lines == [
        "\t".join([*(f"{row[i]:.4f}\t{names[i]}" for i in order), file])
        for row, order, file in zip(rows, best, given, strict=True)
    ]
    values = cli("classify", pictures / "run", *given, "--json").lines
    for value, row, file in zip(values, rows, given, strict=True):
        assert value["file"] == file
        assert value["label"] == names[row.argmax()]
        assert value["probabilities"] == pytest.approx(
            dict(zip(names, row.tolist(), strict=True)), abs=1e-6
        )
    one = cli("classify", pictures / "run", given[0], "--json", "--top", 1).json
    assert list(one["probabilities"]) == [one["label"]]


def test_members_of_an_archive_and_of_the_home_folder(cli, pictures, tmp_path, monkeypatch):
    given = files(pictures / "pictures", 2)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for i, file in enumerate(given):
            archive.write(file, f"in/{i}.png")
    wanted = [
        line.split("\t")[0] for line in cli("classify", pictures / "run", *given).out.splitlines()
    ]
    monkeypatch.setenv("HOME", str(tmp_path))
    said = cli("classify", pictures / "run", tmp_path / "a.zip/in/0.png", "~/a.zip/in/1.png")
    assert [line.split("\t")[0] for line in said.out.splitlines()] == wanted
    assert [line.split("\t")[1] for line in said.out.splitlines()] == [
        f"{tmp_path}/a.zip/in/0.png",
        "~/a.zip/in/1.png",
    ]


def test_a_file_that_cannot_be_read_is_one_sentence(refused, cli, pictures, tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"nothing")
    good = files(pictures / "pictures", 2)
    run = pictures / "run"
    for name, sentence in (
        (bad, "bad.png is not an image; give PNG, JPEG, WebP, BMP, GIF or TIFF files"),
        (tmp_path / "gone.png", "gone.png"),
        (tmp_path, str(tmp_path)),
        (tmp_path / "a.zip/x.png", "a.zip"),
    ):
        assert sentence in refused("classify", run, good[0], name, code=1, keep=pictures)
    said = cli("classify", run, good[0], bad, good[1], tmp_path / "gone.png", "--skip-bad")
    assert said.code == 0
    assert [line.split("\t")[1] for line in said.out.splitlines()] == good
    assert "bad.png is not an image" in said.err
    assert said.err.endswith("left out: 2 files that cannot be read\n")
    assert cli("classify", run, bad, "--skip-bad", "--json").out == ""


def test_models_are_given_what_they_read(refused, pictures, sounds, trained, recipe):
    (picture,), (sound,) = files(pictures / "pictures", 1), files(sounds / "sounds", 1)
    for run, given, sentence in (
        (pictures / "run", sound, f"{sound} is not an image; give PNG"),
        (sounds / "run", picture, f"{picture} is not an audio file"),
        (pictures / "run", recipe, "is not an image"),
    ):
        assert sentence in refused("classify", run, given, code=1, keep=run)
    assert "so classifying is not for it; use `glassformer generate`" in refused(
        "classify", trained, picture, code=2, keep=trained
    )
    assert "use `glassformer classify`" in refused(
        "generate", pictures / "run", code=2, keep=pictures, stdin=b"a"
    )
    for folder, read in ((pictures, "images"), (sounds, "audio")):
        said = refused("tokenize", folder / "run", code=2, keep=folder, stdin=b"a")
        see = f"see them by `glassformer data show {folder / 'run'} --html FILE`."
        assert said == f"{folder / 'run'} reads patches of {read}, not text; {see}"
    for command in ("translate", "tag", "embed"):
        refused(command, pictures / "run", code=2, keep=pictures, stdin=b"a b\n")


def test_lines_given_to_a_model_of_pictures_are_names_of_files(refused, pictures):
    said = refused("classify", pictures / "run", code=1, keep=pictures, stdin=b"what a film\n")
    assert "what a film" in said


def test_other_data_are_evaluated(cli, refused, pictures, tmp_path):
    said = cli("evaluate", pictures / "run", "--json")
    assert (said.code, said.json["examples"], said.json["split"]) == (0, 6, "validation")
    other = picture_folder(tmp_path, 10, 4)
    said = cli("evaluate", pictures / "run", "--data", other, "--json")
    assert (said.code, said.json["examples"], said.json["split"]) == (0, 10, "all")
    shown = cli("evaluate", pictures / "run", "--data", other).out
    assert "accuracy" in shown
    assert "left" in shown
    assert "there are no test examples" in refused(
        "evaluate", pictures / "run", "--split", "test", code=1, keep=pictures
    )
    assert "there are no images in" in refused(
        "evaluate", pictures / "run", "--data", sound_folder(tmp_path, 4), code=1, keep=pictures
    )


def test_a_plan_is_of_patches(cli, tmp_path):
    made = picture_recipe(tmp_path, train={"steps": 10, "batch_size": 6})
    (tmp_path / "r.yaml").write_text(made.yaml())
    said = cli("plan", tmp_path / "r.yaml")
    assert said.code == 0
    assert "MFLOP per patch forward" in said.out
    assert "a step of 6 images, 24 patches (" in said.out
    assert "patches/s" in said.out
    assert "tokens" not in said.out
    assert "(3.3 epochs)" in said.out, "10 steps of 6 are 3.3 times the 18 training pictures"
    assert cli("plan", tmp_path / "r.yaml", "--json").json["tokens_per_step"] == 24
    sound = sound_recipe(tmp_path, train={"steps": 3})
    (tmp_path / "s.yaml").write_text(sound.yaml())
    assert "a step of 4 recordings, 16 patches (" in cli("plan", tmp_path / "s.yaml").out


def test_what_is_fed_is_printed_and_drawn(cli, pictures, sounds, tmp_path):
    for run, noun in (
        (pictures / "run", "2 x 1 patches of 32 numbers"),
        (sounds / "run", "2 x 2 patches of 40 numbers"),
    ):
        said = cli("data", "show", run, "--rows", 2)
        assert (said.code, said.out.count("row "), said.out.count(noun)) == (0, 2, 2)
        assert len(cli("data", "show", run, "--json", "--rows", 3).lines) == 3
        page = tmp_path / "page.html"
        said = cli("data", "show", run, "--html", page, "--step", 3)
        assert (said.code, said.out) == (0, "")
        assert "batch of step 3" in page.read_text()


def test_a_damaged_run_is_one_sentence(refused, pictures):
    file = pictures / "run" / "image.json"
    whole = file.read_bytes()
    (given,) = files(pictures / "pictures", 1)
    try:
        file.write_bytes(whole[:20])
        assert "image.json has 20 bytes instead of" in refused(
            "classify", pictures / "run", given, code=1, keep=pictures
        )
        assert "image.json is not JSON" in refused(
            "verify", pictures / "run", "--accept-changed", code=1, keep=pictures
        )
        file.write_text(json.dumps({**json.loads(whole), "patch": 2}))
        said = refused("verify", pictures / "run", "--accept-changed", code=1, keep=pictures)
        assert (
            "makes 16 patches of 4 numbers and its model reads 2 of 32; they are of different runs"
            in said
        )
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("pixels", "sentence"),
    [
        (np.zeros((8, 8), np.uint8), "uint8"),
        (np.zeros((8, 8, 1), np.float32), "uint8"),
        (np.zeros((8, 8, 4), np.uint8), "uint8"),
        (np.zeros((0, 8, 1), np.uint8), "uint8"),
    ],
)
def test_arrays_that_are_no_pictures_are_one_sentence(pictures, pixels, sentence):
    from glassformer.core.errors import DataError
    from glassformer.run import load

    with pytest.raises(DataError, match=sentence):
        load(pictures / "run").classify(pixels)


@pytest.mark.parametrize(
    "given", [(np.zeros((5, 2)), 8000), (np.zeros(5), 0), (np.zeros(5, np.int16), 8000)]
)
def test_samples_that_are_no_sound_are_one_sentence(sounds, given):
    from glassformer.core.errors import DataError
    from glassformer.run import load

    with pytest.raises(DataError, match="float"):
        load(sounds / "run").classify(given)
    assert load(sounds / "run").classify((np.zeros(0, np.float32), 8000)) in ("high", "low")
    assert load(sounds / "run").classify([]) == []


def test_many_colours_of_one_picture_are_the_same_file(cli, pictures, tmp_path):
    """A grey picture that is stored in colours is not grey: the model is told so by one
    sentence."""
    file = write_picture(tmp_path / "c.png", np.full((8, 8, 3), 7, np.uint8))
    said = cli("classify", pictures / "run", file)
    assert said.code == 1
    assert "has 3 channels" in said.err
