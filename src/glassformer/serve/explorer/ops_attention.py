"""Attention patterns: the ops `thumbnails`, `head`, `row`, `step`.

    q, k of a layer ── some queries ──> scores ── softmax ──> weights of all heads, megabytes
        ├─ largest weight of each cell ──> thumbnails [H, R, C]
        └─ entropy, and one product for all other metrics

Pixels are square roots in bytes; every digit comes from `row` and `step`, which are exact. Only one
portion of the weights is held at a time. A cell of a thumbnail shows the largest of its weights: a
single bright one is not averaged away. In a decoder, keys behind the last query of a portion are
not computed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import cast

import numpy as np
import torch
from torch.nn import functional as F

from glassformer.axes import Float, Tensor
from glassformer.errors import ConfigError
from glassformer.inspect.headmetrics import METRICS, key_tables, row_entropy
from glassformer.inspect.look import Look, fires
from glassformer.inspect.points import chosen
from glassformer.layers.attention import AttentionContext
from glassformer.layers.block import Block
from glassformer.layers.mask import Allowed
from glassformer.layers.norm import LayerNorm
from glassformer.processors.elements import Element
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.wire import Reply, root_bytes

NUMBERS = 1 << 19
"""Weights in memory at once: they should stay in the processor's cache."""
LARGEST = 2048
"""Queries or keys of a pattern that is sent as a whole."""
CLOSED = -1e30
"""Score of a masked key."""
METRIC_LIST = [{"name": name, "definition": sentence} for name, sentence in METRICS.items()]


@torch.no_grad()
def thumbnails(context: OpContext, look: Look, side: str, site: str, size: int) -> Reply:
    """Every head of a stack: a thumbnail of the largest weight of each cell, and metrics."""
    queries, keys = look.sequences(side, site)
    cell = math.ceil(len(queries) / size), math.ceil(len(keys) / size)
    shares = _metric_shares(queries, keys, site == "self", look.logits.device)
    pixels, metrics = [], []
    for layer in range(look.model.config.depth(side or look.answering)):
        context.check()
        shrunk, sums, bits = [], [], []
        for begin, weights, entropy in portions(look, layer, side, site, cell[0]):
            shrunk.append(_shrunk(weights, cell, len(keys)))
            sums.append(weights.flatten(1) @ shares(begin, *weights.shape[1:]).mT)
            bits.append(entropy[:, 1 if begin == 0 and len(queries) > 1 else 0 :].sum(1))
        pixels.append(torch.cat(shrunk, 1))
        entropies = torch.stack(bits).sum(0)[:, None] / max(1, len(queries) - 1)
        metrics.append(torch.cat([entropies, torch.stack(sums).sum(0)], 1))
    found = torch.stack(pixels)
    header = {"metrics": METRIC_LIST, "max": float(found.max()), "cell": list(cell)}
    return Reply(header, {"thumbnails": root_bytes(found), "metrics": torch.stack(metrics)})


@torch.no_grad()
def head(context: OpContext, look: Look, side: str, site: str, layer: int, head: int) -> Reply:
    """One head: its pattern in pixels, weight received by each key, entropy of each row, mask.

    ConfigError: no such layer or head, or too many pixels.
    """
    look.attention(layer, side=side, site=site, head=head)
    n_queries, n_keys = map(len, look.sequences(side, site))
    if max(n_queries, n_keys) > LARGEST:
        raise ConfigError(
            f"The pattern has {n_queries:,} queries and {n_keys:,} keys, and one is drawn up to "
            f"{LARGEST:,}; ask for a row."
        )
    roots = np.zeros((n_queries, n_keys), np.uint8)
    mass = torch.zeros(n_keys, device=look.logits.device)
    bits, largest = [], 0.0
    for begin, weights, entropy in portions(look, layer, side, site, 1, head):
        pattern = weights[0]
        rows, seen = pattern.shape
        roots[begin : begin + rows, :seen] = root_bytes(pattern)
        mass[:seen] += pattern.sum(0)
        bits.append(entropy[0])
        largest = max(largest, float(pattern.max()))
    arrays = {"pattern": roots, "mass": mass, "entropy": torch.cat(bits)}
    allow = look.context(side, site).allow
    mask = "causal" if allow.causal else "none" if allow.dense is None else "table"
    if allow.dense is not None and not allow.causal:
        arrays["masked"] = ~allow.dense[0, 0].expand(roots.shape)
    return Reply({"mask": mask, "max": largest}, arrays)


def row(
    context: OpContext, look: Look, side: str, site: str, layer: int, head: int, query: int
) -> Reply:
    """One row of one head, exactly: scores, and weights that sum to 1; `masked` keys have none."""
    weights = look.pattern(layer, head, side=side, site=site)
    (query,) = chosen(query, len(weights), "query", "The pattern")
    scores = look.scores(layer, head, side=side, site=site)[query]
    masked = scores == -torch.inf
    header = {"query": query, "masked": masked.nonzero()[:, 0].tolist()}
    return Reply(header, {"weights": weights[query], "scores": scores.masked_fill(masked, 0)})


@torch.no_grad()
def step(
    context: OpContext, look: Look, side: str, site: str, layer: int, head: int, query: int
) -> Reply:
    """The computation of one row of one head in order: x, norm, q, k, v, scores, weights, z, out.

    q and k are those of the scores, normalized and rotated. `out` is z W_O of this head without the
    bias: its contribution to the residual stream (in a post-norm model: before the norm).
    """
    exact = row(context, look, side, site, layer, head, query)
    query = exact.header["query"]
    place, module = look.attention(layer, side=side, site=site)
    q, k, v, z = (look[f"{place}.{name}"].tensor for name in "qkvz")
    group, z = head // (len(q) // len(k)), z[head, query]
    width = len(z)
    block = cast(Block, look.stack(side).blocks[layer])
    x, normed, norm = _query_input(look, place, block, site, query)
    own = {"x": x, "norm": normed, "q": q[head, query], "k": k[group], "v": v[group], "z": z}
    own["out"] = z @ module.out_proj.matrix[:, head * width : (head + 1) * width].mT
    if (bias := look.context(side, site).bias) is not None:
        own["bias"] = bias[0, head, query]
    header = {
        "scale": module.scale,
        "d_head": width,
        "group": group,
        "norm": norm,
        "rotary": site == "self" and look.stack(side).rotation is not None,
    }
    return Reply(exact.header | header, {**exact.arrays, **own})


def _query_input(
    look: Look, place: str, block: Block, site: str, query: int
) -> tuple[Float[Tensor, "D"], Float[Tensor, "D"], str]:
    """The residual stream before a query, the same after the norm, and the norm's name or ""."""
    name, norm = place.rpartition(".")[0], block.attention_norm
    x, pre = look[f"{name}.resid_pre"].tensor[query], block.pre_norm
    if site == "cross":  # the stream behind the self-attention of the block has no point
        assert block.cross_norm is not None
        branch = look[f"{name}.attention_out"].tensor[query]
        x = block.join(x[None, None], branch[None, None])[0, 0]
        x, norm = x if pre else norm(x), block.cross_norm
    if not pre:
        return x, x, ""
    return x, norm(x), "LayerNorm" if isinstance(norm, LayerNorm) else "RMSNorm"


def portions(
    look: Look, layer: int, side: str, site: str, rows: int, head: int | None = None
) -> Iterator[tuple[int, Float[Tensor, "H Q S"], Float[Tensor, "H Q"]]]:
    """Number of the first query, weights, and entropy of their rows in bits, portion by portion.

    The weights are those of all heads of a layer or of one, for a multiple of `rows` queries. Keys
    that no query of a portion may see are left out at the end.
    """
    place, _ = look.attention(layer, side=side, site=site)
    if fires(look.edits, f"{place}.scores", f"{place}.pattern"):
        weights = look[f"{place}.pattern"].tensor.float()  # an edit may need all of it
        weights = weights if head is None else weights[head : head + 1]
        yield 0, weights, row_entropy(weights)
        return
    module, q, k, context = look.attending(layer, side=side, site=site)
    q, k, length = q.float(), k.float(), k.shape[2]
    heads = q.shape[1] if head is None else 1
    portion = max(1, NUMBERS // (heads * length * rows)) * rows
    for begin in range(0, q.shape[2], portion):
        end = min(begin + portion, q.shape[2])
        seen = end if context.allow.causal else length
        bias = None if context.bias is None else context.bias[:, :, begin:end, :seen]
        unmasked = AttentionContext(Allowed(), bias)
        scores = module.scores(q[:, :, begin:end], k[:, :, :seen], unmasked, head)[0]
        yield begin, *_weights(scores, context.allow, begin, end)


def _weights(
    scores: Float[Tensor, "H Q S"], allow: Allowed, begin: int, end: int
) -> tuple[Float[Tensor, "H Q S"], Float[Tensor, "H Q"]]:
    """Weights and entropies of scores without a mask, computed in place of the scores.

    Masked scores are a large number below 0, so that 0 · s is a number; then Σ w ln w = Σ w s - ln
    Σ exp s, and of the largest, ln w = s - ln Σ exp s. A row without any key is 0, as in
    `attention_pattern`.
    """
    if allow.causal:  # only the last keys are new to some of the queries
        future = torch.ones(end - begin, end - begin, dtype=torch.bool, device=scores.device)
        scores[:, :, begin:].masked_fill_(future.triu(1), CLOSED)
    elif allow.dense is not None:
        table = allow.dense[0, 0]
        scores.masked_fill_(~(table[begin:end] if len(table) > 1 else table), CLOSED)
    weights, highest = scores.softmax(-1), scores.amax(-1)
    if allow.dense is not None:
        weights.masked_fill_((highest == CLOSED)[..., None], 0)
    largest = weights.amax(-1)
    nats = highest - scores.mul_(weights).sum(-1) - largest.log()
    return weights, torch.where(largest > 0, nats / math.log(2), 0.0)


def _shrunk(
    weights: Float[Tensor, "H Q S"], cell: tuple[int, int], keys: int
) -> Float[Tensor, "H R C"]:
    """The largest weight of each cell; rows first, which are contiguous."""
    for dim, n in enumerate(cell, 1):
        if n > 1:
            missing = -weights.shape[dim] % n
            weights = F.pad(weights, (0, 0, 0, missing) if dim == 1 else (0, missing))
            weights = weights.unflatten(dim, (-1, n)).amax(dim + 1)
    return F.pad(weights, (0, math.ceil(keys / cell[1]) - weights.shape[2]))  # the keys left out


def _metric_shares(
    queries: Sequence[Element], keys: Sequence[Element], within: bool, device: torch.device
) -> Callable[[int, int, int], Float[Tensor, "M _"]]:
    """The share of each weight in each metric but the first, for some rows and the first keys.

    The first query is not counted, since it may see only itself. NaN: a metric not defined here.
    """
    tables = key_tables(queries, keys, within=within)
    counted = torch.ones(len(queries), 1, dtype=torch.bool)
    counted[0] = len(queries) == 1
    rows = {
        name: counted & table.any(1, keepdim=True) if name in ("induction", "repeated") else counted
        for name, table in tables.items()
    }

    @cache
    def shares(begin: int, n: int, seen: int) -> Float[Tensor, "M _"]:
        made, part = torch.full((len(METRICS) - 1, n, seen), torch.nan), slice(begin, begin + n)
        for own, name in zip(made, list(METRICS)[1:], strict=True):
            if name in tables:
                own.copy_(tables[name][part, :seen] * (rows[name][part] / rows[name].sum()))
        return made.flatten(1).to(device)

    return shares


OPS = {"thumbnails": thumbnails, "head": head, "row": row, "step": step}
"""The functions of ops, by the names that requests have."""
