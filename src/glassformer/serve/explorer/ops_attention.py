"""Attention patterns: the ops `thumbnails`, `head`, `row`, `step`.

Pixels are square roots in bytes; every digit comes from `row` and `step`, which are exact.
"""

from typing import cast

import numpy as np
import torch

from glassformer.axes import Float, Tensor
from glassformer.inspect.headmetrics import METRICS
from glassformer.inspect.look import Look
from glassformer.inspect.points import chosen
from glassformer.layers.block import Block
from glassformer.layers.norm import LayerNorm
from glassformer.serve.explorer.looks import OpContext
from glassformer.serve.explorer.thumbnails import in_full
from glassformer.serve.explorer.thumbnails import thumbnails as shrunk
from glassformer.serve.explorer.wire import Reply, floats, root_bytes


def thumbnails(context: OpContext, look: Look, side: str, site: str, size: int) -> Reply:
    """Every head of a stack: a thumbnail of the largest weight of each cell, and metrics."""
    found = shrunk(look, side, site, size, context.check)
    metrics = [{"name": name, "definition": METRICS[name]} for name in found.names]
    header = {"metrics": metrics, "max": float(found.pixels.max()), "cell": list(found.cell)}
    arrays = {"thumbnails": root_bytes(found.pixels), "metrics": floats(found.metrics)}
    return Reply(header, arrays)


def head(context: OpContext, look: Look, side: str, site: str, layer: int, head: int) -> Reply:
    """One head: its pattern in pixels, weight received by each key, entropy of each row, mask."""
    found = in_full(look, layer, head, side, site)
    allow = look.context(side, site).allow
    table = None if allow.dense is None else allow.dense[0, 0].expand(found.roots.shape)
    mask = "causal" if allow.causal else "none" if table is None else "table"
    arrays = {"pattern": found.roots, "mass": floats(found.mass), "entropy": floats(found.entropy)}
    if table is not None:
        arrays["masked"] = (~table).to(torch.uint8).cpu().numpy()
    return Reply({"mask": mask, "max": found.largest}, arrays)


def row(
    context: OpContext, look: Look, side: str, site: str, layer: int, head: int, query: int
) -> Reply:
    """One row of one head, exactly: scores, and weights that sum to 1; `masked` keys have none."""
    query, masked, arrays = _row(look, side, site, layer, head, query)
    return Reply({"query": query, "masked": masked}, arrays)


def step(
    context: OpContext, look: Look, side: str, site: str, layer: int, head: int, query: int
) -> Reply:
    """The computation of one row of one head in order: x, norm, q, k, v, scores, weights, z, out.

    q and k are those of the scores, normalized and rotated. `out` is z W_O of this head without the
    bias: its contribution to the residual stream (in a post-norm model: before the norm).
    """
    query, masked, arrays = _row(look, side, site, layer, head, query)
    place, module = look.attention(layer, side=side, site=site)
    q, k, v = (look[f"{place}.{name}"].tensor for name in "qkv")
    group = head // (len(q) // len(k))
    z = look[f"{place}.z"].tensor[head, query]
    width = z.shape[-1]
    with torch.no_grad():
        block = cast(Block, look.stack(side).blocks[layer])
        x, normed, norm = _query_input(look, place, block, site, query)
        out = z @ module.out_proj.weight[:, head * width : (head + 1) * width].mT
    own = {"x": x, "norm": normed, "q": q[head, query], "k": k[group], "v": v[group]}
    own |= {"z": z, "out": out}
    bias = look.context(side, site).bias
    if bias is not None:
        own["bias"] = bias[0, head, query]
    header = {
        "query": query,
        "scale": module.scale,
        "d_head": width,
        "group": group,
        "norm": norm,
        "rotary": site == "self" and look.stack(side).rotation is not None,
        "masked": masked,
    }
    return Reply(header, arrays | {name: floats(tensor) for name, tensor in own.items()})


def _row(
    look: Look, side: str, site: str, layer: int, head: int, query: int
) -> tuple[int, list[int], dict[str, np.ndarray]]:
    """The query from 0, the masked keys, and a row's weights and scores, 0 where masked."""
    weights = look.pattern(layer, head, side=side, site=site)
    (query,) = chosen(query, len(weights), "query", "The pattern")
    scores = look.scores(layer, head, side=side, site=site)[query]
    masked = scores == -torch.inf
    arrays = {"weights": floats(weights[query]), "scores": floats(scores.masked_fill(masked, 0))}
    return query, masked.nonzero()[:, 0].tolist(), arrays


def _query_input(
    look: Look, place: str, block: Block, site: str, query: int
) -> tuple[Float[Tensor, "D"], Float[Tensor, "D"], str]:
    """The residual stream before a query, the same after the norm, and the norm's name or ""."""
    name, norm = place.rpartition(".")[0], block.attention_norm
    x, pre = look[f"{name}.resid_pre"].tensor[query], block.pre_norm
    if site == "cross":  # after the block's self-attention, where no point is
        assert block.cross_norm is not None
        branch = look[f"{name}.attention_out"].tensor[query]
        x = block.join(x[None, None], branch[None, None])[0, 0]
        x, norm = x if pre else norm(x), block.cross_norm
    if not pre:
        return x, x, ""
    return x, norm(x), "LayerNorm" if isinstance(norm, LayerNorm) else "RMSNorm"


OPS = {"thumbnails": thumbnails, "head": head, "row": row, "step": step}
"""The functions of ops, by the names that requests have."""
