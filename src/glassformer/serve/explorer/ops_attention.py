"""Where the heads look: the ops `thumbs`, `head`, `row`, `step`.

Pixels are square roots in bytes; every digit comes from `row` and `step`, which are exact.
"""

from typing import cast

import numpy as np
import torch
from pydantic import Field

from glassformer.axes import Float, Tensor
from glassformer.inspect.headmetrics import METRICS
from glassformer.inspect.look import Look
from glassformer.inspect.points import chosen
from glassformer.layers.block import Block, PreNormBlock
from glassformer.layers.norm import LayerNorm
from glassformer.serve.explorer.looks import Desk
from glassformer.serve.explorer.requests import Attentive, OneHead, Whole
from glassformer.serve.explorer.thumbnails import in_full
from glassformer.serve.explorer.thumbnails import thumbs as shrunk
from glassformer.serve.explorer.wire import Reply, floats, root_bytes


class ThumbsAsk(Attentive):
    """How large."""

    size: int = Field(
        64, ge=4, le=256, description="pixels of the longer side of a thumbnail, at most"
    )


def thumbs(desk: Desk, ask: ThumbsAsk) -> Reply:
    """Every head of a stack: a thumbnail, each pixel the largest weight of `cell` queries and keys,
    and metrics."""
    found = shrunk(desk.look(ask.seen), ask.side, ask.site, ask.size, desk.check)
    metrics = [{"name": name, "definition": METRICS[name]} for name in found.names]
    header = {"metrics": metrics, "max": float(found.pixels.max()), "cell": list(found.cell)}
    return Reply(header, {"thumbs": root_bytes(found.pixels), "metrics": floats(found.metrics)})


def head(desk: Desk, ask: OneHead) -> Reply:
    """One head's pattern in pixels, what each key got, how spread each row is, and the mask if it
    has a shape."""
    seen = desk.look(ask.seen)
    found = in_full(seen, ask.layer, ask.head, ask.side, ask.site)
    allow = seen.context(ask.side, ask.site).allow
    table = None if allow.dense is None else allow.dense[0, 0].expand(found.roots.shape)
    mask = "causal" if allow.causal else "none" if table is None else "table"
    arrays = {"pattern": found.roots, "mass": floats(found.mass), "entropy": floats(found.entropy)}
    if table is not None:
        arrays["masked"] = (~table).to(torch.uint8).cpu().numpy()
    return Reply({"mask": mask, "max": found.largest}, arrays)


class RowAsk(OneHead):
    """Which row."""

    query: Whole = Field(description="the query, from 0; negative: from the end")


def row(desk: Desk, ask: RowAsk) -> Reply:
    """One row of one head, exactly: scores, and weights, which sum to 1; `masked` keys have no
    score."""
    seen = desk.look(ask.seen)
    at = {"side": ask.side, "site": ask.site}
    weights = seen.pattern(ask.layer, ask.head, **at)
    (query,) = chosen(ask.query, len(weights), "query", "The pattern")
    scores, masked = _open(seen.scores(ask.layer, ask.head, **at)[query])
    return Reply(
        {"query": query, "masked": masked}, {"weights": floats(weights[query]), "scores": scores}
    )


def step(desk: Desk, ask: RowAsk) -> Reply:
    """Everything that one row of one head was computed from, in the order in which it was: x, norm,
    q, k, v, ..., out.

    q and k are as the scores were made of them, normalized and turned where the model does so.
    `out` is z W_O of this head alone: what it adds to the stream (in a post-norm model: before the
    norm), the bias of W_O left out.
    """
    seen = desk.look(ask.seen)
    place, module = seen.attention(ask.layer, side=ask.side, site=ask.site)
    at = {"side": ask.side, "site": ask.site}
    weights = seen.pattern(ask.layer, ask.head, **at)
    (query,) = chosen(ask.query, len(weights), "query", "The pattern")
    scores, masked = _open(seen.scores(ask.layer, ask.head, **at)[query])
    q, k, v = (seen[f"{place}.{name}"].tensor for name in "qkv")
    group = ask.head // (len(q) // len(k))
    z = seen[f"{place}.z"].tensor[ask.head, query]
    width = z.shape[-1]
    with torch.no_grad():
        x, normed, norm = _asking(seen, place, ask, query)
        matrix = module.out_proj.weight[:, ask.head * width : (ask.head + 1) * width]
        out = z @ matrix.mT
    bias = seen.context(ask.side, ask.site).bias
    arrays = {
        name: floats(tensor)
        for name, tensor in (("x", x), ("norm", normed), ("q", q[ask.head, query]))
    }
    arrays |= {
        "k": floats(k[group]),
        "v": floats(v[group]),
        "scores": scores,
        "weights": floats(weights[query]),
    }
    arrays |= {"z": floats(z), "out": floats(out)}
    if bias is not None:
        arrays["bias"] = floats(bias[0, ask.head, query])
    header = {
        "query": query,
        "scale": module.scale,
        "d_head": width,
        "group": group,
        "norm": norm,
        "rotary": ask.site == "self" and seen.stack(ask.side).rotation is not None,
        "masked": masked,
    }
    return Reply(header, arrays)


def _asking(
    seen: Look, place: str, ask: RowAsk, query: int
) -> tuple[Float[Tensor, "D"], Float[Tensor, "D"], str]:
    """The stream that the query is made of, the same after the norm before it, and that norm's name
    ("" if none)."""
    name, block = place.rpartition(".")[0], cast(Block, seen.stack(ask.side).blocks[ask.layer])
    x, norm = seen[f"{name}.resid_pre"].tensor[query], block.attention_norm
    pre = isinstance(block, PreNormBlock)
    if ask.site == "cross":  # behind the block's own attention, where no point stands
        assert block.cross_norm is not None
        x = block.join(x, seen[f"{name}.attention_out"].tensor[query])
        x, norm = x if pre else norm(x), block.cross_norm
    if not pre:
        return x, x, ""
    return x, norm(x), "LayerNorm" if isinstance(norm, LayerNorm) else "RMSNorm"


def _open(scores: Float[Tensor, "S"]) -> tuple[Float[np.ndarray, "S"], list[int]]:
    """Scores with 0 in place of -inf, and where that is."""
    masked = scores == -torch.inf
    return floats(scores.masked_fill(masked, 0)), masked.nonzero()[:, 0].tolist()
