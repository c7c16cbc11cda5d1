"""Images cut into patches, and patches put together.

    pixels [N, rows·p, columns·q, C]  <->  patches [N, rows·columns, p·q·C]

Patches are in reading order, flattened by row, column, channel (Note D: 16 x 16 x 3 = 768): patches
times W equal a convolution with kernel and stride (p, q) and the weights W reshaped to [p, q, C,
D].
"""

from jaxtyping import Shaped

from glassformer.core.axes import Tensor
from glassformer.core.errors import DataError


def patchify(
    pixels: Shaped[Tensor, "N height width channels"], size: tuple[int, int]
) -> Shaped[Tensor, "N T P"]:
    """Patches of `size` (rows, columns) in reading order; DataError: the size does not divide the
    image."""
    n, height, width, channels = pixels.shape
    p, q = size
    if p < 1 or q < 1 or height % p or width % q:
        raise DataError(
            f"images of {height} x {width} are not filled by patches of {p} x {q}; give a size "
            f"that divides"
        )
    rows, columns = height // p, width // q
    cut = pixels.reshape(n, rows, p, columns, q, channels).transpose(2, 3)
    return cut.reshape(n, rows * columns, p * q * channels)


def unpatchify(
    patches: Shaped[Tensor, "N T P"], size: tuple[int, int], grid: tuple[int, int]
) -> Shaped[Tensor, "N height width channels"]:
    """Inverse of `patchify` for a grid of (rows, columns) patches; DataError: sizes that do not
    match."""
    n, t, width = patches.shape
    (p, q), (rows, columns) = size, grid
    if t != rows * columns or p < 1 or q < 1 or width % (p * q):
        raise DataError(
            f"{t} patches of {width} numbers are no grid of {rows} x {columns} patches of {p} x "
            f"{q}; give the sizes that the image was cut with"
        )
    channels = width // (p * q)
    laid = patches.reshape(n, rows, columns, p, q, channels).transpose(2, 3)
    return laid.reshape(n, rows * p, columns * q, channels)
