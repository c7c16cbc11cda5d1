"""Images with questions, right answers and a model's answers, and images generated from words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.pages.images import png
from glassformer.pages.kit import document, escape, figure, image, paragraph, table


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
    rows = [[name, f"{own:.1%}", f"{blind:.1%}"] for name, own, blind in scores]
    head = ["", "answered right", "without the image"]
    return document(
        title,
        paragraph(about),
        table("Share of right answers", head, rows, "scores"),
        f'<div class="cards">{"".join(_card(*card) for card in cards)}</div>',
        _generated(generated),
    )


def _generated(generated: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> str:
    figures = (
        figure(words, image(f"generated: {words}", png(made)) + image("a real one", png(real)))
        for words, made, real in generated
    )
    about = (
        "Images that another model generated from words that it never saw together; beside each, "
        "smaller, a real image."
    )
    shown = f'{paragraph(about)}<div class="cards generated">{"".join(figures)}</div>'
    return f"<h2>Generated from words</h2>{shown}" if generated else ""


def _card(pixels: np.ndarray, answers: Sequence[Answer]) -> str:
    caption = next((answer.gold for answer in answers if not answer.question), "")
    listed = "".join(map(_answer, answers))
    return f'<section class="card">{image(caption, png(pixels))}<dl>{listed}</dl></section>'


def _answer(answer: Answer) -> str:
    found = escape(answer.found)
    if answer.found != answer.gold:
        wrong, right = found or "nothing", escape(answer.gold)
        found = f'<span class="wrong">{wrong}</span> <span class="right">not {right}</span>'
    if not answer.question:
        return f'<dt class="caption">{found}</dt>'
    return f"<dt>{escape(answer.question)}</dt><dd>{found}</dd>"
