"""The pool of slots: none is given twice, and all come back; what is read are a table's slots."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.layers.attention.ragged import Pool, RaggedCache
from glassformer.layers.attention.sequences import Sequences, merge
from glassformer.layers.tap import Tape, recording

N_SLOTS = 24


class Tables(RuleBasedStateMachine):
    """Tables that are taken, forked, given back, in any order; free slots hold no numbers."""

    def __init__(self):
        super().__init__()
        self.pool = Pool(1, 1, 1, N_SLOTS)
        self.held, self.number = [], 0

    @rule(size=st.integers(0, 9))
    def take(self, size):
        if (self.pool.users == 0).sum() < size:
            with pytest.raises(AssertionError, match="more slots than are free"):
                self.pool.take(size)
            return
        slots = self.pool.take(size)
        runs = "".join(
            "." if self.pool.users[i] == 0 or i in slots else "x" for i in range(N_SLOTS)
        )
        if max(map(len, runs.split("x"))) >= size:
            assert (np.diff(slots) == 1).all()
        self.number += 1
        self.pool.numbers[..., slots, :] = float(self.number)
        self.held.append((slots, self.number))

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0), size=st.integers(0, 9))
    def fork(self, at, size):
        slots, number = self.held[at % len(self.held)]
        self.pool.share(slots[:size])
        self.held.append((slots[:size], number))

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0))
    def give(self, at):
        slots, _ = self.held.pop(at % len(self.held))
        self.pool.give(slots)
        self.pool.numbers[..., self.pool.users == 0, :] = torch.nan

    @invariant()
    def users_are_counted(self):
        counts = np.bincount(np.concatenate([[0], *(slots for slots, _ in self.held)]).astype(int))
        assert (self.pool.users == np.pad(counts, (0, N_SLOTS - len(counts)))).all()
        assert self.pool.n_free == int((self.pool.users == 0).sum())
        for slots, number in self.held:
            assert (self.pool.numbers[..., slots, :] == number).all()


TestTables = Tables.TestCase


@given(st.data())
def test_keys_are_those_of_the_table_by_a_view_or_a_copy(data):
    pool = Pool(2, 2, 3, N_SLOTS)
    pool.numbers.normal_(generator=torch.Generator().manual_seed(0))
    ends = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    apart = data.draw(st.sampled_from([0, 5, 6]))
    slots = st.lists(st.integers(0, N_SLOTS - 1), min_size=5, max_size=5)
    tables = [
        np.arange(apart * row, apart * row + 5) if apart else np.array(data.draw(slots))
        for row in range(len(ends))
    ]
    texts = [Sequences.single(own, 1, end) for own, end in zip(tables, ends, strict=True)]
    groups = merge(texts)
    if apart:
        assert [group.rows for group in groups] == [len(ends)]
    rows = [(group, row) for group in groups for row in range(group.rows)]
    for (group, row), own, end in zip(rows, tables, ends, strict=True):
        assert group.ends[row] == end
        for kept in pool.layers[1]:
            assert torch.equal(group.read(kept)[row, :, :end], kept[:, own[:end]])


def test_a_larger_pool_keeps_what_it_has():
    pool = Pool(1, 1, 2, 3)
    pool.numbers.normal_()
    before, slots = pool.numbers.clone(), pool.take(2)
    pool.grow(4)
    assert torch.equal(pool.numbers[:, :, :, :3], before)
    assert slots.tolist() == [1, 2]
    assert pool.take(4).tolist() == [3, 4, 5, 6]
    with pytest.raises(AssertionError, match="more slots than are free"):
        pool.take(1)


@pytest.mark.parametrize("site", ["attention", "cross"])
def test_a_tape_of_patterns_says_that_a_pool_has_none(site):
    model = tiny.model(architecture="encoder_decoder")
    pool = Pool(model.config.n_layers, 4, 2, 12, torch.float64)
    text, source = (Sequences.single(pool.take(4), length) for length in (2, 4))
    cache = RaggedCache(pool, [text], [source])
    tape = Tape(model, (f"*.{site}.pattern",))
    with pytest.raises(ConfigError, match="run the model on a whole text"), recording(tape):
        model.features(Batch(tiny.tokens(1, 2), cache.new_positions), cache=cache)


def test_a_view_never_reads_slots_of_others():
    """Of sequences of different lengths, one without reserved slots is gathered."""
    pool = Pool(1, 1, 2, 12)
    pool.numbers.fill_(torch.nan)
    tables = [np.arange(1, 4), np.arange(4, 6)]
    pool.numbers[..., 1:6, :] = 1
    assert len(merge([Sequences.single(own, 1) for own in tables])) == 2
    both = Sequences(np.array([[1, 2, 3], [4, 5, 0]]), np.array([3, 2]), 1)
    keys, _ = pool.layers[0]
    assert both.read(keys).isfinite().all()
    reserved = Sequences(np.array([[1, 2, 3], [4, 5, 6]]), np.array([3, 2]), 1)
    assert reserved.read(keys).data_ptr() == keys[0, 1].data_ptr()


@pytest.mark.parametrize("n_slots", [10, 1 << 15])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_pool_of_any_size_is_zeros_and_keeps_them_as_it_grows(n_slots, dtype):
    pool = Pool(2, 2, 32, n_slots, dtype, grows=True)
    assert not pool.numbers.any()
    pool.numbers[:, :, :, 5] = 1
    taken = pool.take(n_slots)
    assert pool.n_slots > n_slots
    assert len({*taken.tolist()}) == n_slots
    assert pool.numbers.sum() == pool.numbers[:, :, :, 5].numel()
