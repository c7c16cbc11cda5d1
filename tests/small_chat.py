"""A tiny model that learned to answer: the opposite of the first of two words."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf

OPPOSITES = dict(
    zip(
        [
            "hot",
            "big",
            "old",
            "new",
            "fast",
            "day",
            "up",
            "wet",
            "cold",
            "small",
            "young",
            "slow",
            "night",
            "down",
            "dry",
            "left",
        ],
        [
            "cold",
            "small",
            "young",
            "old",
            "slow",
            "night",
            "down",
            "dry",
            "hot",
            "big",
            "old",
            "fast",
            "day",
            "up",
            "wet",
            "right",
        ],
        strict=True,
    )
)
WORDS = [*OPPOSITES]
RECIPE: dict[str, Any] = {
    "task": "text-generation",
    "processor": {"input": "messages", "tokenizer": {"kind": "word"}},
    "model": {"d_model": 32, "n_layers": 2, "n_heads": 2, "max_length": 24, "position": "rotary"},
    "train": {
        "steps": 100,
        "batch_size": 24,
        "optimizer": {"kind": "muon", "learning_rate": 0.02},
        "schedule": {"warmup_steps": 5},
        "evaluate": {"every": 100},
        "save": {"every": 100},
        "sample": {"every": 100, "tokens": 6},
        "precision": "float32",
        "device": "cpu",
    },
    "generate": {"temperature": 0, "max_new_tokens": 6},
}


def rows(n: int = 300, seed: int = 0) -> list[dict[str, Any]]:
    """Conversations of one or two questions."""
    draw, made = random.Random(seed), []
    for _ in range(n):
        talk = []
        for _ in range(draw.choice((1, 2))):
            first, second = draw.choices(WORDS, k=2)
            talk.append({"role": "user", "content": f"{first} {second}"})
            talk.append({"role": "assistant", "content": OPPOSITES[first]})
        made.append({"messages": talk})
    return made


def written(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def talker(tmp_path_factory) -> Path:
    """The run; a test may not change it."""
    folder = tmp_path_factory.mktemp("chat")
    path = written(folder / "talk.jsonl", rows())
    gf.train(RECIPE, {"data.train.path": path}, run=folder / "run")
    return folder / "run"
