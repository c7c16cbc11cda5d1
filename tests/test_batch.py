"""Positions and batches."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from glassformer.core.batch import IGNORE, Batch, Part, Positions, padded_rows


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from(["left", "right"]))
def test_padded_positions_count_real_elements(lengths, side):
    positions = Positions.pad(lengths, side)
    assert positions.length == max(lengths)
    for row, length in enumerate(lengths):
        assert positions.position[row][positions.valid[row]].tolist() == list(range(length))
    assert (positions.position >= 0).all()
    edge = 0 if side == "right" else -1
    assert positions.valid[:, edge].all()


def test_packed_positions_restart_in_each_document():
    positions = Positions.pack(torch.tensor([[0, 0, 1, 1, 1, 4], [3, 3, 3, 3, 0, 3]]))
    assert positions.position.tolist() == [[0, 1, 0, 1, 2, 0], [0, 1, 2, 3, 0, 0]]


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=4))
def test_packed_documents_below_0_are_padding(rows):
    """Wherever it stands: in front of documents, between them, behind them."""
    table = [[number - 1 for length in row for number in [length] * max(length, 1)] for row in rows]
    width = max(map(len, table))
    document = torch.tensor([line + [-1] * (width - len(line)) for line in table])
    positions = Positions.pack(document)
    assert (positions.valid is None) == bool((document >= 0).all())
    assert positions.valid is None or torch.equal(positions.valid, document >= 0)
    for line, row in zip(document.tolist(), positions.position.tolist(), strict=True):
        place = 0
        for t, number in enumerate(line):
            place = place + 1 if t and line[t - 1] == number else 0
            assert row[t] == (place if number >= 0 else 0)


def test_extended():
    assert Positions.arange(3, start=2).append(Positions.arange(2, start=5)).start == 2
    gap = Positions.arange(3).append(Positions.arange(2, start=4))
    assert gap.start is None
    assert gap.position.tolist() == [[0, 1, 2, 4, 5]]
    mixed = Positions.pad([1, 2], "left").append(Positions.arange(1, start=7))
    assert mixed.position.tolist() == [[0, 0, 7], [0, 1, 7]]
    assert mixed.valid.tolist() == [[False, True, True], [True, True, True]]
    shared = Positions(torch.tensor([[0, 1]]), valid=torch.tensor([[True, False], [True, True]]))
    longer = shared.append(Positions.arange(1, start=2))
    assert longer.position.tolist() == [[0, 1, 2]] * 2
    assert longer.valid.tolist() == [[True, False, True], [True, True, True]]
    documents = Positions.pack(torch.tensor([[5, 5]])).append(Positions.arange(1, start=2))
    assert documents.document.tolist() == [[5, 5, 0]]


@pytest.mark.parametrize(
    ("positions", "position", "document"),
    [
        (Positions.arange(3, start=4), [[7, 8]], None),
        (Positions.pad([3, 1], "right"), [[3, 4], [1, 2]], None),
        (Positions.pad([3, 1], "left"), [[3, 4], [1, 2]], None),
        (Positions.pack(torch.tensor([[0, 0, 7]])), [[1, 2]], [[7, 7]]),
        (
            Positions(torch.tensor([[5, 5]]), valid=torch.tensor([[False, False], [True, False]])),
            [[0, 1], [6, 7]],
            None,
        ),
    ],
)
def test_following_goes_on_after_the_last_real_element(positions, position, document):
    after = positions.following(2)
    assert after.position.tolist() == position
    assert (after.document is None) if document is None else after.document.tolist() == document
    assert (after.start is not None) == (positions.start is not None)


def test_selected_rows():
    positions = Positions.pad([1, 2]).select(torch.tensor([1, 1]))
    assert positions.valid.tolist() == [[True, True]] * 2
    assert Positions.arange(3).select(torch.tensor([4, 2])).position.shape == (1, 3)


@given(
    st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), min_size=1, max_size=5),
    st.sampled_from([0, IGNORE]),
    st.sampled_from(["right", "left"]),
)
def test_padded_rows_are_the_rows_and_padding_is_marked(rows, fill, side):
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    batch, width = Batch.pad(arrays, side), max(map(len, rows))
    assert batch.elements.dtype == torch.long
    for value, elements in ((0, batch.elements), (fill, padded_rows(arrays, fill, side))):
        padding = [[value] * (width - len(row)) for row in rows]
        assert elements.tolist() == [
            row + rest if side == "right" else rest + row
            for row, rest in zip(rows, padding, strict=True)
        ]
    assert (batch.positions is None) == (len(set(map(len, rows))) == 1), (
        "nothing is marked where nothing is padding"
    )
    valid = batch.where().valid
    if valid is not None:
        real = [
            [(slot if side == "right" else width - 1 - slot) < len(row) for slot in range(width)]
            for row in rows
        ]
        assert valid.tolist() == real
        if side == "right":
            assert batch.positions.position.tolist() == [list(range(width))] * len(rows)
    assert torch.equal(Batch.pad(rows, side).elements, batch.elements)


def test_targets_are_counted_without_the_ignored():
    ids = torch.zeros(2, 3, dtype=torch.long)
    assert Batch(ids).n_targets == 0
    assert Batch(ids, targets=torch.tensor([[1, IGNORE, 2], [IGNORE] * 3])).n_targets == 2
    assert Batch(ids, targets=torch.tensor([1, IGNORE])).n_targets == 1
    assert Batch(ids, targets=torch.tensor([[0, 1, 1], [1, 0, IGNORE]])).n_targets == 5


def test_elements_are_counted_whatever_the_number_of_classes():
    """Classes of a sequence may be as many as it has elements: they are not targets of its
    elements."""
    ids, padded = torch.zeros(2, 3, dtype=torch.long), Positions.pad([3, 1])
    assert Batch(ids, targets=torch.tensor([[1, IGNORE, 2], [IGNORE] * 3])).n_elements == 2
    assert (
        Batch(ids, padded, targets=torch.tensor([[1, 4, 2], [1, IGNORE, IGNORE]])).n_elements == 4
    )
    assert Batch(ids, padded, targets=torch.tensor([[1, 0, 1], [1, 0, 1]])).n_elements == 4
    patches = torch.zeros(2, 3, 5)
    for classes in (2, 3, 4):
        assert Batch(patches, targets=torch.full((2, classes), 1 / classes)).n_elements == 6, (
            "shares of a mixed picture"
        )
        assert Batch(patches, targets=torch.ones(2, classes, dtype=torch.long)).n_elements == 6


@pytest.mark.parametrize("head", ["lm", "masked_lm", "tag"])
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_the_head_reads_selected_positions_only(architecture, head):
    model = tiny.model(architecture=architecture, head=head, n_classes=4)
    ids, at = tiny.tokens(2, 5), torch.tensor([7, 0, 3, 3])
    every, some = model(Batch(ids)).logits, model(Batch(ids, at=at)).logits
    torch.testing.assert_close(some, every.flatten(0, 1)[at], **tiny.EXACT)
    assert model(Batch(ids, at=at[:0])).logits.shape == (0, every.shape[-1])


def test_a_batch_moves_as_a_whole():
    ids = torch.zeros(2, 3, dtype=torch.long)
    part = Part("image", ids[0], torch.zeros(3, 4), ids[0])
    batch = Batch(
        ids, Positions.pad([3, 1]), ids, ids, Batch(ids, Positions.pack(ids)), ids[0], (part,)
    ).to("meta")
    tensors = [
        batch.elements, batch.targets, batch.token_type_ids, batch.positions.position, batch.positions.valid,
        batch.source.elements, batch.source.positions.document, batch.at,
        batch.parts[0].at, batch.parts[0].values, batch.parts[0].index,
    ]  # fmt: skip
    assert all(tensor.is_meta for tensor in tensors)
    assert Batch(ids).to("meta").where().position.is_meta


@given(st.permutations(range(5)), st.integers(0, 5), st.sets(st.integers(0, 9), max_size=10))
def test_a_part_stays_with_its_slots(order, kept, at):
    """What stood at (row, slot) stands at (row, the slot's new place), and what lost its slot is
    gone."""
    slots, where = (
        torch.tensor(order[:kept], dtype=torch.long),
        torch.tensor(sorted(at), dtype=torch.long),
    )
    part = Part("image", where, where[:, None].double(), where)
    table = torch.full((2, 5), -1.0, dtype=torch.float64)
    table.view(-1)[where] = part.values[:, 0]
    taken = part.select(slots, 5)
    again = torch.full((2, kept), -1.0, dtype=torch.float64)
    again.view(-1)[taken.at] = taken.values[:, 0]
    assert torch.equal(again, table[:, slots])
    assert torch.equal(taken.index.double(), taken.values[:, 0])
