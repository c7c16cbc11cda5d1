"""`glassformer demo vqa`: one decoder answers questions about an image and writes captions, another
draws."""

from collections.abc import Sequence
from itertools import groupby, islice
from pathlib import Path

import numpy as np

from glassformer.data.parts import Mixed, mixed
from glassformer.data.pictures import decode
from glassformer.demos.baselines import share
from glassformer.demos.demo import Shown, train_and_test
from glassformer.demos.shape_files import DESCRIBE
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.metrics.baselines import most_frequent
from glassformer.pages.answers import Answer, answers_html
from glassformer.run import Run, load

DRAWING = "-drawing"
"""End of the name of the run folder of the model that draws, as in tables/demos.json."""
CARDS = 24
"""Images on the page, and images drawn."""

Row = tuple[str, str, Mixed]
"""An image's file, a prompt, and the row they are of."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on held-out images beside the best guess without looking, and a page with both
    models."""
    folder = run.folder
    drawing, page = Path(f"{folder}{DRAWING}"), folder / "answers.html"
    train, test = train_and_test(run, mixed, _row)
    found: list[str] = run.answer([[{"image": image}, prompt] for image, prompt, _ in test])
    known = [(prompt, row.target or "") for _, prompt, row in train]
    scores = _scores(test, found, most_frequent(known, [prompt for _, prompt, _ in test]))
    cards = _cards(test, found)
    title = f"What {folder.name} says of images it was not trained on"
    about = f"{counted(len(test), 'answer')} in all."
    write_text(page, answers_html(title, about, scores, cards, _drawn(load(drawing))))
    return Shown(
        {"scores": {name: {"accuracy": own, "blind": blind} for name, own, blind in scores}},
        [
            f"accuracy on {len(test):,} questions and captions of images not in training (and of "
            "the most frequent answer to each question, without looking):",
            *(f"  {name:14} {own:7.2%}  ({blind:.2%})" for name, own, blind in scores),
            "\none of them:",
            *(f"  {answer.question or DESCRIBE:48} {answer.found}" for answer in cards[0][1]),
            f"\nimages, questions, answers, and images drawn from words: {page} (open it in a "
            "browser)",
            f"curves and samples: {folder / 'report.html'}",
        ],
    )


def _row(row: Mixed) -> Row:
    return row.parts[0][1], row.parts[-1][1], row


def _pixels(path: str) -> np.ndarray:
    return decode(Path(path).read_bytes(), path)


def _drawn(run: Run) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Combinations that were held out in training: the words, the image drawn from them, and a
    real one."""
    _, test = train_and_test(run, mixed, _row)
    real = dict(islice({prompt: row.image or "" for _, prompt, row in test}.items(), CARDS))
    drawn = zip(real.items(), run.draw(list(real)), strict=True)
    return [(words, pixels, _pixels(image)) for (words, image), pixels in drawn]


def _scores(
    test: Sequence[Row], found: Sequence[str], blind: Sequence[str | None]
) -> list[tuple[str, float, float]]:
    """The accuracy of the model, and that without looking: on captions, on all questions, and on
    each kind of question."""
    kinds = sorted({row.group or "" for *_, row in test} - {"caption"})
    groups = {"captions": {"caption"}, "all questions": set(kinds)}
    groups |= {f"  {kind}": {kind} for kind in kinds}

    def accuracy(answers: Sequence[str | None], chosen: set[str]) -> float:
        rows = zip(test, answers, strict=True)
        return share(answer == row.target for (*_, row), answer in rows if row.group in chosen)

    return [
        (name, accuracy(found, chosen), accuracy(blind, chosen)) for name, chosen in groups.items()
    ]


def _cards(test: Sequence[Row], found: Sequence[str]) -> list[tuple[np.ndarray, Sequence[Answer]]]:
    """The first images with all questions about each."""
    cards: list[tuple[np.ndarray, Sequence[Answer]]] = []
    groups = groupby(zip(test, found, strict=True), key=lambda pair: pair[0][0])
    for image, pairs in islice(groups, CARDS):
        answers = [
            Answer("" if prompt == DESCRIBE else prompt, row.target or "", own)
            for (_, prompt, row), own in pairs
        ]
        cards.append((_pixels(image), answers))
    return cards
