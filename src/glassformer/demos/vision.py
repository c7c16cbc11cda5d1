"""`glassformer demo vision`: sixty distorted signs in small images."""

from collections.abc import Iterator, Sequence

import numpy as np

from glassformer.data.pictures import pictures
from glassformer.demos.demo import Shown
from glassformer.demos.held_out import HeldOut
from glassformer.run import Run

SHOWN = 4
"""Signs on the terminal."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out signs beside two baselines, confusions, and where the class token
    attends."""
    held = HeldOut(run, pictures, lambda row: row.pixels())
    some = drawn(np.stack(held.inputs[:SHOWN]), held.found[:SHOWN]) if terminal else ()
    return held.show(
        "vision",
        lambda pixels, looked: (pixels, looked, None),
        after=["", *some],
    )


def drawn(pixels: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    """Images uint8 [N, H, W, 1] side by side at half their size, two rows of pixels in a line,
    names below."""
    n, height, width, _ = pixels.shape
    small = pixels.reshape(n, height // 2, 2, width // 2, 2).mean((2, 4)).round().astype(int)
    for row in range(0, height // 2 - 1, 2):
        pairs = zip(small[:, row].tolist(), small[:, row + 1].tolist(), strict=True)
        yield "  " + "  ".join("".join(map(_two, *pair)) + "\x1b[0m" for pair in pairs)
    yield "  " + "  ".join(name.ljust(width // 2) for name in names)


def _two(upper: int, lower: int) -> str:
    """A character of two grey pixels, one above the other."""
    return f"\x1b[38;2;{upper};{upper};{upper};48;2;{lower};{lower};{lower}m▀"
