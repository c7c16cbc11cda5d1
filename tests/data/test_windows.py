"""Batches: shifted targets, complete evaluation, documents kept apart."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.batch import IGNORE
from glassformer.core.errors import DataError
from glassformer.data.collate import evaluation_windows, micro_batches, windows
from glassformer.data.tokens import TokenSplit, training_order


def training_batch(text, step, batch_size, length, seed):
    return windows(text, training_order(text, length, batch_size, seed).rows(step), length)


def split(n, ends=None, documents="mixed", name="train"):
    ends = np.array([n] if ends is None else ends, dtype=np.int64)
    return TokenSplit(name, np.arange(n, dtype=np.uint16), n, ends, documents)


@given(
    n=st.integers(2, 300),
    length=st.integers(1, 40),
    step=st.integers(0, 50),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_targets_are_the_next_tokens_and_an_epoch_covers_the_text(n, length, step, seed):
    if n < length + 1:
        n = length + 1
    batch = training_batch(split(n), step, 5, length, seed)
    assert batch.elements.shape == (5, length)
    assert batch.elements.dtype == batch.targets.dtype == torch.int64
    assert torch.equal(batch.targets, batch.elements + 1)
    assert int(batch.targets.max()) < n
    assert batch.positions is None
    again = training_batch(split(n), step, 5, length, seed)
    assert torch.equal(again.elements, batch.elements)


@given(batch_size=st.integers(1, 13), of=st.integers(1, 6))
@settings(deadline=None)
def test_micro_batches_are_slices_of_the_batch(batch_size, of):
    whole = training_batch(split(500), 7, batch_size, 16, 3)
    starts = training_order(split(500), 16, batch_size, 3).rows(7)
    parts = [windows(split(500), part, 16) for part in micro_batches(starts, of).rows]
    assert torch.equal(torch.cat([part.elements for part in parts]), whole.elements)
    assert torch.equal(torch.cat([part.targets for part in parts]), whole.targets)


def test_steps_and_seeds_differ():
    seen = {
        tuple(training_batch(split(5000), step, 4, 8, seed).elements[:, 0].tolist())
        for step in range(9)
        for seed in (0, 1)
    }
    assert len(seen) == 18


@given(n=st.integers(2, 200), length=st.integers(1, 50), batch_size=st.integers(1, 9))
@settings(deadline=None)
def test_evaluation_predicts_every_token_but_the_first_once(n, length, batch_size):
    batches = list(evaluation_windows(split(n), batch_size, length))
    real = torch.cat([batch.targets[batch.targets != IGNORE] for batch in batches])
    assert real.tolist() == list(range(1, n))
    for batch in batches:
        kept = batch.targets != IGNORE
        assert torch.equal(batch.elements[kept] + 1, batch.targets[kept])
        assert batch.elements.shape[1] == min(length, n - 1)
        assert len(batch.elements) <= batch_size
        assert int(batch.elements.max()) < n
    assert sum(batch.n_targets for batch in batches) == n - 1


def test_a_limited_evaluation_is_spread_over_the_text():
    firsts = [
        int(batch.elements[0, 0]) for batch in evaluation_windows(split(1001), 2, 10, limit=3)
    ]
    assert firsts == [0, 480, 980]
    assert len(list(evaluation_windows(split(1001), 2, 10, limit=99))) == 50


@given(data=st.data(), length=st.integers(1, 12))
@settings(deadline=None)
def test_separate_documents_do_not_see_or_predict_each_other(data, length):
    sizes = data.draw(
        st.lists(st.integers(1, 15), min_size=1, max_size=12).filter(lambda s: sum(s) > length)
    )
    ends = np.cumsum(sizes)
    of = np.repeat(np.arange(len(sizes)), sizes)
    text = split(int(ends[-1]), ends, "separate")
    for batch in [training_batch(text, 3, 4, length, 1), *evaluation_windows(text, 3, length)]:
        kept = batch.targets != IGNORE
        assert np.array_equal(of[batch.elements[kept].numpy()], of[batch.targets[kept].numpy()])
        assert np.array_equal(batch.positions.document.numpy(), of[batch.elements.numpy()])
        begins = np.concatenate([[0], ends])
        for row, places in zip(
            batch.elements.tolist(), batch.positions.position.tolist(), strict=True
        ):
            real = [
                i for i in range(len(row)) if i == 0 or row[i] != row[i - 1]
            ]  # padding repeats the last token
            assert [places[i] for i in real] == [
                row[i] - max(begins[of[row[i]]], row[0]) for i in real
            ]
    predicted = torch.cat(
        [b.targets[b.targets != IGNORE] for b in evaluation_windows(text, 3, length)]
    ).tolist()
    assert predicted == [i for i in range(int(ends[-1])) if i not in {0, *ends.tolist()}]


def test_short_texts_are_one_sentence():
    with pytest.raises(
        DataError, match="training text has 64 tokens and a training sequence needs 65"
    ) as problem:
        training_batch(split(64), 0, 1, 64, 0)
    assert "at most 63" in str(problem.value)
    assert training_batch(split(65), 0, 2, 64, 0).elements.tolist() == [list(range(64))] * 2
    for n, tokens in ((0, "0 tokens"), (1, "1 token")):
        with pytest.raises(DataError, match=f"the validation text has {tokens}, too few"):
            list(evaluation_windows(split(n, name="validation"), 2, 8))
