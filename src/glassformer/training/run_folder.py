"""The run folder: what is in it before training begins, and the model that it holds in the end.

RUN/recipe.yaml  tokenizer.json  tokens/  metrics.jsonl  report.html  checkpoints/
RUN/config.json  model.safetensors  generation_config.json  README.md     the model itself, the best so far
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.data.config import DataConfig
from glassformer.data.sources import capture_stdin
from glassformer.errors import ConfigError
from glassformer.files import LOCK, digest, write_json, write_text, writing
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import config_json, save_weights
from glassformer.recipe.recipe import Recipe, read_yaml
from glassformer.recipe.train import DECODED, Metric, TrainConfig
from glassformer.tasks.fill_mask import MaskedLanguageTask
from glassformer.tasks.media_classification import PerceptionTask
from glassformer.tasks.multimodal_classification import ChoiceTask
from glassformer.tasks.multimodal_generation import AnswerTask
from glassformer.tasks.task import Task
from glassformer.tasks.text_classification import ClassificationTask
from glassformer.tasks.text_generation import LanguageTask
from glassformer.tasks.text_to_image import DepictionTask
from glassformer.tasks.text_to_text import TransductionTask
from glassformer.tasks.token_classification import TaggingTask
from glassformer.training.checkpoint import Checkpoints
from glassformer.training.device import find_device
from glassformer.training.init_from import with_start

AnyTask = (
    LanguageTask
    | TransductionTask
    | TaggingTask
    | ClassificationTask
    | PerceptionTask
    | AnswerTask
    | ChoiceTask
    | DepictionTask
)
BEST: dict[type[AnyTask], tuple[Metric, ...]] = {
    LanguageTask: ("loss", "accuracy"),
    MaskedLanguageTask: ("loss", "accuracy"),
    TransductionTask: ("loss", "accuracy", *DECODED),
    TaggingTask: ("loss", "accuracy", "macro_f1", "f1"),
    ClassificationTask: ("loss", "accuracy", "macro_f1"),
    PerceptionTask: ("loss", "accuracy", "macro_f1"),
    AnswerTask: ("loss", "accuracy", "exact_match"),
    ChoiceTask: ("loss", "accuracy", "macro_f1"),
    DepictionTask: ("loss", "accuracy"),
}
"""The scores by which the best model of each task may be chosen."""
LOGS = ("metrics.jsonl", "report.html")


def prepare(recipe: Recipe, run: Path, resume: bool, say: Callable[[str], None]) -> AnyTask:
    """Check folder and data, and make the tokenizers; nothing but a copy of standard input is
    written yet."""
    if recipe.data.path is None:
        raise ConfigError(
            "The recipe has no data.path; add data.path=FILE (a text file, glob, folder or -)."
        )
    saved = run / "recipe.yaml"
    if resume and not saved.is_file():
        if not (run / LOCK).is_file():
            raise ConfigError(f"{run} holds no run to resume; leave out --resume to begin one.")
        resume = False
        say("the run was stopped before it began; beginning it")
    if not resume:
        check_unused(run)
    check_writable(run)
    find_device(recipe.train.device)
    begun = Recipe.parse(read_yaml(saved)) if resume else None
    recipe = with_start(recipe, begun)
    kind = task_of(recipe)
    recipe = replace(recipe, data=absolute(capture_stdin(recipe.data, run)))
    task = kind(recipe, run, resume)
    if begun is not None:
        check_same(task.recipe, begun, run)
        if (
            recipe.train.precision == "auto"
        ):  # measured once: today's measurement could change the bits
            task.recipe = task.recipe.with_precision(begun.train.precision)
    return task


@contextmanager
def temporary_task(recipe: Recipe) -> Iterator[AnyTask]:
    """A recipe's task with its data, in a folder that is removed again (what is mapped stays
    readable)."""
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:
        run = Path(folder) / "run"
        task = prepare(recipe, run, resume=False, say=lambda text: None)
        run.mkdir(exist_ok=True)
        task.store()
        yield task


ONLY: dict[str, tuple[tuple[type[AnyTask], ...], str]] = {
    "class_weights": (
        (TaggingTask, ClassificationTask, PerceptionTask, ChoiceTask),
        "weigh classes",
    ),
    "mask_fraction": ((MaskedLanguageTask,), "is of masks"),
    "whole_words": ((MaskedLanguageTask,), "is of masks"),
    "piece_dropout": (
        (TaggingTask, ClassificationTask, TransductionTask),
        "is of single examples or pairs",
    ),
}
"""Fields of `train` that only some tasks have."""


def task_of(recipe: Recipe) -> type[AnyTask]:
    """What kind of training a model and its data ask for; ConfigError if they do not go
    together."""
    kind = _kind_of(recipe) if recipe.palette is None else _depicting(recipe)
    for field, (kinds, why) in ONLY.items():
        if (
            kind not in kinds
            and getattr(recipe.train, field) != TrainConfig.model_fields[field].default
        ):
            raise ConfigError(
                f"train.{field} {why}, and model.head={recipe.model.head!r} has none; leave it out."
            )
    if recipe.train.best not in (known := BEST[kind]):
        raise ConfigError(
            f"train.best={recipe.train.best!r} is no score of what "
            f"model.head={recipe.model.head!r} with architecture="
            f"{recipe.model.architecture!r} is trained for; use {' or '.join(known)}."
        )
    return kind


def _kind_of(recipe: Recipe) -> type[AnyTask]:
    model, data = recipe.model, recipe.data
    paired = data.target_path is not None
    mixed = model.elements == "tokens" and (recipe.image is not None or recipe.audio is not None)
    match model.architecture, model.head:
        case "decoder" | "encoder_decoder", "lm" if mixed:
            return AnswerTask
        case "encoder" | "decoder", "classify" if mixed:
            _check_pool(model)
            return ChoiceTask
        case "decoder", "lm":
            if paired:
                raise ConfigError(
                    "The data are pairs and model.architecture='decoder' reads running text; "
                    "use encoder_decoder."
                )
            return LanguageTask
        case "encoder_decoder", "lm":
            if data.documents == "separate":
                raise ConfigError(
                    "Pairs are never mixed, so data.documents='separate' says nothing; leave "
                    "it out."
                )
            return TransductionTask
        case "encoder", "masked_lm":
            return MaskedLanguageTask
        case "encoder" | "decoder", "tag":
            return TaggingTask
        case "encoder", "classify" if model.elements == "patches":
            return PerceptionTask
        case "encoder" | "decoder", "classify":
            _check_pool(model)
            return ClassificationTask
    raise ConfigError(
        f"model.architecture={model.architecture!r} with model.head={model.head!r} is nothing "
        f"to train; use head lm "
        "with a decoder or encoder_decoder, masked_lm with an encoder, tag or classify with an "
        "encoder or decoder."
    )


def _depicting(recipe: Recipe) -> type[DepictionTask]:
    """Pictures are drawn by a decoder; ConfigError: by something else, or not of a text alone."""
    model = recipe.model
    others = recipe.image is not None or recipe.audio is not None
    if others or (model.architecture, model.head, model.elements) != ("decoder", "lm", "tokens"):
        raise ConfigError(
            "The section palette is for pictures that a decoder with head lm draws of a text; "
            "leave out the section "
            "palette, or image, audio and other heads."
        )
    return DepictionTask


def _check_pool(model: ModelConfig) -> None:
    if model.architecture == "decoder" and model.pool == "first":
        raise ConfigError(
            "model.pool='first' of a decoder is an element that has seen no other; use last or "
            "mean."
        )


def check_unused(run: Path) -> None:
    """Raise ConfigError if the folder holds a run or a model."""
    steps = Checkpoints(run).steps()
    if steps:
        raise ConfigError(
            f"{run} already holds a run at step {steps[-1]}; add --resume or choose another --run."
        )
    if (run / "model.safetensors").exists():
        raise ConfigError(f"{run} already holds a model; choose another --run.")
    if (run / LOCK).exists():  # a run that was stopped before its first checkpoint
        return
    others = ("recipe.yaml", "tokenizer.json", "source_tokenizer.json", "config.json")
    for name in (*others, "generation_config.json", "README.md", *LOGS):
        if (run / name).exists():
            raise ConfigError(
                f"{run} already holds {name}, which training would replace; choose another --run."
            )


def check_writable(run: Path) -> None:
    """Raise ConfigError if the folder cannot be made or written, before any work is done for it."""
    place = run.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"{place} is a file, not a folder; choose another --run.")
    if not os.access(place, os.W_OK):
        raise ConfigError(f"{place} cannot be written; choose another --run.")


def check_same(recipe: Recipe, saved: Recipe, run: Path) -> None:
    """Raise ConfigError if model, data, tokenizer, optimizer or seed differ from the run's own;
    others may change."""
    new, old = recipe.values(), saved.values()
    whole = ("model", "tokenizer", "data", "image", "audio", "palette")
    fixed = {name: old[name] for name in whole if name in old} | {"train": ("optimizer", "seed")}
    for section, keys in fixed.items():
        for key in keys:
            if new[section][key] != (value := old[section][key]):
                raise ConfigError(
                    f"{run} was trained with {section}.{key}={value!r}, not {new[section][key]!r}; "
                    "resume it with its own recipe or choose another --run."
                )


def absolute(data: DataConfig) -> DataConfig:
    """The same files by absolute paths, so that the run can be used from any folder."""
    base = Path(data.root or ".").expanduser().absolute()

    def placed(path: str | list[str] | None) -> str | list[str] | None:
        if isinstance(path, list):
            return [str(placed(part)) for part in path]
        return None if path is None else str(base / Path(path).expanduser())

    splits = ("path", "validation_path", "test_path")
    beside = [
        f"{split.removesuffix('path')}{what}_path"
        for split in splits
        for what in ("target", "label")
    ]
    fields = (*splits, *beside, "target_image")
    changed: dict[str, Any] = {field: placed(getattr(data, field)) for field in fields}
    for field in ("parts", *(f"{split}_parts" for split in ("validation", "test"))):
        changed[field] = tuple(
            {
                kind: value if kind in ("text", "type") else str(placed(value))
                for kind, value in part.items()
            }
            for part in getattr(data, field)
        )
    store = None if data.store is None else str(base / Path(data.store).expanduser())
    return data.model_copy(update={**changed, "store": store, "root": None})


def export(model: Transformer, task: Task, run: Path, step: int, scores: dict[str, Any]) -> None:
    """Write the model itself into the run folder: weights, configuration, generation defaults,
    card."""
    with writing(run):
        save_weights(model, run / "model.safetensors")
        write_json(run / "config.json", config_json(model.config))
        write_json(run / "generation_config.json", task.recipe.generate.model_dump(mode="json"))
        write_text(run / "README.md", card(model, task, run, step, scores))


def is_exported(run: Path, checkpoint: Path) -> bool:
    """True if the run folder holds the model of a checkpoint, whole."""
    weights, others = (
        run / "model.safetensors",
        ("config.json", "generation_config.json", "README.md"),
    )
    try:
        return all((run / name).is_file() for name in others) and digest(weights) == digest(
            checkpoint / weights.name
        )
    except OSError:
        return False


def card(model: Transformer, task: Task, run: Path, step: int, scores: dict[str, Any]) -> str:
    """A model card: what it is, from what, how good, how to use it."""
    config, train, data, of = model.config, task.recipe.train, task.recipe.data, task.card()
    paths = data.path if isinstance(data.path, list) else [str(data.path)]
    article = "A" if config.architecture == "decoder" else "An"
    weights = (
        "random weights"
        if train.init_from is None
        else f"the trunk of `{Path(train.init_from).name}`"
    )
    plain = {key: value for key, value in scores.items() if isinstance(value, int | float | str)}
    rows = [f"| {key.replace('_', ' ')} | {_shown(value)} |" for key, value in plain.items()]
    results = "\n".join(
        ["| score | value |", "| --- | --- |", *rows]
        if rows
        else ["There was no validation split."]
    )
    return f"""---
library_name: glassformer
pipeline_tag: {of.pipeline_tag}
tags: [glassformer, transformer, {config.architecture}]
---

# {run.name}

{article} {config.architecture} Transformer with {model.n_parameters:,} parameters ({config.n_layers} layers,
{config.d_model} wide, {config.n_heads} heads, context {config.max_length}), trained from {weights}.

- **Data**: {", ".join(f"`{Path(path).name}`" for path in paths)}
- **{of.reads}**: {of.tokenizer}
- **Training**: step {step:,} of {train.steps:,}, {of.step} a step, {train.optimizer}, seed {train.seed}; every field is
  in `recipe.yaml`
- **Made with**: glassformer {__version__}

## Evaluation on the validation split

{results}

## Use

```
{of.use}
```

## Limits

The model repeats the patterns of its training data, their errors and prejudices included; what it says is not checked.
"""


def _shown(value: int | float | str) -> str:
    return (
        f"{value:,.4f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else f"`{value}`"
    )
