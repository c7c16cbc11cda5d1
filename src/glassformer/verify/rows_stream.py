"""Equations 8 to 12, 17 and 19 of the notes: positions, norms, feed-forward network, residual
stream, permutation.

Each production brick runs in float64 on small fixed numbers beside the reference.
"""

from collections.abc import Iterator
from typing import get_args

import numpy as np
import torch

from glassformer.batch import Batch, Positions
from glassformer.layers import norm as norms
from glassformer.layers import position as positions
from glassformer.layers.attention import Attention, AttentionContext
from glassformer.layers.block import PostNormBlock, PreNormBlock
from glassformer.layers.embed import Embedding
from glassformer.layers.feedforward import Activation, FeedForward
from glassformer.layers.mask import Allowed
from glassformer.layers.tap import Tape, recording
from glassformer.models.transformer import Transformer
from glassformer.verify import reference as ref
from glassformer.verify import reference_position as where
from glassformer.verify.cases import IDS, SOURCE_IDS, array, batch_of, draw, filled, sample_of, tiny
from glassformer.verify.reference_model import ReferenceModel, Source
from glassformer.verify.row import DEEP, EXACT, Row, row

T, D = 6, 16


def stream_rows() -> Iterator[Row]:
    """Rows of equations 8 to 12, 17 and 19."""
    yield from position_vectors()
    yield from rotary()
    yield from normalization()
    yield from feed_forward()
    yield from blocks()
    yield from residual()
    yield from permutation()
    yield from gradient()


def position_vectors() -> Iterator[Row]:
    """Equation 8."""
    steps, place, name = list(range(100)), Positions.arange(100), "8 positions"
    got = positions.sinusoidal(torch.arange(100), 64, dtype=torch.float64)
    formula = "p(i, 2k) = sin(i / 10000^(2k/d)), p(i, 2k+1) = cos(same)"
    yield row("Notes A, E", name, formula, positions.sinusoidal, got, where.sinusoid(steps, 64))
    learned = filled(positions.LearnedPosition(T, D))
    yield row(
        "Notes A, B, D",
        name,
        "p_i = row i of P",
        positions.LearnedPosition,
        learned(Positions.arange(T, 0))[0],
        array(learned.weight),
        EXACT,
    )
    moved = learned(Positions(torch.tensor([[4, 0, 4]])))[0]
    yield row(
        "Notes A, B, D",
        name,
        "p_i = row i of P",
        positions.LearnedPosition,
        moved,
        array(learned.weight)[[4, 0, 4]],
        EXACT,
        "positions in any order",
    )
    ids = Batch(torch.tensor([IDS]))
    for kind in ("learned", "sinusoidal"):
        model, reference = tiny(position=kind)
        got = model.embed(ids.elements, ids.where())[0]
        at = list(range(len(IDS)))
        vectors = reference.position_vectors(at)
        assert vectors is not None
        expected = array(model.get_parameter("embed.element.weight"))[IDS] + vectors
        yield row(
            "Notes A to E", name, "x_i = E[id_i] + p_i", Embedding, got, expected, detail=kind
        )
    x = draw("x", 1, T, D)
    expected = array(x[0]) + 0.1 * np.arange(1, T + 1)[:, None]
    yield row(
        "Note C",
        name,
        "naive index: x_t + β t",
        positions.naive_index,
        positions.naive_index(x, 0.1)[0],
        expected,
    )
    digits = [[int(digit) for digit in reversed(f"{i:07b}")] for i in steps]
    got = positions.binary_code(place.position[0], 7)
    yield row(
        "Note C", name, "binary code: digit k of i", positions.binary_code, got, digits, EXACT
    )


def rotary() -> Iterator[Row]:
    """Rotary positions, a sibling of equation 8: turned into q and k."""
    q, k, name = draw("q", 1, 1, T, 8), draw("k", 1, 1, T, 8), "8 positions"
    products = []
    for start in (0, 7):
        place = Positions.arange(T, start)
        turn = positions.rotation(place, 8, 10000.0, torch.float64)
        turned = positions.rotate(q, turn)
        expected = where.rotary(array(q[0, 0]), list(range(start, start + T)), 10000.0)
        formula = "(x_k, x_{k+K/2}) turned by i · base^(−2k/K)"
        yield row(
            "Note C (rotary)",
            name,
            formula,
            positions.rotate,
            turned[0, 0],
            expected,
            detail=f"from {start}",
        )
        products.append(turned[0, 0] @ positions.rotate(k, turn)[0, 0].T)
    formula = "q_i · k_j depends on i − j only"
    yield row("Note C (rotary)", name, formula, positions.rotation, products[0], array(products[1]))


def normalization() -> Iterator[Row]:
    """Equation 9."""
    x, gamma, beta = draw("x", T, D), draw("gamma", D), draw("beta", D)
    formula = "γ (x − μ) / σ + β,  σ² = (1/d) Σ (x − μ)²"
    for epsilon in (0.0, 1e-5):
        detail = f"ε = {epsilon:g}"
        expected = ref.layer_norm(array(x), array(gamma), array(beta), epsilon)
        got = norms.layer_norm(x, gamma, beta, epsilon)
        yield row(
            "Notes B, C", "9 layer norm", formula, norms.layer_norm, got, expected, detail=detail
        )
        brick = filled(norms.LayerNorm(D, epsilon=epsilon))
        expected = ref.layer_norm(array(x), array(brick.weight), array(brick.bias), epsilon)
        yield row(
            "Notes B, C",
            "9 layer norm",
            formula,
            norms.LayerNorm,
            brick(x),
            expected,
            detail=detail,
        )
        expected = ref.rms_norm(array(x), array(gamma), epsilon)
        got = norms.rms_norm(x, gamma, epsilon)
        formula_rms = "γ x / √((1/d) Σ x²)"
        yield row(
            "Note B (RMSNorm)",
            "9 layer norm",
            formula_rms,
            norms.rms_norm,
            got,
            expected,
            detail=detail,
        )
    plain = norms.layer_norm(x, torch.ones_like(gamma), None, 0.0)
    moments = torch.stack([plain.mean(-1), plain.var(-1, unbiased=False)])
    expected = np.stack([np.zeros(T), np.ones(T)])
    yield row(
        "Notes B, C",
        "9 layer norm",
        "mean 0 and variance 1 for each token",
        norms.layer_norm,
        moments,
        expected,
    )


def feed_forward() -> Iterator[Row]:
    """Equation 10."""
    x = draw("x", 1, T, D)
    for kind in get_args(Activation):
        for gated, bias in ((False, True), (False, False), (True, True)):
            brick = filled(FeedForward(D, 24, activation=kind, gated=gated, bias=bias))
            up, down, gate = brick.up_proj, brick.down_proj, brick.gate_proj
            expected = ref.feed_forward(
                array(x[0]),
                array(up.weight).T,
                array(up.bias) if bias else None,
                array(down.weight).T,
                array(down.bias) if bias else None,
                ref.PHI[kind],
                None if gate is None else array(gate.weight).T,
                None if gate is None else array(gate.bias),
            )
            formula = "(φ(x W_g + b_g) ⊙ (x W₁ + b₁)) W₂ + b₂" if gated else "φ(x W₁ + b₁) W₂ + b₂"
            formula = formula if bias else "φ(x W₁) W₂"
            note = ("Note D (gated)" if gated else "Notes B, D, E") if bias else "Note D"
            detail = f"φ = {kind}"
            yield row(
                note, "10 feed-forward", formula, FeedForward, brick(x)[0], expected, detail=detail
            )
    brick = filled(FeedForward(D, D, activation="relu", gated=False, bias=False))
    alone = torch.cat([brick(x[:, t : t + 1]) for t in range(T)], dim=1)
    yield row(
        "Note D",
        "10 feed-forward",
        "MLP(X)_t = MLP(x_t), every token alone",
        FeedForward,
        brick(x),
        array(alone),
    )


def blocks() -> Iterator[Row]:
    """Equation 11."""
    x = draw("x", 1, len(IDS), D)
    sample = sample_of(batch_of(IDS), 0)
    place, memory = Positions.arange(len(IDS)), draw("memory", 1, len(SOURCE_IDS), D)
    source = Source(array(memory[0]), sample_of(batch_of(SOURCE_IDS), 0))
    for placement, kind, note, formula in (
        ("pre", PreNormBlock, "Notes B, D, E", "x + f(LN(x))"),
        ("post", PostNormBlock, "Notes B, C, E", "LN(x + f(x))"),
    ):
        for architecture in ("encoder", "decoder", "encoder_decoder"):
            model, reference = tiny(
                architecture=architecture, norm_placement=placement, head="none"
            )
            side = "encoder" if architecture == "encoder" else "decoder"
            crossed = architecture == "encoder_decoder"
            stack = getattr(model, side)
            view, open_view = stack.context(place, place), AttentionContext(Allowed())
            got = (
                stack.blocks[0](x, view, None, memory, open_view)
                if crossed
                else stack.blocks[0](x, view)
            )
            expected = reference.block(side, 0, array(x[0]), sample, source if crossed else None)
            detail = "with cross-attention" if crossed else side
            yield row(note, "11 norm placement", formula, kind, got[0], expected, detail=detail)


def residual() -> Iterator[Row]:
    """Equation 12."""
    model, _ = tiny()
    tape = Tape(model, keep=("decoder.blocks.*",))
    with recording(tape):
        model(batch_of(IDS))
    for layer in range(2):
        kept = {point.removeprefix(f"decoder.blocks.{layer}."): t for point, t in tape.kept.items()}
        mid = array(kept["resid_pre"]) + array(kept["attention_out"])
        post = array(kept["resid_mid"]) + array(kept["feedforward_out"])
        got = torch.stack([kept["resid_mid"], kept["resid_post"]])
        yield row(
            "Notes B, C, D, E",
            "12 residual",
            "x + f(x)",
            PreNormBlock,
            got,
            np.stack([mid, post]),
            detail=f"block {layer}",
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "out_proj" in name or "down_proj" in name:
                parameter.zero_()
    x, place = draw("x", 1, T, D), Positions.arange(T)
    assert model.decoder is not None
    got = model.decoder.blocks[1](x, model.decoder.context(place, place))
    yield row(
        "Notes B, C, D, E",
        "12 residual",
        "f = 0 ⇒ x + f(x) = x",
        PreNormBlock,
        got,
        array(x),
        EXACT,
    )


def permutation() -> Iterator[Row]:
    """Equation 17."""
    order = torch.tensor([4, 2, 7, 0, 1, 6, 3, 5])
    brick, x = filled(Attention(D, 2, 2, 8)), draw("x", 1, len(order), D)
    view = AttentionContext(Allowed())
    formula = "Z(RX) = R Z(X)"
    yield row(
        "Notes A, D",
        "17 permutation",
        formula,
        Attention,
        brick(x[:, order], view),
        array(brick(x, view)[:, order]),
    )
    for position in ("none", "sinusoidal", "learned", "relative", "rotary"):
        model, _ = tiny(architecture="encoder", position=position, head="none")
        ids, place = torch.tensor([IDS]), Positions.arange(len(IDS))
        moved = None if position == "none" else Positions(place.position[:, order])
        got = model(Batch(ids[:, order], moved)).logits
        said = (
            "whole encoder without positions"
            if moved is None
            else f"{position}: each element keeps its position"
        )
        expected = array(model(Batch(ids)).logits[:, order])
        yield row("Notes A, D", "17 permutation", formula, Transformer, got, expected, detail=said)


def gradient() -> Iterator[Row]:
    """Equation 19, both halves of a pre-norm block: all numbers of the Jacobian."""
    x, place = draw("x", 1, 3, 8), Positions.arange(3)
    sample = sample_of(batch_of([1, 2, 3]), 0)
    for silenced, half in (("down_proj", "attention"), ("out_proj", "feed-forward")):
        model, reference = tiny(
            d_model=8, n_layers=1, d_ff=12, activation="gelu_tanh", epsilon=1e-5
        )
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if silenced in name:
                    parameter.zero_()
        assert model.decoder is not None
        block, view = model.decoder.blocks[0], model.decoder.context(place, place)
        got = torch.autograd.functional.jacobian(lambda y, b=block, v=view: b(y, v), x).reshape(
            24, 24
        )
        expected = np.eye(24) + ref.jacobian(
            lambda y, r=reference, h=half: _branch(r, h, y, sample), array(x[0])
        )
        formula = "∂x_{i+1}/∂x_i = 1 + ∂f_i/∂x_i"
        detail = f"f: {half} branch; derivative by complex step"
        yield row(
            "Note C", "19 residual gradient", formula, PreNormBlock, got, expected, DEEP, detail
        )


def _branch(model: ReferenceModel, half: str, x: ref.Array, sample: object) -> ref.Array:
    """f(LN(x)) alone, without the residual connection."""
    name = "decoder.blocks.0"
    if half == "attention":
        y = model.norm(f"{name}.attention_norm", x)
        return model.attention(f"{name}.attention", y, y, ref.causal_mask(len(x)))
    return model.feed_forward(f"{name}.feedforward", model.norm(f"{name}.feedforward_norm", x))
