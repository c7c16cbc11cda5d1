"""Attribution against finite differences, weights set to zero by hand and loops in NumPy;
faithfulness likewise."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from glassformer.core.batch import Batch, Part
from glassformer.core.errors import ConfigError
from glassformer.inspect.attribution import METHODS, attribute, faithfulness
from glassformer.inspect.edits import Add, Mask, Scale, Set, Zero
from glassformer.inspect.look import Look, look
from glassformer.inspect.target import Attribution, Target, rerun
from glassformer.models import Transformer

OWN, SOURCE = torch.tensor([[3, 1, 7, 11, 5]]), torch.tensor([[2, 9, 4]])
"""Ids of which each comes once, so that a row of the embedding is an element."""


def looked(**changes) -> Look:
    crossed = changes.get("architecture") == "encoder_decoder"
    sides = {"n_encoder_layers": 1} if crossed else {}
    model = tiny.model(**{"tied": False, **sides, **changes})
    return look(model, Batch(OWN, source=Batch(SOURCE) if crossed else None))


def answer(model: Transformer, shares, ids, source=None) -> float:
    """Logit 4 minus logit 8 at position 3, with the embedding's rows of `ids` (and of the source's)
    dimmed."""
    table = model.embed.element.weight
    kept = table.detach().clone()
    try:
        with torch.no_grad():
            for share, i in zip(shares, [*ids, *(source or [])], strict=True):
                table[i] = kept[i] * share
            batch = Batch(
                torch.tensor([ids]),
                source=None if source is None else Batch(torch.tensor([source])),
            )
            logits = model(batch).logits[0, 3]
        return float(logits[4] - logits[8])
    finally:
        table.data.copy_(kept)


def both(found: Attribution) -> np.ndarray:
    parts = [part for part in (found.scores, found.source_scores) if part is not None]
    return torch.cat(parts).numpy()


@pytest.fixture(params=["decoder", "encoder_decoder"])
def seen(request) -> Look:
    return looked(architecture=request.param)


def dimmed(seen: Look, shares) -> float:
    return answer(
        seen.model, shares, OWN[0].tolist(), SOURCE[0].tolist() if seen.source_elements else None
    )


def test_gradient_times_input_is_the_slope_of_dimming(seen):
    found = both(attribute(seen, "gradient_x_input", 4, position=3, against=8))
    n, h = len(found), 1e-5
    assert n == (8 if seen.source_elements else 5)
    for j in range(n):
        more, less = np.ones(n), np.ones(n)
        more[j], less[j] = 1 + h, 1 - h
        slope = (dimmed(seen, more) - dimmed(seen, less)) / (2 * h)
        assert found[j] == pytest.approx(slope, rel=1e-5, abs=1e-6)
    assert found[4] == 0  # behind the position


def test_integrated_gradients_are_the_mean_slope_on_the_way_from_nothing(seen):
    found = attribute(seen, "integrated_gradients", 4, position=3, against=8, tolerance=1e-5)
    n, h = len(both(found)), 1e-6
    slopes = np.zeros(n)
    for share, weight in zip(*np.polynomial.legendre.leggauss(20), strict=True):
        shares = np.full(n, (share + 1) / 2)
        here = dimmed(seen, shares)
        for j in range(n):
            slopes[j] += (dimmed(seen, shares + h * np.eye(n)[j]) - here) / h * weight / 2
    np.testing.assert_allclose(both(found), slopes, rtol=1e-3, atol=1e-4)
    change = dimmed(seen, np.ones(n)) - dimmed(seen, np.zeros(n))
    assert found.change == pytest.approx(change, rel=1e-6)
    assert both(found).sum() == pytest.approx(change, rel=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "rms", "position": "rotary", "norm_placement": "post"},
        {"norm": "rms", "position": "none", "epsilon": 1e-6, "activation": "relu_squared"},
        {"architecture": "encoder", "head": "classify", "n_classes": 3, "pool": "mean"},
        {"architecture": "encoder", "head": "tag", "n_classes": 3, "embedding_norm": True},
    ],
)
@pytest.mark.parametrize("baseline", ["zero", "mean", 6])
def test_integrated_gradients_add_up(changes, baseline):
    found = attribute(looked(**changes), "integrated_gradients", 1, against=0, baseline=baseline)
    assert found.gap <= 0.01
    assert found.steps >= 8
    assert both(found).sum() == pytest.approx(found.change, rel=0.011, abs=1e-6)


def test_a_steep_way_is_cut_finer_and_what_it_may_cost_is_kept_to():
    seen = looked(norm="rms", position="none", epsilon=1e-12)
    found = attribute(seen, "integrated_gradients", 1)
    assert found.steps > 8
    assert found.gap <= 0.01
    short = attribute(seen, "integrated_gradients", 1, most=8)
    assert short.steps == 8
    assert short.gap > 0.01  # and says so
    with pytest.raises(ConfigError, match=r"norm with epsilon=0.*baseline='mean'"):
        attribute(looked(position="none", epsilon=0.0), "integrated_gradients", 1)


def test_occlusion_is_what_is_lost_without_an_element(seen):
    found = both(attribute(seen, "occlusion", 4, position=3, against=8))
    n = len(found)
    for j in range(n):
        assert found[j] == pytest.approx(
            dimmed(seen, np.ones(n)) - dimmed(seen, 1.0 - np.eye(n)[j]), rel=1e-5, abs=1e-6
        )
    mask = attribute(seen, "occlusion", 4, position=3, baseline=6)
    ids = OWN.clone()
    ids[0, 1] = 6
    changed = look(seen.model, replace(seen.batch, elements=ids))
    assert float(mask.scores[1]) == pytest.approx(
        float(seen.logits[3, 4] - changed.logits[3, 4]), rel=1e-5
    )


def patterns(seen: Look, side: str, site: str = "self") -> list[np.ndarray]:
    """[H, T, S] of each layer."""
    config = seen.model.config
    found = [
        [seen.pattern(layer, head, side=side, site=site).numpy() for head in range(config.n_heads)]
        for layer in range(config.depth(side))
    ]
    return [np.array(layer) for layer in found]


def multiplied(steps: list[np.ndarray], begin: np.ndarray) -> np.ndarray:
    """Steps through one sequence of source and target together, by loops."""
    r = begin
    for step in steps:
        new = np.zeros_like(r)
        for i in range(len(r)):
            for j in range(len(r)):
                for k in range(len(r)):
                    new[i, j] += step[i, k] * r[k, j]
        r = new
    return r


def joint(own: np.ndarray, cross: np.ndarray | None, source: bool) -> np.ndarray:
    """A step of the 3 source and 5 own elements in one matrix: those that it does not concern
    stay."""
    step = np.eye(8)
    if source:
        step[:3, :3] = own
    else:
        step[3:, 3:] = own
        step[3:, :3] = 0 if cross is None else cross
    return step


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_rollout_is_attention_multiplied_through(architecture, residual):
    """Half of each branch is the residual connection, nothing of it if there is none."""
    seen = looked(architecture=architecture, residual=residual)
    found = both(attribute(seen, "rollout", 4, position=3))
    crossed = bool(seen.source_elements)
    kept = 0.5 if residual else 0.0
    branch = lambda a: kept * np.eye(a.shape[-1]) + (1 - kept) * a.mean(0)
    steps = [joint(branch(a), None, True) for a in patterns(seen, "encoder")] if crossed else []
    for layer, a in enumerate(patterns(seen, "decoder")):
        steps.append(joint(branch(a), None, False))
        if crossed:
            c = patterns(seen, "decoder", "cross")[layer].mean(0)
            steps.append(joint(kept * np.eye(5), (1 - kept) * c, False))
    row = multiplied(steps, np.eye(8))[6]
    np.testing.assert_allclose(
        found, np.append(row[3:], row[:3] if crossed else []), rtol=1e-6, atol=1e-7
    )
    assert found.sum() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_gradient_attention_is_the_positive_part_of_gradient_times_pattern(architecture, residual):
    layers = 2 if architecture == "decoder" else 1
    seen = looked(architecture=architecture, n_heads=2, n_layers=layers, residual=residual)
    kept = float(residual)
    found = both(attribute(seen, "gradient_attention", 4, position=3, against=8))
    h = 1e-6
    value = lambda look: float(look.logits[3, 4] - look.logits[3, 8])
    as_it_is = value(seen)

    def relevant(side: str, name: str, site: str, layer: int) -> np.ndarray:
        a = patterns(seen, side, site)[layer]
        slopes = np.zeros_like(a)
        for head, i, j in np.argwhere(a > 0):
            at = {"head": int(head), "query": int(i), "key": int(j)}
            point = f"{side}.blocks.{layer}.{name}.pattern"
            slopes[head, i, j] = (value(seen.edit([Add(point, vector=h, **at)])) - as_it_is) / h
        return np.maximum(slopes * a, 0).mean(0)

    crossed = bool(seen.source_elements)
    steps = []
    if crossed:
        steps = [joint(kept * np.eye(3) + relevant("encoder", "attention", "self", 0), None, True)]
    for layer in range(layers):
        own = kept * np.eye(5) + relevant("decoder", "attention", "self", layer)
        cross = relevant("decoder", "cross", "cross", layer) if crossed else None
        steps.append(joint(kept * own if crossed else own, cross, False))
    row = multiplied(steps, np.eye(8))[6] - kept * np.eye(8)[6]
    np.testing.assert_allclose(
        found, np.append(row[3:], row[:3] if crossed else []), rtol=1e-4, atol=1e-6
    )
    assert found.max() > 1e-4


EDITS = [
    Zero("decoder.blocks.0.attention.z", head=1),
    Mask("decoder.blocks.1.attention.scores", head=0, key=2),
    Set("decoder.blocks.0.attention.pattern", head=2, query=3, key=1, to=0.7, renormalise=True),
    Scale("decoder.blocks.1.attention.z", by=-2.0, head=3),
]


@pytest.mark.parametrize(
    "edits", [(), EDITS, [Zero("decoder.blocks.1.resid_post")]], ids=["plain", "edited", "cut off"]
)
@pytest.mark.parametrize(
    "changes",
    [
        {"n_kv_heads": 2, "position": "rotary"},
        {"n_kv_heads": 1, "position": "alibi"},
        {"position": "relative", "window": 3},
        {"position": "learned", "norm": "rms", "norm_placement": "post"},
    ],
    ids=lambda changes: changes["position"],
)
def test_gradient_attention_takes_no_pattern_on_the_way_back(changes, edits, monkeypatch):
    """The same as the gradient by patterns that were kept, for which all of them had to be in
    memory at once."""
    seen = looked(**changes).edit(edits)
    names = [f"decoder.blocks.{layer}.attention.pattern" for layer in range(2)]
    logits, tape = rerun(seen, target := Target.of(seen, 4, 3, 8), keep=names, gradients=True)
    kept = [tape.kept[name] for name in names]
    slopes = torch.autograd.grad(target.value(logits).sum(), kept, materialize_grads=True)
    row = torch.eye(5).double()[3]
    for slope, pattern in reversed([*zip(slopes, kept, strict=True)]):
        row = row + row @ (slope * pattern.detach()).clamp(min=0)[0].mean(0)

    def never(*arguments, **options):
        raise AssertionError("a pattern was written out in a pass")

    def without_scores(*arguments, **options):
        with monkeypatch.context() as patched:
            patched.setattr("glassformer.layers.attention.multi_head.attention_pattern", never)
            return rerun(*arguments, **options)

    if not edits:
        monkeypatch.setattr("glassformer.inspect.attribution.rerun", without_scores)
    found = attribute(seen, "gradient_attention", 4, position=3, against=8)
    torch.testing.assert_close(
        found.scores.double(), row - torch.eye(5).double()[3], rtol=1e-6, atol=1e-12
    )
    assert (float(found.scores.max()) > 1e-3) == (len(edits) != 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pool", ["first", "mean", "last"])
def test_classes_of_patches(method, pool):
    """Every method gives a score to every element of the stream, the class token too."""
    choices = {
        "architecture": "encoder",
        "elements": "patches",
        "head": "classify",
        "n_classes": 3,
        "pool": pool,
    }
    model = tiny.model(**choices, patch_width=4, max_length=6)
    found = attribute(look(model, Batch(torch.randn(1, 6, 4).double())), method, 1)
    assert found.scores.shape == (7 if pool == "first" else 6,)
    assert found.scores.isfinite().all()
    assert found.target.position is None
    assert (found.scores.min() >= 0) or method in (
        "gradient_x_input",
        "integrated_gradients",
        "occlusion",
    )


def test_rollout_pools_as_the_head_does():
    seen = looked(architecture="encoder", head="classify", n_classes=3, pool="mean", n_layers=1)
    wanted = (np.eye(5) + patterns(seen, "encoder")[0].mean(0)).mean(0) / 2
    np.testing.assert_allclose(attribute(seen, "rollout", 0).scores, wanted, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_edits_stand_and_parts_are_elements(method):
    model = tiny.model(parts={"image": 5}, n_kv_heads=2, position="rotary", source_vocab_size=None)
    part = Part("image", torch.tensor([1, 2, 3]), torch.randn(3, 5).double(), torch.arange(3))
    plain = look(model, Batch(tiny.tokens(1, 6), parts=(part,)))
    silent = plain.edit([Zero(f"decoder.blocks.{layer}.attention.z") for layer in range(2)])
    shut = plain.edit([Mask("decoder.blocks.*.attention.scores", key=2, query=slice(3, 6))])
    assert attribute(plain, method, 1).scores.abs().max() > 1e-3
    if method != "rollout":  # which reads patterns alone
        own = attribute(silent, method, 1).scores
        assert own[:5].abs().max() < 1e-9  # nothing is passed on between elements
    assert abs(float(attribute(shut, method, 1).scores[2])) < 1e-9


def test_a_source_with_an_embedding_of_its_own():
    shared = looked(architecture="encoder_decoder")
    own = looked(architecture="encoder_decoder", source_vocab_size=13)
    for seen in (shared, own):
        one = attribute(seen, "occlusion", 4, position=2)
        batch = replace(seen.batch, source=Batch(SOURCE))
        table = (seen.model.source_embed or seen.model.embed).element.weight
        kept = table.detach().clone()
        with torch.no_grad():
            table[9] = 0
            lost = seen.logits[2, 4] - seen.model(batch).logits[0, 2, 4]
            table.copy_(kept)
        assert float(one.source_scores[1]) == pytest.approx(float(lost), rel=1e-5)


def test_edits_of_the_logits_find_them_by_position():
    seen = looked().edit(
        [Add("head.logits", vector=2.0, position=3), Zero("decoder.blocks.0.attention.z", head=1)]
    )
    plain = looked().edit(seen.edits[1:])
    for method in ("occlusion", "gradient_x_input"):
        torch.testing.assert_close(
            attribute(seen, method, 4, position=3).scores,
            attribute(plain, method, 4, position=3).scores,
        )


def test_what_is_not_there_is_refused():
    seen = looked()
    for call, sentence in (
        (
            lambda: attribute(seen, "rolout", 0),
            "no method 'rolout' of attribution; did you mean 'rollout'",
        ),
        (
            lambda: attribute(seen, "occlusion", 0, tolerance=1),
            "occlusion has no option 'tolerance'; known are baseline",
        ),
        (
            lambda: attribute(seen, "rollout", 0, baseline="zero"),
            "rollout has no option 'baseline'; it has none",
        ),
        (
            lambda: attribute(seen, "occlusion", 0, baseline="nothing"),
            "'nothing' is neither 'zero' nor 'mean' nor",
        ),
        (
            lambda: attribute(seen, "occlusion", 0, baseline=13),
            "no token 13 in this model; its tokens are 0 to 12",
        ),
        (lambda: attribute(seen, "occlusion", 13), "no outcome 13"),
        (lambda: attribute(seen, "occlusion", 0, position=-6), "no position -6"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            call()


def test_curves_are_the_probability_with_elements_dimmed_in_order():
    seen = looked()
    scores = torch.tensor([0.1, 0.9, -0.5, 0.3, 7.0])  # the last cannot reach position 3
    target = Target.of(seen, 4, 3, 8)
    found = faithfulness(seen, Attribution("by hand", target, scores), orders=3)
    order = [1, 3, 0, 2]
    assert found.shares.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert found.random_deletion.shape == found.random_insertion.shape == (3, 5)
    for n in range(5):
        gone, there = np.ones(5), np.ones(5)
        gone[order[:n]] = 0
        there[order[n:]] = 0
        for curve, shares in ((found.deletion, gone), (found.insertion, there)):
            assert float(curve[n]) == pytest.approx(
                1 / (1 + np.exp(-dimmed(seen, shares))), rel=1e-5
            )
    p = found.deletion.tolist()
    assert float(found.area(found.deletion)) == pytest.approx(
        (p[0] / 2 + p[1] + p[2] + p[3] + p[4] / 2) / 4
    )
    random = found.area(found.random_deletion).mean() - found.area(found.deletion)
    assert found.gain[0] == pytest.approx(float(random))
    for ends in (found.random_deletion, found.random_insertion.flip(1)):
        torch.testing.assert_close(ends[:, 0], found.deletion[:1].expand(3))
        torch.testing.assert_close(ends[:, -1], found.deletion[-1:].expand(3))


def test_no_order_beats_the_best_one():
    """Against all orders of four elements, by hand."""
    seen = looked()
    target = Target.of(seen, 4, 3, 8)

    def area(order) -> float:
        shares, curve = np.ones(5), []
        for j in (None, *order):
            if j is not None:
                shares[j] = 0
            curve.append(1 / (1 + np.exp(-dimmed(seen, shares))))
        return sum(a + b for a, b in itertools.pairwise(curve)) / 8

    areas = {order: area(order) for order in itertools.permutations(range(4))}
    best = min(areas, key=areas.__getitem__)
    scores = torch.zeros(5)
    scores[list(best)] = torch.tensor([4.0, 3.0, 2.0, 1.0])
    found = faithfulness(seen, Attribution("by hand", target, scores), orders=12)
    assert float(found.area(found.deletion)) == pytest.approx(areas[best], rel=1e-5)
    assert found.gain[0] > 0
    known = np.array(list(areas.values()))
    for random in found.area(found.random_deletion).tolist():
        assert np.abs(known - random).min() < 1e-5


def test_a_seed_is_an_order_and_the_source_counts():
    seen = looked(architecture="encoder_decoder")
    scores = attribute(seen, "occlusion", 2)
    found, same = faithfulness(seen, scores), faithfulness(seen, scores)
    assert found.shares.shape == (9,)  # five elements and three of the source
    assert found.random_deletion.shape == (8, 9)
    torch.testing.assert_close(found.random_deletion, same.random_deletion)
    assert not faithfulness(seen, scores, seed=1).random_deletion.equal(found.random_deletion)
    assert faithfulness(seen, scores, steps=2, orders=1).shares.tolist() == [0, 0.5, 1]


def test_a_learned_token_is_never_taken_away():
    choices = {
        "architecture": "encoder",
        "elements": "patches",
        "head": "classify",
        "n_classes": 3,
        "pool": "first",
    }
    model = tiny.model(**choices, n_registers=2, patch_width=4, max_length=6)
    seen = look(model, Batch(torch.randn(1, 6, 4).double()))
    found = faithfulness(seen, attribute(seen, "occlusion", 1))
    assert len(found.shares) == 7
    with pytest.raises(ConfigError, match="has 5 scores and the input 9 elements"):
        faithfulness(seen, attribute(looked(), "rollout", 1))
    with pytest.raises(ConfigError, match="steps=0"):
        faithfulness(seen, attribute(seen, "rollout", 1), steps=0)
