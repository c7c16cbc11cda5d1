"""`glassformer demo vision`: which of sixty distorted signs is in a small picture?"""

from collections.abc import Iterator, Sequence

import numpy as np

from glassformer.data.pictures import pictures
from glassformer.demos.confusions import confused_lines
from glassformer.demos.demo import Demo, Shown, Training, table
from glassformer.demos.glyphs import write_glyphs
from glassformer.demos.held_out import HeldOut
from glassformer.errors import counted
from glassformer.run import Run

SHOWN = 4
"""Signs on the terminal."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out signs beside two baselines, confusions, and where the class token
    attends."""
    assert run.recipe is not None
    folder, rows = run.folder, pictures(run.recipe.data)
    train, test = (
        [(row.pixels(), row.labels[0]) for row in rows if row.split == split]
        for split in ("train", "test")
    )
    held = HeldOut(run, train, test)
    accuracy = held.accuracy("the most frequent sign", "the nearest training picture")
    pixels = [pixels for pixels, _ in test]
    page, signs = folder / "signs.html", counted(len(run.classes), "sign")
    held.write_page(
        page,
        f"Signs that {folder.name} never saw",
        f"{len(test):,} distorted pictures of {signs}, accuracy:",
        accuracy,
        lambda i, looked: (pixels[i], looked, None),
        "picture",
    )
    some = drawn(np.stack(pixels[:SHOWN]), held.found[:SHOWN]) if terminal else ()
    return Shown(
        held.values(accuracy),
        [
            f"accuracy on {len(test):,} pictures it never saw, of {signs}:",
            *table(accuracy),
            *confused_lines(held.confused),
            "",
            *some,
            f"\nsigns found and not found, and where it looked: {page} (open it in a browser)",
            f"curves, confusions, calibration: {folder / 'report.html'}",
        ],
        [
            f"glassformer classify {folder} YOUR_PICTURE.png --top-k 3",
            f"glassformer evaluate {folder} --split test",
        ],
    )


def drawn(pixels: np.ndarray, names: Sequence[str]) -> Iterator[str]:
    """Pictures uint8 [N, H, W, 1] side by side at half their size, two rows of pixels in a line,
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


DEMO = Demo(
    "A Vision Transformer that reads sixty letters, digits and signs of four scripts, each drawn "
    "distorted.",
    (Training("vision", write_glyphs),),
    show,
)
