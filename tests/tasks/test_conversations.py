"""Conversations: what is predicted, packed and cut; answers are learned, questions are not."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer.core.errors import ConfigError, DataError
from glassformer.models.transformer import evaluating
from glassformer.recipe.init_from import with_init_from
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.options import ChatOptions
from glassformer.training.loop.prepare import temporary_task
from small_chat import OPPOSITES, RECIPE, WORDS, rows, written

TALK = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "hot old"},
    {"role": "assistant", "content": "cold"},
    {"role": "user", "content": "up wet"},
    {"role": "assistant", "content": "down dry"},
]


def recipe(path, **changes) -> Recipe:
    values = json.loads(json.dumps(RECIPE))
    for name, value in {"data.train.path": str(path), **changes}.items():
        section = values
        *way, last = name.split(".")
        for key in way:
            section = section.setdefault(key, {})
        section[last] = value
    return Recipe.parse(values)


def test_answers_are_learned_and_questions_are_not(talker, tmp_path):
    run, new = gf.load(talker), rows(60, seed=9)
    path = str(written(tmp_path / "new.jsonl", new))
    asked = [row["messages"][:1] for row in new]
    right = [OPPOSITES[one[0]["content"].split()[0]] for one in asked]
    assert run.chat(asked) == right
    answers = run.evaluate(data=path)
    assert answers["loss"] < 0.1
    assert answers["tokens"] == sum(
        2 for row in new for one in row["messages"] if one["role"] == "assistant"
    )
    letters = sum(
        len(one["content"]) for row in new for one in row["messages"] if one["role"] == "assistant"
    )
    nats = answers["loss"] * answers["tokens"]
    assert answers["bits_per_byte"] == pytest.approx(nats / math.log(2) / letters, rel=0.1)
    run.processor.facts = replace(run.processor.facts, speakers=False)
    every = run.evaluate(data=path)
    rest = every["tokens"] - answers["tokens"]
    prompts = (every["loss"] * every["tokens"] - nats) / rest
    # one who knows nothing but the vocabulary has log 30: the model never learned to ask
    assert prompts > math.log(run.processor.vocab_size)


def test_targets_are_the_answers_and_their_ends_in_packed_rows(tmp_path):
    """Each conversation gives the logits that it gives alone."""
    talks = [{"messages": TALK}, *rows(12)]
    made = recipe(
        written(tmp_path / "d.jsonl", talks),
        **{"data.validation.fraction": 0, "train.batch_size": 8},
    )
    with temporary_task(made) as task:
        tokenizer, model = task.processor.tokenizer, gf.models.Transformer(task.recipe.model, 0)
        expected = sorted(
            [*tokenizer.encode(one["content"]).tolist(), tokenizer.specials["eos"]]
            for row in talks
            for one in row["messages"]
            if one["role"] == "assistant"
        )
        found = []
        for step in range(math.ceil(task.feed.order.batches)):
            [batch] = task.feed.batches(step)
            at, targets = batch.at.tolist(), batch.targets.tolist()
            width = batch.elements.shape[1]
            assert batch.elements.flatten()[batch.at].tolist() != targets
            for place, target in zip(at, targets, strict=True):
                following = place + 1
                if following % width and target != tokenizer.specials["eos"]:
                    assert batch.elements.flatten()[following] == target
            ends = [0, *(i + 1 for i, t in enumerate(targets) if t == tokenizer.specials["eos"])]
            found += [targets[a:b] for a, b in pairwise(ends)]
            with evaluating(model):
                logits = model(batch).logits
            place = 0
            for number in (i for row in task.feed.order.rows(step) for i in row):
                [example] = task.objective.training.examples([number])
                with evaluating(model):
                    alone = model(task.processor.collate([[example]])).logits
                n = len(example.at)
                torch.testing.assert_close(logits[place : place + n], alone, atol=1e-5, rtol=1e-4)
                place += n
        assert sorted(found) == expected


def test_all_tokens_are_targets_if_asked_for(tmp_path):
    path = written(tmp_path / "d.jsonl", [{"messages": TALK}] * 4)
    changes = {"data.loss_on": "all", "data.validation.fraction": 0}
    with temporary_task(recipe(path, **changes)) as task:
        [example] = task.objective.training.examples([0])
        whole = task.processor.template.encode(TALK).ids
        assert example.ids.tolist() == whole[:-1].tolist()
        assert example.targets.tolist() == whole[1:].tolist()
        assert task.objective.explain_scores()[0].endswith("every token of a conversation.")


def test_what_does_not_fit_is_left_out_and_counted(tmp_path):
    long = {"role": "user", "content": "hot " * 40}
    talks = [{"messages": TALK}] * 3 + [{"messages": [long, TALK[2]]}] * 2
    path = written(tmp_path / "d.jsonl", talks)
    changes = {"model.max_length": 17, "data.validation.fraction": 0}
    with temporary_task(recipe(path, **changes)) as task:
        said = task.objective.opening()
        assert len(task.objective.training.owner) == 3
        [example] = task.objective.training.examples([0])
        assert len(example.ids) == 17
        assert task.processor.tokenizer.decode(example.targets) == "cold down dry"
    assert "left out: the end of 3 train conversations of more than 17 tokens" in said[-2]
    assert (
        "left out: 2 train conversations of more than 17 tokens (no answer within them)" in said[-1]
    )
    assert "raise model.max_length" in said[-1]
    with (
        pytest.raises(
            DataError, match="no answer of the train conversations is within the 4 tokens"
        ),
        temporary_task(recipe(path, **{**changes, "model.max_length": 4})),
    ):
        pass


def test_a_split_without_an_answer_that_fits_has_no_scores(tmp_path):
    long = {"role": "user", "content": "hot " * 40}
    path = written(tmp_path / "d.jsonl", [{"messages": TALK}] * 3)
    other = written(tmp_path / "t.jsonl", [{"messages": [long, TALK[2]]}])
    changes = {"model.max_length": 17, "data.validation.fraction": 0, "data.test.path": str(other)}
    with (
        temporary_task(recipe(path, **changes)) as task,
        pytest.raises(DataError, match="no test conversation is left of 1 row: none can be read"),
    ):
        task.objective.split("test")


def test_a_run_on_text_learns_to_answer_with_new_symbols(trained, tmp_path):
    """Their embeddings begin at the mean; the resolved recipe names them, and a resumed run keeps
    them."""
    path = written(tmp_path / "d.jsonl", rows(30))
    made = recipe(path, **{"train.init_from": str(trained), "train.finetune.keep_head": True})
    made = replace(made, processor=made.processor.parse({"input": "messages"}))
    resolved = with_init_from(made)
    assert resolved.processor.tokenizer.new_tokens == ["<|system|>", "<|user|>", "<|assistant|>"]
    assert with_init_from(made, resolved).processor == resolved.processor
    values = {**resolved.values(), "train": {**resolved.values()["train"], "steps": 2}}
    values["train"] |= {"evaluate": {"every": 2}, "save": {"every": 2}, "sample": {"tokens": 2}}
    values["data"]["train"]["path"] = str(path)
    run = gf.train(values, run=tmp_path / "run")
    assert run.processor.tokenizer.specials["<|user|>"] < run.model.config.vocab_size
    again = gf.train(
        {
            **RECIPE,
            "train": {**RECIPE["train"], "steps": 1, "init_from": str(tmp_path / "run")},
            "processor": {"input": "messages"},
        },
        {"data.train.path": path, "train.sample.tokens": 0, "train.finetune.keep_head": True},
        run=tmp_path / "again",
    )
    assert again.recipe.processor.tokenizer.new_tokens == []


def test_a_run_without_a_template_says_how_to_get_one(trained):
    with pytest.raises(
        ConfigError, match=r"no chat template.*glassformer train chat data.train.path"
    ):
        gf.load(trained).chat("hi")


def test_history_is_cut_to_the_context(talker):
    """The first messages go, the system message and the last question stay."""
    run = gf.load(talker)
    talk = [{"role": "system", "content": "be"}]
    for word in WORDS[:6]:
        talk += [{"role": "user", "content": f"{word} hot"}, {"role": "assistant", "content": "x"}]
    asked = [*talk, {"role": "user", "content": "fast day"}]
    one = run.predictor("chat").parse(asked, ChatOptions())
    (left, most), ids = one.about, one.windows[0].ids.tolist()
    assert (len(left), len(left) % 2) == (len(left), 0)
    assert left[0].content == "hot hot"
    text = run.processor.tokenizer.decode(ids, skip_specials=False)
    assert "<|system|>" in text
    assert "fast day" in text
    assert len(ids) + min(most, 6) <= run.model.config.max_length + 1
    kept = [talk[0], *asked[1 + len(left) :]]
    assert run.chat(asked) == run.chat(kept)
    with pytest.raises(ConfigError, match="message with room for an answer has 46 elements"):
        run.chat("hot " * 38)


def test_chat_streams_what_it_says_whole(talker):
    run = gf.load(talker)
    deltas = [*run.stream("hot up", "chat")]
    assert "".join(one.text for one in deltas) == run.chat("hot up") == "cold"
    assert deltas[-1].finish == "end"
    made = run.predict("hot up", "chat")
    assert np.isfinite(made.log_probs).all()
    assert run.generate("hot up") == "cold"


def test_texts_are_scored_as_by_a_language_model(talker, tmp_path, cli):
    """Prompts as they are, without a template: `choose`, and the harness."""
    run = gf.load(talker)
    (one,) = run.likelihoods([("1 + 1", " = 2")])
    ids = run.tokenizer.encode("1 + 1 = 2").tolist()
    before = len(run.tokenizer.encode("1 + 1"))
    frame = list(run.tokenizer.frame_or("", "").begin)
    with torch.no_grad():
        table = run.model(torch.tensor([[*frame, *ids]])).logits[0].log_softmax(-1)
    places = range(before, len(ids))
    expected = sum(table[len(frame) + at - 1, ids[at]].item() for at in places)
    assert one.log_prob == pytest.approx(expected, abs=1e-4)  # float32, a sum of a few
    assert len(run.predictor("score").roll(["1 + 1"])) == 1
    shots = tmp_path / "shots.csv"
    shots.write_text("text,label\ngood,yes\nbad,no\nfine,yes\nsad,no\n")
    said = cli("choose", talker, "--shots", shots, "--prompt", "good")
    assert said.code == 0
    assert "yes" in said.out or "no" in said.out
