"""`glassformer demo vqa`: what is in the picture? One decoder answers questions and writes
captions, another draws."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cli.terminal import print_json
from glassformer.demos.shape_rows import DESCRIBE, ShapeRow, drawn_rows, shape_pixels, shape_rows
from glassformer.errors import counted
from glassformer.files import write_text
from glassformer.inspect.answered import Answered, answered_html
from glassformer.run import Run, load
from glassformer.training.loop import Result
from glassformer.training.progress import clock

ABOUT = (
    "A decoder that looks at drawn shapes, answers questions about them and describes them in "
    "a sentence; before it, "
    "one that draws a shape pixel by pixel from words."
)
RECIPE: dict[str, dict[str, Any]] = {
    "model": {
        "preset": "modern",
        "size": "tiny",
        "n_layers": 4,
        "n_heads": 4,
        "d_model": 128,
        "embedding_norm": True,
    },
    "data": {"path": "builtin:shapes"},
    "image": {"patch": 8},
    "tokenizer": {"kind": "word"},
    "train": {
        "steps": 400,
        "batch_size": 160,
        "micro_batches": 2,
        "parallel_micro_batches": 2,
        "optimizer": "muon",
        "matrix_learning_rate": 0.012,
        "learning_rate": 0.005,
        "schedule": "linear",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "weight_decay": 0.0,
        "max_grad_norm": 0.0,
        "evaluate_every": 200,
        "save_every": 200,
        "sample_every": 200,
        "best": "loss",
    },
}
DRAWING = "-drawing"
DRAWN: dict[str, dict[str, Any]] = {
    "model": {"preset": "modern", "size": "tiny", "n_layers": 2, "position": "learned"},
    "data": {"path": "builtin:shapes-drawn"},
    "palette": {"size": 16, "colours": 32},
    "tokenizer": {"kind": "word"},
    "train": {
        "steps": 200,
        "batch_size": 16,
        "micro_batches": 2,
        "parallel_micro_batches": 2,
        "optimizer": "muon",
        "learning_rate": 0.003,
        "schedule": "linear",
        "final_fraction": 0.0,
        "warmup_steps": 20,
        "weight_decay": 0.0,
        "evaluate_every": 100,
        "evaluate_batches": 2,
        "save_every": 100,
        "sample_every": 200,
    },
}
"""The model that draws, trained in a run folder of its own."""
CARDS = 24
"""Pictures on the page, and pictures drawn."""


def show(run: Run, result: Result, as_json: bool) -> None:
    """Its answers about pictures it never saw beside the best guess without looking, and a page
    with both."""
    folder, rows = run.folder, list(shape_rows())
    drawing = folder.with_name(folder.name + DRAWING)
    test = [row for row in rows if row.split == "test"]
    found: list[str] = run.answer(
        [[{"image": shape_pixels(row.picture)}, row.prompt] for row in test]
    )
    scores = _scores(test, found, _blind(rows, test))
    title, about = (
        f"What {folder.name} says of pictures it never saw",
        f"{counted(len(test), 'answer')} in all.",
    )
    page = folder / "answers.html"
    write_text(page, answered_html(title, about, scores, _cards(test, found), _drawn(drawing)))
    if as_json:
        values = {name: {"accuracy": own, "blind": blind} for name, own, blind in scores}
        return print_json({"run": str(folder), "steps": result.steps, "scores": values})
    print(f"\ntrained {counted(result.steps, 'step')} in {clock(result.seconds)}")
    print(
        f"right, of {len(test):,} questions and captions on pictures it never saw (and by a "
        f"guess without looking):"
    )
    for name, own, blind in scores:
        print(f"  {name:14} {own:7.2%}  ({blind:.2%})")
    print("\none of them:")
    for answer in _cards(test, found)[0][1]:
        print(f"  {answer.question or 'describe':48} {answer.found}")
    print(
        f"\npictures, questions, answers, and pictures drawn from words: {page} (open it in a "
        f"browser)"
    )
    print(f"curves and samples: {folder / 'report.html'}")
    print("try next:")
    print(
        f'  glassformer generate {folder} --image YOUR_PICTURE.png --prompt "what colour is '
        f'the star?"'
    )
    print(f'  glassformer generate {drawing} --prompt "a large purple star" --to-image star.png')
    print(f"  glassformer evaluate {folder} --split test")
    return None


def _drawn(drawing: Path) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Combinations that were never drawn in training: the words, the picture drawn from them, and a
    real one."""
    real = {f"a {' '.join(kind)}": name for split, name, kind in drawn_rows() if split == "test"}
    prompts = [words for words, _ in zip(real, range(CARDS), strict=False)]
    return [
        (words, pixels, shape_pixels(real[words]))
        for words, pixels in zip(prompts, load(drawing).draw(prompts), strict=True)
    ]


def _blind(rows: Sequence[ShapeRow], test: Sequence[ShapeRow]) -> list[str]:
    """The answer that each test question had most often in training; of one never asked, the
    commonest of all."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.split == "train":
            answers[row.prompt][row.answer] += 1
    every = sum(answers.values(), Counter[str]()).most_common(1)[0][0]
    return [
        answers[row.prompt].most_common(1)[0][0] if row.prompt in answers else every for row in test
    ]


def _scores(
    test: Sequence[ShapeRow], found: Sequence[str], blind: Sequence[str]
) -> list[tuple[str, float, float]]:
    """Shares of right answers: the model's and those without looking, of all questions, of
    captions, of each kind."""
    right = [
        (row.kind, own == row.answer, guess == row.answer)
        for row, own, guess in zip(test, found, blind, strict=True)
    ]
    kinds = sorted({kind for kind, *_ in right} - {"caption"})
    groups = {
        "captions": {"caption"},
        "all questions": set(kinds),
        **{f"  {kind}": {kind} for kind in kinds},
    }
    scores: list[tuple[str, float, float]] = []
    for name, chosen in groups.items():
        own = [(model, guess) for kind, model, guess in right if kind in chosen]
        scores.append((name, sum(m for m, _ in own) / len(own), sum(g for _, g in own) / len(own)))
    return scores


def _cards(test: Sequence[ShapeRow], found: Sequence[str]) -> list[tuple[Any, list[Answered]]]:
    """The first pictures with all that was asked about each."""
    cards: list[tuple[Any, list[Answered]]] = []
    for name, pairs in groupby(zip(test, found, strict=True), key=lambda pair: pair[0].picture):
        answers = [
            Answered("" if row.prompt == DESCRIBE else row.prompt, row.answer, own)
            for row, own in pairs
        ]
        cards.append((shape_pixels(name), answers))
        if len(cards) == CARDS:
            break
    return cards
