"""Colours of every page: one ramp of shades for weights, shares and similarities.

    weight 0 .. 1  ->  step 0 .. 32  ->  light page: lightness .985 -> .30, dark page: .20 -> .93

The ramp (`shades.css`) has one hue, so that more is always further from the page. Weights have step
√weight, since most are small. Source: Ottosson, A perceptual color space for image processing, 2020
(OKLab).
"""

import re
from typing import cast

import numpy as np

from glassformer.pages.tables import read_file

Colour = tuple[int, int, int]

INK, SOFT, PAPER, MARK = (29, 35, 39), (91, 101, 109), (253, 253, 252), (179, 71, 0)
"""Colours of drawings on a light page: those of the style sheet."""
SHADES = re.findall(r"fill: light-dark\(#(\w+), #(\w+)\)", read_file("shades.css"))
"""Shades of the ramp on a light and a dark page."""
STEPS = len(SHADES)
TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Weights shown in a legend."""


def steps(weights: np.ndarray) -> np.ndarray:
    """Step 0 .. STEPS - 1 of each weight between 0 and 1, uint8: round(√a · (STEPS - 1))."""
    return np.rint(np.sqrt(np.clip(weights, 0, 1)) * (STEPS - 1)).astype(np.uint8)


def step(weight: float) -> int:
    """Step of one weight."""
    return steps(np.array([weight])).item()


def linear_step(share: float) -> int:
    """Step of a share between 0 and 1 on a linear scale."""
    return round(min(1.0, max(0.0, share)) * (STEPS - 1))


def ramp(*, dark: bool) -> list[Colour]:
    """Shades of a theme, from that of 0 to that of 1."""
    return [cast(Colour, tuple(bytes.fromhex(shade[dark]))) for shade in SHADES]


def ink(paper: Colour) -> Colour:
    """Black or white, whichever has more contrast with a colour: at least 4.58."""
    return max((0, 0, 0), (255, 255, 255), key=lambda colour: contrast(colour, paper))


def contrast(one: Colour, other: Colour) -> float:
    """Contrast of two colours, 1 to 21: (L₁ + 0.05) / (L₂ + 0.05). Source: WCAG 2.1, 1.4.3."""
    srgb = np.array([one, other]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    low, high = sorted((linear @ [0.2126, 0.7152, 0.0722] + 0.05).tolist())
    return high / low


def css(colour: Colour) -> str:
    """A colour as #rrggbb."""
    return "#" + bytes(colour).hex()
