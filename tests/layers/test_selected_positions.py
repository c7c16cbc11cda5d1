"""Selected positions: the same outputs and gradients as computing all positions."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch, Positions
from glassformer.layers.attention.context import SelectedPositions
from glassformer.layers.tap import Tape, recording

EXACT = {"rtol": 0, "atol": 1e-10}
ROWS, LENGTH = 3, 6
SOME = st.lists(st.integers(0, ROWS * LENGTH - 1), min_size=1, max_size=12)


@given(SOME)
def test_gathered_vectors_come_out_flat_in_the_order_of_selection(at):
    selected = SelectedPositions.of(torch.tensor(at), ROWS, LENGTH)
    x = torch.randn(ROWS, LENGTH, 2)
    gathered = selected.gather(x)
    assert gathered.shape[1] == max(sum(i // LENGTH == row for i in at) for row in range(ROWS))
    assert_close(selected.flat(gathered), x.flatten(0, 1)[at], rtol=0, atol=0)
    own = [{tuple(v) for v in row.tolist()} for row in x]
    # padding is taken from the same row
    assert all(tuple(v) in own[row] for row in range(ROWS) for v in gathered[row].tolist())


@given(SOME)
def test_positions_are_selected_like_vectors(at):
    document = torch.tensor([[0, 0, 1, 1, 1, -1], [2, 3, 3, 3, -1, -1], [4, 4, 4, 4, 4, 4]])
    positions, slots = Positions.pack(document), torch.tensor(at)
    selected = SelectedPositions.of(slots, ROWS, LENGTH)
    found = selected.positions(positions)
    for field in ("position", "document", "valid"):
        got = getattr(found, field).flatten()[selected.slot]
        assert_close(got, getattr(positions, field).flatten()[at])
    shared = selected.positions(Positions.arange(LENGTH))
    assert shared.position.flatten()[selected.slot].tolist() == [i % LENGTH for i in at]


POSITIONS = {
    "all real": None,
    "padded": Positions.pad([6, 2, 4]),
    "packed": Positions.pack(
        torch.tensor([[0, 0, 1, 1, 1, -1], [2, 3, 3, 3, -1, -1], [4, 4, 4, 4, 4, 4]])
    ),
}


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("position", ["learned", "rotary", "relative", "alibi"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("architecture", ["encoder", "decoder", "encoder_decoder"])
def test_outputs_and_gradients_are_the_same(architecture, norm, position, positions):
    at = torch.tensor([8, 0, 3, 12, 14, 7])
    model = tiny.model(
        architecture=architecture,
        norm_placement=norm,
        position=position,
        head="tag",
        n_classes=3,
        window=4,
    )
    ids, weights = tiny.tokens(ROWS, LENGTH), torch.randn(len(at), 3, dtype=torch.float64)
    parameters = list(model.parameters())
    source = Batch(tiny.tokens(ROWS, 4)) if architecture == "encoder_decoder" else None
    if source and positions == "packed":
        source = replace(
            source,
            positions=Positions.pack(torch.tensor([[0, 0, 1, 1], [2, 3, 3, 3], [4, 4, 4, -1]])),
        )
    batch = Batch(ids, POSITIONS[positions], source=source)
    features = model(replace(batch, at=at)).features
    assert features.hidden.shape == (len(at), 8)
    some = model(replace(batch, at=at)).logits
    all_ = model(batch).logits.flatten(0, 1)[at]
    assert_close(some, all_, **EXACT)
    mine, theirs = (
        torch.autograd.grad((logits * weights).sum(), parameters, allow_unused=True)
        for logits in (some, all_)
    )
    for one, other in zip(mine, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other, **EXACT)


@pytest.mark.parametrize("pool", ["first", "last"])
def test_all_positions_are_computed_for_a_tape_that_asks_for_them(pool):
    """Recording alone changes nothing; `all_positions` gives the whole stream and equal logits."""
    model = tiny.model(architecture="encoder", head="classify", n_classes=3, pool=pool)
    batch = Batch(tiny.tokens(ROWS, LENGTH), POSITIONS["packed"])
    unseen = model(batch)
    assert unseen.features.hidden.shape == (5, 8)
    tape = Tape(model, keep=("encoder.out",))
    with recording(tape):
        seen = model(batch, all_positions=True)
    assert tape.kept["encoder.out"].shape == seen.features.hidden.shape == (ROWS, LENGTH, 8)
    assert_close(seen.logits, unseen.logits, **EXACT)
    with recording(Tape(model, keep=("encoder.out",))):
        assert torch.equal(model(batch).logits, unseen.logits)
