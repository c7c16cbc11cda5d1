"""Pictures and recordings are learned; what is fed is a function of the step; what is wrong with
them is said."""

import base64
import io
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import glassformer as gf
from glassformer.core.batch import Batch
from glassformer.core.errors import CheckpointError, ConfigError, DataError
from glassformer.core.locks import LOCK
from glassformer.data.arrays import request_of
from glassformer.models import Transformer
from glassformer.processors.media.image import ImageProcessor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.training.folder.history import read_metrics
from small_runs import go, hashes, laid, losses
from small_senses import (
    RATE,
    SIDES,
    TONES,
    half,
    picture_folder,
    picture_recipe,
    prepared,
    sound_folder,
    sound_recipe,
    tone,
    write_picture,
)
from small_tasks import LEARNING
from training.test_resume import stopped_after

BUSY = {"crop": 1, "flip": False, "erase": 0.3, "colour": 0.2}
MIXED = BUSY | {"mixup": 0.4, "cutmix": 1.0}
NOISY = {
    "shift_ms": 10,
    "gain_db": 6,
    "noise": 0.2,
    "speed": 0.05,
    "time_masks": 1,
    "time_width": 2,
}
BEST = {"evaluate.best": "accuracy"}
RECIPES = {
    "pictures": lambda folder, **train: picture_recipe(
        folder, augment={"image": MIXED}, train=train
    ),
    "sounds": lambda folder, **train: sound_recipe(folder, augment={"audio": NOISY}, train=train),
}


def test_the_bright_half_is_learned(tmp_path):
    image = {"patch": [4, 8]}
    made = picture_recipe(
        tmp_path,
        model={"n_registers": 2, "distilled": True},
        processor={"image": image},
        augment={"image": {"erase": 0.2, "mixup": 0.2}},
        train=LEARNING | BEST,
    )
    result, said = go(made, tmp_path / "x")
    assert result.scores["accuracy"] == 1.0
    assert "8 x 8 grey images in 2 x 1 patches of 32 numbers" in said
    assert re.search(r"  [\d,]+ images/s, [\d,]+ patches/s  ", said)
    assert "tokens/s" not in said
    run, draw = gf.load(tmp_path / "x"), np.random.default_rng(5)
    assert run.classify([half(side, draw) for side in SIDES * 10]) == list(SIDES * 10)
    file = write_picture(tmp_path / "new.png", half("right", draw, 3, size=16))
    with pytest.raises(
        DataError,
        match=r"new\.png has 3 channels and the first training image 1; set processor.image",
    ):
        run.classify(file)
    file = write_picture(tmp_path / "grey.png", half("right", draw, size=16))
    assert run.classify(file) == run.classify(Path(file)) == "right", (
        "of another size, by name or path"
    )


@pytest.mark.parametrize(
    "model", [{"position": "sinusoidal_2d"}, {"position": "rotary_2d"}, {"stem": [4]}]
)
def test_what_needs_the_grid_takes_it_from_the_pictures(tmp_path, model):
    go(picture_recipe(tmp_path, model=model), tmp_path / "x")
    found = gf.load(tmp_path / "x").model.config
    assert (found.grid, found.patch) == ((2, 2), (4, 4))


def test_the_pitch_is_learned(tmp_path):
    result, said = go(sound_recipe(tmp_path, train=LEARNING), tmp_path / "x")
    assert result.scores["accuracy"] == 1.0
    assert (
        "clips of 0.1 s at 8,000 Hz, 10 frames of 16 mel bands in 2 x 2 patches of 40 numbers"
        in said
    )
    run, draw = gf.load(tmp_path / "x"), np.random.default_rng(5)
    names = list(TONES) * 6
    assert run.classify([(tone(TONES[name], draw), RATE) for name in names]) == names
    assert run.classify((tone(TONES["low"], draw, 1600), 2 * RATE)) in names, "at another rate"
    with pytest.raises(DataError, match="an array alone has no rate"):
        run.classify(tone(400.0, draw))


@pytest.mark.slow  # quick: training/test_resume.py, images
@pytest.mark.parametrize("name", RECIPES)
def test_killed_and_resumed_is_uninterrupted(tmp_path, name):
    made = RECIPES[name](tmp_path, **{"save.every": 4, "evaluate.every": 4})
    go(made, tmp_path / "whole")
    with stopped_after(6):
        go(made, tmp_path / "parts")
    _, said = go(made, tmp_path / "parts", resume=True)
    assert "resuming at step 4" in said
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")


@pytest.mark.parametrize("name", ["pictures", pytest.param("sounds", marks=pytest.mark.slow)])
def test_workers_change_no_bit(tmp_path, name):
    go(RECIPES[name](tmp_path), tmp_path / "alone")
    go(RECIPES[name](tmp_path, workers=2), tmp_path / "two")
    assert hashes(tmp_path / "alone") == hashes(tmp_path / "two")


def test_micro_batches_change_nothing_but_rounding(tmp_path):
    whole, parts = (RECIPES["pictures"](tmp_path, micro_batches=n, batch_size=6) for n in (1, 3))
    go(whole, tmp_path / "1")
    go(parts, tmp_path / "3")
    task = prepared(parts, tmp_path / "task")
    assert [len(batch.elements) for batch in task.feed.batches(0)] == [2, 2, 2]
    one, three = (
        [line["train_loss"] for line in read_metrics(tmp_path / name) if "train_loss" in line]
        for name in "13"
    )
    assert one == pytest.approx(three, rel=1e-4)


def epoch(task: Task, rows: int) -> Counter[tuple[bytes, int]]:
    """Everything that is fed in the first steps that make an epoch of `rows`."""
    found: Counter[tuple[bytes, int]] = Counter()
    step = 0
    while sum(found.values()) < rows:
        for batch in task.feed.batches(step):
            assert batch.targets is not None
            found.update(
                (row.numpy().tobytes(), int(target))
                for row, target in zip(batch.elements, batch.targets, strict=True)
            )
        step += 1
    return found


@pytest.mark.parametrize("kind", ["pictures", "sounds"])
def test_everything_is_fed_once_an_epoch_with_its_class(tmp_path, kind):
    none = {"validation.fraction": 0.0}
    make = picture_recipe if kind == "pictures" else sound_recipe
    task = prepared(make(tmp_path, data=none, train={"batch_size": 6}), tmp_path / "x")
    found = epoch(task, 24)
    assert set(found.values()) == {1}
    expected = {
        (row.numpy().tobytes(), task.objective.classes.names.index(labels[0]))
        for row, labels in zip(
            task.objective.training.patches(range(24)),
            [record.labels for record in task.objective.training.records],
            strict=True,
        )
    }
    assert set(found) == expected
    assert len(expected) == 24
    assert [task.feed.order.rows(step) for step in range(4)] != [
        task.feed.order.rows(step) for step in range(4, 8)
    ]


def test_what_is_fed_is_the_picture_itself(tmp_path):
    """Oracle: pixels as float64, (x / 255 - mean) / std, cut by loops."""
    draw = np.random.default_rng(1)
    pixels = {f"{i}": draw.integers(0, 256, (4, 6, 3)).astype(np.uint8) for i in range(4)}
    for name, own in pixels.items():
        write_picture(tmp_path / "p" / "ab"[int(name) % 2] / f"{name}.png", own)
    data = {"train.path": str(tmp_path / "p"), "validation.fraction": 0.0}
    task = prepared(
        picture_recipe(tmp_path, data=data, processor={"image": {"patch": (2, 3)}}), tmp_path / "x"
    )
    every = np.stack(list(pixels.values())).astype(np.float64) / 255
    mean, std = every.mean((0, 1, 2)), every.std((0, 1, 2))
    (batch,) = task.feed.batches(0)
    assert batch.elements.shape == (4, 4, 18)
    for row, (number,) in zip(batch.elements, task.feed.order.rows(0), strict=True):
        name = Path(task.objective.training.records[number].where).stem
        for t in range(4):
            top, left = 2 * (t // 2), 3 * (t % 2)
            patch = (pixels[name][top : top + 2, left : left + 3] / 255 - mean) / std
            np.testing.assert_allclose(row[t].numpy(), patch.flatten(), atol=1e-5)  # float32


def test_mixed_targets_are_shares(tmp_path):
    task = prepared(
        picture_recipe(tmp_path, augment={"image": MIXED}, train={"batch_size": 8}), tmp_path / "x"
    )
    (batch,) = task.feed.batches(0)
    assert batch.targets is not None
    assert batch.targets.dtype == torch.float32
    np.testing.assert_allclose(batch.targets.sum(1).numpy(), 1, rtol=1e-6)
    assert ((batch.targets > 0.01) & (batch.targets < 0.99)).any(), "something is mixed"
    again = task.feed.batches(0)[0]
    assert torch.equal(batch.elements, again.elements)
    assert not torch.equal(batch.elements, task.feed.batches(3)[0].elements)


def listed(folder: Path, rows: list[tuple[str, Any]]) -> str:
    """A table of pictures beside it with any number of classes."""
    lines = [json.dumps({"file_name": f"{name}.png", "label": label}) for name, label in rows]
    (folder / "metadata.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def bright_sides(folder: Path, n: int = 60) -> str:
    """Pictures of which any halves are bright: none, one, or both."""
    draw, rows = np.random.default_rng(0), []
    for i in range(n):
        own = [side for k, side in enumerate(SIDES) if i >> k & 1]
        pixels = draw.integers(0, 90, (8, 8, 1))
        for side in own:
            pixels[:, slice(0, 4) if side == "left" else slice(4, 8)] += 140
        write_picture(folder / f"{i}.png", pixels.astype(np.uint8))
        rows.append((str(i), own))
    return listed(folder, rows)


def test_several_classes_are_learned_at_once(tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    model, data = {"multi_label": True}, {"train.path": bright_sides(folder)}
    made = picture_recipe(
        tmp_path, model=model, data=data, processor={"image": {"patch": [4, 8]}}, train=LEARNING
    )
    result, _ = go(made, tmp_path / "x")
    assert result.scores["accuracy"] == 1.0, "both right"
    run = gf.load(tmp_path / "x")
    assert [run.classify(str(folder / f"{i}.png")) for i in range(4)] == [
        [],
        ["left"],
        ["right"],
        ["left", "right"],
    ]
    assert run.classify([str(folder / "3.png")], threshold=1.0) == [[]]


def test_class_weights_are_of_what_is_trained_on(tmp_path):
    draw = np.random.default_rng(0)
    for i in range(8):
        side = "left" if i < 6 else "right"
        write_picture(tmp_path / "p" / side / f"{i}.png", half(side, draw))
    data = {"train.path": str(tmp_path / "p"), "validation.fraction": 0.0}
    task = prepared(
        picture_recipe(tmp_path, data=data, train={"class_weights": "balanced"}), tmp_path / "x"
    )
    loss = task.objective.loss(torch.zeros(8, 2), torch.tensor([0] * 6 + [1] * 2))
    assert float(loss.total) / loss.count == pytest.approx(math.log(2), rel=1e-6), "1 on average"
    one = task.objective.loss(torch.zeros(1, 2), torch.tensor([1]))
    assert float(one.total) == pytest.approx(8 / 2 / 2 * math.log(2), rel=1e-6)
    with pytest.raises(
        ConfigError, match="class_weights has 'rihgt', which is no class; did you mean"
    ):
        prepared(
            picture_recipe(tmp_path, data=data, train={"class_weights": {"rihgt": 2}}),
            tmp_path / "y",
        )


def damaged(folder: Path, n: int = 24) -> str:
    path = picture_folder(folder, n)
    file = Path(path) / "left" / "004.png"
    file.write_bytes(file.read_bytes()[:60])
    return path


def test_a_file_that_cannot_be_read_stops_the_run_and_is_named(tmp_path):
    data = {"train.path": damaged(tmp_path), "validation.fraction": 0.0}
    with pytest.raises(
        DataError, match=r"left/004\.png is a damaged image .*, or set data\.bad_files=skip"
    ):
        go(picture_recipe(tmp_path, data=data), tmp_path / "x")


def test_the_pace_is_that_of_pictures(tmp_path):
    task = prepared(picture_recipe(tmp_path), tmp_path / "run")
    assert task.feed.length == 4
    assert task.objective.pace(10_000) == "2,500 images/s, 10,000 patches/s"
    (batch,) = task.feed.batches(0)
    assert batch.n_elements == 4 * task.feed.sequences, "what a step counts are patches"


def test_other_pictures_in_the_same_place_are_refused(tmp_path):
    go(picture_recipe(tmp_path), tmp_path / "run")
    picture_folder(tmp_path, n=30)  # six more
    with pytest.raises(
        ConfigError,
        match=r"^The content of data\.train\.path is not what .*run was trained on; restore it",
    ):
        go(picture_recipe(tmp_path), tmp_path / "run", resume=True)


def test_or_is_left_out_and_counted(tmp_path):
    """Class weights are of what is left."""
    data = {"train.path": damaged(tmp_path, 8), "validation.fraction": 0.0, "bad_files": "skip"}
    made = picture_recipe(tmp_path, data=data, train={"batch_size": 7, "class_weights": "balanced"})
    task = prepared(made, tmp_path / "x")
    assert len(task.objective.training.records) == 7
    assert len(epoch(task, 7)) == 7
    labels = [record.labels[0] for record in task.objective.training.records]
    targets = torch.tensor([task.objective.classes.names.index(label) for label in labels])
    assert sorted(targets.tolist()) == [0] * 3 + [1] * 4
    loss = task.objective.loss(torch.zeros(7, 2), targets)
    assert float(loss.total) / loss.count == pytest.approx(math.log(2), rel=1e-6)
    one = task.objective.loss(torch.zeros(1, 2), torch.tensor([0]))
    assert float(one.total) == pytest.approx(7 / 2 / 3 * math.log(2), rel=1e-6)
    _, said = go(made, tmp_path / "y")
    assert "left out: 1 file of train that cannot be read, the first: " in said
    assert "left/004.png is a damaged image" in said
    assert "7 training images, 28 patches, " in said


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_split_of_which_nothing_can_be_read_is_refused(tmp_path, split):
    for side in ("left", "right"):
        (tmp_path / "bad" / side).mkdir(parents=True)
        (tmp_path / "bad" / side / "1.png").write_bytes(b"no image")
    data = {f"{split}.path": str(tmp_path / "bad"), "bad_files": "skip"}
    made = picture_recipe(tmp_path, data=data)
    with pytest.raises(DataError, match=rf"no {split} image could be read, the first: .*1\.png"):
        go(made, tmp_path / "x")


def test_twelve_bits_have_the_range_of_all_training_images(tmp_path):
    draw = np.random.default_rng(0)
    for i in range(16):
        wide = draw.integers(0, 500 if i > 8 else 4096, (8, 8)).astype(np.uint16)
        file = tmp_path / "scans" / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(wide).save(file)
    go(picture_recipe(tmp_path, data={"train.path": str(tmp_path / "scans")}), tmp_path / "run")
    reader = gf.load(tmp_path / "run").processor
    assert reader.reader.config.value_range == (0, 4095)
    expected = (np.asarray(Image.open(file)) >> 4)[..., None]
    np.testing.assert_array_equal(reader.decode(str(file)), expected)
    np.testing.assert_array_equal(reader.from_file(file.read_bytes()), expected)


def test_what_is_left_must_be_enough(tmp_path):
    path = picture_folder(tmp_path, 8)
    for file in (Path(path) / "left").iterdir():
        file.write_bytes(b"\x89PNG")
    data = {"train.path": path, "validation.fraction": 0.0, "bad_files": "skip"}
    with pytest.raises(
        DataError,
        match="every training image is of the class 'right'; give images of at least two classes",
    ):
        go(
            picture_recipe(tmp_path, data=data, processor={"image": {"size": 8, "channels": 1}}),
            tmp_path / "x",
        )
    assert not (tmp_path / "x" / "recipe.yaml").exists(), "it never began"
    for file in (Path(path) / "right").iterdir():
        file.write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match="no training image could be read"):
        go(
            picture_recipe(tmp_path, data=data, processor={"image": {"size": 8, "channels": 1}}),
            tmp_path / "y",
        )


def test_the_first_picture_may_be_the_bad_one(tmp_path):
    """Size and channels are then told by the first that can be read."""
    path = picture_folder(tmp_path)
    (Path(path) / "left" / "000.png").write_bytes(b"\x89PNG")
    data = {"train.path": path, "bad_files": "skip", "validation.fraction": 0.0}
    task = prepared(picture_recipe(tmp_path, data=data), tmp_path / "x")
    assert task.processor.reader.shape == (8, 8, 1)
    assert len(task.objective.training.records) == 23


def test_bad_validation_files_are_counted_in_the_scores(tmp_path):
    held = picture_folder(tmp_path, 8, seed=1, name="held")
    (Path(held) / "right" / "001.png").write_bytes(b"no picture")
    data = {"train.path": picture_folder(tmp_path), "validation.path": held, "bad_files": "skip"}
    result, said = go(picture_recipe(tmp_path, data=data), tmp_path / "x")
    assert (result.scores["examples"], result.scores["unreadable"]) == (7, 1)
    assert "left out: 1 file of validation that cannot be read" in said


def test_colour_among_grey_is_refused_unless_asked(tmp_path):
    path = picture_folder(tmp_path)
    draw = np.random.default_rng(0)
    write_picture(Path(path) / "right" / "colour.png", half("right", draw, 3))
    data = {"train.path": path, "validation.fraction": 0.0}
    with pytest.raises(
        DataError,
        match=r"colour\.png has 3 channels and the first training image 1; set processor.image.chan",
    ):
        go(picture_recipe(tmp_path, data=data), tmp_path / "x")
    for channels in (1, 3):
        made = picture_recipe(
            tmp_path, data=data, processor={"image": {"channels": channels, "patch": 4}}
        )
        task = prepared(made, tmp_path / f"{channels}")
        assert task.processor.reader.shape == (8, 8, channels)
        assert len(task.objective.training.records) == 25


def test_classes_that_training_never_saw_are_named_and_wrong(tmp_path):
    held = tmp_path / "held"
    draw = np.random.default_rng(0)
    for i, name in enumerate(["left", "middle", "middle", "right"]):
        write_picture(held / name / f"{i}.png", half("left", draw))
    data = {"train.path": picture_folder(tmp_path), "validation.path": str(held)}
    result, _ = go(picture_recipe(tmp_path, data=data), tmp_path / "x")
    assert result.scores["unseen_classes"] == {"middle": 2}
    assert (result.scores["examples"], result.scores["unseen"]) == (4, 2)
    assert result.scores["accuracy"] <= 0.5
    assert {row["class"] for row in result.scores["worst"]} == {"left", "middle", "right"}
    scores = gf.load(tmp_path / "x").evaluate()
    assert scores["loss"] == pytest.approx(result.scores["loss"], rel=1e-5)
    assert scores["unseen_classes"] == {"middle": 2}


@pytest.mark.parametrize("multi", [False, True])
def test_scores_are_those_of_each_picture_alone(tmp_path, multi):
    if multi:
        (tmp_path / "p").mkdir()
        data = {"train.path": bright_sides(tmp_path / "p", 24)}
    else:
        data = {"train.path": picture_folder(tmp_path)}
    task = prepared(
        picture_recipe(tmp_path, model={"multi_label": multi}, data=data), tmp_path / "x"
    )
    model = Transformer(task.recipe.model, seed=2).eval()
    with torch.no_grad():
        model.head.proj.weight.mul_(30)  # so that predictions differ
    kept = task.objective.split("validation")
    nats = right = 0.0
    for i, record in enumerate(kept.records):
        with torch.no_grad():
            logits = model(Batch(kept.patches([i]))).logits[0]
        gold = torch.zeros(2)
        gold[task.objective.classes.numbers(record.labels)] = 1
        if multi:
            nats += float(torch.nn.functional.binary_cross_entropy_with_logits(logits, gold))
            right += float(((logits >= 0) == gold.bool()).all())
        else:
            nats -= float(logits.log_softmax(-1) @ gold)
            right += float(logits.argmax() == gold.argmax())
    scores = task.objective.scores(model, torch.float32)
    assert scores is not None
    assert scores["examples"] == len(kept.records) == 6
    assert scores["loss"] == pytest.approx(nats / 6, rel=1e-5)
    assert scores["accuracy"] == pytest.approx(right / 6)
    json.dumps(scores, allow_nan=False)


def test_other_data_and_the_test_split_are_scored(tmp_path):
    data = {
        "train.path": picture_folder(tmp_path),
        "test.path": picture_folder(tmp_path, 10, 3, "tested"),
    }
    go(
        picture_recipe(tmp_path, data=data, processor={"image": {"patch": [4, 8]}}, train=LEARNING),
        tmp_path / "x",
    )
    run = gf.load(tmp_path / "x")
    tested = run.evaluate("test")
    assert (tested["examples"], tested["accuracy"], tested["split"]) == (10, 1.0, "test")
    swapped = tmp_path / "swapped"
    for a, b in zip(SIDES, reversed(SIDES), strict=True):
        swapped.mkdir(exist_ok=True)
        (tmp_path / "tested" / a).rename(swapped / b)
    other = run.evaluate(data=str(swapped))
    assert (other["examples"], other["accuracy"], other["split"]) == (10, 0.0, "all")
    with pytest.raises(DataError, match="there are no images in"):
        run.evaluate(
            data=str(tmp_path / "nothing.txt" if (tmp_path / "nothing.txt").write_text("x") else "")
        )


def test_other_data_are_what_they_are_wherever_training_had_its_classes(tmp_path):
    """Labels of their own table; splits by a pattern of the run's own say nothing of them."""
    rows = []
    for i in range(24):
        side = SIDES[i % 2]
        write_picture(
            tmp_path / "p" / f"{side}_{'ab'[i // 2 % 2]}_{i}.png",
            half(side, np.random.default_rng(i)),
        )
        rows.append(side)
    pattern = {"label_pattern": "{label}_{who}_{n}.png", "validation.where": {"who": ["b"]}}
    data = {"train.path": str(tmp_path / "p"), **pattern}
    for batches, scored in ((1, 4), (None, 12)):
        made = picture_recipe(tmp_path, data=data, train={"evaluate.batches": batches})
        result, _ = go(made, tmp_path / f"x{batches}")
        assert result.scores["examples"] == scored
    assert gf.load(tmp_path / "xNone").evaluate(data=str(tmp_path / "p"))["examples"] == 24


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("seen")
    go(picture_recipe(folder), folder / "x")
    return folder / "x"


def test_a_run_folder_that_was_changed_is_one_sentence(trained, tmp_path):
    file = trained / "image.json"
    whole = file.read_text()
    values = json.loads(whole)
    other = {"patch": 2, "size": [16, 8], "found_channels": 3}
    try:
        for content, sentence in (
            (whole[:30], r"image\.json is not JSON"),
            ("[]", r"image\.json is not a JSON object"),
            (json.dumps({**values, "size": 9}), r"image\.json is damaged: .*divide"),
            (
                json.dumps({**values, "patch": other["patch"]}),
                "makes 16 patches of 4 numbers and its model reads 4 of",
            ),
            (
                json.dumps({**values, "size": other["size"]}),
                "makes 8 patches of 16 numbers and its model reads 4 of 16",
            ),
        ):
            file.write_text(content)
            with pytest.raises((DataError, CheckpointError), match=sentence):
                gf.load(trained, accept_changed=True)
        file.unlink()
        with pytest.raises((DataError, CheckpointError), match=r"image\.json: No such file"):
            gf.load(trained, accept_changed=True)
    finally:
        file.write_text(whole)
    assert gf.load(trained).processor.noun == "image"


def test_arrays_that_were_damaged_are_made_again(trained):
    file = trained / "pixels" / "validation.arrays.values"
    whole = file.read_bytes()
    before = gf.load(trained).evaluate()
    file.write_bytes(whole[: len(whole) // 2])
    assert gf.load(trained).evaluate() == before
    recipe = Recipe.parse(json.loads(json.dumps(gf.load(trained).recipe.values())))
    go(recipe, trained, resume=True)
    assert file.read_bytes() == whole


def test_an_evaluation_decodes_no_file_that_the_run_keeps(trained, monkeypatch):
    run = gf.load(trained)
    expected = run.evaluate()

    def never(*arguments):
        raise AssertionError("a file was decoded again")

    monkeypatch.setattr(type(run.processor), "decode", never)
    assert run.evaluate() == expected
    run.processor.skip = True
    with pytest.raises(AssertionError, match="decoded again"):
        run.evaluate()


def test_the_card_says_how_pictures_are_read(trained):
    card = (trained / "README.md").read_text()
    assert "pipeline_tag: image-classification" in card
    assert "8 x 8 grey images in 2 x 2 patches of 16 numbers" in card
    assert "Tokenizer" not in card
    assert "glassformer classify" in card
    assert "training text" not in card


def test_the_page_shows_what_was_hardest(trained, tmp_path):
    """As pictures that are those of the files; of sounds, as spectrograms."""
    page = (trained / "report.html").read_text()
    hardest = page[page.index("Largest losses") :]
    shown = re.findall(
        r'<figure class="card" title="([^"]*)"><img src="data:image/png;base64,([^"]*)"', hardest
    )
    assert len(shown) == 6
    for where, content in shown:
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
        np.testing.assert_array_equal(pixels, np.asarray(Image.open(where)))
    assert len(re.findall(r"is <b>(?:left|right)</b><br>loss \d\.\d{4}", hardest)) == 6
    go(sound_recipe(tmp_path), tmp_path / "s")
    assert (tmp_path / "s" / "report.html").read_text().count(
        '<img src="data:image/png;base64,'
    ) == 6


MODELS = {
    "both": (
        {"processor.image": {"patch": 4}, "processor.audio": {}},
        "processor.audio has no use for input='image', only for audio or parts; leave it out",
    ),
    "none": (
        {},
        "The recipe has no section processor.image, which says how its input is cut; add it",
    ),
    "pieces": (
        {"processor.image": {"patch": 4}, "augment": {"piece_dropout": 0.1}},
        "augment.piece_dropout has no use for input='image', only for text or words or pairs",
    ),
    "divides": (
        {"processor.image": {"patch": 3}},
        "a patch of 3 x 3 must divide the size 8 x 8; use",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_recipes_that_cannot_be(tmp_path, name):
    sections, sentence = MODELS[name]
    values = picture_recipe(tmp_path).values()
    del values["processor"]["image"]
    with pytest.raises(ConfigError, match=sentence):
        go(Recipe.parse(laid(values, sections)), tmp_path / "x")


def test_one_class_or_several_where_one_is_wanted(tmp_path):
    draw = np.random.default_rng(0)
    write_picture(tmp_path / "a" / "only" / "1.png", half("left", draw))
    data = {"train.path": str(tmp_path / "a"), "validation.fraction": 0.0}
    with pytest.raises(
        DataError,
        match="every training image is of the class 'only'; give images of at least two classes",
    ):
        go(picture_recipe(tmp_path, data=data), tmp_path / "x")
    (tmp_path / "b").mkdir()
    for i in range(3):
        write_picture(tmp_path / "b" / f"{i}.png", half("left", draw))
    path = listed(tmp_path / "b", [("0", "x"), ("1", "y"), ("2", ["x", "y"])])
    data = {"train.path": path, "validation.fraction": 0.0}
    with pytest.raises(DataError, match="has 2 classes, not one; mend it or set"):
        go(picture_recipe(tmp_path, data=data), tmp_path / "y")


def test_mixed_pictures_may_have_several_classes(tmp_path):
    (tmp_path / "p").mkdir()
    data = {"train.path": bright_sides(tmp_path / "p", 12)}
    made = picture_recipe(
        tmp_path, model={"multi_label": True}, data=data, augment={"image": {"mixup": 0.4}}
    )
    result, _ = go(made, tmp_path / "x")
    assert math.isfinite(result.scores["loss"])
    task = prepared(made, tmp_path / "y")
    (batch,) = task.feed.batches(0)
    assert batch.targets is not None
    assert batch.targets.shape == (4, 2)


def test_long_recordings_are_cut_and_it_is_said(tmp_path):
    path = sound_folder(tmp_path, 8, samples=1000)
    data = {"train.path": path, "validation.fraction": 0.0}
    said = "8 recordings longer than a clip: what is beyond it is not heard"
    for _ in range(2):  # decoded, and then kept: of a run that stopped before its first checkpoint
        assert (
            said in prepared(sound_recipe(tmp_path, data=data), tmp_path / "x").objective.opening()
        )
        (tmp_path / "x" / LOCK).touch()


def test_decoded_files_are_known_by_their_split():
    a, b, c = (ImageProcessor.record_at(f"{name}.png", "train") for name in "abc")
    one = request_of({"train": [a, b], "validation": [c]}, {}, False)
    assert one == request_of({"train": [a, b], "validation": [c]}, {}, False)
    assert one != request_of({"train": [a], "validation": [b, c]}, {}, False)
