"""Ordinary files: tables with a header, JSON lines, images."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """A UTF-8 text file whose lines end in \\n on every system."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_table(path: Path, header: str, rows: Iterable[Sequence[str]]) -> None:
    """Tab-separated values; `header` names the columns."""
    write_lines(path, map("\t".join, [header.split(), *rows]))


def write_json_lines(path: Path, rows: Iterable[Any]) -> None:
    """One JSON value on each line."""
    write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def write_png(path: Path, pixels: np.ndarray) -> str:
    """Write pixels uint8 [H, W, 1 or 3] as a PNG file, hardly compressed, since that is slow."""
    pixels = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    Image.fromarray(pixels).save(path, compress_level=1)
    return f"{path.parent.name}/{path.name}"
