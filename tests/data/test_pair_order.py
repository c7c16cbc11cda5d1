"""Batches of pairs: every pair once an epoch, a function of (seed, step), within the limit, and
shifted rightly."""

from functools import cache
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.batch import IGNORE
from glassformer.core.errors import DataError
from glassformer.data.collate import encoder_decoder, micro_batches
from glassformer.data.example import Example
from glassformer.data.order import spread
from glassformer.data.records.pairs import PairSplit
from glassformer.data.store import Ragged

BOS, EOS = 1, 2


def column(lengths, seed: int) -> Ragged:
    """Rows of random ids above the special ones, each ending with <eos>."""
    ends = np.cumsum(lengths, dtype=np.int64)
    tokens = (
        np.random.default_rng(seed).integers(3, 50, ends[-1] if len(ends) else 0).astype(np.int32)
    )
    tokens[ends - 1] = EOS
    return Ragged(tokens, ends)


def split(lengths) -> PairSplit:
    sources, targets = zip(*lengths, strict=True)
    return PairSplit("train", column(sources, 0), column(targets, 1))


@cache
def many(n: int = 500, longest: int = 30) -> PairSplit:
    lengths = np.random.default_rng(7).integers(1, longest + 1, (n, 2))
    return split(lengths.tolist())


sizes = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=60)


@given(sizes, st.integers(1, 80), st.integers(5, 25), st.integers(0, 5))
@settings(max_examples=60)
def test_an_epoch_has_every_kept_pair_once_within_the_limit(lengths, batch_tokens, longest, seed):
    made = split(lengths)
    fitting = [i for i, sides in enumerate(lengths) if max(sides) <= longest]
    if not fitting:
        with pytest.raises(
            DataError, match=f"every training pair has a side of more than {longest} tokens; raise"
        ):
            made.order(longest, batch_tokens, 1, seed)
        return
    order = made.order(longest, batch_tokens, 1, seed)
    for epoch in range(3):
        steps = range(epoch * order.batches, (epoch + 1) * order.batches)
        batches = [order.rows(step).tolist() for step in steps]
        assert sorted(chain(*batches)) == fitting
        for rows in batches:
            assert rows
            assert len(rows) == 1 or len(rows) * max(max(lengths[i]) for i in rows) <= batch_tokens


@given(sizes, st.integers(1, 9))
def test_without_a_limit_on_tokens_a_batch_has_so_many_rows(lengths, batch_size):
    order = split(lengths).order(20, None, batch_size, 0)
    assert order.batches == -(-len(lengths) // batch_size)
    counts = sorted(len(order.rows(step)) for step in range(order.batches))
    assert counts[1:] == [batch_size] * (order.batches - 1)
    assert sum(counts) == len(lengths)


@given(st.lists(st.integers(0, 200), max_size=12), st.integers(0, 3))
def test_a_step_is_a_function_of_the_seed_whatever_came_before(steps, seed):
    order = many().order(30, 200, 1, seed)
    for step in steps:
        assert order.rows(step).tolist() == many().order(30, 200, 1, seed).rows(step).tolist()


def test_epochs_and_seeds_differ_in_pairs_and_in_order():
    order, other = (many().order(30, 200, 1, seed) for seed in (0, 1))
    epochs = [
        [frozenset(order.rows(e * order.batches + i).tolist()) for i in range(order.batches)]
        for e in range(2)
    ]
    others = [frozenset(other.rows(i).tolist()) for i in range(other.batches)]
    for one in (epochs[1], others):
        assert one != epochs[0]
        assert len(set(one) & set(epochs[0])) < len(one) / 2, (
            "other neighbours, not the same batches in another order"
        )
    # batches come in an order of chance, not from short to long
    longest = [max(many().target.lengths[list(rows)]) for rows in epochs[0]]
    assert longest != sorted(longest)
    assert abs(np.corrcoef(longest, range(len(longest)))[0, 1]) < 0.5


def test_pairs_of_like_lengths_stand_together():
    order = many(3000).order(30, 1000, 1, 0)
    used = slots = 0
    for step in range(order.batches):
        for side in (many(3000).source, many(3000).target):
            lengths = side.lengths[order.rows(step)]
            used += sum(lengths)
            slots += len(lengths) * max(lengths)
    assert 1 - used / slots < 0.15, "random batches would be padded by about 45 %"


@given(sizes, st.integers(0, 2**32))
@settings(max_examples=15)
def test_a_batch_is_source_shifted_input_and_targets(lengths, seed):
    made = split(lengths)
    rows = np.random.default_rng(seed).permutation(len(lengths))[:5]
    batch = encoder_decoder(made.examples(rows), BOS)
    where = batch.source.where()
    assert batch.positions is None, "padding behind a causal decoder needs no mark"
    for place, i in enumerate(rows.tolist()):
        source, target = made.source.row(i).tolist(), made.target.row(i).tolist()
        assert batch.source.elements[place, : len(source)].tolist() == source
        valid = where.valid[place].tolist() if where.valid is not None else [True] * where.length
        assert valid == [slot < len(source) for slot in range(where.length)]
        assert batch.targets[place].tolist() == target + [IGNORE] * (
            batch.targets.shape[1] - len(target)
        )
        assert batch.elements[place, : len(target)].tolist() == [BOS, *target[:-1]]
    assert batch.n_targets == sum(lengths[i][1] for i in rows)
    assert batch.source.elements.shape[1] == max(lengths[i][0] for i in rows)


def test_the_shift_by_an_example():
    examples = [
        Example(np.array([7, 8, EOS]), answer=np.array([5, EOS])),
        Example(np.array([9, EOS]), answer=np.array([6, 4, EOS])),
    ]
    batch = encoder_decoder(examples, BOS)
    assert batch.source.elements.tolist() == [[7, 8, EOS], [9, EOS, 0]]
    assert batch.source.positions.valid.tolist() == [[True] * 3, [True, True, False]]
    assert batch.elements.tolist() == [[BOS, 5, 0], [BOS, 6, 4]]
    assert batch.targets.tolist() == [[5, EOS, IGNORE], [6, 4, EOS]]


@given(st.integers(1, 40), st.integers(1, 9))
def test_the_parts_of_a_batch_make_it_up(n, of):
    rows = np.arange(n)
    parts, first, idle = micro_batches(rows, of)
    assert first == idle == 0
    assert np.concatenate(parts).tolist() == rows.tolist()
    assert len(parts) == (of if n >= of else 1 << n.bit_length() - 1)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def pairs_of(batch) -> list[tuple]:
    sides = []
    for place in range(len(batch.elements)):
        target = [i for i in batch.targets[place].tolist() if i != IGNORE]
        valid = batch.source.where().valid
        source = batch.source.elements[place]
        sides.append(
            (tuple((source if valid is None else source[valid[place]]).tolist()), tuple(target))
        )
    return sides


def evaluation(made, limit=None):
    order = made.order(25, 300)
    steps = spread(order.batches, limit)
    return [pairs_of(encoder_decoder(made.examples(order.rows(step)), BOS)) for step in steps]


def test_an_evaluation_sees_every_pair_that_fits_once_or_batches_from_everywhere():
    made = many()
    fitting = [
        i for i in range(len(made)) if max(made.source.lengths[i], made.target.lengths[i]) <= 25
    ]
    expected = sorted((tuple(made.source.row(i)), tuple(made.target.row(i))) for i in fitting)
    batches = evaluation(made)
    assert sorted(chain(*batches)) == expected
    some = evaluation(made, 5)
    assert len(some) == 5
    assert [batch for batch in batches if batch in some] == some, (
        "the same batches in the same order"
    )
    assert batches.index(some[0]) == 0
    assert batches.index(some[-1]) == len(batches) - 1
    assert len(evaluation(made, 10_000)) == len(batches)
