"""The files of a run's model: written with a manifest, and checked before they are trusted.

RUN/model.safetensors  config.json  generation_config.json     the model, the best yet
RUN/adapter_model.safetensors  adapter_config.json             the same as adapters (method lora)
RUN/recipe.yaml  tokenizer.json ...  palette.json              how its inputs are read
RUN/manifest.json                                              SHA-256 of each of them
RUN/README.md                                                  the model card, for anyone to edit
"""

from pathlib import Path
from typing import Any

import torch

from glassformer.core.errors import CheckpointError
from glassformer.core.files import write_json, write_text, writing
from glassformer.core.manifest import NAME, difference, replacing_files, write_manifest
from glassformer.finetune.peft_files import CONFIG as ADAPTER_CONFIG
from glassformer.finetune.peft_files import WEIGHTS as ADAPTER_WEIGHTS
from glassformer.finetune.peft_files import save_adapter
from glassformer.layers.lora import adapters, plain_parameters
from glassformer.media.palette import FILE as PALETTE
from glassformer.models.transformer import Transformer
from glassformer.models.weights import (
    check_fit,
    config_json,
    load_tensors,
    read_config,
    save_weights,
)
from glassformer.processors.tokens.chat_template import FILE as CHAT_TEMPLATE
from glassformer.tasks.task import Task
from glassformer.tokenizers.roles import ROLES_FILE
from glassformer.training.model_card import Origin, card

WEIGHTS = "model.safetensors"
MODEL = {WEIGHTS, "config.json", "generation_config.json"}
ADAPTER = {ADAPTER_WEIGHTS, ADAPTER_CONFIG}
INPUTS = {
    *("recipe.yaml", "tokenizer.json", "source_tokenizer.json", "image.json", "audio.json"),
    *(ROLES_FILE, f"source_{ROLES_FILE}"),
    *(PALETTE, CHAT_TEMPLATE),
}
BASE = "base.safetensors"
"""The model before the first step, where not every weight is trained."""
MANIFEST, CARD = NAME, "README.md"


def check_model(folder: Path, accept_changed: bool = False) -> None:
    """Raise CheckpointError unless a folder's model is whole and, without `accept_changed`, as it
    was saved.

    Sizes and shapes are compared first: nothing of a stranger's file is read or allocated by its
    own word.
    """
    check_fit(read_config(folder), folder / WEIGHTS)
    if not accept_changed:
        _check(folder, difference(folder, (WEIGHTS, "config.json")))


def check_inputs(folder: Path) -> None:
    """Raise CheckpointError unless the recipe and the tokenizers of a run are as they were
    saved."""
    _check(folder, difference(folder, ("recipe.yaml",), only=INPUTS))


def _check(folder: Path, found: str | None) -> None:
    if found is None:
        return
    remedy = f"accept the files as they are by `glassformer verify {folder} --accept-changed`"
    if not (folder / "config.json").is_file():  # stopped before it had a model to verify
        remedy = "begin anew in another folder"
    raise CheckpointError(f"{found}; restore it from a backup, or {remedy}.")


def accept_changed(folder: Path) -> None:
    """Record the files of a folder's model as they are now."""
    with writing(folder):
        write_manifest(folder, MODEL | ADAPTER | INPUTS)


def save_inputs(task: Task, run: Path, recipe: str, platform: str) -> None:
    """Write the recipe of a run that begins or goes on, its tokenizers and the like."""
    with replacing_files(run, last="recipe.yaml") as new:
        depends = f"# The last bits depend on {platform}, train.threads and train.precision."
        write_text(new / "recipe.yaml", f"{depends}\n{recipe}")
        task.save(new)


def check_there(run: Path) -> None:
    """Raise CheckpointError if a run's folder went away: half of it would be made anew."""
    if not (run / "recipe.yaml").is_file():
        raise CheckpointError(
            f"{run} was removed or emptied during training; nothing can be saved there."
        )


def export(
    model: Transformer, task: Task, run: Path, step: int, scores: dict[str, Any], origin: Origin
) -> None:
    """Write the model itself into the run folder: weights, adapters merged into them, and apart;
    configuration, generation defaults, card."""
    with replacing_files(run, last=WEIGHTS) as new:
        save_weights(model, new / WEIGHTS)
        if adapters(model):
            save_adapter(model, new, Path(task.recipe.train.init_from or "").name)
        about = {"task": task.recipe.task, "input": task.recipe.processor.input}
        write_json(new / "config.json", config_json(model.config) | about)
        write_json(new / "generation_config.json", task.recipe.generate.model_dump(mode="json"))
    write_text(run / CARD, card(model, task, run, step, scores, origin))


def is_exported(run: Path, model: Transformer) -> bool:
    """True if the run folder holds this model, whole."""
    if difference(run, MODEL, only=MODEL) is not None or not (run / CARD).is_file():
        return False
    found, wanted = load_tensors(run / WEIGHTS), dict(plain_parameters(model))
    return found.keys() == wanted.keys() and all(
        torch.equal(one.to(wanted[name].device), wanted[name]) for name, one in found.items()
    )
