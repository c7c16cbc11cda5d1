"""The modules of a block in ONNX operations; the formulas are those of `layers`."""

from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError
from glassformer.interop.onnx.graph import Graph, Value, number, sizes
from glassformer.layers.attention import Attention
from glassformer.layers.block import Block
from glassformer.layers.feedforward import Activation, FeedForward
from glassformer.layers.linear import Linear
from glassformer.layers.lora import FACTORS
from glassformer.layers.norm import LayerNorm, Norm
from glassformer.layers.stem import REACH, Convolution, Stem

KeysValues = tuple[Value, Value]
"""Keys and values [B, G, S, K]."""


@dataclass(frozen=True)
class Context:
    """What all layers share: what is added to the scores [B, H or 1, T, S], and the cosines and
    signed sines of the rotary angles [B or 1, 1, T, K]."""

    added: Value | None = None
    rotation: tuple[Value, Value] | None = None


def linear(g: Graph, module: Linear, x: Value) -> Value:
    """x Wᵀ + b; with an adapter, its product is in W."""
    g.account.take(module.weight, *(getattr(module, name, None) for name in FACTORS))
    with g.within(module):
        y = g.op("MatMul", x, g.weight(f"{g.path(module)}.matrix", module.matrix.T))
        bias = g.optional(module.bias)
        return g.op("Add", y, *bias) if bias else y


def norm(g: Graph, module: Norm, x: Value) -> Value:
    """`layer_norm` or `rms_norm`."""
    weight = g.parameter(module.weight)
    with g.within(module):
        if isinstance(module, LayerNorm):
            bias = g.optional(module.bias)
            return g.op("LayerNormalization", x, weight, *bias, axis=-1, epsilon=module.epsilon)
        square = g.op("ReduceMean", g.op("Pow", x, number(2)), sizes([-1]), keepdims=1)
        root = g.op("Sqrt", g.op("Add", square, number(module.epsilon)))
        return g.op("Mul", g.op("Div", x, root), weight)


def activation(g: Graph, kind: Activation, x: Value) -> Value:
    """φ(x); ConfigError: a function that is not written here."""
    match kind:
        case "relu" | "tanh":
            return g.op(kind.capitalize(), x)
        case "relu_squared":
            positive = g.op("Relu", x)
            return g.op("Mul", positive, positive)
        case "gelu":
            return g.op("Gelu", x)
        case "gelu_tanh":
            return g.op("Gelu", x, approximate="tanh")
        case "silu":
            return g.op("Mul", x, g.op("Sigmoid", x))
        case "identity":
            return x
    raise ConfigError(f"activation={kind!r} has no ONNX form here; train with another one.")


def feedforward(g: Graph, module: FeedForward, kind: Activation, x: Value) -> Value:
    """φ(x W₁) W₂, or (φ(x W_g) ⊙ x W₁) W₂."""
    hidden = linear(g, module.up_proj, x)
    if module.gate_proj is None:
        hidden = activation(g, kind, hidden)
    else:
        gate = activation(g, kind, linear(g, module.gate_proj, x))
        hidden = g.op("Mul", hidden, gate)
    return linear(g, module.down_proj, hidden)


def queries(g: Graph, module: Attention, x: Value, rotation: tuple[Value, Value] | None) -> Value:
    """q [B, H, T, K]."""
    q = heads(g, linear(g, module.q_proj, x), module.n_heads)
    q = q if module.q_norm is None else norm(g, module.q_norm, q)
    return rotated(g, q, rotation)


def keys_values(
    g: Graph, module: Attention, source: Value, rotation: tuple[Value, Value] | None = None
) -> KeysValues:
    """k and v [B, G, S, K]."""
    k = heads(g, linear(g, module.k_proj, source), module.n_kv_heads)
    k = k if module.k_norm is None else norm(g, module.k_norm, k)
    return rotated(g, k, rotation), heads(g, linear(g, module.v_proj, source), module.n_kv_heads)


def heads(g: Graph, x: Value, n: int) -> Value:
    """[B, T, n·K] as [B, n, T, K]."""
    return g.transpose(g.op("Reshape", x, sizes([0, 0, n, -1])), 0, 2, 1, 3)


def rotated(g: Graph, x: Value, rotation: tuple[Value, Value] | None) -> Value:
    """Each pair (x_k, x_{k+K/2}) turned by its angle."""
    if rotation is None:
        return x
    cos, sin = rotation
    first, second = g.ops("Split", x, n=2, axis=-1, num_outputs=2)
    swapped = g.op("Concat", second, first, axis=-1)
    return g.op("Add", g.op("Mul", x, cos), g.op("Mul", swapped, sin))


def attend(g: Graph, module: Attention, q: Value, kv: KeysValues, context: Context) -> Value:
    """softmax(q kᵀ · scale + added) v and the output map; the query heads of a group are rows of
    one product."""
    (k, v), groups = kv, module.n_kv_heads
    grouped = module.n_heads != groups
    with g.within(module):
        rows = lambda x: g.reshape(x, 0, groups, -1, module.out_proj.in_features // module.n_heads)
        q = g.op("Mul", q, number(module.scale))
        scores = g.op("MatMul", rows(q) if grouped else q, g.transpose(k, 0, 1, 3, 2))
        scores = g.reshape(scores, 0, module.n_heads, -1, 0) if grouped else scores
        scores = scores if context.added is None else g.op("Add", scores, context.added)
        pattern = g.op("Softmax", scores, axis=-1)
        pattern = g.reshape(pattern, 0, groups, -1, 0) if grouped else pattern
        z = g.op("MatMul", pattern, v)
        z = g.reshape(z, 0, module.n_heads, -1, 0) if grouped else z
        z = g.reshape(g.transpose(z, 0, 2, 1, 3), 0, 0, module.out_proj.in_features)
    return linear(g, module.out_proj, z)


def block(
    g: Graph,
    module: Block,
    kind: Activation,
    x: Value,
    context: Context,
    past: KeysValues | None = None,
    crossed: tuple[KeysValues, Context] | None = None,
) -> tuple[Value, KeysValues]:
    """The stream after a block, and all keys and values of its self-attention."""
    own = module.attention
    normed = norm(g, module.attention_norm, x) if module.pre_norm else x
    kv = keys_values(g, own, normed, context.rotation)
    if past is not None:
        kv = g.op("Concat", past[0], kv[0], axis=2), g.op("Concat", past[1], kv[1], axis=2)
    q = queries(g, own, normed, context.rotation)
    x = _joined(g, module, module.attention_norm, x, attend(g, own, q, kv, context))
    if crossed is not None and module.cross is not None and module.cross_norm is not None:
        normed = norm(g, module.cross_norm, x) if module.pre_norm else x
        q = queries(g, module.cross, normed, None)
        branch = attend(g, module.cross, q, *crossed)
        x = _joined(g, module, module.cross_norm, x, branch)
    normed = norm(g, module.feedforward_norm, x) if module.pre_norm else x
    branch = feedforward(g, module.feedforward, kind, normed)
    return _joined(g, module, module.feedforward_norm, x, branch), kv


def _joined(g: Graph, module: Block, after: Norm, x: Value, branch: Value) -> Value:
    """x + branch; normalized in post-norm models."""
    joined = g.op("Add", x, branch) if module.residual else branch
    return joined if module.pre_norm else norm(g, after, joined)


def last_rows(g: Graph, x: Value, first: Value) -> Value:
    """x [B, S, ...] from row `first` on."""
    end = np.array([np.iinfo(np.int64).max])
    return g.op("Slice", x, first, end, sizes([1]))


def convolved(g: Graph, stem: Stem, last: Convolution, patches: Value) -> Value:
    """Patches [B, T, P] through the convolutions of a stem and W_emb: [B, T, D]."""
    (rows, columns), (p, q) = stem.grid, stem.patch
    laid = g.transpose(g.reshape(patches, 0, rows, columns, p, q, -1), 0, 5, 1, 3, 2, 4)
    x = g.reshape(laid, 0, 0, rows * p, columns * q)
    for one in stem.convolutions:
        assert isinstance(one, Convolution)
        x = g.op("Gelu", _convolution(g, one, x))
    x = _convolution(g, last, x)
    return g.transpose(g.reshape(x, 0, 0, -1), 0, 2, 1)


def _convolution(g: Graph, module: Convolution, x: Value) -> Value:
    g.account.take(module.weight)
    kernel = module.matrix.unflatten(1, (-1, REACH, REACH))
    weight = g.weight(f"{g.path(module)}.kernel", kernel)
    with g.within(module):
        return g.op(
            "Conv", x, weight, *g.optional(module.bias), strides=module.step, pads=[REACH // 2] * 4
        )
