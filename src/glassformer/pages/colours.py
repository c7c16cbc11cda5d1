"""Colours of every page: one ramp of shades for weights, shares and similarities.

    weight 0 .. 1  ->  step 0 .. 32  ->  light page: lightness .985 -> .30, dark page: .20 -> .93

The ramp (`shades.tsv`) has one hue, so that more is always further from the page. Weights have step
√weight, since most are small. Source: Ottosson, A perceptual color space for image processing, 2020
(OKLab).
"""

from typing import cast

import numpy as np

from glassformer.pages.tables import read_table

Colour = tuple[int, int, int]

INK, SOFT, PAPER, MARK = (29, 35, 39), (91, 101, 109), (253, 253, 252), (179, 71, 0)
"""Colours of drawings on a light page: those of the style sheet."""
SHADES = read_table("shades.tsv")
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
    name = "dark" if dark else "light"
    return [cast(Colour, tuple(bytes.fromhex(shade[name][1:]))) for shade in SHADES]


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


def shades_css() -> str:
    """A class `s0` .. `s32` for each shade of the ramp, light and dark."""
    themes = zip(ramp(dark=False), ramp(dark=True), strict=True)
    rules = ""
    for i, shades in enumerate(themes):
        ground, text = (",".join(map(css, pair)) for pair in (shades, map(ink, shades)))
        rules += (
            f":is(td,b).s{i}{{background:light-dark({ground});color:light-dark({text})}}"
            f"rect.s{i}{{fill:light-dark({ground})}}"
        )
    return rules
