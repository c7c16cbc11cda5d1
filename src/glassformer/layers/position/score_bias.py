"""Biases of attention scores, as functions of the positions of query and key."""

import math

import torch
from torch import nn

from glassformer.core.axes import Float, Int, Tensor
from glassformer.core.batch import Positions


def relative_bucket(
    distance: Int[Tensor, "*shape"], n_buckets: int, max_distance: int, *, both_ways: bool
) -> Int[Tensor, "*shape"]:
    """T5's bucket of a distance j - i: exact for near keys, logarithmic up to `max_distance`, one
    bucket beyond.

    `both_ways`: half of the buckets are for keys after the query; otherwise those share bucket 0.
    Source: Raffel et al. 2020, section 2.1.
    """
    offset = torch.zeros_like(distance)
    if both_ways:
        n_buckets //= 2
        offset = (distance > 0).long() * n_buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = n_buckets // 2
    ratio = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    far = (exact + (ratio * (n_buckets - exact)).long()).clamp(max=n_buckets - 1)
    return offset + torch.where(distance < exact, distance, far)


class RelativeBias(nn.Module):
    """Note C's B = f(i - j): a learned scalar for each head and distance, clipped to
    ±`max_distance`."""

    def __init__(self, n_heads: int, max_distance: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, n_heads))
        self.max_distance = max_distance

    def forward(self, query: Positions, key: Positions) -> Float[Tensor, "B H T S"]:
        """B at [b, h, i, j] for position(query i) - position(key j)."""
        distance = query.position[:, :, None] - key.position[:, None, :]
        index = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.weight[index].permute(0, 3, 1, 2)


class BucketBias(nn.Module):
    """T5's relative bias: a learned scalar for each head and `relative_bucket`."""

    def __init__(self, n_heads: int, n_buckets: int, max_distance: int, *, both_ways: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_buckets, n_heads))
        self.n_buckets, self.max_distance, self.both_ways = n_buckets, max_distance, both_ways

    def forward(self, query: Positions, key: Positions) -> Float[Tensor, "B H T S"]:
        """The bias at [b, h, i, j] for the bucket of position(key j) - position(query i)."""
        distance = key.position[:, None, :] - query.position[:, :, None]
        bucket = relative_bucket(
            distance, self.n_buckets, self.max_distance, both_ways=self.both_ways
        )
        return self.weight[bucket].permute(0, 3, 1, 2)


def alibi_slopes(n_heads: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "H"]:
    """Slopes of the heads: 2^(-8h/H), h = 1..H; if H is not a power of two, the rest are every
    other slope of the next power.

    Source: Press et al. 2022, section 3.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)][: n_heads - power]
    return torch.tensor(slopes, dtype=dtype)


class AlibiBias(nn.Module):
    """A penalty linear in distance, -slope_h |i - j|, without parameters (Press et al. 2022)."""

    def __init__(self, n_heads: int):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, query: Positions, key: Positions) -> Float[Tensor, "B H T S"]:
        """The bias at [b, h, i, j]."""
        distance = (query.position[:, :, None] - key.position[:, None, :]).abs()
        return -alibi_slopes(self.n_heads).to(distance.device)[:, None, None] * distance[:, None]


ScoreBias = RelativeBias | BucketBias | AlibiBias
