"""The colours of attention: one hue, so that more is always further from the page, in light and in
dark.

    0 ── lightness .985 -> .30 on a light page ── 1          0 ── .20 -> .93 on a dark page ── 1

A weight a has step √a of the ramp, since most weights are small. Source: Ottosson, A perceptual
color space for image processing, 2020 (OKLab).
"""

import math

import numpy as np

Colour = tuple[int, int, int]

STEPS = 33
"""How many shades there are."""
HUE = 255.0
"""Blue, in degrees of OKLCH."""
TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
"""The weights that a legend shows."""


def steps(weights: np.ndarray) -> np.ndarray:
    """The step 0 .. STEPS - 1 of each weight between 0 and 1, uint8: round(√a · (STEPS - 1))."""
    return np.rint(np.sqrt(np.clip(weights, 0, 1)) * (STEPS - 1)).astype(np.uint8)


def step(weight: float) -> int:
    """The step of one weight."""
    return int(steps(np.array([weight]))[0])


def ramp(*, dark: bool) -> list[Colour]:
    """The shades of a theme, from that of 0 to that of 1."""
    first, last = (0.20, 0.93) if dark else (0.985, 0.30)
    places = [shade / (STEPS - 1) for shade in range(STEPS)]
    return [
        _srgb(first + (last - first) * x, 0.008 + 0.12 * math.sin(math.pi * min(x, 0.72)))
        for x in places
    ]


def ink(paper: Colour) -> Colour:
    """Black or white, whichever is easier to read on a colour: a contrast of at least 4.58."""
    black, white = (0, 0, 0), (255, 255, 255)
    return black if contrast(black, paper) >= contrast(white, paper) else white


def contrast(one: Colour, other: Colour) -> float:
    """The contrast of two colours, 1 to 21: (L₁ + 0.05) / (L₂ + 0.05). Source: WCAG 2.1, 1.4.3."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def css(colour: Colour) -> str:
    """A colour as #rrggbb."""
    return "#" + bytes(colour).hex()


def _luminance(colour: Colour) -> float:
    linear = [
        c / 12.92 if (c := part / 255) <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for part in colour
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _srgb(lightness: float, chroma: float) -> Colour:
    """OKLCH to sRGB, cut to its gamut."""
    a, b = chroma * math.cos(math.radians(HUE)), chroma * math.sin(math.radians(HUE))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _encoded(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short),
        _encoded(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short),
        _encoded(-0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short),
    )


def _encoded(linear: float) -> int:
    linear = min(1.0, max(0.0, linear))
    return round(
        255 * (12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055)
    )
