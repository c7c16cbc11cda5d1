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
from glassformer.layers.block import PostNormBlock, PreNormBlock
from glassformer.layers.embed import Embedding
from glassformer.layers.feedforward import Activation, FeedForward
from glassformer.layers.mask import Everything
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
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
from glassformer.verify.row import DEEP, EXACT, LATER, PROJECT, TIGHT, Claim, Row

T, D = 6, 16


def position_vectors() -> Iterator[Row]:
    """Equation 8."""
    eight, steps = Claim("Notes A, E", "8 positions"), torch.arange(100)
    got = positions.sinusoidal(steps, 64, dtype=torch.float64)
    yield eight(
        "p(i, 2k) = sin(i / 10000^(2k/d)), p(i, 2k+1) = cos(same)",
        positions.sinusoidal,
        got,
        where.sinusoid(range(100), 64),
    )
    table, learned = filled(positions.LearnedPosition(T, D)), eight.by("Notes A, B, D")
    moved = Positions(torch.tensor([[4, 0, 4]]))
    for place, detail in ((Positions.arange(T, 0), ""), (moved, "positions in any order")):
        expected = array(table.weight)[place.position[0]]
        yield learned(
            "p_i = row i of P", positions.LearnedPosition, table(place), expected, EXACT, detail
        )
    ids, at = batch_of(IDS), list(range(len(IDS)))
    concatenated = {"position_combination": "concatenate", "tied": False}
    for note, formula, choices in (
        ("Notes A to E", "x_i = E[id_i] + p_i", {}),
        ("Note C", "x_i = [E[id_i]; p_i]", concatenated),
    ):
        for kind in ("learned", "sinusoidal"):
            model, reference = tiny(position=kind, **choices)
            expected = reference.embed(sample_of(ids, 0), reference.position_vectors(at))
            got = model.embed(ids.elements, ids.where())
            yield eight.by(note, kind)(formula, Embedding, got, expected)
    x, of_c = draw("x", 1, T, D), eight.by("Note C")
    expected = flat(x) + 0.1 * np.arange(1, T + 1)[:, None]
    got = positions.naive_index(x, 0.1)
    yield of_c("naive index: x_t + β t", positions.naive_index, got, expected)
    digits = [[int(digit) for digit in reversed(f"{i:07b}")] for i in steps]
    got = positions.binary_code(steps, 7)
    yield of_c("binary code: digit k of i", positions.binary_code, got, digits, EXACT)


def offsets() -> Iterator[Row]:
    """Note E: relative offsets follow from sinusoidal vectors by linear operations."""
    vectors = partial(positions.sinusoidal, d_model=D, dtype=torch.float64)
    claim, start = Claim("Note E", "8 relative offsets"), torch.arange(50)
    for delta in (1, 7, 30):
        moved, detail = vectors(start + delta), f"Δ = {delta}, every i to 50"
        expected = array(vectors(start)) @ where.offset(D, delta)
        yield claim("p_{i+Δ} = p_i M_Δ", positions.sinusoidal, moved, expected, TIGHT, detail)
        products = (vectors(start) * moved).sum(-1)
        same = where.offset(D, delta).trace() / 2
        yield claim(
            "p_i · p_{i+Δ} = Σ_k cos(Δ ω_k)",
            positions.sinusoidal,
            products,
            [same] * 50,
            TIGHT,
            detail,
        )


def rotary() -> Iterator[Row]:
    """Rotary positions, a sibling of equation 8: q and k rotated."""
    q, k, products = draw("q", 1, 1, T, 8), draw("k", 1, 1, T, 8), []
    eight = Claim(LATER, "8 positions", "rotary, Su et al. 2021")
    for start in (0, 7):
        rotation = positions.rotation(Positions.arange(T, start), 8, 10000.0, torch.float64)
        rotated, detail = positions.rotate(q, rotation), f"{eight.detail}; from {start}"
        expected = where.rotary(flat(q), range(start, start + T), 10000.0)
        yield eight(
            "(x_k, x_{k+K/2}) turned by i · base^(−2k/K)",
            positions.rotate,
            rotated[0],
            expected,
            detail=detail,
        )
        products.append(flat(rotated) @ flat(positions.rotate(k, rotation)).T)
    yield eight("q_i · k_j depends on i − j only", positions.rotation, *products)


def normalization() -> Iterator[Row]:
    """Equation 9."""
    x, gamma, beta = draw("x", T, D), draw("gamma", D), draw("beta", D)
    nine = Claim("Notes B, C", "9 layer norm")
    formula = "γ (x − μ) / σ + β,  σ² = (1/d) Σ (x − μ)²"
    for epsilon in (0.0, 1e-5):
        detail, module = f"ε = {epsilon:g}", filled(norms.LayerNorm(D, epsilon=epsilon))
        expected = ref.layer_norm(array(x), array(gamma), array(beta), epsilon)
        got = norms.layer_norm(x, gamma, beta, epsilon)
        yield nine(formula, norms.layer_norm, got, expected, detail=detail)
        expected = reference_of(module, epsilon=epsilon).norm("it", array(x))
        yield nine(formula, norms.LayerNorm, module(x), expected, detail=detail)
        expected = ref.rms_norm(array(x), array(gamma), epsilon)
        got = norms.rms_norm(x, gamma, epsilon)
        rms = nine.by(LATER, f"RMSNorm, Zhang & Sennrich 2019; {detail}")
        yield rms("γ x / √((1/d) Σ x²)", norms.rms_norm, got, expected)
    plain = norms.layer_norm(x, torch.ones_like(gamma), None, 0.0)
    moments = torch.stack([plain.mean(-1), plain.var(-1, unbiased=False)])
    yield nine.by("Notes C, E")(
        "mean 0 and variance 1 for each token", norms.layer_norm, moments, [[0] * T, [1] * T]
    )


def feed_forward() -> Iterator[Row]:
    """Equation 10."""
    x, ten = draw("x", 1, T, D), Claim("Notes B, D, E", "10 feed-forward")
    for kind in get_args(Activation):
        for gated, bias in ((False, True), (False, False), (True, True)):
            module = filled(FeedForward(D, 24, activation=kind, gated=gated, bias=bias))
            expected = reference_of(module, activation=kind, gated=gated).feed_forward(
                "it", flat(x)
            )
            formula = "φ(x W₁ + b₁) W₂ + b₂" if bias else "φ(x W₁) W₂"
            note, detail = "Notes B, D, E" if bias else "Note D", f"φ = {kind}"
            if gated:
                formula = "(φ(x W_g + b_g) ⊙ (x W₁ + b₁)) W₂ + b₂"
                note, detail = LATER, f"{detail}; gated, Shazeer 2020"
            elif kind not in ("relu", "gelu"):
                note = LATER
            yield ten.by(note, detail)(formula, FeedForward, module(x), expected)
    module = filled(FeedForward(D, D, activation="relu", gated=False, bias=False))
    alone = np.concatenate([flat(module(x[:, t : t + 1])) for t in range(T)])
    yield ten.by("Notes D, E")(
        "MLP(X)_t = MLP(x_t), every token alone", FeedForward, module(x), alone
    )


def blocks() -> Iterator[Row]:
    """Equation 11."""
    x, memory = draw("x", 1, len(IDS), D), draw("memory", 1, len(SOURCE_IDS), D)
    place, sample = Positions.arange(len(IDS)), sample_of(batch_of(IDS), 0)
    source = Source(flat(memory), sample_of(batch_of(SOURCE_IDS), 0))
    open_view = context(Everything(), len(IDS), Positions.arange(len(SOURCE_IDS)))
    for placement, kind, note, formula in (
        ("pre", PreNormBlock, "Notes B, D, E", "x + f(LN(x))"),
        ("post", PostNormBlock, "Notes B, C, E", "LN(x + f(x))"),
    ):
        for architecture in ("encoder", "decoder", "encoder_decoder"):
            crossed = architecture == "encoder_decoder"
            model, reference = tiny(
                architecture=architecture, norm_placement=placement, head="none"
            )
            side = "decoder" if crossed else architecture
            stack, given = getattr(model, side), (None, memory, open_view) if crossed else ()
            got = stack.blocks[0](x, stack.context(place, place), *given)
            expected = reference.block(side, 0, flat(x), sample, source if crossed else None)
            detail = "with cross-attention" if crossed else side
            yield Claim(note, "11 norm placement", detail)(formula, kind, got, expected)


def silenced(model: Transformer, *names: str) -> Transformer:
    """The model with zeros in every parameter whose path has one of these names."""
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if any(name in path for name in names):
                parameter.zero_()
    return model


def residual() -> Iterator[Row]:
    """Equation 12."""
    model, _ = tiny()
    tape, twelve = Tape(model, keep=("decoder.blocks.*",)), Claim("Notes B, C, D, E", "12 residual")
    with recording(tape):
        model(batch_of(IDS))
    for layer in range(2):
        points = ("resid_pre", "attention_out", "resid_mid", "feedforward_out", "resid_post")
        pre, own, mid, fed, post = (
            flat(tape.kept[f"decoder.blocks.{layer}.{point}"]) for point in points
        )
        expected, detail = np.stack([pre + own, mid + fed]), f"block {layer}"
        yield twelve("x + f(x)", PreNormBlock, np.stack([mid, post]), expected, detail=detail)
    decoder = silenced(model, ".out_proj", ".down_proj").decoder
    x, place = draw("x", 1, T, D), Positions.arange(T)
    assert decoder is not None
    got = decoder.blocks[1](x, decoder.context(place, place))
    yield twelve("f = 0 ⇒ x + f(x) = x", PreNormBlock, got, array(x), EXACT)


def permutation() -> Iterator[Row]:
    """Equation 17."""
    order, formula = [4, 2, 7, 0, 1, 6, 3, 5], "Z(RX) = R Z(X)"
    module, x = filled(Attention(D, 2, 2, 8)), draw("x", 1, len(order), D)
    view, seventeen = context(Everything(), len(order)), Claim("Notes A, D", "17 permutation")
    got, expected = module(x[:, order], view), flat(module(x, view))[order]
    yield seventeen(formula, Attention, got, expected)
    for position in ("none", "sinusoidal", "learned", "relative", "rotary"):
        model, _ = tiny(architecture="encoder", position=position, head="none")
        ids, moved = torch.tensor([IDS]), Positions(torch.tensor([order]))
        claim = seventeen.by(PROJECT, f"{position}: each element keeps its position")
        if position == "none":
            claim, moved = seventeen.by("Notes A, D", "whole encoder without positions"), None
        expected = flat(model(Batch(ids)).logits)[order]
        yield claim(formula, Transformer, model(Batch(ids[:, order], moved)).logits, expected)


def gradient() -> Iterator[Row]:
    """Equation 19, all numbers of the Jacobian: each half of a pre-norm block; and a whole block
    without residual connections, where the 1 is missing."""
    x, place, sample = draw("x", 1, 3, 8), Positions.arange(3), sample_of(batch_of([1, 2, 3]), 0)
    nineteen, formula = Claim("Note C", "19 residual gradient"), "∂x_{i+1}/∂x_i = 1 + ∂f_i/∂x_i"
    small = {"d_model": 8, "n_layers": 1, "d_ff": 12, "activation": "gelu_tanh"}
    for quiet, f in (("down", "attention branch"), ("out", "feed-forward branch"), ("", "block")):
        model, reference = tiny(**small, residual=bool(quiet))
        branch = partial(_branch, reference, f)
        if not quiet:
            formula = "without: ∂x_{i+1}/∂x_i = ∂f_i/∂x_i"
            branch = partial(reference.block, "decoder", 0, sample=sample)
        decoder = silenced(model, f".{quiet}_proj").decoder
        assert decoder is not None
        run = partial(decoder.blocks[0], context=decoder.context(place, place))
        got = torch.autograd.functional.jacobian(run, x)
        assert isinstance(got, torch.Tensor)
        expected = np.eye(24) * bool(quiet) + ref.jacobian(branch, flat(x))
        detail = f"f: {f}; derivative by complex step"
        yield nineteen(formula, PreNormBlock, got.reshape(24, 24), expected, DEEP, detail)


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
