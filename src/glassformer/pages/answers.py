"""Images with questions, right answers and a model's answers, and images generated from words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.pages.images import png
from glassformer.pages.kit import document, render


@dataclass(frozen=True)
class Answer:
    """A question, its right answer and the answer found; the question "" asks for a caption."""

    question: str
    gold: str
    found: str


def answers_html(
    title: str,
    about: str,
    scores: Sequence[tuple[str, float, float]],
    cards: Sequence[tuple[np.ndarray, Sequence[Answer]]],
    generated: Sequence[tuple[str, np.ndarray, np.ndarray]] = (),
) -> str:
    """A page of answers and of images generated from words.

    `scores`: name, share of right answers of the model, and of a baseline that sees no image.
    `cards`: an image, uint8 [H, W, C], and its answers. `generated`: words, the image generated
    from them, and a real one.
    """
    shares = [[name, f"{own:.1%}", f"{blind:.1%}"] for name, own, blind in scores]
    values = {"scores": shares, "cards": cards, "generated": generated, "png": png}
    return document(title, render("answers", about=about, **values))
