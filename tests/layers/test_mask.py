"""Masks: a Boolean algebra over positions, and shortcuts that never change what is allowed."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.core.batch import Positions
from glassformer.layers.attention.mask import (
    Causal,
    Everything,
    Mask,
    SameDocument,
    Valid,
    Window,
    allowed,
)

# beartype looks at one item of a list, chosen at random: here too, inside strategies.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")

simple = st.sampled_from([Everything(), Causal(), Window(1), Window(3), SameDocument(), Valid()])
masks = st.recursive(
    simple,
    lambda m: st.tuples(m, m, st.booleans()).map(lambda t: t[0] & t[1] if t[2] else t[0] | t[1]),
    max_leaves=5,
)


@st.composite
def positions(draw, length=None):
    """Positions of any form: plain ranges from anywhere, padding on either side, packing, and all
    of it at random."""
    length = length or draw(st.integers(1, 5))
    match draw(st.sampled_from(["range", "padded", "packed", "any"])):
        case "range":
            return Positions.arange(length, start=draw(st.integers(0, 6)))
        case "padded":
            sizes = [length, draw(st.integers(1, length))]
            return Positions.pad(sizes, draw(st.sampled_from(["left", "right"])))
        case "packed":
            numbers = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
            return Positions.pack(torch.tensor([sorted(numbers)] * 2))
        case _:
            row = lambda low, high: draw(
                st.lists(st.integers(low, high), min_size=length, max_size=length)
            )
            return Positions(
                torch.tensor([row(0, 6), row(0, 6)]),
                torch.tensor([row(0, 1), row(0, 1)]) if draw(st.booleans()) else None,
                torch.tensor([row(0, 1), row(0, 1)]) == 1 if draw(st.booleans()) else None,
            )


def pairwise(mask: Mask, query: Positions, key: Positions) -> torch.Tensor:
    """The definition, pair by pair, that shares no code with the masks."""

    def may(m, b, i, j):
        value = lambda p, name, at, default: (
            default
            if getattr(p, name) is None
            else getattr(p, name)[b % len(getattr(p, name)), at].item()
        )
        q, k = value(query, "position", i, 0), value(key, "position", j, 0)
        match m:
            case Everything():
                return True
            case Causal():
                return k <= q
            case Window(size=size):
                return abs(q - k) < size
            case SameDocument():
                return value(query, "document", i, 0) == value(key, "document", j, 0)
            case Valid():
                return value(key, "valid", j, True)
        left, right = may(m.left, b, i, j), may(m.right, b, i, j)
        return (left and right) if type(m).__name__ == "Both" else (left or right)

    rows = range(2)
    return torch.tensor(
        [
            [[bool(may(mask, b, i, j)) for j in range(key.length)] for i in range(query.length)]
            for b in rows
        ]
    )


@given(masks, positions(), positions())
def test_a_table_is_its_definition(mask, query, key):
    table = mask.table(query, key)
    assert torch.equal(table.expand(2, -1, -1), pairwise(mask, query, key))


@given(masks, positions(), positions())
def test_shortcuts_allow_the_same(mask, query, key):
    full = mask.table(query, key).expand(2, -1, -1)
    needed = mask.needed(query, key)
    assert (
        full.all()
        if needed is None
        else torch.equal(needed.table(query, key).expand(2, -1, -1), full)
    )
    allow = allowed(mask, query, key)
    table = allow.as_table(query.length, key.length, full.device)
    assert full.all() if table is None else torch.equal(table.expand(2, 1, -1, -1)[:, 0], full)


@given(masks, masks, masks, positions(), positions())
def test_the_algebra_is_boolean(a, b, c, query, key):
    same = lambda x, y: torch.equal(
        x.table(query, key).expand(2, -1, -1), y.table(query, key).expand(2, -1, -1)
    )
    assert same(a & b, b & a)
    assert same(a | b, b | a)
    assert same(a & (b & c), (a & b) & c)
    assert same(a & (b | c), (a & b) | (a & c))
    assert same(a | (b & c), (a | b) & (a | c))
    assert same(a & (a | b), a)
    assert same(a & Everything(), a)
    assert same(a | Everything(), Everything())


def test_the_cheap_forms_are_found():
    ten, one = Positions.arange(10), Positions.arange(1, start=9)
    decoder = Causal() & SameDocument() & Valid()
    assert allowed(decoder, ten, ten).causal
    assert allowed(decoder & Window(10), ten, ten).causal
    assert allowed(decoder & Window(9), ten, ten).dense is not None
    step = allowed(decoder, one, ten)  # one decoding step sees everything
    assert not step.causal
    assert step.dense is None
    assert allowed(SameDocument() & Valid(), ten, ten) == step
    assert (
        allowed(decoder, Positions.arange(3, start=7), ten).dense is not None
    )  # not the kernel's triangle


def test_masks_are_values():
    assert Causal() & Valid() == Causal() & Valid()
    assert hash(Window(3)) == hash(Window(3))
    assert Window(3) != Window(4)


@pytest.mark.parametrize(
    "mask", [Causal(), Window(3), Causal() & Window(3), Causal() | Window(2)], ids=repr
)
def test_shortcuts_allow_the_same_for_all_short_ranges(mask):
    """Every pair of ranges of up to four positions that begin at up to four: the shortcuts' edges
    are all among them."""
    ranges = [Positions.arange(length, start=start) for length in range(1, 5) for start in range(5)]
    for query in ranges:
        for key in ranges:
            allow = allowed(mask, query, key)
            table = allow.as_table(query.length, key.length, query.position.device)
            full = mask.table(query, key)[:, None]
            assert full.all() if table is None else torch.equal(table, full), (query, key)
