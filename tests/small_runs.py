"""Runs that take a fraction of a second: a text of few words, a model of few numbers, one fixed
precision."""

import hashlib
import io
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.core.progress import Progress
from glassformer.data.config import DataConfig
from glassformer.recipe.fields import sections as all_sections
from glassformer.recipe.reading import replace_value
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import TrainConfig
from glassformer.training.loop.train import train
from glassformer.training.loop.trainer import Result, Trainer

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran"]

SECTIONS = all_sections()
VALUES: dict[str, dict[str, Any]] = {
    "model": {"d_model": 16, "n_layers": 2, "n_heads": 2, "max_length": 16, "position": "rotary"},
    "data": {"validation.fraction": 0.1},
    "processor.tokenizer": {"kind": "character"},
    "train": {
        "steps": 8,
        "batch_size": 4,
        "schedule.warmup_steps": 2,
        "evaluate.every": 4,
        "evaluate.batches": 2,
        "save.every": 2,
        "log_every": 1,
        "sample.tokens": 0,
        "precision": "float32",
        "device": "cpu",
    },
}


def text_file(folder: Path, words: int = 400, seed: int = 0) -> Path:
    path, draw = folder / "text.txt", random.Random(seed)
    path.write_text(" ".join(draw.choice(WORDS) for _ in range(words)) + "\n")
    return path


def task_of(sections: dict[str, Any]) -> str:
    """The task of these fields, for builders that do not name it."""
    fields = nested(sections)
    model, processor = fields.get("model", {}), fields.get("processor", {})
    media = {"image", "audio"} & processor.keys()
    alone = model.get("elements") == "patches"
    if "palette" in processor:
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


def flat(values: dict[str, Any], section: str = "") -> dict[str, Any]:
    """Fields by their full names: {"train": {"save.every": 2}} becomes {"train.save.every": 2}."""
    fields: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{section}{key}"
        if isinstance(value, dict) and value and name in SECTIONS:
            fields |= flat(value, f"{name}.")
        else:
            fields[name] = value
    return fields


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Recipe values of fields by their full names; an empty section stays if it has no field."""
    made: dict[str, Any] = {}
    fields = flat(values)
    for name, value in fields.items():
        if value != {} or not any(other.startswith(f"{name}.") for other in fields):
            made = replace_value(made, name, value) if "." in name or name == "task" else made
    return made


def values(folder: Path, **changes: Any) -> dict[str, Any]:
    """Plain recipe values; `changes` are fields or sections, laid over the small ones."""
    fields = flat(VALUES) | flat(changes)
    if fields.get("model.elements") == "patches":  # which need no tokenizer
        fields = {name: own for name, own in fields.items() if "tokenizer" not in name}
    if "data.train.path" not in fields:
        path = folder / "text.txt"
        fields["data.train.path"] = str(path if path.exists() else text_file(folder))
    return nested(fields if "task" in fields else {"task": task_of(fields)} | fields)


def laid(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Recipe values with fields or sections laid over them; a section that is None is left out."""
    fields = flat(values)
    for name in [name for name, value in changes.items() if value is None]:
        fields = {
            other: own for other, own in fields.items() if not f"{other}.".startswith(f"{name}.")
        }
    return nested(fields | flat({k: v for k, v in changes.items() if v is not None}))


def data_config(fields: dict[str, Any]) -> DataConfig:
    """The data section of fields such as "train.path", as a keyword train_path."""
    named = {re.sub("^(train|validation|test)_", r"\1.", name): of for name, of in fields.items()}
    return DataConfig.parse(nested({"data": named}).get("data", {}))


def train_config(fields: dict[str, Any]) -> TrainConfig:
    """The train section of fields such as "optimizer.kind"."""
    return TrainConfig.parse(nested({"train": fields}).get("train", {}))


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
        "data": {"train.path": str(path if path.exists() else pair_file(folder))},
        "train": {"batch_size": 6, "evaluate.decode_lines": 6},
        "generate": {"max_new_tokens": 8},
    }
    return Recipe.parse(values(folder, **overlaid(own, changes)))


def overlaid(own: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Fields by their full names, changes on top."""
    return flat(own) | flat(changes)


def go(
    made: Recipe, run: Path, resume: bool = False, checkpoint: int | None = None
) -> tuple[Result, str]:
    """Train; the result and everything that was said."""
    said = io.StringIO()
    return train(made, run, resume, checkpoint, progress=Progress(said)), said.getvalue()


def probabilities(run: Any, inputs: Any) -> np.ndarray:
    """The probabilities of a list of inputs, [N, C]; NaN of a blank one."""
    found = [one.probabilities for one in run.predict(inputs)]
    nothing = np.full(len(run.classes), np.nan, np.float32)
    return np.array([row if len(row) else nothing for row in found]).reshape(-1, len(nothing))


def hashes(run: Path) -> dict[str, str]:
    """SHA-256 of everything that two equal runs must share: every tensor of the newest checkpoint
    and of the best."""
    newest = max((run / "checkpoints").glob("step-*"))
    files = [*sorted(newest.glob("*.safetensors")), run / "model.safetensors"]
    return {
        f"{i} {file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for i, file in enumerate(files)
    }


def losses(run: Path) -> list[dict[str, Any]]:
    """The logged lines without what the clock says."""
    from glassformer.training.folder.history import read_metrics

    timed = ("seconds", "tokens_per_second")
    return [{k: v for k, v in line.items() if k not in timed} for line in read_metrics(run)]


IN_OTHER_ORDER = 1e-6
"""Bound of `largest_difference` of runs that add in other orders: 8 roundings of float32 (6e-8),
after six steps."""


def largest_difference(one: Path, other: Path) -> float:
    """Of the losses of two runs, relative; both logged the same ones."""
    names = "train_loss", "validation_loss"
    own, theirs = (
        {(at["step"], name): at[name] for at in losses(run) for name in names if name in at}
        for run in (one, other)
    )
    assert own.keys() == theirs.keys(), (one, other)
    return max(abs(own[at] / theirs[at] - 1) for at in own)


class Killed(BaseException):
    """What no handler expects: the process is gone."""


@contextmanager
def stopped_after(step: int) -> Iterator[None]:
    """A run in the body is killed without warning once `step` steps are done."""
    real = Trainer.advance

    def advance(self):
        if self.state.step == step:
            raise Killed
        real(self)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(Trainer, "advance", advance)
        yield
