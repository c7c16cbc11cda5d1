"""Asking for some elements alone gives what asking for all of them gives there."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.batch import Batch, Positions
from glassformer.layers.selected_positions import Asked
from glassformer.layers.tap import Tape, recording

EXACT = {"rtol": 0, "atol": 1e-10}
ROWS, LENGTH = 3, 6
SOME = st.lists(st.integers(0, ROWS * LENGTH - 1), min_size=1, max_size=12)


@given(SOME)
def test_what_is_picked_row_by_row_comes_out_as_it_was_asked_for(at):
    asked = Asked.of(torch.tensor(at), ROWS, LENGTH)
    x = torch.randn(ROWS, LENGTH, 2)
    picked = asked.picked(x)
    assert picked.shape[1] == max(sum(i // LENGTH == row for i in at) for row in range(ROWS))
    assert_close(asked.flat(picked), x.flatten(0, 1)[at], rtol=0, atol=0)
    own = [{tuple(v) for v in row.tolist()} for row in x]
    assert all(
        tuple(v) in own[row] for row in range(ROWS) for v in picked[row].tolist()
    )  # fillers are the row's too


@given(SOME)
def test_places_are_picked_with_their_elements(at):
    document = torch.tensor([[0, 0, 1, 1, 1, -1], [2, 3, 3, 3, -1, -1], [4, 4, 4, 4, 4, 4]])
    positions, asked = Positions.packed(document), Asked.of(torch.tensor(at), ROWS, LENGTH)
    picked = asked.positions(positions)
    for field in ("position", "document", "valid"):
        assert_close(
            getattr(picked, field).flatten()[asked.slot], getattr(positions, field).flatten()[at]
        )
    shared = asked.positions(Positions.arange(LENGTH))
    assert shared.position.flatten()[asked.slot].tolist() == [i % LENGTH for i in at]


PLACES = {
    "all real": None,
    "padded": Positions.padded([6, 2, 4]),
    "packed": Positions.packed(
        torch.tensor([[0, 0, 1, 1, 1, -1], [2, 3, 3, 3, -1, -1], [4, 4, 4, 4, 4, 4]])
    ),
}


@pytest.mark.parametrize("positions", PLACES)
@pytest.mark.parametrize("position", ["learned", "rotary", "relative", "alibi"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_answers_and_gradients_are_the_same(architecture, norm, position, positions):
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
    some = model(Batch(ids, PLACES[positions], at=at)).logits
    all_ = model(Batch(ids, PLACES[positions])).logits.flatten(0, 1)[at]
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
def test_a_watched_model_computes_every_element(pool):
    """Who looks inside sees the whole stream, and the same answer."""
    model = tiny.model(architecture="encoder", head="classify", n_classes=3, pool=pool)
    batch = Batch(tiny.tokens(ROWS, LENGTH), PLACES["packed"])
    unseen = model(batch)
    assert unseen.features.hidden.shape == (5, 8)
    tape = Tape(model, keep=("encoder.out",))
    with recording(tape):
        seen = model(batch)
    assert tape.kept["encoder.out"].shape == (ROWS, LENGTH, 8)
    assert_close(seen.logits, unseen.logits, **EXACT)
