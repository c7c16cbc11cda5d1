"""Runs that take a fraction of a second: a text of few words, a model of few numbers, one fixed
precision."""

import hashlib
import io
import random
from pathlib import Path
from typing import Any

from glassformer.recipe.recipe import Recipe
from glassformer.training.loop import Result, train
from glassformer.training.progress import Progress

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]

VALUES: dict[str, dict[str, Any]] = {
    "model": {"d_model": 16, "n_layers": 2, "n_heads": 2, "max_length": 16, "position": "rotary"},
    "data": {"validation_fraction": 0.1},
    "tokenizer": {"kind": "character"},
    "train": {
        "steps": 8,
        "batch_size": 4,
        "warmup_steps": 2,
        "evaluate_every": 4,
        "evaluate_batches": 2,
        "save_every": 2,
        "log_every": 1,
        "sample_tokens": 0,
        "precision": "float32",
        "device": "cpu",
    },
}


def text_file(folder: Path, words: int = 400, seed: int = 0) -> Path:
    path, draw = folder / "text.txt", random.Random(seed)
    path.write_text(" ".join(draw.choice(WORDS) for _ in range(words)) + "\n")
    return path


def task_of(sections: dict[str, Any]) -> str:
    """The task of these sections, for builders that do not name it."""
    model, media = sections.get("model", {}), sections.keys() & {"image", "audio"}
    alone = model.get("elements") == "patches"
    if "palette" in sections:
        return "text-to-image"
    if model.get("head") == "classify":
        if not media:
            return "text-classification"
        return f"{min(media)}-classification" if alone else "image-text-classification"
    if model.get("head", "lm") == "lm":
        if media:
            return f"{min(media)}-text-to-text"
        paired = model.get("architecture") == "encoder_decoder"
        return "text-to-text" if paired else "text-generation"
    return {"tag": "token-classification", "masked_lm": "fill-mask"}[model["head"]]


def values(folder: Path, **changes: Any) -> dict[str, Any]:
    """Plain recipe values; `changes` are sections, each laid over the small one."""
    path = folder / "text.txt"
    base = VALUES | {
        "data": VALUES["data"] | {"path": str(path if path.exists() else text_file(folder))}
    }
    given = {name: changes.pop(name) for name in ("task", "input") if name in changes}
    sections = {
        section: base.get(section, {}) | changes.get(section, {}) for section in {**base, **changes}
    }
    return given | sections if "task" in given else {"task": task_of(sections), **given, **sections}


def recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    return Recipe.parse(values(folder, **changes))


def pair_file(folder: Path, pairs: int = 60, seed: int = 0, letters: str = "abcdef") -> Path:
    """Short words and the same backwards, as two columns."""
    path, draw = folder / "pairs.tsv", random.Random(seed)
    words = ["".join(draw.choices(letters, k=draw.randint(1, 5))) for _ in range(pairs)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return path


def pair_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    """A small encoder-decoder on those words; `changes` as for `values`."""
    path = folder / "pairs.tsv"
    model = {
        "architecture": "encoder_decoder",
        "n_layers": 1,
        "max_length": 12,
        "position": "learned",
    }
    own = {
        "model": model,
        "data": {"path": str(path if path.exists() else pair_file(folder))},
        "train": {"batch_size": 6, "decode_lines": 6},
        "generate": {"max_new_tokens": 8},
    }
    return Recipe.parse(values(folder, **overlaid(own, changes)))


def overlaid(own: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Sections with changes on top; a task or an input is replaced."""
    return {
        name: changes[name]
        if isinstance(changes.get(name), str)
        else own.get(name, {}) | changes.get(name, {})
        for name in {**own, **changes}
    }


def go(made: Recipe, run: Path, resume: bool = False) -> tuple[Result, str]:
    """Train; the result and everything that was said."""
    said = io.StringIO()
    return train(made, run, resume, Progress(said)), said.getvalue()


def hashes(run: Path) -> dict[str, str]:
    """SHA-256 of everything that two equal runs must share: every tensor of the newest checkpoint
    and of the best."""
    newest = max((run / "checkpoints").glob("step-*"))
    files = [
        newest / "model.safetensors",
        newest / "optimizer.safetensors",
        run / "model.safetensors",
    ]
    return {
        f"{i} {file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for i, file in enumerate(files)
    }


def losses(run: Path) -> list[dict[str, Any]]:
    """The logged lines without what the clock says."""
    from glassformer.training.history import read_metrics

    timed = ("seconds", "tokens_per_second")
    return [{k: v for k, v in line.items() if k not in timed} for line in read_metrics(run)]
