"""Pictures are learned from words and drawn again; what is fed, resumed and refused."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.core.batch import IGNORE
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.core.locks import LOCK
from glassformer.media.palette import Palette
from glassformer.models import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.options import DrawOptions
from glassformer.tasks.predictors.draw import Draw, Picture, brief
from glassformer.training.folder.history import read_metrics
from glassformer.training.loop.prepare import prepare
from small_drawings import BLUE, FLAGS, RED, WHITE, flag, learn, recipe
from small_runs import go, hashes, losses
from small_runs import recipe as small_recipe
from small_senses import prepared, write_picture
from small_tasks import ONCE
from training.test_resume import stopped_after


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return learn(tmp_path_factory.mktemp("flags"))


def test_two_pictures_are_learned_from_two_texts(learned):
    run = gf.load(learned)
    assert sorted(run.task.objective.palette.colours.tolist()) == sorted(
        map(list, (RED, BLUE, WHITE))
    )
    for name, pixels in FLAGS.items():
        assert (run.draw(name, temperature=0) == pixels).all()
    both = run.draw(list(FLAGS), temperature=0)
    assert both.dtype == np.uint8
    assert (both == np.stack(list(FLAGS.values()))).all()
    scores = run.evaluate()
    assert scores["accuracy"] == 1
    assert scores["bits_per_pixel"] == pytest.approx(scores["loss"] / math.log(2))
    assert scores["tokens"] == 24 * 4  # of 16 rows a quarter


def test_drawing_is_a_function_of_the_seed(learned):
    run = gf.load(learned)
    again = [run.draw("a red flag", temperature=9.0, seed=seed) for seed in (0, 0, 1)]
    assert (again[0] == again[1]).all()
    assert (again[0] != again[2]).any()
    alone = run.draw("one flag that is blue", temperature=2.0, seed=3)
    beside = run.draw(["a red flag", "one flag that is blue"], temperature=2.0, seed=3)
    assert (alone == beside[1]).all()


def test_only_colours_are_drawn_however_unlikely(learned):
    """An untrained model would write words; three of five colours exist."""
    run = gf.load(learned)
    known = {*map(tuple, run.task.objective.palette.colours.tolist())}
    torch.manual_seed(0)
    wild = Transformer(run.model.config)
    with torch.no_grad():
        for parameter in wild.parameters():
            parameter.normal_(std=2.0)
    for temperature in (0.0, 1.0, 5.0):
        how = DrawOptions.parse({"temperature": temperature, "repetition_penalty": 3.0, "top_k": 7})
        for one in Draw(wild, run.task).predict_each(["a red flag", "flag"], how):
            assert one.pixels.shape == (4, 6, 3)
            assert {*map(tuple, one.pixels.reshape(-1, 3).tolist())} <= known


def test_what_is_fed(tmp_path):
    task = prepared(recipe(tmp_path, train={"batch_size": 4}), tmp_path / "run")
    size, model = task.processor.tokenizer.vocab_size, task.recipe.model
    assert model.vocab_size == size + 5
    assert (
        model.max_length == 7 + 24 - 1
    )  # five words between two symbols; the last pixel is not read
    (batch,) = task.feed.batches(3)
    assert batch.positions is None  # all rows are equally long, so no mask is needed
    assert batch.elements.shape == (4, 30)
    assert batch.targets is not None
    assert batch.at is not None
    targets, at = batch.targets.view(4, 24), batch.at.view(4, 24)
    assert (at == torch.arange(4)[:, None] * 30 + torch.arange(6, 30)).all()
    texts = {
        task.processor.tokenizer.decode(row[:7].tolist()): target
        for row, target in zip(batch.elements, targets, strict=True)
    }
    for text, target in texts.items():
        assert (task.objective.palette.pixels(target.numpy()[None] - size)[0] == FLAGS[text]).all()
    assert (batch.elements[:, 7:] == targets[:, :-1]).all()
    assert IGNORE not in targets
    assert task.objective.excerpt(batch) in FLAGS
    assert task.objective.piece(size) == "#1e1ec8"
    assert task.objective.piece(size + 4) == ""
    again = prepared(recipe(tmp_path, train={"batch_size": 4}), tmp_path / "again")
    assert (again.feed.batches(3)[0].elements == batch.elements).all()
    assert again.feed.fingerprint == task.feed.fingerprint


def test_other_pixels_are_other_data(tmp_path):
    task = prepared(recipe(tmp_path), tmp_path / "run")
    rows = (tmp_path / "rows.jsonl").read_text()
    (tmp_path / "rows.jsonl").write_text(
        rows.replace('"one flag that is blue.png"', '"a red flag.png"')
    )
    other = prepared(recipe(tmp_path), tmp_path / "other")
    assert task.feed.fingerprint != other.feed.fingerprint


def test_resumed_to_the_bit(tmp_path):
    made = recipe(tmp_path, train={"save.every": 2})
    go(made, tmp_path / "whole")
    with stopped_after(5):
        go(made, tmp_path / "cut")
    before = (tmp_path / "cut" / "palette.json").read_bytes()
    go(made, tmp_path / "cut", resume=True)
    assert hashes(tmp_path / "cut") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    assert (tmp_path / "cut" / "palette.json").read_bytes() == before


def test_the_report_shows_what_is_drawn(learned):
    samples = [line["sample"] for line in read_metrics(learned) if "sample" in line]
    assert any(name in samples[-1] for name in FLAGS)
    card = (learned / "README.md").read_text()
    assert "4 x 6 images in 3 colours" in card
    assert "glassformer draw" in card


def test_shades():
    assert Picture(flag([(0, 0, 0), (255, 255, 255)])).line() == "@@@\n@@@"


def test_a_short_text_is_filled_up(tmp_path):
    task = prepared(recipe(tmp_path), tmp_path / "run")
    parts = task.processor.parts
    (end,) = parts.eos
    text = parts.example([("text", "a flag")])
    assert brief(parts, text, 7).ids.tolist() == [*text.ids, end, end, end]
    with pytest.raises(ConfigError, match="The prompt has 4 elements and the model reads 3 at"):
        brief(parts, text, 3)


def test_rows_of_a_table_name_their_pictures(tmp_path):
    recipe(tmp_path)
    (tmp_path / "rows.csv").write_text("".join(f"{name},{name}.png\n" for name in FLAGS))
    data = {
        "train.path": str(tmp_path / "rows.csv"), "train.parts": [{"text": "{1}"}], "target_image": str(tmp_path / "{2}"),
        "validation.fraction": 0.0,
    }  # fmt: skip
    task = prepared(recipe(tmp_path, data=data), tmp_path / "run")
    assert not task.objective.validated
    assert [row.image for row in task.objective.training.records[:2]] == [
        str(tmp_path / f"{name}.png") for name in FLAGS
    ]


def test_a_picture_that_cannot_be_read_stops_or_is_counted(tmp_path):
    made = recipe(tmp_path)
    write_picture(tmp_path / "third.png", FLAGS["a red flag"])
    with (tmp_path / "rows.jsonl").open("a") as rows:
        rows.write(json.dumps({"input": "third", "target": {"image": "third.png"}}) + "\n")
    (tmp_path / "third.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"third\.png is not an image; .* data\.bad_files=skip"):
        prepared(made, tmp_path / "stopped")
    data = {
        "train.path": str(tmp_path / "rows.jsonl"),
        "bad_files": "skip",
        "validation.fraction": 0.0,
    }
    task = prepared(recipe(tmp_path, data=data), tmp_path / "run")
    assert len(task.objective.training.records) == 16
    assert any(
        "left out: 1 file of train that" in sentence for sentence in task.objective.opening()
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model": {"architecture": "encoder"}},
            "model.architecture='encoder' is not for task='text-to-image'; use decoder",
        ),
        ({"processor.image": {}}, "draws the images of texts alone .* leave out image and audio"),
        ({"train": {"evaluate.best": "exact_match"}}, "loss or accuracy"),
    ],
)
def test_what_does_not_draw(tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        prepared(recipe(tmp_path, **changes), tmp_path / "run")


def test_what_cannot_be_trained(tmp_path):
    with pytest.raises(DataError, match=r"has 3\d elements and the model 28"):
        prepared(recipe(tmp_path, model={"max_length": 28}), tmp_path / "run")
    made = recipe(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"input": "a", "target": "b"}\n' * 9)
    with pytest.raises(DataError, match=r"no image to be drawn; set data\.target_image"):
        prepared(made, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"image": None}, "has no image to be drawn; set data.target_image"),
        ({"parts": (("text", "a " * 9),)}, "has 34 elements and the model 30; raise"),
    ],
)
def test_other_rows_that_do_not_fit_are_named(tmp_path, changes, sentence):
    task = prepared(recipe(tmp_path), tmp_path / "run")
    records = {"validation": [replace(task.objective.training.records[0], **changes)]}
    with pytest.raises(DataError, match=sentence):
        task.kind.open(task.recipe, task.processor, records, tmp_path / "other", ["validation"])


def test_a_palette_of_another_run_is_refused(learned, tmp_path):
    palette = gf.load(learned).task.objective.palette
    kept = (learned / "palette.json").read_bytes()
    try:
        more = np.arange(90, dtype=np.uint8).reshape(30, 3)
        Palette(palette.config.model_copy(update={"colours": 40}), more).save(learned)
        with pytest.raises(CheckpointError, match="of different runs"):
            gf.load(learned, accept_changed=True)
        (learned / "palette.json").unlink()
        with pytest.raises(DataError, match="cannot read"):
            gf.load(learned, accept_changed=True)
    finally:
        (learned / "palette.json").write_bytes(kept)


def test_a_palette_of_a_run_that_never_began_is_not_taken(tmp_path):
    run = tmp_path / "run"
    assert len(prepared(recipe(tmp_path), run).objective.palette.colours) == 3
    (run / LOCK).touch()
    rows = (tmp_path / "rows.jsonl").read_text()
    (tmp_path / "rows.jsonl").write_text(
        rows.replace('"one flag that is blue.png"', '"a red flag.png"')
    )
    found = prepared(recipe(tmp_path), run).objective.palette.colours.tolist()
    assert sorted(found) == sorted(map(list, (RED, WHITE)))


def test_a_preset_is_as_long_as_a_text_and_a_picture(tmp_path):
    values = recipe(tmp_path).values()
    values["model"] = {"preset": "gpt2", "d_model": 16, "n_heads": 2, "n_layers": 1}
    made = prepare(Recipe.parse(values), tmp_path / "run", False, 1, lambda text: None)
    assert made.recipe.model.max_length == 7 + 24 - 1


def test_other_models_do_not_draw(learned, tmp_path):
    go(small_recipe(tmp_path, train=ONCE), tmp_path / "run")
    with pytest.raises(ConfigError, match="is a model for text-generation, so drawing is not for"):
        gf.load(tmp_path / "run").draw("a red flag")
    run = gf.load(learned)
    with pytest.raises(ConfigError, match=r"Unknown key generate\.stop"):
        run.draw("a red flag", stop=["x"])


def test_a_model_without_its_recipe_draws_the_same(learned, tmp_path):
    """As one that was downloaded: the palette alone says that it draws."""
    copied = Path(shutil.copytree(learned, tmp_path / "run"))
    (copied / "recipe.yaml").unlink()
    alone, run = gf.load(copied, accept_changed=True), gf.load(learned)
    assert alone.recipe is None
    for name in FLAGS:
        assert (alone.draw(name, temperature=0) == run.draw(name, temperature=0)).all()
