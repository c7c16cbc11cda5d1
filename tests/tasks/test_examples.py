"""Batches of single examples: each once an epoch, as many as asked; parts change nothing; weights
are 1 on average."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.example import Example
from glassformer.data.tagged import Tagged
from glassformer.errors import ConfigError, DataError
from glassformer.losses import cross_entropy
from glassformer.recipe.train import TrainConfig
from glassformer.tasks.examples import Classes, ExampleBatches, by_split, split_of


def some(n: int, least: int = 2, most: int = 20, seed: int = 0) -> list[Example]:
    """The ids of example i are all i + 1, and so is its target."""
    lengths = np.random.default_rng(seed).integers(least, most + 1, n)
    return [
        Example(np.full(length, i + 1, np.int32), np.array([i + 1]))
        for i, length in enumerate(lengths)
    ]


def seen(batch) -> list[int]:
    assert batch.targets is not None
    assert set(batch.elements[batch.where().document >= 0].tolist()) == set(batch.targets.tolist())
    return batch.targets.tolist()


@pytest.mark.parametrize(
    "train", [{"batch_size": 7}, {"batch_tokens": 200}, {"batch_size": 4, "micro_batches": 4}]
)
def test_every_example_is_fed_once_an_epoch(train):
    batches = ExampleBatches(some(90), TrainConfig.parse(train))
    for epoch in (0, 1):
        steps = range(epoch * batches.order.batches, (epoch + 1) * batches.order.batches)
        assert sorted(
            i for step in steps for part in batches.batches(step) for i in seen(part)
        ) == list(range(1, 91))


@pytest.mark.parametrize("size", [4, 32, 100])
@pytest.mark.parametrize("most", [4, 60, 300])
def test_a_batch_has_about_as_many_examples_as_asked(size, most):
    batches = ExampleBatches(some(1500, most=most), TrainConfig.parse({"batch_size": size}))
    limit = size * np.mean([len(example.ids) for example in batches.examples])
    # a row beyond half of what a batch may have is alone
    assert 0.49 * size < 1500 / batches.order.batches <= size
    slots = [
        batches.batches(step)[0].elements.numel() for step in range(0, batches.order.batches, 29)
    ]
    assert max(slots) <= max(limit + 1, most)
    assert batches.elements == sum(len(example.ids) for example in batches.examples)


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_hold_what_the_whole_batch_does(parts):
    whole = ExampleBatches(some(90), TrainConfig.parse({"batch_tokens": 300}))
    cut = ExampleBatches(some(90), TrainConfig.parse({"batch_tokens": 300, "micro_batches": parts}))
    for step in range(whole.order.batches):
        (one,) = whole.batches(step)
        pieces = cut.batches(step)
        assert [i for piece in pieces for i in seen(piece)] == seen(one)
        assert len(pieces) == min(parts, len(one.elements))


def test_the_fingerprint_is_of_ids_places_and_targets():
    own = {"ids": np.arange(5, dtype=np.int32), "targets": np.array([1, 2]), "at": np.array([0, 3])}
    others = [
        {"ids": own["ids"] + np.int32(1)},
        {"targets": np.array([2, 1])},
        {"at": np.array([0, 4])},
    ]
    made = [[Example(**own | other)] for other in ({}, *others)] + [some(3), some(3)[::-1]]
    prints = [ExampleBatches(examples, TrainConfig()).fingerprint() for examples in made]
    assert len(set(prints)) == len(prints)
    assert all(len(one) == 16 for one in prints)
    assert ExampleBatches(made[0], TrainConfig.parse({"batch_size": 1})).fingerprint() == prints[0]


def test_what_is_said_of_them():
    batches = ExampleBatches(some(10, 5, 5), TrainConfig.parse({"batch_tokens": 10}))
    said = "10 training words, 50 elements, 5 batches an epoch (0% padding), 20 steps = 4.0 epochs"
    assert batches.described(20, "words") == said


def test_targets_are_counted():
    several = [
        Example(np.zeros(2, np.int32), np.array([0, 2, 2])),
        Example(np.zeros(1, np.int32), np.array([2])),
    ]
    assert ExampleBatches(several, TrainConfig()).counts(4).tolist() == [1, 0, 3, 0]
    labels = [Example(np.zeros(2, np.int32), np.array([row])) for row in ([0, 1, 1], [0, 0, 1])]
    assert ExampleBatches(labels, TrainConfig()).counts(3).tolist() == [0, 1, 2]


def test_splits():
    rows = [Tagged(split, ("a",), ("X",), "") for split in ("train", "test", "train")]
    splits = by_split(rows)
    assert split_of(splits, "train") == [rows[0], rows[2]]
    with pytest.raises(
        DataError,
        match=r"no validation examples; set data\.validation_path .*\(there is train, test\)",
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
