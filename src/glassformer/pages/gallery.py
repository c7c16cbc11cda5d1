"""Images and audio with the class that a model found, and its class-token attention."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.pages.images import address, png, shades
from glassformer.pages.kit import Html, document, escape, figure, image, paragraph, table

HEAT = (255, 122, 0)
"""Colour of attention over an image, distinct from grey and from blue."""
OPACITY = 0.6
"""Opacity of it over the most attended patch."""


@dataclass(frozen=True)
class Item:
    """An image, or the spectrogram of audio, with its class and the class found."""

    picture: np.ndarray
    """Pixels uint8 [H, W, C], or values from 0 to 1, [H, W], drawn in shades of the ramp."""
    attention: np.ndarray
    """Share of attention of each patch, [rows, columns], placed as in the image."""
    gold: str
    found: str
    probability: float
    sound: bytes | None = None
    """A WAV file."""


@dataclass(frozen=True)
class Group:
    """A part of the page: items, and why they are there."""

    title: str
    about: str
    items: Sequence[Item]


def gallery_html(
    title: str, about: str, scores: Sequence[tuple[str, float]], groups: Sequence[Group]
) -> str:
    """A page of scores between 0 and 1 by name, then the groups that are not empty."""
    switch = (
        '<label><input type="checkbox" id="heat" checked> orange: attention of the class token in '
        "the last layer (mean over its heads; the strongest patch of each image is the most "
        "orange)</label>"
    )
    return document(
        title,
        paragraph(about),
        table("Scores", ["", "score"], [[name, f"{x:.2%}"] for name, x in scores], "scores"),
        switch,
        *(_group(group) for group in groups if group.items),
    )


def _group(group: Group) -> str:
    height, width = group.items[0].picture.shape[:2]
    style = f"--least:{7 if width <= 1.2 * height else 11}rem;--aspect:{width}/{height}"
    return (
        f"<section><h2>{escape(group.title)}</h2>{paragraph(group.about)}"
        f'<div class="gallery" style="{style}">{"".join(map(_figure, group.items))}</div></section>'
    )


def _figure(item: Item) -> Html:
    right = item.gold == item.found
    found = f'<b class="{"right" if right else "wrong"}"><bdi>{escape(item.found)}</bdi></b>'
    gold = "" if right else f"<small>is <bdi>{escape(item.gold)}</bdi></small>"
    wav = "" if item.sound is None else address("audio/wav", item.sound)
    sound = f'<audio controls preload="none" src="{wav}"></audio>' if wav else ""
    heat = image("", _heat(item.attention), attributes=' class="heat"')
    picture = f'<span class="heated">{_picture(item)}{heat}</span>'
    return figure(Html(f"found {found} {item.probability:.0%}{gold}{sound}"), picture, "")


def _picture(item: Item) -> Html:
    alt = f"{item.gold}, found {item.found}"
    if item.picture.ndim == 3:
        return image(alt, png(item.picture))
    return image(alt, *shades(item.picture))


def _heat(attention: np.ndarray) -> str:
    """Attention as an image of one colour, its opacity the share of the largest."""
    heat = np.full((*attention.shape, 4), (*HEAT, 0), np.uint8)
    share = attention / max(float(attention.max()), 1e-12)
    heat[..., 3] = np.rint(255 * OPACITY * share)
    return png(heat)
