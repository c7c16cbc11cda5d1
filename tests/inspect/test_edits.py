"""Edits: what each does, against plain arithmetic and against models that are built the edited way;
and their JSON."""

import copy
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import tiny
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.inspect.edits import (
    EDITS,
    Add,
    Freeze,
    Mask,
    Mean,
    Patch,
    Permute,
    Resample,
    Scale,
    Set,
    Temperature,
    Zero,
    edit_from_json,
)
from glassformer.inspect.look import look
from tiny import EXACT

pytestmark = pytest.mark.usefixtures("no_grad")

STREAM, Z = "decoder.blocks.0.resid_post", "decoder.blocks.0.attention.z"
SCORES, PATTERN = "decoder.blocks.1.attention.scores", "decoder.blocks.1.attention.pattern"
AXES = {
    STREAM: ("batch", "position", "model"),
    Z: ("batch", "head", "query", "dim"),
    SCORES: ("batch", "head", "query", "key"),
    PATTERN: ("batch", "head", "query", "key"),
}


def seen(edits=(), seed=0, length=6, **changes):
    return look(tiny.model(**changes), Batch(tiny.tokens(1, length, seed=seed)), edits=edits)


def tensor_at(point):
    """Made-up values of a point: 4 heads, 6 positions, causal where there are queries and keys."""
    generator = torch.Generator().manual_seed(5)
    if point == STREAM:
        return torch.randn(1, 6, 8, generator=generator).double()
    if point == Z:
        return torch.randn(1, 4, 6, 2, generator=generator).double()
    scores = torch.randn(1, 4, 6, 6, generator=generator).double()
    scores = scores.masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf)
    return scores if point == SCORES else scores.softmax(-1)


def done(edit, tensor=None):
    tensor = tensor_at(edit.point) if tensor is None else tensor
    return edit(tensor, AXES[edit.point], edit.point)


def all_edits():
    other = seen(seed=1)
    return [
        Zero(Z, head=1),
        Mean(Z, head=[0, 2], query=slice(1, 4)),
        Resample(STREAM, seed=3),
        Set(PATTERN, head=2, query=4, key=1, to=0.75, renormalise=True),
        Set(STREAM, position=-1, to=[float(i) for i in range(8)]),
        Scale(STREAM, by=-0.5, position=[1, 3]),
        Add(STREAM, vector=[[0.5] * 8], model=slice(None, 3)),
        Patch(STREAM, source=other, name="other", position=2),
        Freeze(PATTERN, source=other, name="other", head=3),
        Mask(SCORES, head=0, query=5, key=[0, 1]),
        Temperature(SCORES, tau=0.25, head=2),
        Permute(STREAM, order=[5, 4, 3, 2, 1, 0]),
    ]


def test_every_edit_is_among_these():
    assert {type(edit) for edit in all_edits()} == set(EDITS.values())


@pytest.mark.parametrize("edit", all_edits(), ids=repr)
def test_an_edit_changes_a_copy_and_nothing_but_its_place(edit):
    before = tensor_at(edit.point)
    tensor = before.clone()
    after = done(edit, tensor)
    assert torch.equal(tensor, before)
    assert not torch.equal(after, before)
    kept = edit.inside(before, AXES[edit.point], edit.point).expand_as(before).logical_not()
    if not getattr(edit, "renormalise", False):
        assert torch.equal(after[kept], before[kept])


@pytest.mark.parametrize("edit", all_edits(), ids=repr)
def test_an_edit_is_its_json(edit):
    sources = {"other": getattr(edit, "source", None)}
    plain = json.loads(json.dumps(edit.to_json(), allow_nan=False))
    again = edit_from_json(plain, sources)
    assert again == edit
    assert again.to_json() == plain
    assert torch.equal(done(again), done(edit))


def test_an_edit_reads_as_python():
    assert repr(Set(PATTERN, head=5, to=0.9)) == f"Set('{PATTERN}', head=5, to=0.9)"
    assert repr(Zero("head.logits", class_=3)) == "Zero('head.logits', class_=3)"
    assert (
        repr(Patch(Z, source=seen(), name="clean")) == f"Patch('{Z}', source=clean, name='clean')"
    )
    assert Zero("*.z", query=slice(2, 5), head=[0, 1]).to_json() == {
        "edit": "Zero", "point": "*.z", "query": "2:5", "head": [0, 1]
    }  # fmt: skip
    assert edit_from_json({"edit": "Zero", "point": "*.z", "query": ":-1"}).at == {
        "query": slice(None, -1)
    }


def test_zero_cuts_a_head_off():
    """As if its rows of W_O were 0."""
    model = copy.deepcopy(tiny.model())
    edited = seen([Zero(Z, head=2)]).logits
    model.decoder.blocks[0].attention.out_proj.weight.data[:, 4:6] = 0
    assert_close(look(model, Batch(tiny.tokens(1, 6))).logits, edited, **EXACT)


def test_mean_and_resample_take_from_other_positions():
    z = tensor_at(Z)
    mean = done(Mean(Z, head=1))
    assert_close(mean[0, 1], z[0, 1].mean(0).expand(6, 2), **EXACT)
    assert torch.equal(mean[0, [0, 2, 3]], z[0, [0, 2, 3]])
    for seed in range(20):
        other = done(Resample(Z, seed=seed))
        # every position has the values of one other, for all heads together, and each is used once
        match = (other[0, :, :, None] == z[0, :, None, :]).all(-1).all(0)
        assert match.sum(0).tolist() == match.sum(1).tolist() == [1] * 6
        assert not match.diagonal().any()
        assert torch.equal(other, done(Resample(Z, seed=seed)))
    assert not torch.equal(done(Resample(Z)), done(Resample(Z, seed=1)))


def test_mask_cuts_edges_as_a_window_does():
    """Position-free model, all edges but the nearest cut in both layers: the same model with a
    window."""
    edits = [Mask("*.scores", query=i, key=list(range(i - 1))) for i in range(2, 6)]
    edited = seen(edits, position="none")
    assert_close(edited.logits, seen(position="none", window=2).logits, **EXACT)
    rows = edited.pattern(0, 0).sum(1)
    assert_close(rows, torch.ones(6).double(), **EXACT)
    blind = seen([Mask(SCORES, head=0, query=4)])  # a query that sees nothing at all
    assert torch.equal(blind.pattern(1, 0)[4], torch.zeros(6).double())
    assert not blind.logits.isnan().any()


def test_temperature_is_a_softmax_of_divided_scores():
    plain = seen()
    for tau in (0.01, 0.5, 3.0):
        cooled = seen([Temperature(SCORES, tau=tau, head=1)])
        assert_close(cooled.pattern(1, 1), (plain.scores(1, 1) / tau).softmax(-1), **EXACT)
        assert_close(cooled.pattern(1, 0), plain.pattern(1, 0), **EXACT)
        # as if the head's queries were scaled
        scaled = seen([Scale("decoder.blocks.1.attention.q", by=1 / tau, head=1)])
        assert_close(cooled.logits, scaled.logits, rtol=1e-8, atol=1e-8)


@given(st.floats(0, 1), st.integers(1, 5), st.data())
def test_a_row_in_which_a_weight_is_set_sums_to_1_and_keeps_the_proportions_of_the_rest(
    to, query, data
):
    key = data.draw(st.integers(0, query))
    pattern = tensor_at(PATTERN)
    after = done(Set(PATTERN, head=1, query=query, key=key, to=to, renormalise=True), pattern)[
        0, 1, query
    ]
    assert after[key] == to
    assert_close(after.sum(), torch.tensor(1.0).double(), **EXACT)
    rest = [i for i in range(query + 1) if i != key]
    before = pattern[0, 1, query, rest]
    assert_close(after[rest], before / before.sum() * (1 - to), **EXACT)
    assert (after[query + 1 :] == 0).all()


@pytest.mark.parametrize(
    ("at", "to"),
    [({"query": 0, "key": 0}, 0.5), ({"query": 3, "key": [0, 1]}, 0.7), ({"query": 2}, 0.1)],
)
def test_a_row_that_cannot_sum_to_1_is_refused(at, to):
    row = f"head 2, query {at['query']} cannot sum to 1"
    with pytest.raises(ConfigError, match=row):
        done(Set(PATTERN, head=2, to=to, renormalise=True, **at))
    done(Set(PATTERN, head=2, to=to, **at))  # without renormalising anything goes


def test_what_the_mask_closed_stays_closed():
    scores = tensor_at(SCORES)
    for edit in (
        Zero(SCORES),
        Set(SCORES, to=3.0),
        Scale(SCORES, by=0.0),
        Scale(SCORES, by=-1.0),
        Add(SCORES, vector=2.0),
    ):
        after = done(edit)
        assert torch.equal(after == -torch.inf, scores == -torch.inf), edit
        assert after[scores > -torch.inf].isfinite().all()


@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_patching_a_look_with_itself_changes_nothing(architecture):
    model = copy.deepcopy(
        tiny.model(architecture=architecture, n_kv_heads=2, position="rotary")
    ).float()
    source = Batch(tiny.tokens(1, 5, seed=2)) if architecture == "encoder_decoder" else None
    own = look(model, Batch(tiny.tokens(1, 6), source=source))
    for point in own.points():
        if point.name == "embed.elements" and source is not None:
            continue  # both sides fire there
        patched = own.edit([Patch(point.name, source=own)])
        if point.kind in ("scores", "pattern"):
            assert_close(patched.logits, own.logits, rtol=1e-5, atol=1e-5)
        else:
            assert torch.equal(patched.logits, own.logits), point.name


def test_patching_takes_values_from_another_look():
    clean, dirty = seen(seed=1), seen()
    assert not torch.allclose(clean.logits, dirty.logits)
    assert torch.equal(
        dirty.edit([Patch("decoder.blocks.1.resid_post", source=clean)]).logits, clean.logits
    )
    one = dirty.edit([Patch(STREAM, source=clean, position=3)])
    assert torch.equal(one[STREAM].tensor[3], clean[STREAM].tensor[3])
    assert torch.equal(one[STREAM].tensor[4], dirty[STREAM].tensor[4])
    assert torch.equal(one.logits[:3], dirty.logits[:3])  # causal: nothing before it can know
    assert not torch.allclose(one.logits[3:], dirty.logits[3:])
    with pytest.raises(
        ConfigError,
        match=r"it is \[6, 8\] here and \[4, 8\] in the source; look at inputs of one length",
    ):
        dirty.edit([Patch(STREAM, source=seen(length=4))])


def test_a_frozen_pattern_stays_however_the_input_changes():
    first, second = seen(), seen(seed=1)
    frozen = second.edit([Freeze("*.pattern", source=first)])
    for layer in range(2):
        for head in range(4):
            assert torch.equal(
                frozen.pattern(layer, head),
                first[f"decoder.blocks.{layer}.attention.pattern"].tensor[head],
            )
            assert not torch.allclose(frozen.pattern(layer, head), second.pattern(layer, head))
    assert not torch.allclose(frozen.logits, first.logits)


def test_an_encoder_without_positions_does_not_mind_the_order():
    """f(P x) = P f(x): what Permute moves in, comes out moved."""
    order, changes = [3, 0, 5, 1, 4, 2], {"architecture": "encoder", "position": "none"}
    moved = seen([Permute("encoder.blocks.0.resid_pre", order=order)], **changes)
    plain = seen(**changes)
    assert_close(moved.logits, plain.logits[order], **EXACT)
    assert not torch.allclose(moved.logits, plain.logits)


def test_edits_act_one_after_the_other():
    add, zero = Add(STREAM, vector=1.5, model=0), Zero(STREAM, model=[0, 1])
    assert (seen([add, zero])[STREAM].tensor[:, :2] == 0).all()
    assert (seen([zero, add])[STREAM].tensor[:, 0] == 1.5).all()


OTHER = seen()
BAD = [
    (lambda: Zero(Z, hed=1), r"Zero.hed; did you mean 'head'"),
    (lambda: Set(Z, too=1.0), r"Set.too; did you mean 'to'"),
    (lambda: Set(Z), r"Set.to: field required"),
    (lambda: Zero(""), r"Zero.point: string should have at least 1 character"),
    (lambda: Zero(Z, head=True), r"Zero.head: a yes or no is not what belongs here"),
    (lambda: Zero(Z, head=1.0), r"Zero.head: 1.0 is no place"),
    (lambda: Zero(Z, head="1"), r"Zero.head: '1' is no place"),
    (lambda: Zero(Z, head=[]), r"Zero.head: \[\] is no place"),
    (
        lambda: Zero(Z, head=slice(0, 4, 0)),
        r"is no place; give a whole number, several, or a slice",
    ),
    (lambda: Scale(Z, by=float("nan")), r"Scale.by: input should be a finite number"),
    (lambda: Scale(Z, by="2"), r"Scale.by: input should be a valid number"),
    (lambda: Add(Z, vector=[[1.0], [2.0, 3.0]]), r"is no finite number, nor rows of them"),
    (lambda: Add(Z, vector=[]), r"is no finite number, nor rows"),
    (lambda: Add(Z, vector=[float("inf")]), r"is no finite number, nor rows"),
    (lambda: Set(Z, to=1.0, renormalise=1), r"Set.renormalise: input should be a valid boolean"),
    (lambda: Temperature(SCORES, tau=0), r"Temperature.tau: input should be greater than 0"),
    (lambda: Resample(Z, seed=-1), r"Resample.seed: input should be greater than or equal to 0"),
    (lambda: Permute(Z, order=3), r"Permute.order: input should be"),
    (lambda: done(Permute(Z, order=[0, 0, 1, 2, 3, 4])), r"each position from 0 to 5 once"),
    (lambda: Patch(Z), r"Patch.source: field required"),
    (
        lambda: Patch(Z, source="clean"),
        r"Patch.source: input should be an instance of Look, got 'clean'",
    ),
    (lambda: Patch(Z, source=OTHER).to_json(), r"its source has no name; give one as name="),
    (
        lambda: done(Zero(Z, position=1)),
        rf"Zero of {Z} has no axis 'position'; known are batch, dim, head, query",
    ),
    (lambda: done(Zero(Z, head=4)), rf"Zero of {Z}: head=4 is not there; head runs from 0 to 3"),
    (lambda: done(Zero(Z, query=slice(6, 7))), r"query=6:7 is not there; query runs from 0 to 5"),
    (lambda: done(Mask(Z)), r"it is for scores of an attention, not for 'z'"),
    (
        lambda: done(Temperature(PATTERN, tau=1.0)),
        r"it is for scores of an attention, not for 'pattern'",
    ),
    (lambda: done(Freeze(Z, source=OTHER)), r"it is for pattern of an attention, not for 'z'"),
    (lambda: done(Mean(PATTERN)), r"this point has queries and keys, whose mask it would break"),
    (
        lambda: done(Set(Z, to=0.1, renormalise=True)),
        r"renormalise is for rows of a pattern; leave it out",
    ),
    (
        lambda: done(Add(Z, vector=[1.0, 2.0, 3.0])),
        r"numbers of shape \[3\] do not fit \[4, 6, 2\]",
    ),
    (lambda: done(Permute(Z, order=[1, 0])), r"the order has not each position from 0 to 5 once"),
    (
        lambda: Resample(Z)(torch.zeros(1, 4, 1, 2), AXES[Z], Z),
        r"there is no other position in a sequence of one",
    ),
    (lambda: edit_from_json([]), r"\[\] is no edit; give an object"),
    (lambda: edit_from_json({"point": Z}), r"There is no edit None; known are"),
    (
        lambda: edit_from_json({"edit": "Zeros", "point": Z}),
        r"There is no edit 'Zeros'; did you mean 'Zero'",
    ),
    (lambda: edit_from_json({"edit": ["Zero"], "point": Z}), r"There is no edit \['Zero'\]"),
    (lambda: edit_from_json({"edit": "Zero"}), r"Zero.point: input should be a valid string"),
    (
        lambda: edit_from_json({"edit": "Zero", "point": Z, "heads": 1}),
        r"Zero.heads; did you mean 'head'",
    ),
    (
        lambda: edit_from_json({"edit": "Zero", "point": Z, "query": "a:b"}),
        r"Zero.query: 'a:b' is no place",
    ),
    (
        lambda: edit_from_json({"edit": "Zero", "point": Z, "query": "3"}),
        r"Zero.query: '3' is no place",
    ),
    (
        lambda: edit_from_json({"edit": "Zero", "point": Z, "query": None}),
        r"Zero.query: none is no place",
    ),
    (
        lambda: edit_from_json({"edit": "Patch", "point": Z}),
        r"its source is None, which was not given; no look is at",
    ),
    (
        lambda: edit_from_json({"edit": "Patch", "point": Z, "source": "claen"}, {"clean": OTHER}),
        r"mean 'clean'",
    ),
]


@pytest.mark.parametrize(("make", "said"), BAD, ids=[said for _, said in BAD])
def test_what_cannot_be_is_one_clear_sentence(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_an_edit_that_never_fires_is_an_error():
    with pytest.raises(
        ConfigError, match=r"'decoder.blocks.0.attention.zz' never fired .*did you mean"
    ):
        seen([Zero("decoder.blocks.0.attention.zz")])
