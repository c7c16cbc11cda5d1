"""`glassformer demo vqa`: one decoder answers questions about an image and writes captions, another
draws."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer.core.files import write_text
from glassformer.data.records.parts import Mixed, read_parts
from glassformer.data.records.pictures import decode
from glassformer.demos.kit import Shown, train_and_test
from glassformer.demos.shapes import DESCRIBE
from glassformer.metrics.baselines import most_frequent
from glassformer.pages.images import png
from glassformer.pages.kit import document, render
from glassformer.run import Run, load
from glassformer.tasks.evaluate import matches

DRAWING = "-drawing"
"""End of the name of the run folder of the model that draws, as in demos.json."""
CARDS = 24
"""Images on the page, and images drawn."""


class Answer(NamedTuple):
    """A question, its right answer and the answer found; the question "" is for a caption."""

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
    body = render("answers", about=about, scores=shares, cards=cards, generated=generated, png=png)
    return document(title, body)


def show(run: Run) -> Shown:
    """Exact matches on held-out images beside the best guess without looking, and a page with both
    models."""
    (train, test), table = train_and_test(run, read_parts), run.evaluate("test")["table"]
    known = Counter((_prompt(row), row.target or "") for row in train)
    guesses = [guess or "" for guess in most_frequent(known, map(_prompt, test))]
    blind = matches(guesses, [row.target or "" for row in test], [row.group for row in test])
    scores = [
        (own["group"], own["exact_match"], guess["exact_match"])
        for own, guess in zip(table, blind["table"], strict=True)
    ]
    images = [(_pixels(path), [*rows]) for path, rows in islice(groupby(test, _image), CARDS)]
    cards = [(pixels, _answers(run, rows)) for pixels, rows in images]
    title, about = f"What {run.folder.name} says of images it never saw", f"{len(test):,} answers."
    page, drawn = run.folder / "answers.html", _draw(load(f"{run.folder}{DRAWING}"))
    write_text(page, answers_html(title, about, scores, cards, drawn))
    return Shown(
        {"scores": {name: {"accuracy": own, "blind": guess} for name, own, guess in scores}},
        [
            f"right of {len(test):,} questions and captions of images not in training (and of the "
            "most frequent answer to each question, without looking):",
            *(f"  {name:14} {own:7.2%}  ({guess:.2%})" for name, own, guess in scores),
            "\none image:",
            *(f"  {answer.question or DESCRIBE:48} {answer.found}" for answer in cards[0][1]),
            f"\nimages, answers, images drawn from words: {page} (open it in a browser)",
        ],
    )


def _answers(run: Run, rows: list[Mixed]) -> list[Answer]:
    """Return the answers to all questions about an image; the caption has the question ""."""
    found: list[str] = run.answer([[{"image": _image(row)}, _prompt(row)] for row in rows])
    return [
        Answer(_prompt(row).replace(DESCRIBE, ""), row.target or "", own)
        for row, own in zip(rows, found, strict=True)
    ]


def _draw(run: Run) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return words that training never has together, an image drawn from them, and a real one."""
    rows = {row.parts[0][1]: row.image or "" for row in train_and_test(run, read_parts)[1]}
    some = dict(islice(rows.items(), CARDS))
    drawn = zip(some.items(), run.draw(list(some)), strict=True)
    return [(words, pixels, _pixels(image)) for (words, image), pixels in drawn]


def _image(row: Mixed) -> str:
    return row.parts[0][1]


def _prompt(row: Mixed) -> str:
    return row.parts[1][1]


def _pixels(path: str) -> np.ndarray:
    return decode(Path(path).read_bytes(), path)
