"""Rows of parts are learned by every form of model; what is fed is a function of the step; what is
wrong is said."""

import json
from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import soundfile
import torch
from torch.testing import assert_close

import glassformer as gf
from every import slow_but
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.records.parts import Mixed
from glassformer.media.image import ImageReader
from glassformer.processors.parts_inputs import common_order
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.catalogue import KINDS
from glassformer.tasks.task import Task
from small_parts import ASKED, SKIES, rows_file, sky
from small_parts import parts_recipe as recipe
from small_runs import go, hashes, laid, nested
from small_senses import AUDIO, RATE, TONES, prepared, tone, write_picture
from small_tasks import LEARNING

FORMS = {
    "decoder": {},
    "encoder_decoder": {"architecture": "encoder_decoder", "n_layers": 1},
    "classes by an encoder": {"architecture": "encoder", "head": "classify", "pool": "mean"},
    "classes by a decoder": {"head": "classify", "pool": "last"},
}


@pytest.mark.parametrize(
    "form",
    slow_but(
        ["decoder", "classes by an encoder", "encoder_decoder", "classes by a decoder"], "decoder"
    ),
)
def test_every_form_learns_to_look(form, tmp_path):
    """The question alone has two answers: only the picture tells which."""
    steps = 150 if form == "encoder_decoder" else 60  # through cross-attention it takes longer
    best = {"evaluate.best": "accuracy" if "classes" in form else "exact_match"}
    made = recipe(
        tmp_path,
        model=FORMS[form],
        train=LEARNING | best | {"steps": steps},
        data={} if "classes" in form else {"group_field": "kind"},
    )
    scores = go(made, tmp_path / "run")[0].scores
    run = gf.load(tmp_path / "run")
    draw = np.random.default_rng(9)
    rows = [[{"image": sky(name, draw)}, question] for name in SKIES for question in ASKED]
    expected = [answers[i] for i in range(2) for answers in ASKED.values()]
    assert scores[best["evaluate.best"]] == 1.0
    if "classes" in form:
        assert run.classes == ("day", "night", "no", "yes")
        assert run.classify(rows) == expected
        assert run.classify(rows[0]) == expected[0]
    else:
        assert {row["group"]: row["exact_match"] for row in scores["table"]} == {
            "what": 1.0,
            "is": 1.0,
        }
        assert run.answer(rows) == expected
        assert run.answer(rows[1]) == expected[1]
        file = write_picture(tmp_path / "other.png", sky("night", draw))
        assert run.generate("what is it?", image=file) == "night"
        assert run.generate(list(ASKED), image=file) == ["night", "no"]


@pytest.mark.parametrize("form", ["decoder", "encoder_decoder", "classes by an encoder"])
def test_scores_of_a_run_are_those_of_its_training(form, tmp_path):
    decoded = {} if "classes" in form else {"evaluate.decode_lines": None}
    made = recipe(tmp_path, model=FORMS[form], train=LEARNING | {"steps": 12} | decoded)
    scores = go(made, tmp_path / "run")[0].scores
    run = gf.load(tmp_path / "run")
    changes = {} if "classes" in form else {"beams": 1}
    again = run.evaluate("validation", **changes)
    for name in ("loss", "accuracy", *(() if "classes" in form else ("exact_match",))):
        assert again[name] == pytest.approx(scores[name], abs=1e-6)
    other = run.evaluate(data=rows_file(tmp_path, 4, "other.jsonl", seed=5), **changes)
    assert other["split"] == "all"
    assert not list(tmp_path.glob("run/arrays*"))


def test_pictures_and_sounds_and_text_stand_in_one_sequence(tmp_path):
    draw, rows = np.random.default_rng(0), []
    for i in range(12):
        write_picture(tmp_path / f"{i}.png", sky(SKIES[i % 2], draw)[..., :1])
        file = tmp_path / f"{i}.{('wav', 'flac')[i % 2]}"
        soundfile.write(file, tone(list(TONES.values())[i // 2 % 2], draw), RATE)
        parts = ["hear", {"audio": file.name}, {"type": "image", "image": f"{i}.png"}]
        rows.append({"input": parts, "target": f"{list(TONES)[i // 2 % 2]} {SKIES[i % 2]}"})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    change = {"data": {"train.path": str(tmp_path / "rows.jsonl")}, "processor.audio": AUDIO}
    made = recipe(
        tmp_path, **change, train=LEARNING | {"steps": 80, "evaluate.best": "exact_match"}
    )
    assert go(made, tmp_path / "run")[0].scores["exact_match"] == 1.0
    run = gf.load(tmp_path / "run")
    assert run.model.config.parts == {"image": 16, "audio": 40}
    sound, picture = tone(TONES["low"], draw), sky("night", draw)[..., :1]
    assert run.answer(["hear", {"audio": (sound, RATE)}, {"image": picture}]) == "low night"
    assert run.processor.order_parts("hear", {"image": "b", "audio": "a"}) == [
        "hear",
        {"audio": "a"},
        {"image": "b"},
    ]


def fed(task, steps):
    return [batch for step in steps for batch in task.feed.batches(step)]


@pytest.mark.parametrize("form", FORMS)
def test_batches_are_functions_of_the_step_and_an_epoch_has_every_row_once(form, tmp_path):
    task = prepared(
        recipe(tmp_path, model=FORMS[form], augment={"image": {"crop": 1, "colour": 0.3}}),
        tmp_path / "run",
    )
    steps = task.feed.order.batches
    batches = fed(task, range(steps))
    pictures = {row.parts[0] for row in task.objective.training.records}
    assert len(pictures) < 30
    assert sum(len(batch.elements) for batch in batches) == (
        len(pictures) if form == "decoder" else 30
    )
    if form == "decoder":
        read = sum(batch.n_elements for batch in batches)
        slots = sum(batch.elements.numel() for batch in batches)
        assert 0.7 < read / slots < 1
    rows = chain.from_iterable(task.feed.order.rows(step) for step in range(steps))
    assert Counter(chain.from_iterable(rows)) == Counter(range(30))
    for step in reversed(range(2 * steps)):
        for one, again in zip(task.feed.batches(step), fed(task, [step]), strict=True):
            assert_close(one.elements, again.elements)
            parts = (one.source or one).parts, (again.source or again).parts
            assert_close(parts[0][0].values, parts[1][0].values)


def test_a_picture_is_decoded_once_and_augmented_at_every_step_anew(tmp_path, monkeypatch):
    seen = Counter()
    real = ImageReader.fit

    def fit(self, pixels, where="the picture"):
        seen[where] += 1
        return real(self, pixels, where)

    monkeypatch.setattr(ImageReader, "fit", fit)
    plain = prepared(recipe(tmp_path), tmp_path / "plain")
    for step in range(4):
        plain.feed.batches(step)
    assert set(seen.values()) == {1}
    assert len(seen) == 20
    changed = prepared(recipe(tmp_path, augment={"image": {"colour": 0.5}}), tmp_path / "changed")
    for step in range(2):
        same, other = plain.feed.batches(step)[0], changed.feed.batches(step)[0]
        assert_close(same.elements, other.elements)
        assert not torch.allclose(same.parts[0].values, other.parts[0].values)
    rows = range(4)
    for one, again in zip(
        changed.objective.training.examples(rows),
        plain.objective.training.examples(rows),
        strict=True,
    ):
        assert_close(one.patches[0].values, again.patches[0].values)  # scores see them as they are
    first, later = (
        changed.objective.training.examples(rows, step)[0].patches[0].values for step in (0, 1)
    )
    assert not np.allclose(first, later)


def test_other_pictures_under_the_same_names_are_decoded_anew(tmp_path):
    task = prepared(recipe(tmp_path), tmp_path / "run")
    assert task.objective.load_stored() is not None
    write_picture(tmp_path / "pictures" / "01.png", np.zeros((8, 8, 1), np.uint8))
    assert task.objective.load_stored() is None


@pytest.mark.parametrize(
    ("form", "changes", "sentence"),
    [
        ("decoder", {"target": None}, "has no target to be written; set data.target"),
        (
            "classes by an encoder",
            {"parts": (("audio", "a.wav"),)},
            r"rows.jsonl, line \d+: a part was given as audio; known are image, text",
        ),
    ],
)
def test_other_rows_that_do_not_fit_are_named(form, changes, sentence, tmp_path):
    task = prepared(recipe(tmp_path, model=FORMS[form]), tmp_path / "run")
    records = {"validation": [replace(task.objective.training.records[0], **changes)]}

    def opened() -> list:
        task.objective.check(records)
        inputs = task.processor.open(records, tmp_path / "other", ["validation"])
        return task.objective.targets_of(inputs["validation"], [0])

    with pytest.raises(DataError, match=sentence):
        opened()


def test_only_an_encoder_decoder_searches(tmp_path):
    for form in ("encoder_decoder", "decoder"):
        made = recipe(tmp_path, model=FORMS[form])
        task = Task(KINDS[made.task], made, None, tmp_path)
        if form == "decoder":
            with pytest.raises(ConfigError, match="this model is none; leave it out"):
                task.objective.check_search()
        else:
            task.objective.check_search()


def test_loss_is_on_the_answers_alone(tmp_path):
    task = prepared(recipe(tmp_path), tmp_path / "run")
    (batch,) = task.feed.batches(0)
    answers = {
        word: task.processor.parts.answer(word).tolist()
        for answers in ASKED.values()
        for word in answers
    }
    targets = batch.targets.tolist()
    rows = [i for bundle in task.feed.order.rows(0) for i in bundle]
    assert [targets[i : i + 2] for i in range(0, len(targets), 2)] == [
        answers[task.objective.training.records[i].target] for i in rows
    ]
    assert len(batch.at) == len(targets) == 2 * len(rows)


def test_the_model_follows_from_the_data_unless_it_is_given(tmp_path):
    values = recipe(tmp_path).values()
    for section in ("parts", "part_patches", "max_length", "vocab_size"):
        values["model"].pop(section)
    task = prepared(Recipe.parse(values), tmp_path / "run")
    config = task.recipe.model
    assert (config.parts, config.part_patches, config.max_length) == (
        {"image": 48},
        {"image": 4},
        16,
    )
    values["model"] |= {"preset": "gpt2"}  # whose 1,024 elements are those of published weights
    task = prepared(Recipe.parse(values), tmp_path / "preset")
    assert (task.recipe.model.max_length, task.recipe.model.init) == (16, "gpt2")
    values["model"]["max_length"] = 20
    assert prepared(Recipe.parse(values), tmp_path / "given").recipe.model.max_length == 20
    short = recipe(tmp_path, model={"max_length": 8})
    with pytest.raises(
        DataError,
        match=r"rows.jsonl, line \d+ has 1\d elements and the model 8; raise model.max_length",
    ):
        prepared(short, tmp_path / "short")
    with pytest.raises(
        ConfigError, match=r"A patch of the part 'image' has 48 numbers and model.parts says 7"
    ):
        go(recipe(tmp_path, model={"parts": {"image": 7}}), tmp_path / "wrong")


def test_the_order_of_parts_is_kept_with_the_model(tmp_path):
    go(recipe(tmp_path), tmp_path / "run")
    run = gf.load(tmp_path / "run")
    assert run.model.config.modality_order == ("image", "text")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    rows[3]["input"].reverse()
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(
        DataError,
        match=r"other.jsonl, line 4 has text before image, and the rows of the model have image before text; put",
    ):
        run.evaluate(data=str(tmp_path / "other.jsonl"))
    made = recipe(
        tmp_path, data={"train.path": str(tmp_path / "other.jsonl"), "validation.fraction": 0.0}
    )
    assert prepared(made, tmp_path / "both").recipe.model.modality_order == (), "it learns both"


@pytest.mark.parametrize(
    ("rows", "order"),
    [
        (["ti", "t"], "ti"),
        (["tit", "it"], ""),
        (["ti", "ia"], "tia"),
        (["ti", "ia", "at"], ""),
        (["t"], "t"),
        (["a", "i"], "ia"),
        (["itit", "ia"], "iat"),
    ],
)
def test_an_order_is_one_that_every_row_keeps(rows, order):
    kind = {"t": "text", "i": "image", "a": "audio"}
    made = [Mixed("", "train", tuple((kind[one], "x") for one in row), None, ()) for row in rows]
    assert common_order(made) == tuple(kind[one] for one in order)


def test_a_part_that_no_row_has_is_refused(tmp_path):
    with pytest.raises(
        ConfigError,
        match="The model reads parts of type 'audio' and no row has one; give rows that",
    ):
        prepared(recipe(tmp_path, model={"parts": {"audio": 7}}), tmp_path / "run")


def test_a_picture_that_cannot_be_read_stops_or_is_left_out_and_counted(tmp_path):
    path = rows_file(tmp_path)
    (tmp_path / "pictures" / "03.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"03.png is not an image"):
        prepared(
            recipe(tmp_path, data={"train.path": path, "validation.fraction": 0.0}),
            tmp_path / "stop",
        )
    made = recipe(
        tmp_path, data={"train.path": path, "validation.fraction": 0.0, "bad_files": "skip"}
    )
    task = prepared(made, tmp_path / "skip")
    assert len(task.objective.training.records) == 38
    assert any(
        "left out: 1 file of train that" in sentence for sentence in task.objective.opening()
    )
    steps = range(task.feed.order.batches)
    assert sum(batch.n_targets for batch in fed(task, steps)) == 2 * 38  # a word and its end


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"processor.image": None, "processor.audio": AUDIO},
            "has the part image, and the recipe no section processor.image; add",
        ),
        ({"augment.image": {"mixup": 0.2}}, r"augment\.image\.mixup and cutmix mix two images"),
        (
            {"processor.tokenizer": {"shared": False}},
            "processor.tokenizer.shared has no use for input='parts', only",
        ),
        ({"train": {"evaluate.best": "bleu"}}, "train.evaluate.best='bleu' is no score"),
        (
            {
                "task": "image-text-classification",
                "model": {"head": "classify", "pool": "first"},
            },
            "model.pool='first' of a decoder",
        ),
        ({"model": {"head": "classify"}}, "model.head='classify' is not for task='image-text-to"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, sentence, tmp_path):
    values = recipe(tmp_path).values()
    with pytest.raises(ConfigError, match=sentence):
        prepared(Recipe.parse(laid(values, changes)), tmp_path / "run")


def test_rows_without_what_is_to_be_said_are_named(tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        '{"input": ["a"], "label": "x"}\n{"input": ["b"], "label": "x"}\n'
    )
    data = {"train.path": str(tmp_path / "rows.jsonl"), "validation.fraction": 0.0}
    with pytest.raises(DataError, match=r"line 1 has no target to be written; set data.target"):
        prepared(recipe(tmp_path, data=data), tmp_path / "run")
    with pytest.raises(
        DataError, match="every training row is of the class 'x'; give rows of at least two"
    ):
        prepared(recipe(tmp_path, data=data, model={"head": "classify"}), tmp_path / "other")


def test_a_run_that_is_resumed_ends_in_the_same_bits(tmp_path):
    train = {"steps": 8, "evaluate.every": 4, "save.every": 4, "schedule.kind": "constant"}
    whole = recipe(tmp_path, augment={"image": {"crop": 1}}, train=train)
    go(whole, tmp_path / "whole")
    go(
        recipe(tmp_path, augment={"image": {"crop": 1}}, train=train | {"steps": 4}),
        tmp_path / "halves",
    )
    go(whole, tmp_path / "halves", resume=True)
    assert hashes(tmp_path / "whole") == hashes(tmp_path / "halves")


def test_templates_are_placed_so_that_a_run_can_be_used_from_any_folder(tmp_path, monkeypatch):
    rows_file(tmp_path)
    (tmp_path / "table.csv").write_text(
        "q,a,n\n" + "".join(f"what is it?,{SKIES[i % 2]},{i:02}\n" for i in range(12))
    )
    data = {
        "train.path": "table.csv",
        "root": str(tmp_path),
        "train.parts": [{"text": "{q}"}, {"image": "pictures/{n}.png"}],
        "target": "{a}",
    }
    values = recipe(tmp_path, train={"steps": 2}).values()
    go(Recipe.parse(nested(values | {"data": data})), tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = gf.load(tmp_path / "run")
    assert run.evaluate("validation")["exact_match"] >= 0
    assert run.model.config.modality_order == ("text", "image")
    assert run.processor.order_parts("q", {"image": "i"}) == ["q", {"image": "i"}]
    with pytest.raises(DataError, match="a part was given as audio; known are image, text"):
        run.answer([{"audio": "a.wav"}])
    with pytest.raises(
        ConfigError, match="so scoring text is not for it; use `glassformer generate`"
    ):
        run.score("a text")
    for parts in (
        [{"image": "i.png"}, "q"],
        [[{"text": "q"}], [{"image": "i.png"}, {"text": "q"}]],
    ):
        with pytest.raises(
            DataError,
            match=r"^What was given has image before text, and the rows of the model have",
        ):
            run.answer(parts)
    for parts in ([{}], [{"text": "q", "image": "i.png"}], ["q", {}]):
        with pytest.raises(DataError, match="a part is a text, or one"):
            run.answer(parts)
