"""A published model opened, or imported: the same files as those of a run, made from its own.

config.json  generation_config.json  | task, input and model; how it generates
tokenizer.json ...    image.json     | how its inputs are read
chat_template.jinja                  | how its messages are written
model.safetensors                    | its weights, where it is imported
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer import __version__
from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import Values, read_json, write_json, write_text
from glassformer.core.manifest import replacing_files
from glassformer.interop.configuration import Published, read_published, with_pooling
from glassformer.interop.generation import generation
from glassformer.interop.weights import fill, tensors_of, with_first_tokens
from glassformer.media.image import ImageConfig, ImageReader
from glassformer.media.patches import pair
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import WEIGHTS, config_json, save_weights
from glassformer.processors.tokens.chat_template import FILE as CHAT_TEMPLATE
from glassformer.processors.tokens.chat_template import template_text
from glassformer.tokenizers.published import published_tokenizer
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.folder.model_files import CARD
from glassformer.training.folder.run_folder import check_unused, hold

IMAGES = "preprocessor_config.json"
FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""Interpolation by the numbers of Pillow."""


@dataclass(frozen=True)
class Opened:
    """A published model with its weights, and where it is from."""

    of: Published
    model: Transformer
    tokenizer: Tokenizer | None = None
    """Of its texts; None: it reads images."""
    source: Tokenizer | None = None
    """Of its sources, where that is another one."""

    def write(self, folder: Path) -> None:
        """Write the files of a run but its weights."""
        of, config = self.of, self.model.config
        about = {"task": of.head.task, "input": of.head.input, "processor": {**of.head.processor}}
        write_json(folder / "config.json", config_json(config) | about)
        how = generation(of.folder, of.keys, config)
        write_json(folder / "generation_config.json", how.model_dump(mode="json"))
        if config.reads_patches:
            image_reader(of.folder, config).save(folder)
            return
        if self.tokenizer is not None:
            self.tokenizer.save(folder / "tokenizer.json")
        if self.source is not None:
            self.source.save(folder / "source_tokenizer.json")
        if (text := template_text(of.folder)) is not None:
            write_text(folder / CHAT_TEMPLATE, text)


def open_published(folder: Path, keys: Values, device: torch.device | str = "cpu") -> Opened:
    """The published model of a folder that has these keys, without the rows of its
    vocabulary that have no token (many are padded to a multiple of 64).

    CheckpointError: a model that is not known here, or a file that is missing or damaged.
    """
    of = with_pooling(read_published(folder, keys))
    tensors = tensors_of(folder, of.family.prefix)
    model = fill(of, tensors, device)
    if of.model.reads_patches:
        return Opened(of, model)
    kind = of.family.model_type
    target = source = published_tokenizer(folder, kind)
    if of.model.is_encoder_decoder:
        source = published_tokenizer(folder, kind, "source")
    size = max(target.vocab_size, source.vocab_size)
    if size < model.config.vocab_size:
        model = with_first_tokens(model, size)
    return Opened(of, model, target, source if source.fingerprint != target.fingerprint else None)


def import_run(opened: Opened, run: Path, origin: str = "") -> None:
    """Write a published model as a run folder, whose card names its `origin`, by default its
    folder; ConfigError: the folder holds something."""
    check_unused(run)
    with hold(run), replacing_files(run) as new:
        opened.write(new)
        save_weights(opened.model, new / WEIGHTS)
    of, config = opened.of, opened.model.config
    origin = origin or of.folder.resolve().name
    card = f"""---
library_name: glassformer
pipeline_tag: {of.head.task}
tags: [glassformer, transformer, {config.architecture}]
---

# {run.name}

{config.described} with \
{opened.model.n_parameters:,} parameters ({config.depths},
{config.d_model} wide, {config.n_heads} heads, context {config.max_length}), imported from the \
published model
`{origin}` of type {of.family.model_type} by glassformer {__version__}. Its \
license and its limits are those of that
model.
"""
    write_text(run / CARD, card)


def image_reader(folder: Path, model: ModelConfig) -> ImageReader:
    """Return the reader of a folder's images; CheckpointError: no such file, or steps that a reader
    here does not have."""
    path = folder / IMAGES
    try:
        return ImageReader(ImageConfig.parse(_fields(read_json(path), model)))
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder} holds no {IMAGES}, which says how images are normalized; download it."
        ) from None
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{path} describes no images that are read here: {str(error)[:200]}."
        ) from None


def _fields(own: Values, model: ModelConfig) -> Values:
    if model.grid is None or model.patch is None:
        raise ValueError("the model has no grid of patches")
    size = [n * p for n, p in zip(model.grid, model.patch, strict=True)]
    channels = model.patch_width // math.prod(model.patch)
    factor = own.get("rescale_factor", 1 / 255)
    if not own.get("do_rescale", True) or abs(factor * 255 - 1) > 1e-6:  # printed with 16 digits
        raise ValueError(f"pixels times {factor}; 1/255 is known")
    mean, std = (own.get(f"image_{name}", [0.5] * channels) for name in ("mean", "std"))
    if not own.get("do_normalize", True):
        mean, std = [0.0] * channels, [1.0] * channels
    return {
        "size": size,
        "channels": channels,
        "patch": list(model.patch),
        **_resize(own, size),
        "interpolation": FILTERS[own.get("resample", 2)],
        "mean": mean,
        "std": std,
    }


def _resize(own: Values, size: list[int]) -> Values:
    """Return the fields of resizing to the model's size: `stretch`, or `crop` where the shorter
    side is resized; ValueError: they would be of another size."""
    resized = own.get("size", size)
    shorter = resized.get("shortest_edge") if isinstance(resized, dict) else None
    crops = own.get("do_center_crop", shorter is not None)
    cut = _sides(own.get("crop_size", size)) if crops else size
    sides = size if shorter else _sides(resized)
    if cut != size or (sides != size and not crops):
        raise ValueError(
            f"images of {cut[0]} x {cut[1]} of {sides[0]} x {sides[1]}; the model's own size, "
            f"{size[0]} x {size[1]}, is known"
        )
    if shorter:
        return {"resize": "crop", "resize_to": shorter}
    return {"resize": "stretch", "resize_to": None if sides == size else sides}


def _sides(size: Any) -> list[int]:
    """Height and width of a size, which may be one number."""
    return [size["height"], size["width"]] if isinstance(size, dict) else [*pair(size)]
