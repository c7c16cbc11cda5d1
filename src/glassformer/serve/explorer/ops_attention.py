"""Attention patterns: the ops `thumbnails`, `head`, `row`, `step`.

    q, k of a layer ── some queries ──> scores ── softmax ──> weights of all heads, megabytes
        ├─ largest weight of each cell ──> thumbnails [H, R, C]
        └─ entropy, and one product for all other metrics

Pixels are square roots in bytes; every digit comes from `row` and `step`, which are exact. Only one
portion of the weights is held at a time. A cell of a thumbnail shows the largest of its weights: a
single bright one is not averaged away.
"""

import math
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError
from glassformer.inspect.headmetrics import METRICS, measure, metric_shares, row_entropy
from glassformer.inspect.look import Look
from glassformer.inspect.points import fires, indices_of
from glassformer.layers.attention.context import AttentionContext
from glassformer.layers.attention.mask import Allowed
from glassformer.layers.block import Block
from glassformer.layers.norm import LayerNorm
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.wire import Reply, root_bytes

NUMBERS = 1 << 19
"""Weights in memory together: they should stay in the processor's cache."""
LARGEST = 2048
"""Queries or keys of a pattern that is sent as a whole."""
METRIC_LIST = [{"name": name, "definition": sentence} for name, sentence in METRICS.items()]


@torch.no_grad()
def thumbnails(context: OpContext, look: Look, size: int, **where: Any) -> Reply:
    """Every head of a stack: a thumbnail of the largest weight of each cell, and metrics."""
    both = look.sequences(**where)
    shares = metric_shares(*both, within=where["site"] == "self").to(look.logits.device)
    queries, keys = map(len, both)
    cell = [math.ceil(queries / size), math.ceil(keys / size)]
    pixels, metrics = [], []
    for layer in range(len(look.stack(where["side"]).blocks)):
        context.check()
        shrunk, sums = [], []
        for part, weights in portions(look, layer, cell[0], **where):
            shrunk.append(_shrunk(weights, cell, keys))
            sums.append(measure(weights, shares[:, part]))
        pixels.append(torch.cat(shrunk, 1))
        metrics.append(torch.stack(sums).sum(0))
    found = torch.stack(pixels)
    header = {"metrics": METRIC_LIST, "max": float(found.max()), "cell": cell}
    return Reply(header, {"thumbnails": root_bytes(found), "metrics": torch.stack(metrics)})


@torch.no_grad()
def head(context: OpContext, look: Look, layer: int, head: int, **where: Any) -> Reply:
    """One head: its pattern in pixels, weight received by each key, entropy of each row, mask.

    ConfigError: no such layer or head, or too many pixels.
    """
    queries, keys = map(len, look.sequences(**where))
    if max(queries, keys) > LARGEST:
        raise ConfigError(
            f"The pattern has {queries:,} queries and {keys:,} keys, and one is drawn up to "
            f"{LARGEST:,}; ask for a row."
        )
    pattern = look.pattern(layer, head, **where).float()
    arrays = {
        "pattern": root_bytes(pattern),
        "mass": pattern.sum(0),
        "entropy": row_entropy(pattern),
    }
    allow = look.context(**where).allow
    mask = "causal" if allow.causal else "table"
    if allow.dense is not None:
        arrays["masked"] = ~allow.dense[0, 0].expand(queries, keys)
    return Reply({"mask": mask, "max": float(pattern.max())}, arrays)


def row(context: OpContext, look: Look, layer: int, head: int, query: int, **where: Any) -> Reply:
    """One row of one head, exactly: scores, and weights that sum to 1; `masked` keys have none."""
    weights = look.pattern(layer, head, **where)
    (query,) = indices_of(query, len(weights), "query", "The pattern")
    scores = look.scores(layer, head, **where)[query]
    masked = scores == -torch.inf
    header = {"query": query, "masked": masked.nonzero()[:, 0].tolist()}
    return Reply(header, {"weights": weights[query], "scores": scores.masked_fill(masked, 0)})


@torch.no_grad()
def step(context: OpContext, look: Look, layer: int, head: int, query: int, **where: Any) -> Reply:
    """The computation of one row of one head in order: x, norm, q, k, v, scores, weights, z, out.

    q and k are those of the scores, normalized and rotated. `out` is z W_O of this head without the
    bias: its contribution to the residual stream (in a post-norm model: before the norm).
    """
    exact = row(context, look, layer, head, query, **where)
    query = exact.header["query"]
    place, module = look.attention(layer, **where)
    q, k, v, z = (look[f"{place}.{name}"].tensor for name in "qkvz")
    group, z = head // (len(q) // len(k)), z[head, query]
    width = len(z)
    stack, cross = look.stack(where["side"]), where["site"] == "cross"
    block = cast(Block, stack.blocks[layer])
    x, normed, norm = _query_input(look, place, block, cross, query)
    own = {"x": x, "norm": normed, "q": q[head, query], "k": k[group], "v": v[group], "z": z}
    own["out"] = z @ module.out_proj.matrix[:, head * width : (head + 1) * width].mT
    if (bias := look.context(**where).bias) is not None:
        own["bias"] = bias[0, head, query]
    header = {
        "scale": module.scale,
        "d_head": width,
        "norm": norm,
        "rotary": not cross and stack.rotation is not None,
    }
    return Reply(exact.header | header, {**exact.arrays, **own})


def _query_input(
    look: Look, place: str, block: Block, cross: bool, query: int
) -> tuple[Float[Tensor, "D"], Float[Tensor, "D"], str]:
    """The residual stream before a query, the same after the norm, and the norm's name or ""."""
    name, norm = place.rpartition(".")[0], block.attention_norm
    x, pre = look[f"{name}.resid_pre"].tensor[query], block.pre_norm
    if cross:  # the stream after the self-attention of the block has no point
        assert block.cross_norm is not None
        branch = look[f"{name}.attention_out"].tensor[query]
        x = block.join(x[None, None], branch[None, None])[0, 0]
        x, norm = x if pre else norm(x), block.cross_norm
    if not pre:
        return x, x, ""
    return x, norm(x), "LayerNorm" if isinstance(norm, LayerNorm) else "RMSNorm"


def portions(
    look: Look, layer: int, rows: int, **where: Any
) -> Iterator[tuple[slice, Float[Tensor, "H Q S"]]]:
    """The weights of all heads of a layer for some queries, a multiple of `rows`, at a time.

    Keys after the last query of a causal portion are left out.
    """
    place, _ = look.attention(layer, **where)
    if fires(look.edits, f"{place}.scores", f"{place}.pattern"):
        yield slice(None), look[f"{place}.pattern"].tensor.float()  # an edit may need all of it
        return
    module, q, k, context = look.attending(layer, **where)
    q, k, (_, heads, count, _) = q.float(), k.float(), q.shape
    table = context.allow.as_table(count, k.shape[2], q.device)
    closed = q.new_zeros(1, 1, count, k.shape[2])
    if table is not None:
        closed = closed.masked_fill(~table, -torch.inf)
    portion = max(1, NUMBERS // (heads * k.shape[2] * rows)) * rows
    for begin in range(0, count, portion):
        part = slice(begin, begin + portion)
        seen = begin + portion if context.allow.causal else k.shape[2]
        bias = closed[:, :, part, :seen].expand(1, heads, -1, -1)
        if context.bias is not None:
            bias = bias + context.bias[:, :, part, :seen]
        scores = module.scores(q[:, :, part], k[:, :, :seen], AttentionContext(Allowed(), bias))[0]
        yield part, scores.softmax(-1).nan_to_num_(0)  # a row without any key


def _shrunk(weights: Float[Tensor, "H Q S"], cell: list[int], keys: int) -> Float[Tensor, "H R C"]:
    """The largest weight of each cell; those of left out keys are 0."""
    _, rows, columns = weights.shape
    padded = F.pad(weights, (0, keys + -keys % cell[1] - columns, 0, -rows % cell[0]))
    return padded.unflatten(1, (-1, cell[0])).amax(2).unflatten(2, (-1, cell[1])).amax(3)


OPS = thumbnails, head, row, step
"""Functions of ops, with the names that requests have."""
