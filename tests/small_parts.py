"""Toy rows of a picture and a question, and a small recipe for them; see small_runs for what
recipes share.

Pictures are of the day or of the night; the question alone has two answers.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.recipe.recipe import Recipe
from small_runs import flat
from small_senses import write_picture
from small_tasks import merged

SKIES = ("day", "night")
ASKED = {"what is it?": SKIES, "is there any light to be seen?": ("yes", "no")}


def sky(name: str, draw: np.random.Generator) -> np.ndarray:
    """uint8 [8, 8, 3], bright or dark."""
    return (draw.integers(0, 100, (8, 8, 3)) + 120 * (name == "day")).astype(np.uint8)


def rows_file(folder: Path, n: int = 20, name: str = "rows.jsonl", seed: int = 0) -> str:
    """`n` pictures, each with a short and a long question, of which the answers are known from the
    picture alone."""
    draw, rows = np.random.default_rng(seed), []
    for i in range(n):
        file = Path(write_picture(folder / "pictures" / f"{i:02}.png", sky(SKIES[i % 2], draw)))
        for question, answers in ASKED.items():
            parts = [{"image": f"pictures/{file.name}"}, {"text": question}]
            rows.append({"input": parts, "target": answers[i % 2], "kind": question.split()[0]})
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / name)


def parts_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    """A decoder that answers; `changes` as for `small_runs.values`."""
    own = {
        "model": {"position": "learned", "max_length": 16},
        "data": {
            "train.path": flat(changes).get("data.train.path") or rows_file(folder),
            "validation.fraction": 0.25,
        },
        "processor.image": {"patch": 4},
        "processor.tokenizer": {"kind": "word"},
        "train": {"evaluate.every": 8, "save.every": 8, "batch_size": 6},
    }
    return merged(folder, own, changes)
