"""What a save costs training, as a share of the time between two saves at the default interval.

The model of nanoGPT's character recipe (384 wide, 6 layers), small steps, and each save exports the
model too. Runs without saves, with saves, and with saves in the background take turns; a save costs
what a run with saves takes longer, and stops training for the time that the loop waits for it.
"""

import argparse
import io
import json
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from glassformer.core.progress import Progress
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import SaveConfig
from glassformer.training.loop.train import train
from glassformer.training.loop.trainer import Trainer

STEPS, EVERY = 25, 4
MODES = {
    "none": {"every": STEPS + 1},
    "foreground": {"every": EVERY, "background": False},
    "background": {"every": EVERY, "background": True},
}


def recipe(text: Path, save: dict, batch: int) -> Recipe:
    model = {"d_model": 384, "n_layers": 6, "n_heads": 6, "max_length": 256}
    train = {"steps": STEPS, "batch_size": batch, "length": 64, "sample": {"tokens": 0}}
    return Recipe.parse(
        {
            "task": "text-generation",
            "model": model,
            "data": {"train": {"path": str(text)}, "validation": {"fraction": 0.0}},
            "processor": {"tokenizer": {"kind": "character"}},
            "train": train | {"save": save, "precision": "float32", "log_every": STEPS},
        }
    )


@contextmanager
def timed(name: str, times: list[float]):
    """The seconds of each call of a method of the loop."""
    real = getattr(Trainer, name)

    def call(self, *arguments, **named):
        begin = time.perf_counter()
        try:
            return real(self, *arguments, **named)
        finally:
            times.append(time.perf_counter() - begin)

    setattr(Trainer, name, call)
    try:
        yield
    finally:
        setattr(Trainer, name, real)


def measured(made: Recipe, run: Path) -> dict[str, float]:
    """Seconds of a run but for its first step and its last save, of a step, and of waiting for a
    save."""
    steps, saves, whole = [], [], []
    with timed("advance", steps), timed("save", saves), timed("go", whole):
        train(made, run, progress=Progress(io.StringIO()))
    *between, last = saves
    return {
        "whole": whole[0] - steps[0] - last,
        "step": statistics.median(steps[1:]),
        "waits": statistics.median(between) if between else 0.0,
        "saves": len(between),
    }


def figures(place: Path, rounds: int, batch: int) -> dict[str, dict[str, float]]:
    draw, text = random.Random(0), place / "text.txt"
    text.write_text("".join(draw.choices("abcdefghijklmnopqrstuvwxyz \n", k=200_000)))
    found = {name: [] for name in MODES}
    for number in range(rounds):
        for name, save in MODES.items():
            found[name].append(measured(recipe(text, save, batch), place / f"{name}-{number}"))
    step = statistics.median(one["step"] for one in found["none"])
    interval, told = SaveConfig().every * step, {}
    for name in ("foreground", "background"):
        longer = [
            (one["whole"] - none["whole"]) / one["saves"]
            for one, none in zip(found[name], found["none"], strict=True)
        ]
        waits = statistics.median(one["waits"] for one in found[name])
        told[name] = {
            "seconds a save costs": round(statistics.median(longer), 3),
            "of each round": [round(one, 3) for one in longer],
            "seconds training waits": round(waits, 3),
            "share of training, %": round(100 * statistics.median(longer) / interval, 3),
            "share of waiting, %": round(100 * waits / interval, 3),
        }
    return {"step": {"seconds": round(step, 3), "steps of an interval": SaveConfig().every}, **told}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--place", type=Path, help="a folder on the disk to measure")
    own = parser.parse_args()
    sys.stderr.write("About two minutes on two cores.\n")
    with tempfile.TemporaryDirectory(dir=own.place) as folder:
        found = figures(Path(folder), own.rounds, own.batch)
    sys.stdout.write(json.dumps({"load_before": os.getloadavg()[0], **found}, indent=2) + "\n")
