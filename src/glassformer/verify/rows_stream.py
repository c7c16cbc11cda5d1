"""Equations 8 to 12, 17 and 19 of the notes: positions, norms, feed-forward network, residual
stream, permutation.

Each production module runs in float64 on small fixed numbers beside the reference.
"""

from collections.abc import Iterator
from functools import partial
from typing import get_args

import numpy as np
import torch

from glassformer.batch import Batch, Positions
from glassformer.layers import norm as norms
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention
from glassformer.layers.feedforward import Activation, FeedForward
from glassformer.layers.mask import Everything
from glassformer.layers.stack import Stack
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify.cases import (
    IDS,
    SOURCE_IDS,
    array,
    batch_of,
    context,
    draw,
    filled,
    flat,
    reference_of,
    sample_of,
    tiny,
)
from glassformer.verify.reference_model import ReferenceModel, Source
from glassformer.verify.row import Row, row

T, D = 6, 16


def position_vectors() -> Iterator[Row]:
    """Equation 8."""
    steps, x, ids = torch.arange(100), draw("x", 1, T, D), batch_of(IDS)
    got = positions.sinusoidal(steps, 64, dtype=torch.float64)
    yield row("sinusoid", got, ref.sinusoid(range(100), 64))
    table, moved = filled(positions.LearnedPosition(T, D)), Positions(torch.tensor([[4, 0, 4]]))
    for claim, place in (("learned", Positions.arange(T, 0)), ("learned.moved", moved)):
        yield row(claim, table(place), array(table.weight)[place.position[0]])
    for claim, choices in (
        ("embedding.sum", {}),
        ("embedding.concatenated", {"position_combination": "concatenate", "tied": False}),
    ):
        for kind in ("learned", "sinusoidal"):
            model, reference = tiny(position=kind, **choices)
            vectors = reference.position_vectors(list(range(len(IDS))))
            expected = reference.embed(sample_of(ids, 0), vectors)
            yield row(claim, model.embed(ids.elements, ids.where()), expected, kind)
    expected = flat(x) + 0.1 * np.arange(1, T + 1)[:, None]
    yield row("naive", positions.naive_index(x, 0.1), expected)
    digits = [[int(digit) for digit in reversed(f"{i:07b}")] for i in steps]
    yield row("binary", positions.binary_code(steps, 7), digits)


def offsets() -> Iterator[Row]:
    """Note E: relative offsets follow from sinusoidal vectors by linear operations."""
    vectors = partial(positions.sinusoidal, d_model=D, dtype=torch.float64)
    start = torch.arange(50)
    for delta in (1, 7, 30):
        moved, m = vectors(start + delta), ref.offset(D, delta)
        yield row("offset", moved, array(vectors(start)) @ m, delta)
        products = (vectors(start) * moved).sum(-1)
        yield row("offset.product", products, [m.trace() / 2] * 50, delta)


def rotary() -> Iterator[Row]:
    """Rotary positions, a sibling of equation 8: q and k rotated."""
    q, k, products = draw("q", 1, 1, T, 8), draw("k", 1, 1, T, 8), []
    for start in (0, 7):
        rotation = positions.rotation(Positions.arange(T, start), 8, 10000.0, torch.float64)
        rotated = positions.rotate(q, rotation)
        expected = ref.rotary(flat(q), range(start, start + T), 10000.0)
        yield row("rotary", rotated[0], expected, start)
        products.append(flat(rotated) @ flat(positions.rotate(k, rotation)).T)
    yield row("rotary.distance", *products)


def normalization() -> Iterator[Row]:
    """Equation 9."""
    x, gamma, beta = draw("x", T, D), draw("gamma", D), draw("beta", D)
    given = array(x), array(gamma)
    for epsilon in (0.0, 1e-5):
        module, said = filled(norms.LayerNorm(D, epsilon=epsilon)), f"{epsilon:g}"
        expected = ref.layer_norm(*given, array(beta), epsilon)
        yield row("layer-norm", norms.layer_norm(x, gamma, beta, epsilon), expected, said)
        expected = reference_of(module, epsilon=epsilon).norm("it", array(x))
        yield row("layer-norm", module(x), expected, said, function=norms.LayerNorm)
        expected = ref.rms_norm(*given, epsilon)
        yield row("rms-norm", norms.rms_norm(x, gamma, epsilon), expected, said)
    plain = norms.layer_norm(x, torch.ones_like(gamma), None, 0.0)
    moments = torch.stack([plain.mean(-1), plain.var(-1, unbiased=False)])
    yield row("layer-norm.moments", moments, [[0] * T, [1] * T])


def feed_forward() -> Iterator[Row]:
    """Equation 10."""
    x = draw("x", 1, T, D)
    for kind in get_args(Activation):
        later = "" if kind in ("relu", "gelu") else ".later"
        for claim, gated, bias in (
            (f"ffn{later}", False, True),
            (f"ffn.unbiased{later}", False, False),
            ("ffn.gated", True, True),
        ):
            module = filled(FeedForward(D, 24, activation=kind, gated=gated, bias=bias))
            reference = reference_of(module, activation=kind, gated=gated)
            yield row(claim, module(x), reference.feed_forward("it", flat(x)), kind)
    module = filled(FeedForward(D, D, activation="relu", gated=False, bias=False))
    alone = np.concatenate([flat(module(x[:, t : t + 1])) for t in range(T)])
    yield row("ffn.alone", module(x), alone)


def blocks() -> Iterator[Row]:
    """Equation 11."""
    x, memory = draw("x", 1, len(IDS), D), draw("memory", 1, len(SOURCE_IDS), D)
    place, sample = Positions.arange(len(IDS)), sample_of(batch_of(IDS), 0)
    source = Source(flat(memory), sample_of(batch_of(SOURCE_IDS), 0))
    open_view = context(Everything(), len(IDS), Positions.arange(len(SOURCE_IDS)))
    for placement in ("pre", "post"):
        for architecture in ("encoder", "decoder", "encoder_decoder"):
            crossed = architecture == "encoder_decoder"
            choices = {"norm_placement": placement, "head": "none"}
            model, reference = tiny(architecture=architecture, **choices)
            side = "decoder" if crossed else architecture
            stack, given = getattr(model, side), (None, memory, open_view) if crossed else ()
            got = stack.blocks[0](x, stack.context(place, place), *given)
            expected = reference.block(side, 0, flat(x), sample, source if crossed else None)
            said = "with cross-attention" if crossed else side
            yield row(f"block.{placement}", got, expected, said)


def silenced(model: Transformer, *names: str) -> Stack:
    """The decoder with zeros in every parameter of the model whose path has one of these names."""
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if any(name in path for name in names):
                parameter.zero_()
    assert model.decoder is not None
    return model.decoder


def residual() -> Iterator[Row]:
    """Equation 12."""
    model, _ = tiny()
    tape = Tape(model, keep=("decoder.blocks.*",))
    with recording(tape):
        model(batch_of(IDS))
    for layer in range(2):
        points = ("resid_pre", "attention_out", "resid_mid", "feedforward_out", "resid_post")
        pre, own, mid, fed, post = (
            flat(tape.kept[f"decoder.blocks.{layer}.{point}"]) for point in points
        )
        yield row("residual", np.stack([mid, post]), np.stack([pre + own, mid + fed]), layer)
    decoder = silenced(model, ".out_proj", ".down_proj")
    x, place = draw("x", 1, T, D), Positions.arange(T)
    yield row("residual.zero", decoder.blocks[1](x, decoder.context(place, place)), array(x))


def permutation() -> Iterator[Row]:
    """Equation 17."""
    order, ids = [4, 2, 7, 0, 1, 6, 3, 5], torch.tensor([IDS])
    module, x = filled(Attention(D, 2, 2, 8)), draw("x", 1, len(order), D)
    view = context(Everything(), len(order))
    yield row("permutation", module(x[:, order], view), flat(module(x, view))[order])
    for position in ("none", "sinusoidal", "learned", "relative", "rotary"):
        model, _ = tiny(architecture="encoder", position=position, head="none")
        claim, moved = "permutation.kept", Positions(torch.tensor([order]))
        if position == "none":
            claim, moved = "permutation.none", None
        expected = flat(model(Batch(ids)).logits)[order]
        yield row(claim, model(Batch(ids[:, order], moved)).logits, expected, position)


def gradient() -> Iterator[Row]:
    """Equation 19, all numbers of the Jacobian: each half of a pre-norm block; and a whole block
    without residual connections, where the 1 is missing."""
    x, place, sample = draw("x", 1, 3, 8), Positions.arange(3), sample_of(batch_of([1, 2, 3]), 0)
    small = {"d_model": 8, "n_layers": 1, "d_ff": 12, "activation": "gelu_tanh"}
    for quiet, f in (("down", "attention branch"), ("out", "feed-forward branch"), ("", "block")):
        model, reference = tiny(**small, residual=bool(quiet))
        branch = partial(_branch, reference, f)
        if not quiet:
            branch = partial(reference.block, "decoder", 0, sample=sample)
        decoder = silenced(model, f".{quiet}_proj")
        run = partial(decoder.blocks[0], context=decoder.context(place, place))
        got = torch.autograd.functional.jacobian(run, x)
        assert isinstance(got, torch.Tensor)
        expected = np.eye(24) * bool(quiet) + ref.jacobian(branch, flat(x))
        yield row("gradient" if quiet else "gradient.without", got.reshape(24, 24), expected, f)


def _branch(model: ReferenceModel, half: str, x: ref.Array) -> ref.Array:
    """f(LN(x)) alone, without the residual connection."""
    name = "decoder.blocks.0."
    if half == "attention branch":
        y = model.norm(f"{name}attention_norm", x)
        return model.attention(f"{name}attention", y, y, ref.causal_mask(len(x)))
    return model.feed_forward(f"{name}feedforward", model.norm(f"{name}feedforward_norm", x))


GROUPS = (
    position_vectors,
    offsets,
    rotary,
    normalization,
    feed_forward,
    blocks,
    residual,
    permutation,
    gradient,
)
"""Functions of the rows, in order."""
