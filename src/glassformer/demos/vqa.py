"""`glassformer demo vqa`: what is in the picture? One decoder answers questions and writes
captions, another draws."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from glassformer.data.parts import Mixed, mixed
from glassformer.data.pictures import decode
from glassformer.demos.baselines import most_frequent_answer
from glassformer.demos.demo import Demo, Shown, Training
from glassformer.demos.shape_files import DESCRIBE, write_drawn, write_shapes
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.pages.answers import Answer, answers_html
from glassformer.run import Run, load

DRAWING = "-drawing"
"""End of the name of the run folder of the model that draws."""
CARDS = 24
"""Pictures on the page, and pictures drawn."""

Scores = list[tuple[str, float, float]]
"""A group of prompts, the model's accuracy, and that without looking."""


def show(run: Run, terminal: bool) -> Shown:
    """Accuracy on pictures it never saw beside the best guess without looking, and a page with
    both models."""
    assert run.recipe is not None
    folder, rows = run.folder, list(mixed(run.recipe.data))
    drawing, page = Path(f"{folder}{DRAWING}"), folder / "answers.html"
    test = [row for row in rows if row.split == "test"]
    found: list[str] = run.answer([[{"image": _picture(row)}, _prompt(row)] for row in test])
    train = [(_prompt(row), row.target or "") for row in rows if row.split == "train"]
    scores = _scores(test, found, most_frequent_answer(train, map(_prompt, test)))
    cards = _cards(test, found)
    title = f"What {folder.name} says of pictures it never saw"
    about = f"{counted(len(test), 'answer')} in all."
    write_text(page, answers_html(title, about, scores, cards, _drawn(load(drawing))))
    return Shown(
        {"scores": {name: {"accuracy": own, "blind": blind} for name, own, blind in scores}},
        [
            f"accuracy on {len(test):,} questions and captions of pictures it never saw (and of "
            "the most frequent answer to each question, without looking):",
            *(f"  {name:14} {own:7.2%}  ({blind:.2%})" for name, own, blind in scores),
            "\none of them:",
            *(f"  {answer.question or DESCRIBE:48} {answer.found}" for answer in cards[0][1]),
            f"\npictures, questions, answers, and pictures drawn from words: {page} (open it in a "
            "browser)",
            f"curves and samples: {folder / 'report.html'}",
        ],
        [
            f"glassformer generate {folder} --image YOUR_PICTURE.png "
            '--prompt "what colour is the star?"',
            f'glassformer generate {drawing} --prompt "a large purple star" --to-image star.png',
            f"glassformer evaluate {folder} --split test",
        ],
    )


def _picture(row: Mixed) -> str:
    return row.parts[0][1]


def _prompt(row: Mixed) -> str:
    return row.parts[-1][1]


def _pixels(path: str) -> np.ndarray:
    return decode(Path(path).read_bytes(), path)


def _drawn(run: Run) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Combinations that were held out in training: the words, the picture drawn from them, and a
    real one."""
    assert run.recipe is not None
    rows = (row for row in mixed(run.recipe.data) if row.split == "test")
    real = {_prompt(row): row.image or "" for row in rows}
    prompts = list(real)[:CARDS]
    return [
        (words, pixels, _pixels(real[words]))
        for words, pixels in zip(prompts, run.draw(prompts), strict=True)
    ]


def _scores(test: Sequence[Mixed], found: Sequence[str], blind: Sequence[str]) -> Scores:
    """Accuracy on captions, on all questions, and on each kind of question."""
    right = [
        (row.group, own == row.target, guess == row.target)
        for row, own, guess in zip(test, found, blind, strict=True)
    ]
    kinds = sorted({row.group or "" for row in test} - {"caption"})
    groups = {"captions": {"caption"}, "all questions": set(kinds)}
    groups |= {f"  {kind}": {kind} for kind in kinds}
    scores: Scores = []
    for name, chosen in groups.items():
        _, own, guess = zip(*(row for row in right if row[0] in chosen), strict=True)
        scores.append((name, sum(own) / len(own), sum(guess) / len(own)))
    return scores


def _cards(
    test: Sequence[Mixed], found: Sequence[str]
) -> list[tuple[np.ndarray, Sequence[Answer]]]:
    """The first pictures with all that was asked about each."""
    cards: list[tuple[np.ndarray, Sequence[Answer]]] = []
    groups = groupby(zip(test, found, strict=True), key=lambda pair: _picture(pair[0]))
    for _, (picture, pairs) in zip(range(CARDS), groups, strict=False):
        answers = [
            Answer("" if _prompt(row) == DESCRIBE else _prompt(row), row.target or "", own)
            for row, own in pairs
        ]
        cards.append((_pixels(picture), answers))
    return cards


DEMO = Demo(
    "A decoder that looks at drawn shapes, answers questions about them and describes them in a "
    "sentence; before it, one that draws a shape pixel by pixel from words.",
    (Training("shapes-drawn", write_drawn, DRAWING), Training("vqa", write_shapes)),
    show,
)
