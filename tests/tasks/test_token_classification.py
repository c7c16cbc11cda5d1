"""Tagging is learned where both sides are seen; every word of a long document bears loss once; bad
tags are named."""

import json
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.models import Transformer
from glassformer.tasks.task import Task
from glassformer.training.folder.history import read_metrics
from small_parts import SKIES, sky
from small_runs import go, overlaid
from small_senses import prepared, write_picture
from small_tasks import LEARNING, next_tags, slash, tag_file, tag_recipe, words


def task_of(tmp_path: Path, **changes) -> Task:
    task = prepared(tag_recipe(tmp_path, **changes), tmp_path / "task")
    return task


def toy(tmp_path, architecture: str, **train) -> tuple[float, Path]:
    made = tag_recipe(
        tmp_path,
        model={"architecture": architecture, "d_model": 32},
        data={"train.path": tag_file(tmp_path, 600), "validation.fraction": 0.2},
        train=LEARNING | train,
    )
    result, _ = go(made, tmp_path / architecture)
    return result.scores["accuracy"], tmp_path / architecture


def test_a_tag_that_depends_on_the_next_word_is_learned_by_an_encoder(tmp_path):
    accuracy, run = toy(tmp_path, "encoder")
    assert accuracy > 0.98
    sentence = words(random.Random(77), 9, 9)
    assert gf.load(run).tag(sentence) == list(zip(sentence, next_tags(sentence), strict=True))


def test_a_decoder_cannot_know_the_next_word(tmp_path):
    """It does no better than who knows how many words stood before: lengths are drawn from 2 to
    9."""
    accuracy, run = toy(tmp_path, "decoder")
    right = reached = 0.0
    for place in range(1, 10):
        longer = min(1.0, (10 - place) / 8)
        ends = 0.0 if place == 1 else 1 / (10 - place)
        right, reached = right + longer * max(ends, (1 - ends) / 2), reached + longer
    best, n = right / reached, gf.load(run).evaluate()["tokens"]
    assert abs(accuracy - best) < 4 * math.sqrt(best * (1 - best) / n)
    assert best < 0.5


def test_a_decoder_learns_what_stands_before(tmp_path):
    """So it is the side that it sees, not the trunk, that it lacks."""
    draw = random.Random(0)
    sentences = [words(draw) for _ in range(300)]
    tags = [
        ["START" if i == 0 else "LOW" if s[i - 1] in "abcd" else "HIGH" for i in range(len(s))]
        for s in sentences
    ]
    (tmp_path / "before.txt").write_text("".join(map(slash, sentences, tags)))
    data = {"train.path": str(tmp_path / "before.txt"), "validation.fraction": 0.2}
    made = tag_recipe(
        tmp_path,
        model={"architecture": "decoder", "d_model": 32},
        data=data,
        train=LEARNING | {"steps": 40},
    )
    assert go(made, tmp_path / "x")[0].scores["accuracy"] > 0.9


def fed(batch: Batch, task: Task) -> list[tuple[str, str]]:
    """The piece at which each target stands, and the target's name."""
    assert batch.at is not None
    assert batch.targets is not None
    ids = batch.elements.flatten()[batch.at].tolist()
    return [
        (task.processor.tokenizer.piece(i), task.objective.classes.names[t])
        for i, t in zip(ids, batch.targets.tolist(), strict=True)
    ]


def test_targets_stand_at_the_last_piece_of_their_words(tmp_path):
    sentences = [(["hello", "ab", "c"], ["H", "A", "C"]), (["ab", "hello"], ["A", "H"])] * 5
    (tmp_path / "w.txt").write_text("".join(slash(*one) for one in sentences))
    task = task_of(
        tmp_path,
        data={"train.path": str(tmp_path / "w.txt"), "validation.fraction": 0.0},
        processor={"tokenizer": {"kind": "byte"}},
    )
    assert task.objective.classes.names == ("A", "C", "H")
    found = Counter(
        pair for step in range(4) for batch in task.feed.batches(step) for pair in fed(batch, task)
    )
    assert set(found) == {("o", "H"), ("b", "A"), ("c", "C")}


@pytest.mark.parametrize("overlap", [None, 0, 3])
@pytest.mark.parametrize("length", [None, 10])
def test_every_word_of_a_long_document_bears_loss_once_an_epoch(tmp_path, overlap, length):
    n = 103
    document = [f"w{i}" for i in range(n)]
    (tmp_path / "long.txt").write_text(
        slash(document, [f"t{i}" for i in range(n)]) + slash(["x"], ["t0"])
    )
    task = task_of(
        tmp_path,
        data={
            "train.path": str(tmp_path / "long.txt"),
            "validation.fraction": 0.0,
            "overlap": overlap,
        },
        train={"length": length, "batch_size": 2},
    )
    batches = [
        batch for step in range(task.feed.order.batches) for batch in task.feed.batches(step)
    ]
    assert sum(batch.n_targets for batch in batches) == n + 1
    pairs = Counter(pair for batch in batches for pair in fed(batch, task))
    assert pairs == Counter([*((f"w{i}", f"t{i}") for i in range(n)), ("x", "t0")])
    for batch in batches:
        longest = torch.bincount(batch.where().document[batch.where().document >= 0]).max()
        assert longest <= (length or 16)
    assert "1 sentence longer than the model" in " ".join(task.objective.opening())


def test_evaluation_counts_every_word_of_a_long_document_once(tmp_path):
    draw = random.Random(3)
    long = words(draw, 203, 203)
    (tmp_path / "v.txt").write_text(slash(long, next_tags(long)))
    task = task_of(
        tmp_path,
        data={"train.path": tag_file(tmp_path), "validation.path": str(tmp_path / "v.txt")},
    )
    model = Transformer(task.recipe.model).eval()
    scores = task.objective.evaluate(model, "validation")
    assert scores["tokens"] == 203
    assert np.sum(scores["confusion"]["counts"]) == 203


def test_scores_are_those_of_each_sentence_alone(tmp_path):
    """Loss and accuracy by the definition, one sentence after the other through the model."""
    task = task_of(tmp_path)
    model = Transformer(task.recipe.model, seed=2).eval()
    nats = right = n = 0.0
    for sentence in task.objective.split("validation").records:
        ids = [
            task.processor.tokenizer.specials["bos"],
            *task.processor.tokenizer.encode(" ".join(sentence.words)).tolist(),
        ]
        ids.append(task.processor.tokenizer.specials["eos"])
        with torch.no_grad():
            table = model(Batch(torch.tensor([ids]))).logits[0, 1:-1].log_softmax(-1)
        gold = torch.from_numpy(task.objective.classes.numbers(sentence.tags))
        nats -= float(table.gather(1, gold[:, None]).sum())
        right, n = right + int((table.argmax(1) == gold).sum()), n + len(gold)
    scores = task.objective.evaluate(model, "validation")
    assert scores["tokens"] == n > 20
    assert scores["loss"] == pytest.approx(nats / n, rel=1e-5)
    assert scores["accuracy"] == right / n
    assert scores["worst"][0]["loss"] >= scores["loss"]
    json.dumps(scores, allow_nan=False)


def test_a_tag_that_training_never_saw_is_named_counted_and_wrong(tmp_path):
    (tmp_path / "v.txt").write_text("a/END\na/NEW b/END\nc/NEW d/OTHER\n")
    task = task_of(
        tmp_path,
        data={"train.path": tag_file(tmp_path), "validation.path": str(tmp_path / "v.txt")},
    )
    model = Transformer(task.recipe.model, seed=1).eval()
    scores = task.objective.evaluate(model, "validation")
    assert scores["unseen_classes"] == {"NEW": 2, "OTHER": 1}
    assert (scores["tokens"], scores["unseen"]) == (5, 3)
    assert scores["accuracy"] <= 2 / 5
    nats = 0.0
    for sentence in task.objective.split("validation").records[
        :2
    ]:  # the ones that end with a tag that is known
        specials = task.processor.tokenizer.specials
        ids = [
            specials["bos"],
            *task.processor.tokenizer.encode(" ".join(sentence.words)).tolist(),
            specials["eos"],
        ]
        with torch.no_grad():
            nats -= float(model(Batch(torch.tensor([ids]))).logits[0, -2].log_softmax(-1)[0])
    assert scores["loss"] == pytest.approx(nats / 2, rel=1e-5), "a loss is of what can be known"
    assert "unseen_classes" not in task.objective.evaluate(model, "train")
    assert all("NEW" not in row.values() for row in scores["table"])
    result, _ = go(task.recipe, tmp_path / "x")
    assert result.scores["unseen_classes"] == {"NEW": 2, "OTHER": 1}


def test_nothing_but_unseen_tags_is_scored(tmp_path):
    (tmp_path / "v.txt").write_text("a/NEW b/NEW\n")
    task = task_of(
        tmp_path,
        data={"train.path": tag_file(tmp_path), "test.path": str(tmp_path / "v.txt")},
    )
    scores = task.objective.evaluate(Transformer(task.recipe.model).eval(), "test")
    assert (scores["accuracy"], scores["unseen"], scores["unseen_classes"]) == (0.0, 2, {"NEW": 2})


SPANS = "Ann/B-PER Lee/I-PER saw/O Rome/B-LOC\nRome/B-LOC is/O old/O\n" * 8


def test_span_tags_are_scored_by_spans_and_their_scheme_is_named(tmp_path):
    (tmp_path / "s.txt").write_text(SPANS)
    made = tag_recipe(
        tmp_path,
        data={"train.path": str(tmp_path / "s.txt")},
        train={"evaluate.best": "f1", "steps": 4},
    )
    result, said = go(made, tmp_path / "x")
    assert "tags mark spans" in said
    assert {"f1", "precision", "recall", "accuracy", "macro_f1", "loss"} <= result.scores.keys()
    assert {row["class"] for row in result.scores["table"]} <= {"PER", "LOC"}
    assert result.best == max(
        line["validation_f1"] for line in read_metrics(tmp_path / "x") if "validation_f1" in line
    )


def test_middles_of_another_letter_are_no_gaps(tmp_path):
    (tmp_path / "s.txt").write_text("a/B-X b/M-X c/M-X d/E-X e/S-X f/O\n" * 8)
    made = tag_recipe(tmp_path, data={"train.path": str(tmp_path / "s.txt")}, train={"steps": 1})
    result, said = go(made, tmp_path / "x")
    assert "tags mark spans" in said
    assert [row["class"] for row in result.scores["table"]] == ["X"]
    assert result.scores["spans"] % 2 == 0


@pytest.mark.parametrize(
    ("text", "changes", "kind", "sentence"),
    [
        ("a/X "
        "b/Y\n", {"train": {"evaluate.best": "f1"}}, ConfigError, r"train\.evaluate\.best='f1' is of tags that mark spans"),
        ("a/X "
        "b/Y\n", {"train": {"evaluate.best": "bleu"}}, ConfigError, r"'bleu' is no score of .*use loss or acc"),
        ("a/X "
        "b/Y\n", {"train": {"class_weights": {"Z": 2}}}, ConfigError, "class_weights has 'Z', "
        "which is no class"),
        ("a/X "
        "b/Y\n", {"model": {"classes": ["X", "Z"]}}, DataError, r"t\.txt, line 1 has the class 'Y', which model"),
        ("a/X "
        "b/Y\n", {"model": {"n_classes": 3}}, ConfigError, "n_classes=3 and the training data "
        "have 2 classes"),
        ("a/X "
        "b/X\n", {}, DataError, r"every training word has the tag 'X'; give two or more \(see data\.tag_field\)"),
        ("a/B-X b/I-X c/HB-X "
        "d/O\n", {}, DataError, "the tags HB-X stand among tags that mark spans, but no known scheme"),
        ("a/X "
        "b/Y\n", {"data": {"overlap": 14}}, ConfigError, r"data\.overlap=14 leaves no room in a model of 16"),
        ("a/X "
        "b/Y\n", {"model": {"architecture": "encoder_decoder"}}, ConfigError, "architecture='encoder_decoder' is "
        "not for task='token-classification'; use encoder or decoder"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_said_in_a_sentence_before_the_run_begins(
    tmp_path, text, changes, kind, sentence
):
    (tmp_path / "t.txt").write_text(text * 20)
    data = {"train.path": str(tmp_path / "t.txt")} | changes.get("data", {})
    with pytest.raises(kind, match=sentence):
        go(tag_recipe(tmp_path, **changes | {"data": data}), tmp_path / "x")
    assert [p.name for p in (tmp_path / "x").glob("*")] in ([], ["run.lock"])


def test_one_sentence_is_trained_on_and_nothing_is_held_out_of_it(tmp_path):
    (tmp_path / "one.txt").write_text("a/X b/Y\n")
    result, _ = go(
        tag_recipe(tmp_path, data={"train.path": str(tmp_path / "one.txt")}), tmp_path / "x"
    )
    assert (result.steps, result.scores) == (8, {})
    with pytest.raises(DataError, match="no validation examples"):
        gf.load(tmp_path / "x").evaluate()
    held = tag_recipe(
        tmp_path, data={"train.path": str(tmp_path / "one.txt"), "validation.fraction": 0.9}
    )
    with pytest.raises(DataError, match="no training examples"):
        go(held, tmp_path / "y")


def test_a_rare_tag_counts_more_if_weights_are_balanced(tmp_path):
    (tmp_path / "r.txt").write_text("a/X a/X a/X a/X a/X a/X a/X a/X a/X b/Y\n" * 10)
    data = {"train.path": str(tmp_path / "r.txt"), "validation.fraction": 0.0}
    task = task_of(tmp_path, data=data, train={"class_weights": "balanced"})
    logits, targets = torch.randn(6, 2), torch.tensor([0, 1, 0, 0, 1, 0])
    each = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    loss = task.objective.loss(logits, targets)
    weight = torch.tensor([100 / (2 * 90), 100 / (2 * 10)])
    torch.testing.assert_close(loss.total, (each * weight[targets]).sum())
    assert loss.count == 6


def test_the_sample_shows_what_is_wrong(tmp_path):
    task = task_of(tmp_path, train={"sample.tokens": 5})
    model = Transformer(task.recipe.model, seed=1)
    sample = task.objective.sample(model)
    assert sample is not None
    first = task.objective.split("validation").records[0]
    tags = [row.split("/", 1)[1] for row in sample.text.splitlines()[0].split(" ") if "/" in row]
    wrong = sum("[not" in tag for tag in tags)
    assert len(tags) == len(first.words)
    assert wrong == sample.text.splitlines()[0].count("[not ")
    assert task.objective.sample(model) == sample
    assert model.training


def test_the_card_names_the_task(tmp_path):
    go(tag_recipe(tmp_path), tmp_path / "x")
    card = (tmp_path / "x" / "README.md").read_text()
    assert "pipeline_tag: token-classification" in card
    assert "4 sentences a step" in card
    assert "confusion" not in card
    assert "| accuracy |" in card


PLACES = ("wood", "lake", "town")


def sky_rows(folder: Path, n: int = 60) -> list[dict]:
    """A picture and words about it: the tag of `sky` is known from the picture alone, and the tag of
    a place from its word."""
    draw, places, rows = np.random.default_rng(0), random.Random(0), []
    for i in range(n):
        name = SKIES[i % 2]
        path = Path(write_picture(folder / "pictures" / f"{i:02}.png", sky(name, draw)))
        words = ["the", "sky", *places.sample(PLACES, places.randint(0, 2))]
        tags = ["O", name.upper(), *("PLACE" for _ in words[2:])]
        parts = [{"image": f"pictures/{path.name}"}, {"text": " ".join(words)}]
        rows.append({"input": parts, "tags": tags})
    return rows


def parts_task(folder: Path, rows: list[dict], **changes):
    """The recipe of a tagger of rows of parts."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    own = {
        "model": {"d_model": 32, "max_length": 16, "position": "learned"},
        "data": {
            "train.path": str(folder / "rows.jsonl"),
            "format": "auto",
            "validation.fraction": 0.2,
        },
        "processor.image": {"patch": 4},
    }
    return tag_recipe(folder, processor={"input": "parts"}, **overlaid(own, changes))


@pytest.mark.slow  # quick: words alone, and test_multimodal.py
def test_words_beside_a_picture_are_tagged_by_what_it_shows(tmp_path, cli):
    result, said = go(parts_task(tmp_path, sky_rows(tmp_path), train=LEARNING), tmp_path / "x")
    assert "4 tags: DAY, NIGHT, O, PLACE" in said
    assert result.scores["accuracy"] == 1
    run = gf.load(tmp_path / "x")
    assert run.evaluate()["accuracy"] == 1
    draw = np.random.default_rng(5)
    rows = [[{"image": sky(name, draw)}, {"text": "the sky lake"}] for name in SKIES]
    expected = [[("the", "O"), ("sky", name.upper()), ("lake", "PLACE")] for name in SKIES]
    assert run.tag(rows) == expected
    assert run.tag(rows[0]) == expected[0]
    assert [word for word, _ in run.tag("no picture")] == ["no", "picture"]
    assert run.tag([rows[0][0]]) == [], "a picture alone has no words"
    line = json.dumps([{"image": str(tmp_path / "pictures" / "00.png")}, "the sky"])
    said = cli("tag", tmp_path / "x", stdin=f"{line}\n\n".encode())
    assert (said.code, said.out) == (0, "the/O sky/DAY\n\n")
    refused = cli("tag", tmp_path / "x", "--punctuation", stdin=f"{line}\n".encode())
    assert (refused.code, refused.out) == (2, "")
    assert "--punctuation cuts lines of words" in refused.err
    assert "Line 1 is not JSON" in cli("tag", tmp_path / "x", stdin=b"the sky\n").err


def test_a_text_has_a_vector_in_a_model_of_parts(tmp_path):
    """The mean over the elements that the tagger reads, alone and among others."""
    task = prepared(parts_task(tmp_path, sky_rows(tmp_path, 20)), tmp_path / "x")
    model = Transformer(task.recipe.model, seed=1).eval()
    run = gf.Run(tmp_path / "x", model, task)
    vectors = run.embed(["the sky", "lake"], normalize=False)
    example = task.processor.windows([{"text": "the sky"}])[0].example
    with torch.no_grad():
        logits = model(Batch(torch.from_numpy(example.ids)[None].long())).logits[0]
        found = model.head.proj(torch.from_numpy(vectors[0]))
    torch.testing.assert_close(found, logits.mean(0))  # the head is linear
    np.testing.assert_allclose(run.embed("lake", normalize=False), vectors[1], rtol=1e-5, atol=1e-6)


def test_targets_of_parts_stand_at_the_last_piece_of_their_words(tmp_path):
    rows = [
        {"input": [row["input"][1], row["input"][0]], "tags": row["tags"]}
        for row in sky_rows(tmp_path, 8)
    ]
    rows += [
        {"input": [*row["input"], {"text": "hello"}], "tags": [*row["tags"], "H"]} for row in rows
    ]  # words on both sides of a picture
    data = {"validation.fraction": 0.0}
    made = parts_task(
        tmp_path,
        rows,
        model={"max_length": 64},
        data=data,
        processor={"tokenizer": {"kind": "byte"}},
    )
    task = prepared(made, tmp_path / "task")
    batches = [
        batch for step in range(int(task.feed.order.batches)) for batch in task.feed.batches(step)
    ]
    pairs = Counter(pair for batch in batches for pair in fed(batch, task))
    ends = [part["text"].split() for row in rows for part in row["input"] if "text" in part]
    tags = [tag for row in rows for tag in row["tags"]]
    words = [word for of in ends for word in of]
    assert pairs == Counter(zip((word[-1] for word in words), tags, strict=True))


def row_of(text: str, **fields) -> dict:
    return {"input": [{"text": text}], **fields}


TAGGED = row_of("a b", tags=["X", "Y"])


@pytest.mark.parametrize(
    ("row", "data", "sentence"),
    [
        (row_of("a b", tags=["X"]), {}, r"line 2 has 2 words and 1 tag; give one for each \(see data\.tag_"),
        (row_of("a b", tags="X Y X"), {}, "line 2 has 2 words and 3 tags; give one for each"),
        (row_of("a b", target="c"), {}, "line 2 has 2 words and 0 tags; give one for each"),
        (row_of(" ", tags=["X"]), {}, "line 2 has no word to tag; give it a text, or remove"),
        (row_of("a b", tags=[["X"], "Y"]), {}, r"line 2 .*'tags'.* give a string, a number"),
        (row_of("a b"), {}, "line 2 has neither a target nor a class"),
        (TAGGED, {"tag_field": "pos"}, r"line 1 .*no field 'pos'.*set data\.tag_field"),
    ],
)  # fmt: skip
def test_tags_of_parts_that_cannot_be_are_said(tmp_path, row, data, sentence):
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(TAGGED)}\n{json.dumps(row)}\n")
    made = {"data": {"train.path": str(tmp_path / "rows.jsonl"), "format": "auto", **data}}
    with pytest.raises(DataError, match=sentence):
        go(tag_recipe(tmp_path, processor={"input": "parts"}, **made), tmp_path / "x")


def test_tags_of_parts_are_a_list_or_a_text_with_the_delimiter_of_classes(tmp_path):
    rows = [row_of("a b", pos="X:1 Y"), row_of("c", pos=["Y:2"]), row_of("d", pos=3)]
    data = {"tag_field": "pos", "label_delimiter": ":", "validation.fraction": 0.0}
    task = prepared(parts_task(tmp_path, rows, data=data), tmp_path / "task")
    assert sorted(record.tags for record in task.objective.split("train").records) == [
        ("3",),
        ("X", "Y"),
        ("Y",),
    ]
