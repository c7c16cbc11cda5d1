"""Position vectors of a grid of patches for another grid over the same image."""

import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError


def interpolate(
    table: Float[Tensor, "T D"], old: tuple[int, int], new: tuple[int, int]
) -> Float[Tensor, "S D"]:
    """Position vectors of a grid (rows, columns) interpolated to another grid over the same image;
    vectors before the grid are kept.

    Cubic convolution along each axis in float64: functions linear in row and column are kept, up to
    the edges, and the same grid is unchanged. ConfigError: a table smaller than its grid.
    """
    n_prefix = len(table) - old[0] * old[1]
    if n_prefix < 0:
        raise ConfigError(
            f"A table of {len(table)} positions is no grid of {old[0]} x {old[1]}; give its "
            f"own grid."
        )
    grid = table[n_prefix:].view(*old, -1).double()
    by_row, by_column = (_resampling(n, m).to(table.device) for n, m in zip(old, new, strict=True))
    found = torch.einsum("ur,vc,rcd->uvd", by_row, by_column, grid).flatten(0, 1)
    return torch.cat([table[:n_prefix], found.to(table.dtype)])


def _resampling(old: int, new: int) -> Float[Tensor, "S T"]:
    """Weights of `old` points in each of `new` ones between the same ends (Keys 1981, a = -1/2).

    Beyond an end, the line through the outermost two points.
    """
    at = (torch.arange(new, dtype=torch.float64) + 0.5) * old / new - 0.5
    around = torch.arange(-2, old + 2)
    x = (at[:, None] - around).abs()
    near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    weights = torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))
    line = torch.zeros(old + 4, old, dtype=torch.float64)
    line[around + 2, around.clamp(0, old - 1)] = 1.0
    if old > 1:
        for beyond in (1, 2):  # c_{-1} = c_0 + (c_0 - c_1), and so on
            line[2 - beyond, :2] = torch.tensor([1.0 + beyond, -beyond])
            line[old + 1 + beyond, -2:] = torch.tensor([-beyond, 1.0 + beyond])
    return weights @ line
