"""Pieces of rows attend as whole rows do, and long rows in runs as by one table."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import tiny
from divided_checks import drawn, loss_of
from glassformer.batch import Positions
from glassformer.layers import sliced
from glassformer.layers.attend import attend_reference
from glassformer.layers.mask import Allowed, Causal, Valid, Window, allowed
from glassformer.layers.sliced import SlicedContext, runs_of
from sliced_checks import CASES, data, model_of


def test_keys_that_no_query_sees_are_not_read(monkeypatch):
    monkeypatch.setattr(sliced, "AT_ONCE", 4)
    whole = Positions.arange(12)
    query = replace(Positions.arange(5, 2), whole=whole, pieces=(range(2, 7),))
    alone = replace(query, position=query.position[:, :1], start=0, pieces=(range(1),))
    none = lambda query, key: None

    def keys(mask, query=query, key=whole):
        found = runs_of(mask, none, query, key, torch.float32)
        return [(run.queries, run.keys.start, run.keys.stop) for run in found]

    assert keys(Causal()) == [(4, 0, 6), (1, 0, 7)]
    assert keys(Causal() & Window(3)) == [(4, 0, 6), (1, 4, 7)]
    assert keys(Window(3)) == [(4, 0, 8), (1, 4, 9)]
    assert keys(Window(12)) == [(4, 0, 12), (1, 0, 12)]
    assert keys(Valid(), alone, replace(whole, valid=torch.arange(12)[None] > 2)) == [(1, 3, 12)]
    nothing = replace(whole, valid=torch.zeros(1, 12, dtype=torch.bool))
    assert keys(Valid(), alone, nothing) == [(1, 0, 12)]
    assert keys(Causal(), alone) == [(1, 0, 1)]


@pytest.mark.parametrize("dropped", [0.0, 1e-9], ids=["kernels", "written out"])
@pytest.mark.parametrize("bias", [None, "bias"])
@pytest.mark.parametrize("mask", [Causal(), Causal() & Window(4), Window(6), Causal() & Valid()])
def test_pieces_attend_as_whole_rows_do(mask, bias, dropped, monkeypatch):
    """Three by one call of the kernel, by a shared triangle or a table each; also where dropout
    makes processors write attention out."""
    monkeypatch.setattr(sliced, "AT_ONCE", 3)
    q, k, v = (drawn(seed, 2, 4, 13, 6).requires_grad_() for seed in range(3))
    whole = Positions.arange(13)
    if mask == Causal() & Valid():
        whole = replace(whole, valid=torch.arange(13)[None] < torch.tensor([[13], [9]]))
    added = None if bias is None else drawn(5, 4, 13, 13)
    part = lambda query, key: added[:, query.position[0]][:, :, key.position[0]][None]
    own_bias = (lambda *_: None) if bias is None else part
    all_bias = None if added is None else added[None]
    wanted = attend_reference(q, k, v, allowed(mask, whole, whole).prepared(), all_bias, 0.5)
    found = torch.empty_like(wanted)
    for pieces in (range(0, 4), range(12, 13)), (range(4, 8), range(8, 12)):
        slots = [slot for piece in pieces for slot in piece]
        piece = replace(whole.mapped(lambda t, slots=slots: t[:, slots]), pieces=pieces)
        runs = runs_of(mask, own_bias, piece, whole, torch.float64)
        context = SlicedContext(Allowed(), runs=runs)
        found[:, :, slots] = context.attend(q[:, :, slots], k, v, 0.5, dropped)
    assert torch.allclose(found, wanted, **tiny.EXACT)
    weights = drawn(4, *wanted.shape)
    gradients = [torch.autograd.grad((z * weights).sum(), (q, k, v)) for z in (found, wanted)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, **tiny.EXACT)


@pytest.mark.parametrize("case", CASES)
def test_long_rows_have_the_gradients_of_a_table(case, monkeypatch):
    """Three queries at a time, where kernels do not know the mask; of all kinds of models."""
    asked, attend = [], SlicedContext.attend
    counting = lambda self, *given: asked.append(self.runs) or attend(self, *given)
    monkeypatch.setattr(SlicedContext, "attend", counting)
    whole, model, batch = model_of(case).double(), model_of(case).double(), data(case)
    loss_of(whole, batch).backward()
    assert not asked
    monkeypatch.setattr(sliced, "AT_ONCE", 3)
    loss_of(model, batch).backward()
    assert bool(asked) == (case in ("window", "packed", "packed window", "padded left"))
    for one, other in zip(whole.parameters(), model.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None and other.grad is not None:
            assert torch.allclose(one.grad, other.grad, **tiny.EXACT)


def test_what_is_kept_grows_with_the_length_of_a_row():
    """Under a window; the whole of every tensor counts, also where a part of it is read."""

    def kept(length: int) -> int:
        rows = Positions.arange(length)
        query = replace(rows, pieces=(range(length),))
        mask = Causal() & Window(100)
        found = runs_of(mask, lambda *_: None, query, rows, torch.float32)
        tensors = [t for run in found for t in (run.allow.dense, run.allow.added) if t is not None]
        return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())

    assert kept(4096) / kept(2048) == pytest.approx(2, rel=0.05)


def test_runs_in_bfloat16_are_those_of_a_table(monkeypatch):
    """The table, and one that runs share, are cast to what attention is computed in."""
    model, batch = model_of("window").float(), data("window")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        wanted = model(batch).logits
        monkeypatch.setattr(sliced, "AT_ONCE", 3)
        found = model(batch).logits
    assert_close(found, wanted, rtol=0, atol=0.05)  # logits of 8: bfloat16 has 8 bits
