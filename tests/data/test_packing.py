"""Packed rows hold every example once an epoch, in an order that is a function of (seed, step),
laid out exactly."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import tiny
from every import slow_but
from glassformer.core.batch import Batch
from glassformer.data.collate import pack_examples
from glassformer.data.example import Example
from glassformer.data.order import PackedOrder, batches_of, fill_rows, joined_rows
from glassformer.layers.losses import binary_cross_entropy, cross_entropy

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=60).map(
    lambda each: np.array(each, np.int64)
)
TOKENS = st.integers(1, 700)


@given(LENGTHS, TOKENS, st.integers(0, 9), st.integers(0, 3))
def test_every_example_is_in_an_epoch_once(lengths, tokens, seed, epoch):
    order = PackedOrder(lengths, tokens, seed)
    steps = range(epoch * order.batches, (epoch + 1) * order.batches)
    assert sorted(i for step in steps for row in order.rows(step) for i in row) == list(
        range(len(lengths))
    )


@given(LENGTHS, TOKENS)
@example(np.full(40, 5), 20)  # less than the narrowest row
@example(np.array([40, 30, 30, 30, 30]), 70)
def test_a_batch_is_no_larger_than_asked_unless_an_example_is(lengths, tokens):
    order = PackedOrder(lengths, tokens, 0)
    for step in range(2 * order.batches):
        rows = order.rows(step)
        assert all(rows), "no row is empty"
        fills = [int(lengths[row].sum()) for row in rows]
        assert len(rows) * max(fills) <= max(tokens, int(lengths.max()))


@given(LENGTHS, st.integers(0, 300))
def test_rows_hold_every_example_once_and_no_row_is_over_its_width(lengths, more):
    width = int(lengths.max()) + more
    rows = fill_rows(lengths, width)
    assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
    fills = sorted(int(lengths[row].sum()) for row in rows)
    assert fills[-1] <= width
    assert len(rows) < 2 or fills[0] + fills[1] > width, "two rows that fit into one are one"


@given(LENGTHS, TOKENS)
def test_joined_rows_hold_every_example_once_by_length(lengths, width):
    rows = joined_rows(lengths, width)
    order = [i for row in rows for i in row]
    assert sorted(order) == list(range(len(lengths)))
    assert lengths[order].tolist() == sorted(lengths)
    fills = [int(lengths[row].sum()) for row in rows]
    assert all(fill <= width or len(row) == 1 for row, fill in zip(rows, fills, strict=True))
    full = zip(fills, (int(lengths[row[0]]) for row in rows[1:]), strict=False)
    assert all(fill + following > width for fill, following in full), "as full as they can be"


@given(LENGTHS, TOKENS)
def test_examples_of_like_length_are_together(lengths, tokens):
    """A short one beside a long one would be padding, or a long row of attention for nothing."""
    for rows in batches_of(lengths, tokens):
        longest = max(int(lengths[i]) for row in rows for i in row)
        assert all(sum(int(lengths[i]) for i in row) <= max(64, 2 * longest - 1) for row in rows)


@given(LENGTHS, TOKENS, st.integers(0, 9))
def test_batches_are_a_function_of_seed_and_step(lengths, tokens, seed):
    one, other = PackedOrder(lengths, tokens, seed), PackedOrder(lengths, tokens, seed)
    steps = [*range(2 * one.batches)]
    forward = [one.rows(step) for step in steps]
    assert [other.rows(step) for step in reversed(steps)] == forward[::-1]
    shapes = [
        sorted(sorted(map(len, rows)) for rows in forward[e * one.batches :][: one.batches])
        for e in (0, 1)
    ]
    assert shapes[0] == shapes[1], "how rows are filled never changes"


def test_epochs_and_seeds_differ_in_company_and_order():
    lengths = np.random.default_rng(0).integers(3, 30, 400)
    first = PackedOrder(lengths, 256, 0)
    n = first.batches

    def company(order, epoch):
        """Which examples stand in one row."""
        return {tuple(sorted(row)) for step in range(n) for row in order.rows(epoch * n + step)}

    assert n > 20
    for other in (company(first, 1), company(PackedOrder(lengths, 256, 1), 0)):
        shared = company(first, 0) & other
        assert len(shared) < len(other) / 10
    widths = [sum(lengths[i] for row in first.rows(step) for i in row) for step in range(2 * n)]
    assert widths[:n] != widths[n:]


def test_long_and_short_batches_are_mixed_in_every_epoch():
    """With the longest first, an epoch would be a curriculum."""
    lengths = np.repeat([10, 400], 200)
    order = PackedOrder(lengths, 512, 0)
    for epoch in range(3):
        long = [
            lengths[order.rows(epoch * order.batches + step)[0][0]] == 400
            for step in range(order.batches)
        ]
        changes = sum(a != b for a, b in pairwise(long))
        # 200 long batches and 4 short ones: in sorted order there would be one change
        assert changes >= 4


def test_batches_of_one_width_have_about_as_many_examples():
    """Rows are filled the longest first: in that order, the first batches would have few examples,
    the last many."""
    lengths = np.random.default_rng(1).integers(2, 60, 2000)
    counts = [sum(map(len, rows)) for rows in batches_of(lengths, 512) if len(rows) == 8]
    assert len(counts) > 100
    assert max(counts) < 1.5 * min(counts)


def test_many_short_examples_leave_little_padding():
    lengths = np.random.default_rng(1).integers(2, 60, 2000)
    order = PackedOrder(lengths, 2048, 0)
    examples = [Example(np.ones(length, np.int32)) for length in lengths]
    batches = [
        pack_examples([[examples[i] for i in row] for row in order.rows(step)])
        for step in range(order.batches)
    ]
    slots = sum(batch.elements.numel() for batch in batches)
    real = sum(int(batch.elements.sum()) for batch in batches)
    assert real == lengths.sum() > 0.97 * slots


@given(st.integers(1, 400), st.integers(1, 64))
def test_examples_in_a_batch_are_about_as_many_as_its_tokens_hold(tokens, length):
    """So that `batch_size` examples on average can be asked for by their mean length."""
    order = PackedOrder(np.full(1000, length), tokens, 0)
    assert 1000 / order.batches <= max(1, tokens / length)


def by_loop(examples: list[Example], rows: list[list[int]]) -> dict[str, list]:
    """The slow way: one slot after the other."""
    width = max(sum(len(examples[i].ids) for i in row) for row in rows)
    out: dict[str, list] = {
        name: [] for name in ("ids", "positions", "documents", "kinds", "at", "targets")
    }
    number = 0
    for r, row in enumerate(rows):
        line: dict[str, list] = {name: [] for name in ("ids", "positions", "documents", "kinds")}
        for i in row:
            example, begin = examples[i], len(line["ids"])
            if example.at is not None:
                out["at"] += [r * width + begin + int(a) for a in example.at]
            if example.targets is not None:
                out["targets"] += example.targets.tolist()
            for position, token in enumerate(example.ids.tolist()):
                line["ids"].append(token)
                line["positions"].append(position)
                line["documents"].append(number)
                line["kinds"].append(
                    0 if example.token_type_ids is None else int(example.token_type_ids[position])
                )
            number += 1
        rest = width - len(line["ids"])
        for name, empty in (("ids", 0), ("documents", -1), ("kinds", 0)):
            out[name].append(line[name] + [empty] * rest)
        out["positions"].append(line["positions"] + [0] * rest)
    return out


def examples_and_rows(seed: int, n: int, with_at: bool, with_targets: bool, with_kinds: bool):
    random = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        length = int(random.integers(1, 7))
        at = (
            np.sort(random.permutation(length)[: random.integers(0, length + 1)])
            if with_at
            else None
        )
        targets = random.integers(0, 5, 1 if at is None else len(at)) if with_targets else None
        kinds = random.integers(0, 2, length) if with_kinds and random.random() < 0.7 else None
        made.append(Example(random.integers(1, 99, length).astype(np.int32), targets, at, kinds))
    order = random.permutation(n).tolist()
    cuts = sorted({0, n, *random.integers(0, n + 1, 3).tolist()})
    return made, [order[a:b] for a, b in pairwise(cuts)]


@given(st.integers(0, 10_000), st.integers(1, 8), st.tuples(*[st.booleans()] * 3))
def test_packed_is_what_a_loop_lays_out(seed, n, columns):
    examples, rows = examples_and_rows(seed, n, *columns)
    batch, expected = (
        pack_examples([[examples[i] for i in row] for row in rows]),
        by_loop(examples, rows),
    )
    assert batch.elements.dtype == torch.long
    assert batch.elements.tolist() == expected["ids"]
    places = batch.where()
    assert places.document is not None
    assert places.document.tolist() == expected["documents"]
    real = torch.tensor(expected["documents"]) >= 0
    assert (places.valid is None) == bool(real.all())
    assert places.valid is None or places.valid.tolist() == real.tolist()
    assert places.position.tolist() == expected["positions"]
    assert (None if batch.at is None else batch.at.tolist()) == (
        expected["at"] if examples[0].at is not None else None
    )
    assert (None if batch.targets is None else batch.targets.tolist()) == (
        expected["targets"] if examples[0].targets is not None else None
    )
    kinds = (
        expected["kinds"]
        if any(example.token_type_ids is not None for example in examples)
        else None
    )
    assert (None if batch.token_type_ids is None else batch.token_type_ids.tolist()) == kinds


HEADS = {
    "tag": {"head": "tag", "n_classes": 4},
    **{
        f"classify {pool}": {"head": "classify", "n_classes": 4, "pool": pool}
        for pool in ("first", "last", "mean")
    },
    "pairs": {
        "head": "classify",
        "n_classes": 4,
        "pool": "mean",
        "n_token_types": 2,
        "pooler": True,
    },
    "several": {"head": "classify", "n_classes": 4, "pool": "mean", "multi_label": True},
}
# 12 + 9 | 3 + 5 + 12 | 7: rows of 21, 20 and 7, so that two are padded
SIZES, ROWS = [3, 12, 5, 9, 12, 7], [[1, 3], [0, 2, 4], [5]]


def some_examples(changes) -> list[Example]:
    random, made = np.random.default_rng(5), []
    for n in SIZES:
        ids = random.integers(0, tiny.VOCABULARY, n).astype(np.int32)
        kinds = np.repeat([0, 1], [n // 2, n - n // 2]) if "n_token_types" in changes else None
        if changes["head"] == "tag":
            at = np.flatnonzero(random.random(n) < 0.5)
            made.append(Example(ids, random.integers(0, 4, len(at)), at))
        elif changes.get("multi_label"):
            made.append(Example(ids, random.integers(0, 2, (1, 4)), token_type_ids=kinds))
        else:
            made.append(Example(ids, random.integers(0, 4, 1), token_type_ids=kinds))
    return made


def gradients(model, batches: list[Batch], multi: bool):
    """Logits of all batches, and the gradient of the summed loss for every parameter."""
    model.zero_grad()
    logits = []
    for batch in batches:
        own = model(batch).logits
        (binary_cross_entropy if multi else cross_entropy)(own, batch.targets, 0.1).total.backward()
        logits.append(own.detach())
    return torch.cat(logits), {name: p.grad.clone() for name, p in model.named_parameters()}


POSITIONS = ("learned", "rotary", "alibi", "relative")
EVERY = [*product(("encoder", "decoder"), HEADS, POSITIONS)]


@pytest.mark.parametrize(("architecture", "head", "position"), slow_but(EVERY, *EVERY[::5]))
def test_packed_equals_alone_in_logits_and_gradients(architecture, head, position):
    changes = HEADS[head]
    model = tiny.model(architecture=architecture, position=position, **changes)
    examples = some_examples(changes)
    multi = bool(changes.get("multi_label"))
    together, of_together = gradients(
        model, [pack_examples([[examples[i] for i in row] for row in ROWS])], multi
    )
    own = [
        Batch(
            torch.from_numpy(examples[i].ids.astype(np.int64))[None],
            targets=torch.from_numpy(examples[i].targets),
            token_type_ids=None
            if examples[i].token_type_ids is None
            else torch.from_numpy(examples[i].token_type_ids)[None],
            at=None if examples[i].at is None else torch.from_numpy(examples[i].at),
        )
        for row in ROWS
        for i in row
    ]
    alone, of_alone = gradients(model, own, multi)
    model.zero_grad()
    torch.testing.assert_close(together, alone, **tiny.EXACT)
    for name, gradient in of_alone.items():
        # a key's bias moves all scores alike; and the first element of a decoder sees itself alone
        idle = name.endswith("k_proj.bias") or (
            architecture == "decoder" and changes.get("pool") == "first"
        )
        assert gradient.abs().max() > 1e-9 or idle, f"{name} takes no part"
        torch.testing.assert_close(of_together[name], gradient, **tiny.EXACT, msg=name)
