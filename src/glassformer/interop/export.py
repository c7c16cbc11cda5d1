"""A model as a folder of a published class, which transformers loads as it is.

config.json  model.safetensors  generation_config.json
tokenizer.json  tokenizer_config.json  special_tokens_map.json     or  preprocessor_config.json
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.files import write_json
from glassformer.interop.configuration import Published, model_of
from glassformer.interop.family import Row
from glassformer.interop.fit import Fit, nearest
from glassformer.interop.generation import written
from glassformer.interop.weights import row_of
from glassformer.media.image import ImageReader
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import save_tensors
from glassformer.tasks.task import Task
from glassformer.tokenizers.text import Tokenizer

SHOWN = 6
"""Differences that are named in an error."""
FILTERS = {"nearest": 0, "bilinear": 2, "bicubic": 3}


def fitting(model: ModelConfig, task: str) -> Fit:
    """The published class that computes what the model does; ConfigError: there is none, with the
    nearest one and the fields in which it differs."""
    best = nearest(model, task)
    if best is None:
        raise ConfigError(
            f"No published class is known for task={task!r}; its models are used here alone."
        )
    if best.differences:
        shown = "; ".join(best.differences[:SHOWN])
        more = len(best.differences) - SHOWN
        raise ConfigError(
            f"This model fits no published class. The nearest, {best.name}, differs in {shown}"
            f"{f' and {more} more' if more > 0 else ''}; train with those values."
        )
    return best


def write_published(model: Transformer, task: Task, folder: Path) -> Fit:
    """Write the folder of a published model; returns its class. ConfigError: none fits."""
    fit = write_model(model, task.recipe.task, folder)
    reader = task.processor.reader
    if isinstance(reader, ImageReader):
        write_json(folder / "preprocessor_config.json", _preprocessing(reader))
        return fit
    tokenizer = task.processor.tokenizer
    if reader.tokenizer.fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"Source and target have a tokenizer each, and a folder for {fit.name} has one; train "
            "with processor.tokenizer.shared=true."
        )
    tokenizer.framed(reader.frame).save(folder / "tokenizer.json")
    ids = {f"{role}_token_id": index for role, index in _roles(tokenizer).items()}
    if model.config.architecture == "encoder_decoder":
        ids["decoder_start_token_id"] = task.processor.begin
    write_json(folder / "config.json", {**fit.keys, **ids})
    symbols = {f"{role}_token": tokenizer.symbol(i) for role, i in _roles(tokenizer).items()}
    write_json(folder / "special_tokens_map.json", symbols)
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config.max_length,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", about | symbols)
    if model.config.predicts_next:
        write_json(folder / "generation_config.json", ids | written(task.recipe.generate))
    return fit


def write_model(model: Transformer, task: str, folder: Path) -> Fit:
    """Write configuration and weights alone; returns the class. ConfigError: none fits."""
    fit = fitting(model.config, task)
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors(widened(model, fit), fit), folder / "model.safetensors")
    write_json(folder / "config.json", dict(fit.keys))
    return fit


def _roles(tokenizer: Tokenizer) -> dict[str, int]:
    known = ("bos", "eos", "unk", "pad", "mask", "cls", "sep")
    return {role: tokenizer.specials[role] for role in known if role in tokenizer.specials}


def _preprocessing(reader: ImageReader) -> dict[str, Any]:
    config = reader.config
    height, width = config.dims
    crops = config.resize == "crop"
    if config.resize == "pad" or (crops and height != width):
        raise ConfigError(
            f"Images are resized by {config.resize!r} to {height} x {width}, which "
            "preprocessor_config.json cannot say; use resize='stretch', or squares."
        )
    whole = {"height": height, "width": width}
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": height} if crops else whole,
        "do_center_crop": crops,
        "crop_size": whole,
        "resample": FILTERS[config.interpolation],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(config.mean or ()),
        "image_std": list(config.std or ()),
    }


@torch.no_grad()
def widened(model: Transformer, fit: Fit) -> Transformer:
    """The same model with the biases that the class has and the model lacks, 0."""
    config = model_of(fit.family, fit.head, fit.keys)
    made = Transformer(config, seed=None)
    own = dict(model.named_parameters())
    for name, parameter in made.named_parameters():
        parameter.copy_(own[name].cpu()) if name in own else parameter.zero_()
    return made.eval()


@torch.no_grad()
def tensors(model: Transformer, fit: Fit) -> dict[str, Tensor]:
    """The tensors of a published model by their names."""
    of = Published(Path(), fit.family, fit.head, fit.keys, model.config)
    rows: dict[str, Row] = {}
    parts: dict[str, dict[int, Tensor]] = {}
    for name, parameter in model.named_parameters():
        row, theirs = row_of(of, name)
        rows[theirs] = row
        parts.setdefault(theirs, {})[row.how.part] = parameter.detach()
    found = {}
    # a trunk alone has no prefix
    headed = any(not row.prefixed for row in fit.family.rows_with(fit.head))
    prefix = fit.family.prefix if headed else ""
    for name, own in parts.items():
        row, ours = rows[name], [own[number] for number in sorted(own)]
        whole = f"{prefix}.{name}" if prefix and row.prefixed else name
        found[whole] = row.how.write(ours, model.config).contiguous()
    for second, first in fit.family.tied.items():  # a bias with two names, by version
        if first in found and found[first].dim() == 1:
            found[second] = found[first].clone()
    return found
