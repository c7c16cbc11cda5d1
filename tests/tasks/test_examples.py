"""Batches of single records: each once an epoch, as many as asked; parts change nothing; weights
are 1 on average."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.example import Example
from glassformer.data.records.labelled import Labelled
from glassformer.data.records.tagged import Tagged
from glassformer.layers.losses import cross_entropy
from glassformer.processors.inputs import Inputs, by_split, split_of
from glassformer.processors.text import TextProcessor, WordsProcessor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.catalogue import KINDS
from glassformer.tasks.objectives.labels import Classes
from glassformer.tasks.task import Task
from glassformer.tokenizers.definition import byte_definition
from glassformer.tokenizers.text import Tokenizer

BYTES = Tokenizer(byte_definition())


class Numbered(Inputs):
    """The ids of sequence i are all i, and so is its class."""

    def __init__(self, lengths: np.ndarray):
        super().__init__([Labelled("train", "", None, (str(i),), "") for i in range(len(lengths))])
        self._lengths = lengths

    @property
    def lengths(self) -> np.ndarray:
        return self._lengths

    def examples(self, numbers, step=None) -> list[Example]:
        return [Example(np.full(self._lengths[i], i, np.int32)) for i in numbers]

    def fingerprint(self) -> Iterator[bytes]:
        yield self._lengths.tobytes()


def some(n: int, least: int = 2, most: int = 20, **train) -> Task:
    lengths = np.random.default_rng(0).integers(least, most + 1, n)
    model = {"n_classes": n, "classes": list(map(str, range(n))), "vocab_size": BYTES.vocab_size}
    recipe = Recipe.parse({"task": "text-classification", "model": model, "train": train})
    inputs = {"train": Numbered(lengths)}
    return Task(KINDS[recipe.task], recipe, TextProcessor(BYTES, recipe.facts), Path(), inputs)


def seen(batch) -> list[int]:
    assert batch.targets is not None
    assert set(batch.elements[batch.where().document >= 0].tolist()) == set(batch.targets.tolist())
    return batch.targets.tolist()


@pytest.mark.parametrize(
    "train", [{"batch_size": 7}, {"batch_tokens": 200}, {"batch_size": 4, "micro_batches": 4}]
)
def test_every_example_is_fed_once_an_epoch(train):
    task = some(90, **train)
    n = int(task.feed.order.batches)
    for epoch in (0, 1):
        steps = range(epoch * n, (epoch + 1) * n)
        assert sorted(
            i for step in steps for part in task.feed.batches(step) for i in seen(part)
        ) == list(range(90))


@pytest.mark.parametrize("size", [4, 32, 100])
@pytest.mark.parametrize("most", [4, 60, 300])
def test_a_batch_has_about_as_many_examples_as_asked(size, most):
    task = some(1500, most=most, batch_size=size)
    limit = size * np.mean(task.objective.lengths)
    # a row beyond half of what a batch may have is alone
    assert 0.49 * size < 1500 / task.feed.order.batches <= size
    steps = range(0, int(task.feed.order.batches), 29)
    slots = [task.feed.batches(step)[0].elements.numel() for step in steps]
    assert max(slots) <= max(limit + 1, most)
    assert task.feed.elements == sum(task.objective.lengths)


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_hold_what_the_whole_batch_does(parts):
    whole, cut = some(90, batch_tokens=300), some(90, batch_tokens=300, micro_batches=parts)
    for step in range(int(whole.feed.order.batches)):
        (one,) = whole.feed.batches(step)
        pieces = cut.feed.batches(step)
        assert [i for piece in pieces for i in seen(piece)] == seen(one)
        assert len(pieces) == min(parts, len(one.elements))


def fingerprint(*rows: tuple[list[str], str], **train) -> str:
    model = {"n_classes": 2, "classes": ["X", "Y"], "vocab_size": BYTES.vocab_size}
    recipe = Recipe.parse({"task": "token-classification", "model": model, "train": train})
    processor = WordsProcessor(BYTES, recipe.facts)
    records = {"train": [Tagged("train", tuple(words), tuple(tags), "") for words, tags in rows]}
    return KINDS[recipe.task].open(recipe, processor, records, Path()).feed.fingerprint


def test_the_fingerprint_is_of_ids_places_and_targets():
    own, other = (["a b", "c"], "XY"), (["d"], "X")
    rows = [
        (own, other),
        (other, own),
        ((["a b", "d"], "XY"), other),
        ((["a b", "c"], "YX"), other),
        ((["a", "b c"], "XY"), other),  # the same ids, with another place of the first target
    ]
    prints = [fingerprint(*of) for of in rows]
    assert len(set(prints)) == len(prints)
    assert all(len(one) == 16 for one in prints)
    assert fingerprint(*rows[0], batch_size=1) == prints[0]


def test_what_is_said_of_them():
    said = "10 training texts, 50 tokens, 5 batches an epoch, 20 steps = 4.0 epochs"
    assert said in some(10, 5, 5, batch_tokens=10, steps=20).objective.opening()


def test_splits():
    rows = [Tagged(split, ("a",), ("X",), "") for split in ("train", "test", "train")]
    splits = by_split(rows)
    assert split_of(splits, "train") == [rows[0], rows[2]]
    with pytest.raises(
        DataError,
        match=r"no validation examples; set data\.validation\.path .*\(there is train, test\)",
    ):
        split_of(splits, "validation")
    with pytest.raises(
        DataError, match="no training examples; give more of them, or hold out fewer"
    ):
        split_of({"test": rows[1:2]}, "train")


NAMES = ("A", "B", "C")
COUNTS = st.lists(st.integers(0, 1000), min_size=3, max_size=3).filter(any).map(np.array)


def test_numbers_of_classes():
    classes = Classes(NAMES)
    assert classes.numbers(["C", "A", "D"]).tolist() == [2, 0, -1]
    assert classes.numbers([]).dtype == np.int64
    classes.check(["A", "B"], "here")
    with pytest.raises(
        DataError,
        match=r"x\.txt, line 3 has the class 'b', which model\.classes lacks; known are A, B, C",
    ):
        classes.check(["A", "b"], "x.txt, line 3")


@given(COUNTS)
def test_balanced_weights_are_inverse_to_counts_and_1_on_average(counts):
    weights = Classes(NAMES).weights(counts, "balanced")
    assert weights is not None
    assert weights.dtype == torch.float32
    assert float(weights.double() @ torch.from_numpy(counts).double()) == pytest.approx(
        counts.sum(), rel=1e-6
    )
    occurring = int((counts > 0).sum())
    expected = counts.sum() / (occurring * np.maximum(counts, 1))  # as scikit-learn's "balanced"
    assert weights.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


@given(COUNTS, st.dictionaries(st.sampled_from(NAMES), st.floats(0.01, 100)))
def test_given_weights_are_in_proportion_and_1_on_average(counts, asked):
    weights = Classes(NAMES).weights(counts, asked)
    assert weights is not None
    assert float(weights.double() @ torch.from_numpy(counts).double()) == pytest.approx(
        counts.sum(), rel=1e-6
    )
    relative = [asked.get(name, 1.0) for name in NAMES]
    assert (weights / weights[0]).tolist() == pytest.approx(
        [w / relative[0] for w in relative], rel=1e-5
    )


def test_no_weights_are_none_and_equal_ones_change_nothing():
    logits, targets = torch.randn(9, 3), torch.arange(9) % 3
    counts = np.array([3, 3, 3])
    assert Classes(NAMES).weights(counts, "none") is None
    for asked in ("balanced", {}, {"A": 5.0, "B": 5.0, "C": 5.0}):
        weights = Classes(NAMES).weights(counts, asked)
        weighted, plain = (
            cross_entropy(logits, targets, weights=weights),
            cross_entropy(logits, targets),
        )
        torch.testing.assert_close(weighted.total, plain.total)
        assert weighted.count == plain.count


def test_a_balanced_loss_is_the_mean_over_classes_of_their_mean_losses():
    """What balancing is for: a rare class counts as much as a frequent one."""
    logits, targets = torch.randn(60, 3).double(), torch.tensor([0] * 50 + [1] * 8 + [2] * 2)
    weights = Classes(NAMES).weights(np.array([50, 8, 2]), "balanced")
    assert weights is not None
    loss = cross_entropy(logits, targets, weights=weights.double())
    each = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    by_class = torch.stack([each[targets == c].mean() for c in range(3)])
    torch.testing.assert_close(loss.total / loss.count, by_class.mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"Bb": 2.0},
            r"train\.class_weights has 'Bb', which is no class; did you mean 'B'|known are A, B, C",
        ),
        ({"A": -1.0}, r"train\.class_weights has -1\.0 for 'A'; give 0 or more"),
        ({"A": 0.0, "B": 0.0}, r"train\.class_weights are 0 for every class that occurs"),
    ],
)
def test_weights_that_cannot_be(asked, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Classes(NAMES).weights(np.array([5, 5, 0]), asked)


def test_a_weight_of_nothing_leaves_a_class_out():
    weights = Classes(NAMES).weights(np.array([2, 2, 4]), {"C": 0.0})
    assert weights is not None
    assert weights.tolist() == [2.0, 2.0, 0.0]
