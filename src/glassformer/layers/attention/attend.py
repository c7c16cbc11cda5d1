"""Attention as a function: softmax(q kᵀ · scale + mask + bias) v, in a reference and a fused form
that agree.

The reference writes out the softmax and gives the pattern; the fused form is the framework's
kernel. A query without any allowed key gives 0 in both. Grouped heads: query head h uses key-value
head h // (H / G). Source: Note A equation 9.1, Notes B to E.
"""

import torch
from torch.nn import functional as F

from glassformer.core.axes import Float, Tensor
from glassformer.layers.attention.mask import Allowed
from glassformer.layers.dropout import dropout as drop


def attention_scores(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    allow: Allowed,
    bias: Float[Tensor, "_ H T S"] | None,
    scale: float,
) -> Float[Tensor, "B H T S"]:
    """Scores S = q kᵀ · scale + bias, -inf where the mask forbids attention (Note A 9.1; bias: Note
    C)."""
    groups = q.shape[1] // k.shape[1]
    exact = torch.promote_types(q.dtype, torch.float32)  # kernels accumulate so too
    scores = (
        (q.to(exact) * scale).unflatten(1, (-1, groups)) @ k.to(exact)[:, :, None].mT
    ).flatten(1, 2)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    table = allow.as_table(q.shape[2], k.shape[2], q.device)
    return scores if table is None else scores.masked_fill(~table, -torch.inf)


def attention_pattern(scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
    """Attention weights A = softmax of each row; a row of nothing but -inf gives zeros."""
    closed = scores.amax(-1, keepdim=True) == -torch.inf
    return scores.masked_fill(closed, 0).softmax(-1).masked_fill(closed, 0)


def attention_values(
    pattern: Float[Tensor, "B H T S"], v: Float[Tensor, "B G S K"]
) -> Float[Tensor, "B H T K"]:
    """Weighted sums of values: z_i = Σ_j a_ij v_j."""
    groups = pattern.shape[1] // v.shape[1]
    return (pattern.to(v.dtype).unflatten(1, (-1, groups)) @ v[:, :, None]).flatten(1, 2)


def attend_reference(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    allow: Allowed,
    bias: Float[Tensor, "_ H T S"] | None,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T Kv"]:
    """Attention written out: scores, softmax, weighted sum. `dropout` acts on the pattern."""
    scores = attention_scores(q, k, allow, bias, scale)
    # Without a table every row has an allowed key.
    pattern = scores.softmax(-1) if allow.dense is None else attention_pattern(scores)
    return attention_values(drop(pattern, dropout), v)


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B G S K"],
    v: Float[Tensor, "B G S Kv"],
    allow: Allowed,
    bias: Float[Tensor, "_ H T S"] | None,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T Kv"]:
    """Same result as `attend_reference` by the framework's fused kernel, without the pattern."""
    # torch's CPU kernels have no dropout and fall back to a slower softmax (176 against 88 ms).
    if dropout and q.device.type == "cpu":
        return attend_reference(q, k, v, allow, bias, scale, dropout)
    grouped = q.shape[1] != k.shape[1]
    if bias is None and allow.dense is None and allow.added is None:
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=allow.causal, scale=scale, dropout_p=dropout, enable_gqa=grouped
        )
    if allow.causal and allow.added is None:  # kernels do not combine their triangle with a bias
        allow = Allowed(dense=allow.as_table(q.shape[2], k.shape[2], q.device))
    allow = allow.prepared()
    added, some = allow.added, allow.some
    if bias is not None:
        added = bias if added is None else bias + added
    added = None if added is None else added.to(q.dtype)
    z = F.scaled_dot_product_attention(
        q, k, v, attn_mask=added, scale=scale, dropout_p=dropout, enable_gqa=grouped
    )
    return z if some is None else z * some
