"""Image operations: warps, colours, tones; many images at once, each with its own strength.

An operation of a policy takes a strength from -1 to 1 for each image. 0 changes nothing; the sign
is ignored where only the size of the strength counts.

    GEOMETRY     rotate to 30 degrees, shear to 0.3, translate by up to 0.3 of the side
    TONES        brightness, contrast, saturation, sharpness       factors 1 +- 0.9
                 posterize to 8..4 bits, solarize from the brightest value down
                 invert, equalize, autocontrast                    in full, unless 0

Operations and ranges are those of Cubuk et al. 2020, RandAugment.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8

Pixels = UInt8[np.ndarray, "N H W C"]
Each = Float[np.ndarray, "N"]
Maps = Float[np.ndarray, "N 3 3"]
"""For each image, the map from (x, y, 1) of the new image to the old one, in pixels from the
centre."""
Boxes = Float[np.ndarray, "4 N"]
"""Rectangles: top, left, height, width, each as a share of the side of the image."""

GREY = 128
"""Value outside an image."""
ANGLE, SHEAR, SHIFT, FACTOR, BITS = np.pi / 6, 0.3, 0.3, 0.9, 4
"""Strength 1: radians, slope, share of the side, 1 +- this, bits removed."""


def inside(boxes: Boxes, height: int, width: int) -> Bool[np.ndarray, "N H W"]:
    """Whether each pixel lies in the rectangle, with edges rounded to whole pixels."""
    top, left, tall, wide = boxes[:, :, None]
    ys, xs = np.arange(height), np.arange(width)
    row = (ys >= np.rint(top * height)) & (ys < np.rint((top + tall) * height))
    column = (xs >= np.rint(left * width)) & (xs < np.rint((left + wide) * width))
    return row[:, :, None] & column[:, None, :]


def windows(pixels: Pixels, down: np.ndarray, right: np.ndarray, mirrored: np.ndarray) -> Pixels:
    """Images moved by whole pixels (int64 [N]), reflected at their borders, some mirrored.

    As in `np.pad(mode="reflect")`, the outermost pixels are not repeated.
    """
    n, height, width, channels = pixels.shape
    across = np.arange(width)
    columns = _reflected(right[:, None] + np.where(mirrored[:, None], across[::-1], across), width)
    rows = _reflected(down[:, None] + np.arange(height), height) + np.arange(n)[:, None] * height
    return pixels.reshape(-1, channels).take(rows[:, :, None] * width + columns[:, None, :], axis=0)


def warp(pixels: Pixels, maps: Maps) -> Pixels:
    """Images warped by the maps: bilinear, grey outside.

    Between the outermost pixel centres and the border these pixels are repeated.
    """
    import torch  # here, since commands that only read a configuration should not wait for it

    n, height, width, _ = pixels.shape
    m = maps.astype(np.float32)[:, :, :, None, None]
    xs, ys = _centred(width), _centred(height)[:, None]
    # in grid_sample's coordinates the borders are at -1 and 1
    grid = np.empty((n, height, width, 2), np.float32)
    grid[..., 0] = (m[:, 0, 0] * xs + m[:, 0, 1] * ys + m[:, 0, 2]) * (2 / width)
    grid[..., 1] = (m[:, 1, 0] * xs + m[:, 1, 1] * ys + m[:, 1, 2]) * (2 / height)
    planes = torch.tensor(pixels).permute(0, 3, 1, 2).float()
    seen = torch.nn.functional.grid_sample(
        planes, torch.from_numpy(grid), "bilinear", "border", align_corners=False
    )
    warped = np.ascontiguousarray(seen.add_(0.5).to(torch.uint8).permute(0, 2, 3, 1).numpy())
    outside = np.abs(grid) > 1
    warped[outside[..., 0] | outside[..., 1]] = GREY
    return warped


def window_maps(boxes: Boxes, height: int, width: int) -> Maps:
    """Maps that stretch rectangles to the whole image."""
    top, left, tall, wide = boxes
    maps = unmoved(len(top))
    maps[:, 0, 0], maps[:, 1, 1] = wide, tall
    maps[:, 0, 2], maps[:, 1, 2] = (left + wide / 2 - 0.5) * width, (top + tall / 2 - 0.5) * height
    return maps


def unmoved(n: int) -> Maps:
    """Identity maps of n images."""
    return np.tile(np.eye(3), (n, 1, 1))


def rotate(strength: Each, height: int, width: int) -> Maps:
    """Rotation about the centre, counterclockwise for a positive strength."""
    maps, angle = unmoved(len(strength)), strength * ANGLE
    maps[:, 0, 0] = maps[:, 1, 1] = np.cos(angle)
    maps[:, 1, 0] = np.sin(angle)
    maps[:, 0, 1] = -maps[:, 1, 0]
    return maps


def _one_entry(
    row: int, column: int, size: Callable[[int, int], float]
) -> Callable[[Each, int, int], Maps]:
    def maps_of(strength: Each, height: int, width: int) -> Maps:
        maps = unmoved(len(strength))
        maps[:, row, column] += strength * size(height, width)
        return maps

    return maps_of


def coloured(
    pixels: Pixels,
    brightness: Each | float = 1.0,
    contrast: Each | float = 1.0,
    saturation: Each | float = 1.0,
) -> Pixels:
    """Images with these factors of brightness, contrast and saturation, in this order; one or more
    is not a float.

    contrast: away from the mean grey of the image; saturation: away from the grey of each pixel.
    Clipped at the end.
    """
    grey = _grey(pixels)
    mean = grey.mean(axis=(1, 2), dtype=np.float64) * brightness * (1 - contrast)
    factor = brightness * contrast
    grey *= _wide(factor * (1 - saturation))[..., 0]
    grey += _wide(mean)[..., 0]
    values = pixels * _wide(factor * saturation)
    values += grey[..., None]
    return _to_bytes(values)


def sharpened(pixels: Pixels, factor: Each) -> Pixels:
    """Away from a 3 x 3 mean that counts the middle five times; the outermost pixels stay."""
    middle, values = np.s_[:, 1:-1, 1:-1], pixels.astype(np.float32)
    rows = values[:, :-2] + values[:, 1:-1] + values[:, 2:]
    smooth = (rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:] + 4 * values[middle]) / 13
    values[middle] = smooth + _wide(factor) * (values[middle] - smooth)
    return _to_bytes(values)


def posterize(pixels: Pixels, strength: Each) -> Pixels:
    """Set the lowest bits of every value to 0, up to BITS of them."""
    kept = 0xFF << np.rint(np.abs(strength) * BITS).astype(np.int64) & 0xFF
    return pixels & kept.astype(np.uint8)[:, None, None, None]


def solarize(pixels: Pixels, strength: Each) -> Pixels:
    """Invert the brightest values; at strength 1 all."""
    first = np.rint(256 * (1 - np.abs(strength))).astype(np.int16)
    return np.where(pixels >= first[:, None, None, None], ~pixels, pixels)


def invert(pixels: Pixels, strength: Each) -> Pixels:
    """Every value v as 255 - v, unless the strength is 0."""
    return np.where((strength != 0)[:, None, None, None], ~pixels, pixels)


def equalize(pixels: Pixels, strength: Each) -> Pixels:
    """Equalize the histogram of each channel, unless the strength is 0."""
    counts = _histograms(pixels)
    last = np.take_along_axis(counts, _highest(counts)[..., None], axis=-1)
    step = (counts.sum(axis=-1, keepdims=True) - last) // 255
    below = counts.cumsum(axis=-1) - counts
    table = ((step // 2 + below) // np.maximum(step, 1)).clip(max=255)
    return _through(np.where(step == 0, np.arange(256), table), pixels, strength)


def autocontrast(pixels: Pixels, strength: Each) -> Pixels:
    """Stretch each channel to 0..255, unless the strength is 0."""
    counts = _histograms(pixels)
    low, high = (counts > 0).argmax(axis=-1)[..., None], _highest(counts)[..., None]
    stretched = ((np.arange(256) - low) * 255 // np.maximum(high - low, 1)).clip(0, 255)
    return _through(np.where(high == low, np.arange(256), stretched), pixels, strength)


def _factors(strength: Each) -> Each:
    return 1 + FACTOR * strength


GEOMETRY: dict[str, Callable[[Each, int, int], Maps]] = {
    "rotate": rotate,
    "shear_x": _one_entry(0, 1, lambda height, width: SHEAR),
    "shear_y": _one_entry(1, 0, lambda height, width: SHEAR),
    "translate_x": _one_entry(0, 2, lambda height, width: SHIFT * width),
    "translate_y": _one_entry(1, 2, lambda height, width: SHIFT * height),
}
"""Operations that move pixels: (strengths, height, width) to maps."""
TONES: dict[str, Callable[[Pixels, Each], Pixels]] = {
    "brightness": lambda pixels, s: coloured(pixels, brightness=_factors(s)),
    "contrast": lambda pixels, s: coloured(pixels, contrast=_factors(s)),
    "saturation": lambda pixels, s: coloured(pixels, saturation=_factors(s)),
    "sharpness": lambda pixels, s: sharpened(pixels, _factors(s)),
    "posterize": posterize,
    "solarize": solarize,
    "invert": invert,
    "equalize": equalize,
    "autocontrast": autocontrast,
}
"""Operations that change values where they are: (pixels, strengths) to pixels."""


def _centred(size: int) -> Float32[np.ndarray, "T"]:
    return np.arange(size, dtype=np.float32) + np.float32((1 - size) / 2)


def _reflected(place: np.ndarray, size: int) -> np.ndarray:
    period = max(1, 2 * (size - 1))
    return np.minimum(place % period, -place % period)


def _wide(each: Each | float) -> Float32[np.ndarray, "N 1 1 1"]:
    return np.asarray(each, np.float32)[:, None, None, None]


def _grey(pixels: Pixels) -> Float32[np.ndarray, "N H W"]:
    """Luma by ITU-R BT.601, in whole numbers, so that sums are exact."""
    if pixels.shape[-1] == 1:
        return pixels[..., 0].astype(np.float32)
    red, green, blue = (pixels[..., channel].astype(np.uint32) for channel in range(3))
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000 >> 16).astype(np.float32)


def _to_bytes(values: Float32[np.ndarray, "N H W C"]) -> Pixels:
    """Round to 0..255; overwrites its argument, since fresh memory is the main cost."""
    np.clip(values, 0, 255, out=values)
    values += 0.5
    return values.astype(np.uint8)


def _slots(pixels: Pixels) -> np.ndarray:
    """The index of each value in the tables [N, C, 256] of all channels of all images."""
    n, _, _, channels = pixels.shape
    return pixels + (np.arange(n * channels, dtype=np.int64) * 256).reshape(n, 1, 1, channels)


def _histograms(pixels: Pixels) -> np.ndarray:
    shape = len(pixels), pixels.shape[-1], 256
    return np.bincount(_slots(pixels).ravel(), minlength=np.prod(shape)).reshape(shape)


def _highest(counts: np.ndarray) -> np.ndarray:
    return 255 - (counts[..., ::-1] > 0).argmax(axis=-1)


def _through(table: np.ndarray, pixels: Pixels, strength: Each) -> Pixels:
    table = np.where((strength != 0)[:, None, None], table, np.arange(256)).astype(np.uint8)
    return table.ravel().take(_slots(pixels))
