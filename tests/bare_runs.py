"""Run folders of tiny models that nobody trained: weights, configuration, what encodes inputs; no
recipe."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import glassformer as gf
import tiny
from glassformer.media.palette import FILE as PALETTE
from glassformer.models.config import ModelConfig
from glassformer.models.weights import config_json, save_weights
from glassformer.recipe.pipelines import PIPELINES
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import accept_changed


def bare_run(
    folder: Path, tokenizer: Tokenizer, kept: Iterable[Any] = (), more: int = 0, **changes: Any
) -> gf.Run:
    """The folder as a run; `kept`: readers or a palette to save, `more`: outcomes beside tokens."""
    if changes.get("elements") != "patches":
        changes["vocab_size"] = tokenizer.vocab_size + more
        tokenizer.save(folder / "tokenizer.json")
    model = copy.deepcopy(tiny.model(**changes)).float()
    save_weights(model, folder / "model.safetensors")
    for one in kept:
        one.save(folder)
    write_config(folder, model.config)
    accept_changed(folder)
    return gf.load(folder)


def write_config(folder: Path, model: ModelConfig) -> None:
    """Write `config.json` as a run does, with a task and an input that fit."""
    task, given = named(model, folder)
    values = config_json(model) | {"task": task, "input": given}
    (folder / "config.json").write_text(json.dumps(values))


def named(model: ModelConfig, folder: Path) -> tuple[str, str]:
    """A task and an input that fit a model and the files beside it."""
    if (folder / PALETTE).is_file():
        return "text-to-image", "parts"
    given = input_of(model, folder)
    fitting = (
        name
        for name, of in PIPELINES.items()
        if model.head in of.heads
        and model.architecture in (*of.architectures, "encoder_decoder")
        and given in of.inputs
        and (of.input == given or model.head not in ("lm", "classify"))
    )
    return next(fitting, "feature-extraction"), given


def input_of(model: ModelConfig, folder: Path) -> str:
    """An input that fits a model and the files beside it."""
    if model.elements == "patches":
        heard = (folder / "audio.json").is_file() and not (folder / "image.json").is_file()
        return "audio" if heard else "image"
    if model.parts:
        return "parts"
    if model.architecture == "encoder_decoder":
        return "pairs"
    return {"lm": "documents", "masked_lm": "documents", "tag": "words"}.get(model.head, "text")
