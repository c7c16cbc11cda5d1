"""Initialization: a function of (seed, name), complete, and with the statistics its table says."""

from typing import get_args

import pytest
import torch
from torch import nn

import tiny
from glassformer.core.batch import Batch
from glassformer.layers.init import TABLE, InitKind, Sizes, generator, initialize
from glassformer.models import Transformer

KINDS = get_args(InitKind)


def weights(seed=0, **changes):
    return dict(Transformer(tiny.config(**changes), seed=seed).named_parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ["decoder", "encoder_decoder"])
def test_every_parameter_is_covered(kind, architecture):
    """Filled with NaN first, none is left."""
    changes = {
        "architecture": architecture,
        "position": "buckets",
        "qk_norm": True,
        "gated": True,
        "n_token_types": 2,
    }
    config = tiny.config(**changes, tied=False, head_bias=True, embedding_norm=True)
    model = Transformer(config)
    for parameter in model.parameters():
        parameter.data.fill_(torch.nan)
    initialize(model, kind, Sizes(2, 2), 0)
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all(), name


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_function_of_seed_and_name(kind):
    one, again, other = weights(1, init=kind), weights(1, init=kind), weights(2, init=kind)
    torch.rand(10)  # the global generator plays no part
    assert all(torch.equal(one[name], again[name]) for name in one)
    drawn = [name for name in one if one[name].std() > 0]
    assert len(drawn) > 4
    assert not any(torch.equal(one[name], other[name]) for name in drawn)
    flat = [tuple(one[name].flatten()[:4].tolist()) for name in drawn]
    assert len(set(flat)) == len(flat)  # and no two parameters start alike


def test_it_does_not_depend_on_other_modules_or_their_order():
    small, large = (
        weights(n_layers=1, init="bert"),
        weights(n_layers=3, init="bert", n_token_types=2, head_bias=True),
    )
    assert all(torch.equal(small[name], large[name]) for name in small)

    def built(names):
        model = nn.Module()
        for name in names:
            model.add_module(name, nn.Linear(3, 3))
        initialize(model, "gpt2", Sizes(1, 1), 0)
        return model.state_dict()

    one, other = built(["a", "b"]), built(["b", "a"])
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_it_does_not_depend_on_precision_or_the_global_generator():
    state = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        double = weights()
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(double[name].float(), single) for name, single in weights().items())


def test_the_generator_keeps_its_promise():
    """These numbers are part of every saved seed: if they change, no run can be reproduced."""
    assert torch.equal(
        torch.rand(3, generator=generator(0, "x")), torch.rand(3, generator=generator(0, "x"))
    )
    first = torch.randint(
        0, 10**6, (2,), generator=generator(0, "decoder.blocks.0.attention.q_proj.weight")
    )
    assert first.tolist() == FIRST
    assert (
        generator(0, "x").initial_seed()
        != generator(1, "x").initial_seed()
        != generator(0, "x", 1).initial_seed()
    )


FIRST = [605871, 917980]


def spread(weight):
    return float(weight.detach().square().mean().sqrt())


def test_statistics_are_the_table_s():
    # 64 x 64 draws: the standard error of a standard deviation is 1.1 %; three of them at most
    sized = {"d_model": 64, "d_ff": 256, "vocab_size": 200, "n_layers": 8}
    close = lambda value: pytest.approx(value, rel=0.035)
    w = weights(init="gpt2", **sized)
    assert spread(w["embed.element.weight"]) == close(0.02)
    assert spread(w["decoder.blocks.0.attention.q_proj.weight"]) == close(0.02)
    for name in ("attention.out_proj", "feedforward.down_proj"):
        assert spread(w[f"decoder.blocks.3.{name}.weight"]) == close(0.02 / 4)  # √(2·8)
    assert spread(
        weights(init="bert", **sized)["decoder.blocks.3.attention.out_proj.weight"]
    ) == close(0.02)
    w = weights(init="xavier", **sized)
    assert spread(w["decoder.blocks.0.feedforward.up_proj.weight"]) == close(
        (2 / (64 + 256)) ** 0.5
    )
    assert spread(w["embed.element.weight"]) == close(64**-0.5)
    w = weights(init="t5", **sized)
    assert spread(w["decoder.blocks.0.attention.q_proj.weight"]) == close((64 * 16) ** -0.5)
    assert spread(w["decoder.blocks.0.attention.k_proj.weight"]) == close(64**-0.5)
    assert spread(w["decoder.blocks.0.feedforward.down_proj.weight"]) == close(256**-0.5)
    assert spread(w["embed.element.weight"]) == close(1.0)
    w = weights(init="modern", tied=False, **sized)
    assert w["head.weight"].abs().max() == 0
    assert spread(w["decoder.blocks.0.attention.v_proj.weight"]) == close(64**-0.5)
    for kind in TABLE:
        w = weights(init=kind, **sized)
        assert (w["decoder.blocks.0.attention_norm.weight"] == 1).all()
        assert all((value == 0).all() for name, value in w.items() if name.endswith(".bias"))


def test_a_new_modern_model_is_the_identity_on_the_stream():
    model = Transformer(tiny.config(init="modern", position="none"))
    ids = tiny.tokens(1, 4)
    hidden = model.features(Batch(ids)).hidden
    assert torch.allclose(hidden, model.decoder.norm(model.embed.element(ids)), atol=1e-6)
