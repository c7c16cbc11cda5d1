"""The engine with a compiled step: the same promises, the model's tokens."""

import copy
import sys
from pathlib import Path

import pytest
import torch

import tiny
from glassformer.layers.linear.packed import PackedMatrix
from glassformer.layers.tap import Tape, recording
from glassformer.models.packing import pack
from glassformer.native import Program, compiler
from glassformer.runtime.config import GenerateConfig
from glassformer.runtime.decode import decode
from glassformer.runtime.speculative import Drafts
from glassformer.runtime.trace import Watch

sys.path.append(str(Path(__file__).parents[1] / "runtime"))
from test_engine import CONTEXT, KINDS, alone, model_of, named, requests, together

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")
WANTED = requests(10, new=(1, 12, 24))


def compiled(model):
    model.compiled_step = Counted(model)
    return model


class Counted(Program):
    """A compiled step that counts the elements it computed."""

    elements = 0

    def logits(self, batch, *rest):
        self.elements += batch.elements.shape[1]
        return super().logits(batch, *rest)


@named
def test_a_request_is_the_same_alone_and_in_any_company(changes):
    """Also in windows that move on, with shared prefixes, and whatever free pages hold."""
    model = compiled(model_of(changes))
    expected = [alone(model, one) for one in WANTED]
    computed = sum(
        len(one.prompt) + len(own) - 1 for one, own in zip(WANTED, expected, strict=True)
    )
    # A prompt may be cut to its window; one that has moved on is read again.
    assert 0.9 * computed < model.compiled_step.elements < 1.5 * computed
    for options in ({"max_rows": 16}, {"max_rows": 3}):
        assert together(model, WANTED, free=torch.nan, seed=len(options), **options) == expected


@named
def test_tokens_are_the_models(changes):
    plain, quick = model_of(changes), compiled(model_of(changes))
    for request in WANTED:
        want, found = alone(plain, request), alone(quick, request)
        assert [one.id for one, *_ in found] == [one.id for one, *_ in want]
        logs = [one.log_prob for one, *_ in want]
        # other orders of summation: rounding of float32 through two layers
        assert [one.log_prob for one, *_ in found] == pytest.approx(logs, abs=2e-5)


@pytest.mark.parametrize("small", [None, {"n_layers": 1, "d_model": 32}], ids=["ngram", "small"])
def test_a_draft_changes_no_bit(small):
    model = compiled(model_of(KINDS[0]))
    draft = None if small is None else compiled(model_of({**KINDS[0], **small}))
    expected = [alone(model, one) for one in WANTED]
    drafts = Drafts(draft, ahead=3)
    assert together(model, [drafts.drafted(one) for one in WANTED]) == expected
    assert drafts.counts.right > 0


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_an_encoder_decoder_writes_the_same(rows):
    """Rows of several sources."""
    changes = {"architecture": "encoder_decoder", "position": "buckets", "d_model": 64}
    exact = tiny.model(**changes, max_length=CONTEXT)
    plain, quick = copy.deepcopy(exact).float(), compiled(copy.deepcopy(exact).float())
    sources, config = tiny.tokens(rows, 9).tolist(), GenerateConfig(max_new_tokens=8, temperature=0)
    prompts = [[1]] * rows
    want = list(decode(plain, prompts, config, sources=sources))
    assert list(map(ids_of, decode(quick, prompts, config, sources=sources))) == list(
        map(ids_of, want)
    )
    assert quick.compiled_step.elements == 8 * rows


def ids_of(step):
    return step.ids


def test_what_is_looked_at_is_computed_by_the_model():
    model = compiled(model_of(KINDS[1]))
    config = GenerateConfig(max_new_tokens=4, temperature=0)
    watched = list(decode(model, [[1, 2]], config, watch=Watch(top=3, attention=True)))
    assert all(step.choices[0].rows for step in watched)
    with recording(tape := Tape(model, keep=("*.z",))):
        list(decode(model, [[1, 2]], config))
    assert tape.kept
    assert not model.compiled_step.elements
    assert list(map(ids_of, decode(model, [[1, 2]], config))) == list(map(ids_of, watched))
    assert model.compiled_step.elements == 2 + 3


def test_changed_weights_and_copies_are_not_decoded_by_an_old_step():
    model = compiled(model_of(KINDS[1]))
    assert copy.deepcopy(model).compiled_step is None
    with torch.no_grad():
        model.embed.element.weight.mul_(1.01)
    config = GenerateConfig(max_new_tokens=4, temperature=0)
    assert list(decode(model, [[1, 2]], config))
    assert not model.compiled_step.elements


def test_packed_matrices_keep_their_levels():
    """The program rounds what a packed matrix stands for to the very same integers."""
    model = model_of(KINDS[1])
    pack(model, "int8")
    matrix = model.head.packed.matrix
    again = PackedMatrix(matrix, "int8").matrix
    torch.testing.assert_close(again, matrix, rtol=1e-6, atol=0)
