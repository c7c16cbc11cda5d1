"""Patches against a loop, their inverse, and torch's convolution."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.media.patches import patchify, unpatchify

small = st.integers(1, 4)
shapes = st.tuples(st.integers(0, 3), small, small, small, small, st.integers(1, 3))
kinds = st.sampled_from([torch.uint8, torch.float32, torch.float64, torch.bool])


def pixels(n, rows, p, columns, q, channels, kind=torch.float64):
    return torch.randint(0, 256, (n, rows * p, columns * q, channels)).to(kind)


@given(shapes, kinds)
def test_the_same_as_a_loop(shape, kind):
    n, rows, p, columns, q, channels = shape
    pictures = pixels(*shape, kind=kind)
    patches = patchify(pictures, (p, q))
    assert patches.shape == (n, rows * columns, p * q * channels)
    assert patches.dtype == kind
    for i in range(n):
        for r in range(rows):
            for c in range(columns):
                numbers = [
                    pictures[i, r * p + y, c * q + x, channel]
                    for y in range(p) for x in range(q) for channel in range(channels)
                ]  # fmt: skip
                assert patches[i, r * columns + c].tolist() == [number.item() for number in numbers]


@given(shapes, kinds)
def test_the_inverse(shape, kind):
    _, rows, p, columns, q, _ = shape
    pictures = pixels(*shape, kind=kind)
    assert torch.equal(unpatchify(patchify(pictures, (p, q)), (p, q), (rows, columns)), pictures)


@given(shapes.filter(lambda shape: shape[0] > 0), st.integers(1, 5))
def test_patches_times_a_map_are_a_convolution(shape, dim):
    _, rows, p, columns, q, channels = shape
    pictures, w = pixels(*shape) / 255, torch.randn(p * q * channels, dim, dtype=torch.float64)
    kernel = w.reshape(p, q, channels, dim).permute(3, 2, 0, 1)
    convolved = torch.nn.functional.conv2d(pictures.permute(0, 3, 1, 2), kernel, stride=(p, q))
    vectors = patchify(pictures, (p, q)) @ w
    # float64, sums of at most 48 products of size 1 in another order
    assert torch.allclose(vectors, convolved.flatten(2).transpose(1, 2), atol=1e-12, rtol=0)
    assert convolved.shape[2:] == (rows, columns)


@given(small, small)
def test_positions_in_the_grid_are_where_the_patches_stood(rows, columns):
    places = torch.stack(
        torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij"), -1
    )[None]
    assert torch.equal(
        patchify(places, (1, 1))[0],
        torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).reshape(-1, 2),
    )
