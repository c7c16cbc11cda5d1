"""Positions against their formulas and published tables."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.core.batch import Positions
from glassformer.core.errors import ConfigError
from glassformer.layers.position.interpolation import interpolate
from glassformer.layers.position.rotary import grid_rotation, rotate, rotation
from glassformer.layers.position.score_bias import (
    AlibiBias,
    BucketBias,
    RelativeBias,
    alibi_slopes,
    relative_bucket,
)
from glassformer.layers.position.vectors import (
    GridPosition,
    LearnedPosition,
    SinusoidalPosition,
    binary_code,
    naive_index,
    sinusoidal,
)
from tiny import EXACT


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_sinusoid_is_its_formula(i, d, printed):
    def value(j):
        exponent = 2 * j / d if printed else 2 * (j // 2) / d
        angle = i / 10000**exponent
        return math.sin(angle) if j % 2 == 0 else math.cos(angle)

    expected = torch.tensor([value(j) for j in range(d)], dtype=torch.float64)
    got = sinusoidal(torch.tensor(i), d, printed=printed, dtype=torch.float64)
    assert_close(
        got, expected, atol=1e-10, rtol=0
    )  # angles up to 10^4 carry an error of 10^4 · 2^-52


def test_sinusoids_in_halves_are_the_pairs_in_another_order():
    pairs, halves = (sinusoidal(torch.arange(9), 6, halves=halves) for halves in (False, True))
    assert torch.equal(halves, pairs[:, [0, 2, 4, 1, 3, 5]])


def test_note_e_table_of_sinusoids():
    table = sinusoidal(torch.tensor([0, 25, 50, 75, 100]), 8)[:, :4]
    printed = [
        [0, 1, 0, 1],
        [-0.13, 0.99, 0.60, -0.80],
        [-0.26, 0.96, -0.96, 0.28],
        [-0.39, 0.92, 0.94, 0.35],
    ]
    printed.append([-0.51, 0.86, -0.54, -0.84])
    assert_close(table, torch.tensor(printed), atol=0.0051, rtol=0)  # printed with two digits


def test_only_paired_sinusoids_depend_on_distance():
    """Note C's claim holds for the paired formula: the spread of p_i · p_j over equal i - j."""
    spread = {}
    for printed in (False, True):
        p = sinusoidal(torch.arange(100), 64, printed=printed, dtype=torch.float64)
        dots = p @ p.T
        spread[printed] = max(
            float(torch.diagonal(dots, k).max() - torch.diagonal(dots, k).min()) for k in range(90)
        )
    assert spread[False] < 1e-12
    assert spread[True] == pytest.approx(5.6, abs=0.3)


def test_the_first_position_may_be_called_one():
    positions = Positions.arange(3)
    assert torch.equal(
        SinusoidalPosition(6, first=1)(positions),
        SinusoidalPosition(6)(Positions.arange(3, start=1)),
    )


def test_note_c_first_attempts():
    x = torch.zeros(1, 3, 2)
    assert naive_index(x, 0.5)[0, :, 0].tolist() == [0.5, 1.0, 1.5]
    assert binary_code(torch.tensor([0, 1, 6]), 3).tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 1]]


def test_learned_positions_refuse_what_is_outside_the_table():
    table = LearnedPosition(4, 2)
    torch.nn.init.normal_(table.weight)
    padded = Positions.pad([2, 4], "left")
    assert torch.equal(table(padded)[0, 2:], table.weight[:2])
    assert torch.equal(table(Positions.arange(2, start=2))[0], table.weight[2:])
    for positions in (Positions.arange(2, start=3), Positions.pad([5, 1])):
        with pytest.raises(ConfigError, match="Position 4 is outside the table of 4"):
            table(positions)


def t5_bucket(distance: int, n: int, far: int, both: bool) -> int:
    """Raffel et al. 2020 as the published code does it, in Python numbers."""
    offset = 0
    if both:
        n //= 2
        offset, distance = (n if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    exact = n // 2
    if distance < exact:
        return offset + distance
    return offset + min(
        n - 1, exact + int(math.log(distance / exact) / math.log(far / exact) * (n - exact))
    )


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("n", "far"), [(32, 128), (8, 20), (4, 9)])
def test_t5_buckets(n, far, both):
    distance = torch.arange(-300, 301)
    expected = [t5_bucket(int(d), n, far, both) for d in distance]
    got = relative_bucket(distance, n, far, both_ways=both)
    # a power of two may fall on either side of a bucket's edge in float32
    differ = sum(int(a) != b for a, b in zip(got, expected, strict=True))
    assert differ <= 2, differ
    assert got.min() == 0
    assert got.max() == n - 1
    after, before = relative_bucket(torch.tensor([1, -1]), n, far, both_ways=both).tolist()
    assert (before, after) == ((1, n // 2 + 1) if both else (1, 0))


def test_biases_look_up_by_distance():
    query, key = Positions.arange(2, start=3), Positions(torch.tensor([[5, 0, 4]]))
    relative = RelativeBias(2, 2)
    relative.weight.data = torch.arange(10.0).view(5, 2)  # rows for i - j = -2 .. 2
    assert relative(query, key)[0, 0].tolist() == [[0.0, 8.0, 2.0], [2.0, 8.0, 4.0]]
    buckets = BucketBias(2, 8, 20, both_ways=False)
    buckets.weight.data = torch.arange(16.0).view(8, 2)
    assert buckets(query, key)[0, 1].tolist() == [[1.0, 7.0, 1.0], [1.0, 9.0, 1.0]]
    assert AlibiBias(2)(query, key)[0, 0].tolist() == [
        [-2 / 16, -3 / 16, -1 / 16],
        [-1 / 16, -4 / 16, -0.0],
    ]


def test_alibi_slopes_are_the_published_ones():
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    expected = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]  # 4 heads, then every other of 8
    assert alibi_slopes(6).tolist() == expected


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 500), st.sampled_from([2, 6, 8]))
def test_rotary_scores_depend_on_the_difference_only(i, j, shift, width):
    q, k = torch.randn(2, 1, 1, 1, width, dtype=torch.float64)
    turned = lambda x, at: rotate(
        x, rotation(Positions.arange(1, start=at), width, 10000.0, torch.float64)
    )
    score = lambda a, b: (turned(q, a) * turned(k, b)).sum()
    assert_close(score(i, j), score(i + shift, j + shift), **EXACT)
    assert_close(turned(q, i).norm(), q.norm(), **EXACT)


def test_rotary_turns_counter_clockwise_by_its_angle():
    """Su et al. 2021: the pair (x_k, x_{k+K/2}) as a complex number is multiplied by
    e^{i·position·θ_k}."""
    x = torch.randn(1, 1, 5, 6, dtype=torch.float64)
    got = rotate(x, rotation(Positions.arange(5, start=2), 6, 100.0, torch.float64))
    angle = torch.arange(2, 7)[:, None] * 100.0 ** (-torch.arange(0, 6, 2, dtype=torch.float64) / 6)
    expected = torch.complex(x[..., :3], x[..., 3:]) * torch.polar(torch.ones_like(angle), angle)
    assert_close(got, torch.cat([expected.real, expected.imag], -1), **EXACT)


@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 1),
    st.data(),
)
def test_scores_of_a_turned_grid_depend_on_rows_and_columns_apart(
    rows, columns, down, right, ahead, data
):
    """The same step from query to key has the same score everywhere, and a step along a row is none
    across rows."""
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    wide = columns + right  # of a larger grid, in which the pair is moved
    at = lambda r, c: Positions(torch.tensor([[r * wide + c + ahead]]))
    turned = lambda x, r, c: rotate(
        x, grid_rotation(at(r, c), 8, 100.0, wide, ahead, torch.float64)
    )
    r1, r2 = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, rows - 1))
    c1, c2 = data.draw(st.integers(0, columns - 1)), data.draw(st.integers(0, columns - 1))
    score = lambda i, j, m, n: (turned(q, i, j) * turned(k, m, n)).sum()
    assert_close(
        score(r1, c1, r2, c2), score(r1 + down, c1 + right, r2 + down, c2 + right), **EXACT
    )
    # only the pairs of rows (k, k + K/2 for k in the first quarter) see rows, and only the others
    # columns
    of_rows = torch.tensor([True, True, False, False] * 2)
    assert torch.equal(turned(q, r1, 0)[..., of_rows], turned(q, r1, c1)[..., of_rows])
    assert torch.equal(turned(q, 0, c1)[..., ~of_rows], turned(q, r1, c1)[..., ~of_rows])
    if ahead:
        still = grid_rotation(
            Positions(torch.zeros(1, 1, dtype=torch.int64)), 8, 100.0, wide, 1, torch.float64
        )
        assert torch.equal(rotate(q, still), q)


@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from([2, 6, 8]), st.integers(0, 1))
def test_rows_and_columns_have_a_half_each(rows, columns, d, ahead):
    """Against NumPy in float64; a class token ahead has none."""

    def wave(i, j, width):
        angle = i / 10000 ** (2 * (j // 2) / width)
        return math.sin(angle) if j % 2 == 0 else math.cos(angle)

    got = GridPosition(d, columns, first=ahead)(Positions.arange(ahead + rows * columns))[0].numpy()
    half = d // 2
    for n in range(rows * columns):
        expected = [wave(n // columns, j, half) for j in range(half)] + [
            wave(n % columns, j, half) for j in range(half)
        ]
        np.testing.assert_allclose(got[ahead + n], expected, rtol=0, atol=1e-12)
    assert (got[:ahead] == 0).all()


grids = st.tuples(st.integers(1, 6), st.integers(1, 6))


@given(grids, st.integers(0, 2))
def test_the_same_grid_stays_exactly_as_it_is(grid, ahead):
    table = torch.randn(ahead + grid[0] * grid[1], 3)
    assert torch.equal(interpolate(table, grid, grid), table)


@given(grids, grids, st.integers(0, 1))
def test_what_is_linear_over_the_picture_stays_so(old, new, ahead):
    """a + b·row + c·column at the middle of each patch, in units of the picture, up to its
    edges."""
    a, b, c = torch.randn(3, 4, dtype=torch.float64)

    def plane(grid):
        rows, columns = ((torch.arange(n, dtype=torch.float64) + 0.5) / n for n in grid)
        b_here, c_here = (
            (b if old[0] > 1 else 0 * b),
            (c if old[1] > 1 else 0 * c),
        )  # one patch has no slope
        return (a + b_here * rows[:, None, None] + c_here * columns[:, None]).flatten(0, 1)

    token = torch.randn(ahead, 4, dtype=torch.float64)
    got = interpolate(torch.cat([token, plane(old)]), old, new)
    assert_close(got, torch.cat([token, plane(new)]), **EXACT)


def test_between_its_patches_a_grid_is_what_torch_makes_of_it():
    """Torch's cubic convolution with antialiasing has the same kernel where a grid grows; its edges
    are others."""
    table = torch.randn(8 * 9, 2)
    image = table.view(1, 8, 9, 2).permute(0, 3, 1, 2)
    theirs = torch.nn.functional.interpolate(image, size=(16, 27), mode="bicubic", antialias=True)
    mine = interpolate(table, (8, 9), (16, 27)).view(16, 27, 2).permute(2, 0, 1)[None]
    inside = (slice(None), slice(None), slice(4, -4), slice(6, -6))
    assert_close(mine[inside], theirs[inside], rtol=0, atol=1e-5)  # theirs is in float32


def test_a_table_that_is_no_such_grid_is_refused():
    with pytest.raises(ConfigError, match="A table of 5 positions is no grid of 2 x 3"):
        interpolate(torch.zeros(5, 2), (2, 3), (3, 3))
