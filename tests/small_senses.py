"""Toy pictures and recordings, and small recipes for them; see small_runs for what they share.

Pictures are 8 x 8: the left or the right half is bright. Recordings are a tenth of a second: a low
or a high tone.
"""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from glassformer.media.audio_file import write_wav
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.training.loop.prepare import prepare
from small_runs import flat
from small_tasks import ONCE, merged

SIDES = ("left", "right")
TONES = {"high": 1600.0, "low": 400.0}
RATE = 8000


def half(bright: str, draw: np.random.Generator, channels: int = 1, size: int = 8) -> np.ndarray:
    """uint8 [size, size, channels] with one bright half."""
    pixels = draw.integers(0, 100, (size, size, channels))
    pixels[:, slice(0, size // 2) if bright == "left" else slice(size // 2, size)] += 120
    return pixels.astype(np.uint8)


def write_picture(path: Path, pixels: np.ndarray) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(path)
    return str(path)


def picture_folder(
    folder: Path, n: int = 24, seed: int = 0, name: str = "pictures", channels: int = 1
) -> str:
    """`n` pictures, half of each class, in a folder for each."""
    draw = np.random.default_rng(seed)
    for i in range(n):
        side = SIDES[i % 2]
        write_picture(folder / name / side / f"{i:03}.png", half(side, draw, channels))
    return str(folder / name)


def tone(frequency: float, draw: np.random.Generator, samples: int = 800) -> np.ndarray:
    """float32 [samples]: a tone with a random phase and some noise."""
    time = np.arange(samples) / RATE
    sound = 0.3 * np.sin(2 * np.pi * (frequency * time + draw.random()))
    return (sound + 0.05 * draw.standard_normal(samples)).astype(np.float32)


def sound_folder(
    folder: Path, n: int = 24, seed: int = 0, name: str = "sounds", samples: int = 800
) -> str:
    """`n` recordings, half of each class, in a folder for each."""
    draw = np.random.default_rng(seed)
    for i in range(n):
        pitch = list(TONES)[i % 2]
        path = folder / name / pitch / f"{i:03}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(write_wav(tone(TONES[pitch], draw, samples), RATE))
    return str(folder / name)


PERCEIVING = {"architecture": "encoder", "elements": "patches", "head": "classify", "pool": "first"}
AUDIO = {"rate": RATE, "seconds": 0.1, "n_mels": 16, "hop_ms": 10, "window_ms": 25, "patch": [5, 8]}
"""10 frames of 16 bands, in a grid of 2 x 2 patches."""


def picture_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    """A small model of pictures; `changes` as for `small_runs.values`."""
    own = {
        "model": PERCEIVING | {"position": "learned"},
        "data": {
            "train.path": flat(changes).get("data.train.path") or picture_folder(folder),
            "validation.fraction": 0.25,
        },
        "processor.image": {"patch": 4},
        "train": ONCE,
    }
    return merged(folder, own, changes)


def sound_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    """A small model of recordings."""
    own = {
        "model": PERCEIVING | {"position": "learned"},
        "data": {
            "train.path": flat(changes).get("data.train.path") or sound_folder(folder),
            "validation.fraction": 0.25,
        },
        "processor.audio": AUDIO,
        "train": ONCE,
    }
    return merged(folder, own, changes)


def prepared(made: Recipe, run: Path) -> Task:
    """The task of a recipe with its data, its files in the folder."""
    found = prepare(made, run, False, 1, lambda text: None)
    run.mkdir(exist_ok=True)
    task = found.open()
    task.save(run)
    return task
