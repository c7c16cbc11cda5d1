"""Long rows attend in slices as by one table."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import tiny
from divided_checks import drawn, loss_of
from glassformer.core.batch import IGNORE, Batch, Part, Positions
from glassformer.finetune.adapters import add_adapters
from glassformer.layers.attention import context
from glassformer.layers.attention.attend import attend_reference
from glassformer.layers.attention.context import Scoring, SlicedContext
from glassformer.layers.attention.mask import Causal, SameDocument, Valid, Window, allowed
from glassformer.layers.tap import Tape, recording
from glassformer.models import Transformer

ROWS, LENGTH = 4, 13
ENCODER = {"architecture": "encoder", "norm_placement": "post"}
BOTH = {"architecture": "encoder_decoder"}
CASES: dict[str, dict[str, Any]] = {
    "rotary": {"position": "rotary", "gated": True, "norm": "rms", "qk_norm": True},
    "window": {"position": "rotary", "window": 4, "n_kv_heads": 2},
    "packed": {"position": "learned"},
    "packed window": {"position": "rotary", "window": 3},
    "padded left": {"position": "alibi"},
    "learned": {"position": "learned"},
    "sinusoidal": {"position": "sinusoidal", "tied": False},
    "relative": {"position": "relative"},
    "short": {"position": "rotary"},
    "parts": {"parts": {"image": 5}, "position": "learned"},
    "adapters": {"position": "rotary"},
    "masked": {**ENCODER, "head": "masked_lm", "position": "learned"},
    "tags": {**ENCODER, "head": "tag", "n_classes": 3, "tied": False, "position": "buckets"},
    "types": {**ENCODER, "head": "masked_lm", "n_token_types": 2},
    "translator": {**BOTH, "position": "learned"},
    "short source": {**BOTH, "position": "buckets"},
}


def data(case: str) -> Batch:
    """All rows of a case."""
    tokens, lengths = tiny.tokens(ROWS, LENGTH), [13, 9, 4, 6]
    targets = tiny.tokens(ROWS, LENGTH, seed=1) % (3 if case == "tags" else tiny.VOCABULARY)
    one = Batch(tokens, targets=targets)
    padded = Positions.pad(lengths)
    right = replace(one, positions=padded, targets=targets.masked_fill(~padded.valid, IGNORE))
    match case:
        case "packed" | "packed window":
            ends = torch.tensor([[3, 5, 13], [13, 13, 13], [1, 8, 10], [6, 7, 12]])
            document = torch.searchsorted(ends, torch.arange(LENGTH).repeat(ROWS, 1), right=True)
            document += 3 * torch.arange(ROWS)[:, None]
            document = document.masked_fill(torch.arange(LENGTH) >= ends[:, 2:], -1)
            return replace(
                one,
                positions=Positions.pack(document),
                targets=targets.masked_fill(document < 0, IGNORE),
            )
        case "padded left":
            left = Positions.pad(lengths, "left")
            return replace(one, positions=left, targets=targets.masked_fill(~left.valid, IGNORE))
        case "short":
            return Batch(tokens[:, :5], targets=targets[:, :5])
        case "parts":
            at = torch.tensor([1, 2, LENGTH + 12, 3 * LENGTH + 5])
            part = Part("image", at, drawn(3, 4, 5), torch.arange(4))
            return replace(one, parts=(part,))
        case "masked" | "types":
            at = torch.tensor([12, 1, 0, LENGTH + 3, LENGTH + 2, 3 * LENGTH + 5])
            types = None if case == "masked" else tokens % 2
            return replace(right, targets=targets.flatten()[at], at=at, token_type_ids=types)
        case "tags":
            return right
        case "translator":
            return replace(one, source=Batch(tokens.flip(1), padded))
        case "short source":
            return replace(one, source=Batch(tokens[:, :3]))
        case _:
            return one


def model_of(case: str) -> Transformer:
    model = Transformer(tiny.config(**CASES[case]), None, "cpu")
    if case == "adapters":
        tiny.stir(model)
        add_adapters(model, rank=3, targets=["q_proj", "up_proj"])
    return tiny.stir(model)  # pyright: ignore


def test_keys_that_no_query_sees_are_not_read(monkeypatch):
    monkeypatch.setattr(context, "AT_ONCE", 4)
    rows = Positions.arange(6)

    def keys(mask, rows=rows):
        found = Scoring(mask).slices_of(rows).slices
        return [(own.queries, own.keys.start, own.keys.stop) for own in found]

    assert keys(Causal() & Window(3)) == [(4, 0, 4), (2, 2, 6)]
    assert keys(Window(2)) == [(4, 0, 5), (2, 3, 6)]
    assert keys(Window(5)) == [(4, 0, 6), (2, 0, 6)]
    mask, one = SameDocument() & Valid(), replace(rows, document=torch.zeros_like(rows.position))
    assert keys(mask, replace(one, valid=torch.arange(6)[None] > 2)) == [(4, 3, 6), (2, 3, 6)]
    nothing = replace(one, valid=torch.zeros(1, 6, dtype=torch.bool))
    assert keys(mask, nothing) == [(4, 0, 6), (2, 0, 6)]
    assert Scoring(Causal()).slices_of(rows) is None


@pytest.mark.parametrize("dropped", [0.0, 1e-9], ids=["kernels", "written out"])
@pytest.mark.parametrize("bias", [None, "bias"])
@pytest.mark.parametrize("mask", [Causal() & Window(4), Window(6), Causal() & Valid()])
def test_slices_attend_as_whole_rows_do(mask, bias, dropped, monkeypatch):
    """By one call of the kernel, or by a table; also where dropout has attention written out."""
    monkeypatch.setattr(context, "AT_ONCE", 3)
    q, k, v = (drawn(seed, 2, 4, 13, 6).requires_grad_() for seed in range(3))
    rows = Positions.arange(13)
    if mask == Causal() & Valid():
        rows = replace(rows, valid=torch.arange(13)[None] < torch.tensor([[13], [9]]))
    added = None if bias is None else drawn(5, 4, 13, 13)
    part = lambda query, key: added[:, query.position[0]][:, :, key.position[0]][None]
    own_bias = None if bias is None else part
    all_bias = None if added is None else added[None]
    wanted = attend_reference(q, k, v, allowed(mask, rows, rows).prepared(), all_bias, 0.5)
    found = Scoring(mask, own_bias).slices_of(rows).attend(q, k, v, 0.5, dropped)
    assert torch.allclose(found, wanted, **tiny.EXACT)
    weights = drawn(4, *wanted.shape)
    gradients = [torch.autograd.grad((z * weights).sum(), (q, k, v)) for z in (found, wanted)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, **tiny.EXACT)


@pytest.mark.parametrize("case", CASES)
def test_long_rows_have_the_gradients_of_a_table(case, monkeypatch):
    """Three queries at a time, where kernels do not know the mask; of all kinds of models."""
    asked, attend = [], SlicedContext.attend
    counting = lambda self, *given: asked.append(self.slices) or attend(self, *given)
    monkeypatch.setattr(SlicedContext, "attend", counting)
    whole, model, batch = model_of(case).double(), model_of(case).double(), data(case)
    loss_of(whole, batch).backward()
    assert not asked
    monkeypatch.setattr(context, "AT_ONCE", 3)
    loss_of(model, batch).backward()
    assert bool(asked) == (case in ("window", "packed", "packed window", "padded left"))
    for one, other in zip(whole.parameters(), model.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None and other.grad is not None:
            assert torch.allclose(one.grad, other.grad, **tiny.EXACT)


def test_a_tape_reads_the_patterns_of_whole_rows(monkeypatch):
    monkeypatch.setattr(context, "AT_ONCE", 3)
    model, batch = model_of("window").double(), data("window")
    with recording(Tape(model, ("*.pattern",))) as tape:
        seen = model(batch).logits
    assert_close(seen, model(batch).logits, **tiny.EXACT)
    for pattern in tape.kept.values():
        assert pattern.shape[2:] == (LENGTH, LENGTH)
        assert pattern.triu(1).eq(0).all()
        assert pattern.tril(-4).eq(0).all()


def test_what_is_kept_grows_with_the_length_of_a_row():
    """Under a window; the whole of every tensor counts, also where a part of it is read."""

    def kept(length: int) -> int:
        found = Scoring(Causal() & Window(100)).slices_of(Positions.arange(length)).slices
        masks = [own.context.allow for own in found]
        tensors = [t for own in masks for t in (own.dense, own.added) if t is not None]
        return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())

    assert kept(4096) / kept(2048) == pytest.approx(2, rel=0.05)


def test_slices_in_bfloat16_are_those_of_a_table(monkeypatch):
    """Tables are cast to what attention is computed in."""
    model, batch = model_of("window").float(), data("window")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        wanted = model(batch).logits
        monkeypatch.setattr(context, "AT_ONCE", 3)
        found = model(batch).logits
    assert_close(found, wanted, rtol=0, atol=0.05)  # logits of 8: bfloat16 has 8 bits
