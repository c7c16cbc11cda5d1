"""Colours of every page: one ramp of shades for weights, shares and similarities.

    weight 0 .. 1  ->  step 0 .. 32  ->  light page: lightness .985 -> .30, dark page: .20 -> .93

The ramp has one hue, so that more is always further from the page. Weights have step √weight, since
most are small. Source: Ottosson, A perceptual color space for image processing, 2020 (OKLab).
"""

from typing import cast

import numpy as np

Colour = tuple[int, int, int]

INK, SOFT, PAPER, MARK = (29, 35, 39), (91, 101, 109), (253, 253, 252), (179, 71, 0)
"""Colours of drawings on a light page: those of the style sheet."""
STEPS = 33
"""Number of shades."""
HUE = np.deg2rad(255.0)
"""Blue, as an angle of OKLCH."""
TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Weights shown in a legend."""
LAB_TO_LMS = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.291485548],
    ]
)
LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def steps(weights: np.ndarray) -> np.ndarray:
    """Step 0 .. STEPS - 1 of each weight between 0 and 1, uint8: round(√a · (STEPS - 1))."""
    return np.rint(np.sqrt(np.clip(weights, 0, 1)) * (STEPS - 1)).astype(np.uint8)


def step(weight: float) -> int:
    """Step of one weight."""
    return int(steps(np.array([weight]))[0])


def linear_step(share: float) -> int:
    """Step of a share between 0 and 1 on a linear scale."""
    return round(min(1.0, max(0.0, share)) * (STEPS - 1))


def ramp(*, dark: bool) -> list[Colour]:
    """Shades of a theme, from that of 0 to that of 1."""
    first, last = (0.20, 0.93) if dark else (0.985, 0.30)
    x = np.linspace(0, 1, STEPS)
    chroma = 0.008 + 0.12 * np.sin(np.pi * np.minimum(x, 0.72))
    lab = np.stack([first + (last - first) * x, chroma * np.cos(HUE), chroma * np.sin(HUE)])
    linear = np.clip(LMS_TO_RGB @ (LAB_TO_LMS @ lab) ** 3, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return [cast(Colour, tuple(shade)) for shade in np.rint(255 * srgb.T).astype(int).tolist()]


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
    shades = zip(ramp(dark=False), ramp(dark=True), strict=True)
    return "".join(
        f":is(td,b).s{i}{{background:light-dark({css(light)},{css(dark)});"
        f"color:light-dark({css(ink(light))},{css(ink(dark))})}}"
        f"rect.s{i}{{fill:light-dark({css(light)},{css(dark)})}}"
        for i, (light, dark) in enumerate(shades)
    )
