"""Masked language modelling learns a pattern; its masks are functions of the step; evaluation
always asks the same."""

from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.data.collate import windows
from glassformer.data.tokens import training_order
from glassformer.layers.losses import cross_entropy
from glassformer.models import Transformer
from glassformer.tasks.objectives.masked import masked_batches, masking_of
from glassformer.tasks.task import Task
from small_runs import go, text_file
from small_senses import prepared
from small_tasks import LEARNING, masked_recipe


def task_of(tmp_path: Path, name: str = "task", **changes) -> Task:
    task = prepared(masked_recipe(tmp_path, **changes), tmp_path / name)
    return task


def test_a_pattern_is_learned(tmp_path):
    (tmp_path / "cycle.txt").write_text("abcdefgh" * 600)
    made = masked_recipe(
        tmp_path,
        model={"d_model": 32},
        data={"train.path": str(tmp_path / "cycle.txt")},
        train=LEARNING
        | {
            "steps": 160,
            "evaluate.every": 160,
            "batch_size": 16,
            "optimizer.kind": "muon",
            "mask_fraction": 0.25,
        },
    )
    result, _ = go(made, tmp_path / "x")
    assert result.scores["accuracy"] > 0.9, "by chance it is 1/8"
    assert result.scores["loss"] < 0.4, "by chance it is log 8 = 2.08"
    run = gf.load(tmp_path / "x")
    assert run.fill(["cde___ghab", "ab<mask>defg[MASK]"]) == ["cdefghab", "abcdefgh"]
    long = "abcdefgh" * 9
    assert run.fill(f"{long}ab___defgh{long}abcd____fgh") == f"{long}abcdefgh{long}abcdefgh"


def test_a_step_is_the_text_of_language_modelling_with_masks(tmp_path):
    task = task_of(tmp_path)
    mask = task.processor.tokenizer.specials["mask"]
    places = []
    for step in (0, 1, 5):
        (batch,) = task.feed.batches(step)
        text = task.objective.split("train")
        plain = windows(text, training_order(text, 16, 4, 0).rows(step), 16)
        assert batch.at is not None
        restored = batch.elements.clone()
        restored.view(-1)[batch.at] = batch.targets
        assert torch.equal(restored, plain.elements)
        assert (batch.elements == mask).sum() > 0
        assert torch.equal(task.feed.batches(step)[0].elements, batch.elements)
        places.append(batch.at.tolist())
    assert places[0] != places[1] != places[2]


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("documents", ["mixed", "separate"])
def test_parts_of_a_step_are_the_whole_step(tmp_path, parts, documents):
    """The same gradient, whatever memory allows."""
    (tmp_path / "d.jsonl").write_text('{"text": "the cat sat"}\n{"text": "a dog ran on"}\n' * 30)
    data = {"train.path": str(tmp_path / "d.jsonl"), "documents": documents}
    whole = task_of(tmp_path, data=data)
    cut = task_of(tmp_path, "cut", data=data, train={"micro_batches": parts})
    model = Transformer(whole.recipe.model, seed=0).double()

    def gradient(task) -> torch.Tensor:
        model.zero_grad()
        batches = task.feed.batches(3)
        for batch in batches:
            task.objective.loss(model(batch).logits, batch.targets).total.backward()
        assert sum(batch.n_targets for batch in batches) == sum(len(batch.at) for batch in batches)
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    assert len(cut.feed.batches(3)) == parts
    torch.testing.assert_close(gradient(cut), gradient(whole), rtol=1e-10, atol=1e-12)
    assert [int(i) for batch in cut.feed.batches(3) for i in batch.targets] == whole.feed.batches(
        3
    )[0].targets.tolist()


def test_a_part_without_masks_gives_nothing(tmp_path):
    task = task_of(tmp_path, train={"batch_size": 8, "micro_batches": 8, "mask_fraction": 0.02})
    model = Transformer(task.recipe.model, seed=0)
    empty = next(b for step in range(12) for b in task.feed.batches(step) if not b.n_targets)
    loss = task.objective.loss(model(empty).logits, empty.targets).total
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_every_evaluation_asks_the_same_and_nothing_of_what_fills_the_last_window(tmp_path):
    task = task_of(tmp_path)
    split = task.objective.split("validation")
    n = len(split.tokens)
    assert (n - 1) % 16, "the last window is not full"
    first = [
        (b.elements.tolist(), b.at.tolist(), b.targets.tolist())
        for b in masked_batches(split, task.objective.masking, 16)
    ]
    again = [
        (b.elements.tolist(), b.at.tolist(), b.targets.tolist())
        for b in masked_batches(split, task.objective.masking, 16)
    ]
    assert first == again
    (batch,) = masked_batches(split, task.objective.masking, 16)
    assert batch.at is not None
    assert batch.at.max() < n
    assert batch.targets.tolist() == split.tokens[batch.at.numpy()].tolist()
    assert batch.positions is not None
    assert batch.positions.valid is not None
    assert int(batch.positions.valid.sum()) == n - 1 + ((n - 1) % 16 > 0), (
        "every token is read, the last only with others"
    )
    model = Transformer(task.recipe.model, seed=1).eval()
    rest = batch.elements.clone()
    rest[~batch.positions.valid] = 3
    with torch.no_grad():
        expected = model(batch).logits
        assert torch.equal(model(Batch(rest, batch.positions, at=batch.at)).logits, expected)


def test_training_evaluation_and_run_evaluate_give_the_same_scores(tmp_path):
    text_file(tmp_path, 2000)
    train = {"batch_size": 6, "evaluate.batches": None, "evaluate.best": "accuracy"}
    result, _ = go(masked_recipe(tmp_path, train=train), tmp_path / "x")
    run = gf.load(tmp_path / "x")
    scores = run.evaluate()
    assert scores["tokens"] == result.scores["tokens"] > 100
    lines = [
        line
        for line in gf.load(tmp_path / "x")
        .folder.joinpath("metrics.jsonl")
        .read_text()
        .splitlines()
    ]
    assert any(f'"validation_accuracy": {scores["accuracy"]}' in line for line in lines)
    assert run.recipe is not None
    part = run.processor.load_stored(run.recipe.data, run.folder)["validation"]
    nats = n = 0.0
    for batch in masked_batches(part, masking_of(run.tokenizer, run.recipe.train), 16):
        with torch.no_grad():
            loss = cross_entropy(run.model(batch).logits, batch.targets)
        nats, n = nats + float(loss.total), n + loss.count
    assert scores["loss"] == pytest.approx(nats / n, rel=1e-6)
    assert run.evaluate() == scores


def test_whole_words_need_pieces_that_show_where_words_begin(tmp_path):
    task = task_of(
        tmp_path,
        processor={"tokenizer": {"kind": "bpe", "vocab_size": 263}},
        train={"whole_words": True},
    )
    (batch,) = task.feed.batches(0)
    assert batch.at is not None
    text = task.objective.split("train")
    plain = windows(text, training_order(text, 16, 4, 0).rows(0), 16).elements.tolist()
    pieces = [[task.processor.tokenizer.piece(i) for i in row] for row in plain]
    chosen = set(batch.at.tolist())
    for r, row in enumerate(pieces):
        for t in range(1, len(row)):
            if row[t][0].isalpha():
                assert (r * 16 + t in chosen) == (r * 16 + t - 1 in chosen), (
                    "a word is hidden whole or not at all"
                )
    assert any(piece[0].isalpha() for row in pieces for piece in row)
    word = task_of(
        tmp_path, "word", processor={"tokenizer": {"kind": "word"}}, train={"whole_words": True}
    )
    assert word.objective.masking.begins is None, "every token is a word"
    (tmp_path / "glued.txt").write_text("abcabc" * 200)
    with pytest.raises(
        ConfigError, match=r"train\.whole_words needs a tokenizer whose pieces show by a space"
    ):
        task_of(
            tmp_path,
            "glued",
            data={"train.path": str(tmp_path / "glued.txt")},
            train={"whole_words": True},
        )


def test_special_symbols_are_neither_asked_for_nor_put_in(tmp_path):
    task = task_of(
        tmp_path, processor={"tokenizer": {"kind": "character", "specials": ["<|user|>"]}}
    )
    assert not set(task.objective.masking.ordinary.tolist()) & set(
        task.processor.tokenizer.specials.values()
    )
    assert len(task.processor.tokenizer.specials) == 6
    assert len(task.objective.masking.ordinary) == task.processor.tokenizer.vocab_size - 6


def test_a_tokenizer_without_a_mask_is_refused(tmp_path):
    from glassformer.tokenizers.definition import byte_definition
    from glassformer.tokenizers.text import Tokenizer

    definition = byte_definition()
    definition["added_tokens"] = definition["added_tokens"][:3]
    Tokenizer(definition).save(tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="The tokenizer has no <mask> symbol"):
        go(
            masked_recipe(
                tmp_path, processor={"tokenizer": {"path": str(tmp_path / "tokenizer.json")}}
            ),
            tmp_path / "x",
        )


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_only_an_encoder_reads_both_sides(tmp_path, architecture):
    said = f"model.architecture='{architecture}' is not for task='fill-mask'; use encoder"
    with pytest.raises(ConfigError, match=said):
        masked_recipe(tmp_path, model={"architecture": architecture})
    with pytest.raises(
        ConfigError,
        match=r"train\.evaluate\.best='f1' is no score of task='fill-mask'; use loss or acc",
    ):
        go(masked_recipe(tmp_path, train={"evaluate.best": "f1"}), tmp_path / "y")


def test_the_sample_shows_what_is_read_in_hidden_places(tmp_path):
    task = task_of(tmp_path, train={"sample.tokens": 5})
    model = Transformer(task.recipe.model, seed=1)
    sample = task.objective.sample(model)
    assert sample is not None
    assert "[" in sample.text
    assert task.objective.sample(model) == sample
    shown = task.processor.tokenizer.decode(task.objective.split("validation").tokens[:16])
    assert sample.text[: sample.text.index("[")] == shown[: sample.text.index("[")]
    assert task_of(tmp_path, "none", train={"sample.tokens": 0}).objective.sample(model) is None


def test_the_card_says_what_it_is_for(tmp_path):
    go(masked_recipe(tmp_path), tmp_path / "x")
    card = (tmp_path / "x" / "README.md").read_text()
    assert "pipeline_tag: fill-mask" in card
    assert f"train.init_from={tmp_path / 'x'}" in card
