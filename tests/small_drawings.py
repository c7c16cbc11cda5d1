"""Two flags with their names, and small recipes for models that draw them; see small_runs for what
they share."""

import json
from pathlib import Path

import numpy as np

from glassformer.recipe.recipe import Recipe
from small_runs import go
from small_senses import write_picture
from small_tasks import LEARNING, ONCE, merged

RED, BLUE, WHITE = (200, 30, 30), (30, 30, 200), (250, 250, 250)


def flag(colours: list[tuple[int, int, int]]) -> np.ndarray:
    """uint8 [4, 6, 3]: stripes from left to right."""
    return np.repeat(np.array(colours, np.uint8), 6 // len(colours), 0)[None].repeat(4, 0)


FLAGS = {"a red flag": flag([RED, WHITE]), "one flag that is blue": flag([BLUE, WHITE, BLUE])}


def recipe(folder: Path, n: int = 8, **changes) -> Recipe:
    """Rows of the two flags, four by six pixels."""
    rows = []
    for name, pixels in FLAGS.items():
        write_picture(folder / f"{name}.png", pixels)
        rows.append({"input": name, "target": {"image": f"{name}.png"}})
    if not (folder / "rows.jsonl").exists():
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * n))
    own = {
        "model": {"position": "learned"},
        "data": {"train.path": str(folder / "rows.jsonl"), "validation.fraction": 0.25},
        "processor.tokenizer": {"kind": "word"},
        "processor.palette": {"size": (4, 6), "colours": 5},
        "train": ONCE,
    }
    own["model"] |= changes.get("model", {})
    made = merged(folder, own, changes)
    if "max_length" in changes.get("model", {}):
        return made
    values = made.values()
    del values["model"]["max_length"]
    return Recipe.parse(values)


def learn(folder: Path) -> Path:
    """A run that has learned both flags."""
    go(recipe(folder, train=LEARNING | {"sample.tokens": 1, "sample.every": 60}), folder / "run")
    return folder / "run"
