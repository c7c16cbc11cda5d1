"""Convolutions in front of W_emb: torch's own on the picture, what each patch sees, and what is
refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.layers.stem import Stem, halvings, steps_of
from glassformer.media.patches import patchify
from tiny import EXACT, model

sides = st.sampled_from([1, 2, 4, 8])


def read(stem: Stem, pixels: torch.Tensor) -> torch.Tensor:
    return stem(patchify(pixels, stem.patch))


def stirred(stem: Stem) -> Stem:
    generator = torch.Generator().manual_seed(0)
    for parameter in stem.double().parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return stem


@given(st.integers(1, 3), st.integers(1, 3), sides, sides, st.integers(1, 3), st.integers(0, 2))
def test_every_patch_becomes_one_place(rows, columns, p, q, channels, more):
    needed = len(halvings((p, q)))
    widths = tuple(range(3, 3 + max(0, needed - 1) + more))
    if not needed:
        with pytest.raises(ConfigError, match="give as many"):
            steps_of((p, q), widths)
        return
    steps = steps_of((p, q), widths)
    assert len(steps) == len(widths) + 1
    assert steps[-1] == (min(2, p), min(2, q))
    down, right = 1, 1
    for a, b in steps:
        down, right = down * a, right * b
    assert (down, right) == (p, q)
    if widths:
        stem = stirred(Stem((rows, columns), (p, q), channels, widths, bias=True))
        out = read(stem, torch.randn(2, rows * p, columns * q, channels, dtype=torch.float64))
        assert out.shape == (2, widths[-1], rows * min(2, p), columns * min(2, q))


def test_the_same_as_convolutions_of_the_picture():
    stem = stirred(Stem((2, 3), (4, 2), 3, (5, 4), bias=True))
    pixels = torch.randn(2, 8, 6, 3, dtype=torch.float64)
    x = pixels.permute(0, 3, 1, 2)
    first, second = stem.convolutions
    x = F.gelu(F.conv2d(x, first.weight.view(5, 3, 3, 3), first.bias, stride=(1, 1), padding=1))
    x = F.gelu(F.conv2d(x, second.weight.view(4, 5, 3, 3), second.bias, stride=(2, 1), padding=1))
    assert_close(read(stem, pixels), x, **EXACT)


VISION = {
    "architecture": "encoder", "elements": "patches", "patch_width": 48, "patch": (4, 4),
    "grid": (5, 5), "max_length": 25, "head": "tag", "n_classes": 3, "position": "none",
}  # fmt: skip


def test_a_patch_sees_what_is_around_it_and_no_more():
    """Convolutions of 3 x 3 at steps 1, 2 and 2 of 4 x 4 patches reach 4 pixels before it, and 1
    behind."""
    net = model(stem=(4, 5), n_layers=1, **VISION)
    pixels = torch.randn(1, 20, 20, 3, dtype=torch.float64)
    vectors = lambda pixels: net.embed.element(patchify(pixels, (4, 4)))[0].view(5, 5, -1)
    plain = vectors(pixels)
    for row in range(20):
        other = pixels.clone()
        other[0, row, 9] += 1.0
        changed = (vectors(other) != plain).any(-1).any(1)
        seen = [4 * r - 4 <= row <= 4 * r + 4 for r in range(5)]
        assert changed.tolist() == seen, row


def test_it_learns_and_is_refused_where_it_cannot_work():
    net = model(stem=(4,), **VISION)
    net(Batch(torch.randn(2, 25, 48, dtype=torch.float64))).logits.square().sum().backward()
    for name, parameter in net.embed.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    with pytest.raises(ConfigError, match="need all 25 patches of an image, not 24"):
        net(Batch(torch.randn(1, 24, 48, dtype=torch.float64)))
    with pytest.raises(ConfigError, match=r"has 1 widths, and patches of 8 x 8 need at least 2"):
        model(stem=(4,), **VISION | {"patch": (8, 8), "patch_width": 192})
    with pytest.raises(ConfigError, match="no power of two but 6"):
        model(stem=(4, 4), **VISION | {"patch": (6, 6), "patch_width": 108})
