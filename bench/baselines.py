"""Baselines on the data of recipes: scores and seconds.

    python bench/baselines.py sst2=PATH trec=PATH ud-tagging=PATH [--rows N]

Each NAME=PATH is a recipe and the folder of its data. `--rows N`: naive Bayes and most frequent
tags also learn from N generated texts of ten words, and memory is measured.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.metrics.baselines import NaiveBayes, most_frequent, words
from glassformer.recipe.named import recipe_file
from glassformer.recipe.reading import read_recipe
from glassformer.tasks.evaluate import EVERYTHING
from glassformer.training.loop.prepare import temporary_task

CLASSES, WORDS, VOCABULARY = 20, 10, 300_000


def of_recipe(name: str, root: str) -> dict[str, Any]:
    """Baselines of the validation and the test split, and seconds."""
    recipe = read_recipe(str(recipe_file(name)), [f"data.root={json.dumps(root)}"])
    found: dict[str, Any] = {}
    with temporary_task(recipe) as task:
        train = task.objective.split("train").records
        found["training records"] = len(train)
        for split in ("validation", "test"):
            begin = time.perf_counter()
            learned = task.objective.baselines(split, EVERYTHING, lambda: train)
            seconds = round(time.perf_counter() - begin, 2)
            n = len(task.objective.split(split).records)
            found[split] = {"records": n, "seconds": seconds, **learned}
    return found


def of_rows(n: int) -> dict[str, float]:
    """Seconds and megabytes for generated texts, and for their words with a tag each."""
    draw = np.random.default_rng(0)
    numbers = np.minimum(draw.zipf(1.2, (n, WORDS)), VOCABULARY).tolist()
    texts = [" ".join(f"w{i}" for i in row) for row in numbers]
    labels = draw.integers(0, CLASSES, n).tolist()
    before, begin = peak(), time.perf_counter()
    model = NaiveBayes(((words(t), [c]) for t, c in zip(texts, labels, strict=True)), CLASSES)
    learned = time.perf_counter()
    scored = sum(len(part) for part in model.scores(map(words, texts[: n // 10])))
    done, after = time.perf_counter(), peak()
    pairs = ((f"w{i}", "abc"[c % 3]) for row, c in zip(numbers, labels, strict=True) for i in row)
    most_frequent(pairs, ["w1"], rare=True)
    tagged = time.perf_counter()
    return {
        "texts": n,
        "seconds to learn": round(learned - begin, 1),
        f"seconds to score {scored:,}": round(done - learned, 1),
        "MB": round(after - before),
        f"seconds of most frequent tags, {n * WORDS:,} words": round(tagged - done, 1),
    }


def peak() -> float:
    """The largest resident memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="NAME=PATH")
    parser.add_argument("--rows", type=int)
    chosen = parser.parse_args()
    figures: dict[str, Any] = {}
    for given in chosen.recipes:
        name, _, root = given.partition("=")
        figures[name] = of_recipe(name, str(Path(root).absolute()))
    if chosen.rows:
        figures["generated"] = of_rows(chosen.rows)
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
