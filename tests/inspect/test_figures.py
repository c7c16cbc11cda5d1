"""The figures that looking inside is held to, in float32 and for every variant of attention.

That the fused and the written-out attention differ by at most 1e-6 stands in `test_look`, that a
compiled model has no graph break in `layers/test_tap`, with 200 runs in threads of their own as
here.
"""

import threading

import pytest
import torch

from every import slow_but
from glassformer.inspect.attribution import attribute
from glassformer.inspect.edits import Patch, Scale, Zero
from glassformer.inspect.ledger import ledger
from glassformer.inspect.look import look
from variants import EACH, made

PLACE = {"position": 1, "against": 0}
"""An element that is never padding; of a class, the position says nothing."""


@pytest.mark.parametrize("variant", EACH)
def test_a_ledger_is_the_logit_to_a_hundred_thousandth(variant):
    seen = look(*made(variant))
    logits = seen.logits if seen.logits.dim() == 1 else seen.logits[1]
    found = ledger(seen, 2, **PLACE)
    total = sum(entry.value for entry in found.entries) + found.bias
    assert total == pytest.approx(float(logits[2] - logits[0]), rel=1e-5, abs=1e-5)
    assert found.gap <= 1e-5


@pytest.mark.parametrize("variant", EACH)
def test_integrated_gradients_are_complete_to_a_hundredth(variant):
    seen = look(*made(variant))
    found = attribute(seen, "integrated_gradients", 2, **PLACE)
    total = float(found.scores.double().sum())
    total += 0.0 if found.source_scores is None else float(found.source_scores.double().sum())
    assert total == pytest.approx(found.change, rel=0.01, abs=1e-6)
    assert found.gap <= 0.01


@pytest.mark.parametrize("variant", EACH)
def test_patching_with_itself_changes_nothing(variant):
    """Of each kind of point the last one, and of attention the last of every stack."""
    seen = look(*made(variant))
    twice = seen.model.encoder is not None and seen.model.decoder is not None
    points = {(point.kind, point.side, point.site): point.name for point in seen.points()}
    assert len(points) > 12
    for (kind, *_), name in points.items():
        if twice and name.startswith("embed."):
            continue  # both sides fire there
        patched = seen.edit([Patch(name, source=seen)])
        if kind in ("scores", "pattern"):  # so that attention is written out
            torch.testing.assert_close(patched.logits, seen.logits, rtol=1e-5, atol=1e-5)
        else:
            assert torch.equal(patched.logits, seen.logits), name


@pytest.mark.parametrize("variant", slow_but(["grouped", "both rotary"], "grouped"))
def test_of_200_looks_none_is_touched_by_the_edits_of_another_thread(variant):
    model, batch = made(variant)
    plain = look(model, batch).logits
    edits = [Zero("*.0.attention.z", head=1), Scale("*.1.resid_mid", by=3.0)]
    changed = look(model, batch, edits=edits).logits
    assert not torch.allclose(plain, changed)
    done, found = threading.Event(), []

    def edit() -> None:
        while not done.is_set():
            found.append(look(model, batch, edits=edits).logits)

    other = threading.Thread(target=edit)
    other.start()
    try:
        contaminated = sum(not torch.equal(look(model, batch).logits, plain) for _ in range(200))
    finally:
        done.set()
        other.join()
    assert contaminated == 0
    assert found
    assert all(torch.equal(one, changed) for one in found)
