"""Pictures and sounds with what a model found in them, as one readable HTML page.

Nothing is loaded from anywhere; it is light or dark as the reader's system is, and works without a
script.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from glassformer.inspect import images
from glassformer.inspect.picture import STYLE

HEAT = (255, 122, 0)
"""The colour over what was looked at, seen on grey and on blue."""
HEATED = 0.6
"""How much of it covers the place that was looked at most."""
GALLERY_STYLE = """
.shown { display: grid; gap: 1.2rem .9rem; grid-template-columns: repeat(auto-fill, minmax(var(--wide), 1fr)); }
.seen { position: relative; display: block; }
.seen img { width: 100%; aspect-ratio: var(--aspect); image-rendering: pixelated; display: block; }
.seen .heat { position: absolute; inset: 0; border-color: transparent; }
body:has(#heat:not(:checked)) .heat { visibility: hidden; }
figcaption b { font-weight: 600; } figcaption .wrong { color: var(--mark); }
audio { width: 100%; height: 2.2rem; margin-top: .3rem; }
td.value { text-align: right; padding: 0 .5rem; } .scores th { text-align: left; max-width: none; }
.scores td { height: 2rem; }
label { display: inline-block; margin: .6rem 0; cursor: pointer; }
label:focus-within { outline: 2px solid var(--ink); outline-offset: 3px; }
"""


@dataclass(frozen=True)
class Shown:
    """A picture, or a sound by its spectrogram, with what was found in it and what is right."""

    picture: np.ndarray
    """Pixels uint8 [H, W, C], or numbers from 0 to 1 [H, W] that are drawn in the shades of the
    page."""
    looked: np.ndarray
    """The share of attention of each patch, [rows, columns], placed as in the picture."""
    gold: str
    found: str
    probability: float
    sound: bytes | None = None
    """A WAV file, to listen to."""


@dataclass(frozen=True)
class Group:
    """A part of the page: what is shown there, and why."""

    title: str
    about: str
    shown: Sequence[Shown]


def gallery_html(
    title: str, about: str, scores: Sequence[tuple[str, float]], groups: Sequence[Group]
) -> str:
    """A self-contained HTML document: scores between 0 and 1 by name, then the groups that hold
    anything."""
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><style>{STYLE}{GALLERY_STYLE}</style>'
        "</head>"
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="value">{value:.2%}</td></tr>'
        for name, value in scores
    )
    switch = (
        '<label><input type="checkbox" id="heat" checked> orange: where the class token looked '
        "in the last layer (the "
        "mean over its heads; the strongest of each picture is the most orange)</label>"
    )
    body = "".join(map(_group, [group for group in groups if group.shown]))
    return (
        f"{head}<body><main><h1>{escape(title)}</h1><p>{escape(about)}</p>"
        f'<div class="wide"><table class="scores"><tbody>{rows}</tbody></table></div>{switch}{body}'
        "</main></body></html>\n"
    )


def _group(group: Group) -> str:
    height, width = group.shown[0].picture.shape[:2]
    wide = "7rem" if width <= 1.2 * height else "11rem"
    figures = "".join(map(_figure, group.shown))
    return (
        f"<section><h2>{escape(group.title)}</h2><p>{escape(group.about)}</p>"
        f'<div class="shown" '
        f'style="--wide:{wide};--aspect:{width}/{height}">{figures}</div></section>'
    )


def _figure(shown: Shown) -> str:
    right = shown.gold == shown.found
    found = f'found <b class="{"right" if right else "wrong"}"><bdi>{escape(shown.found)}</bdi></b>'
    gold = "" if right else f"<small>is <bdi>{escape(shown.gold)}</bdi></small>"
    wav = "" if shown.sound is None else images.address("audio/wav", shown.sound)
    sound = f'<audio controls preload="none" src="{wav}"></audio>' if wav else ""
    alt = escape(f"{shown.gold}, found {shown.found}", quote=True)
    return (
        f'<figure><span class="seen">{_image(shown.picture, alt)}<img class="heat" '
        f'src="{_heat(shown.looked)}" alt="">'
        f"</span><figcaption>{found} {shown.probability:.0%}{gold}</figcaption>{sound}"
        "</figure>"
    )


def _image(picture: np.ndarray, alt: str) -> str:
    if picture.ndim == 3:
        return f'<img src="{images.picture(picture)}" alt="{alt}">'
    light, dark = (images.shaded(picture, dark=dark) for dark in (False, True))
    source = f'<source srcset="{dark}" media="(prefers-color-scheme: dark)">'
    return f'<picture>{source}<img src="{light}" alt="{alt}"></picture>'


def _heat(looked: np.ndarray) -> str:
    """What was looked at as a picture of one colour, the more opaque the more."""
    share = looked / max(float(looked.max()), 1e-12)
    heat = np.empty((*looked.shape, 4), np.uint8)
    heat[..., :3] = HEAT
    heat[..., 3] = np.rint(255 * HEATED * share)
    return images.picture(heat)
