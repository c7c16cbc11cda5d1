"""`glassformer generate --to-image`: what a prompt says, as a picture in a PNG file, enlarged so
that it can be seen."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from glassformer.cli.terminal import print_json
from glassformer.errors import ConfigError
from glassformer.run import load

SIDE = 256
"""About how many pixels the longer side of an enlarged picture has."""


def paint(
    folder: Path,
    prompts: Sequence[str],
    out: Path,
    unused: Collection[str],
    options: dict[str, Any],
    device: str,
    as_json: bool,
) -> None:
    """Draw one prompt into a file; `unused`: other options that were given."""
    if unused:
        raise ConfigError(
            f"--to-image draws what a text says, so --{min(unused)} has no use; leave it out."
        )
    if len(prompts) != 1:
        raise ConfigError(
            f"--to-image draws one picture, of one --prompt, not of {len(prompts)}; give one."
        )
    if out.suffix.lower() != ".png":
        raise ConfigError(f"--to-image writes PNG, and {out} is named otherwise; name a .png file.")
    if not out.parent.is_dir():
        raise ConfigError(
            f"--to-image cannot write {out}: there is no folder {out.parent}; make it first."
        )
    run = load(folder, device)
    (pixels,) = run.draw(list(prompts), **options)
    try:
        Image.fromarray(enlarged(pixels)).save(out)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {out}: {error.strerror or error}; choose another file."
        ) from None
    height, width, _ = pixels.shape
    if as_json:
        print_json({"prompt": prompts[0], "image": str(out), "pixels": pixels.tolist()})
    else:
        print(f"{out}: {height} x {width} pixels, {factor(pixels)} times enlarged")


def factor(pixels: np.ndarray) -> int:
    """How many times a picture, [H, W, 3], is enlarged to about `SIDE` pixels: a whole number."""
    return max(1, SIDE // max(pixels.shape[:2]))


def enlarged(pixels: np.ndarray) -> np.ndarray:
    """A picture with each pixel as a square of pixels."""
    return pixels.repeat(factor(pixels), 0).repeat(factor(pixels), 1)
