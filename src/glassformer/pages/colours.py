"""Colours of pages and pictures, read from their style sheets.

    weight 0 .. 1  ->  step 0 .. 32  ->  light page: lightness .985 -> .30, dark page: .20 -> .93

The ramp (`shades.css`) has one hue, so that more is always further from the page. Source: Ottosson,
A perceptual color space for image processing, 2020 (OKLab).
"""

import re
from pathlib import Path

import numpy as np

SHEET = "".join(
    Path(__file__).with_name(name).read_text("utf-8") for name in ("style.css", "shades.css")
)
"""Style sheets of every page."""
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", SHEET)
}
"""Colours by name on a light and a dark page: ink, soft, ..., the shades s0 to s32, and the text on
each shade, t0 to t32."""
STEPS = 33


def steps(shares: np.ndarray | float) -> np.ndarray:
    """Return the step of each share between 0 and 1, uint8."""
    return np.rint(np.clip(shares, 0, 1) * (STEPS - 1)).astype(np.uint8)


def weight_steps(weights: np.ndarray | float) -> np.ndarray:
    """Return the step of each weight on a scale of square roots, since most weights are small."""
    return steps(np.sqrt(weights))


def ramp(*, dark: bool) -> np.ndarray:
    """Return the shades of a theme from that of 0 to that of 1, uint8 [STEPS, 3]."""
    shades = bytes.fromhex("".join(COLOURS[f"s{step}"][dark][1:] for step in range(STEPS)))
    return np.frombuffer(shades, np.uint8).reshape(STEPS, 3)
