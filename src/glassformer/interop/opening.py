"""A published model opened, or imported: the same files as those of a run, made from its own.

config.json  generation_config.json       task, input and model; how it generates
tokenizer.json ...  image.json            how its inputs are read
chat_template.jinja                       how its messages are written
model.safetensors                         its weights, where it is imported
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer import __version__
from glassformer.core.files import write_json, write_text
from glassformer.core.manifest import replacing_files
from glassformer.interop.configuration import Published, published
from glassformer.interop.generation import generation
from glassformer.interop.images import image_reader
from glassformer.interop.sentences import with_pooling
from glassformer.interop.tensors import tensors_of
from glassformer.interop.weights import filled, with_first_tokens
from glassformer.models.transformer import Transformer
from glassformer.models.weights import config_json, save_weights
from glassformer.processors.tokens.chat_template import FILE as CHAT_TEMPLATE
from glassformer.processors.tokens.chat_template import template_text
from glassformer.tokenizers.published import published_tokenizer
from glassformer.tokenizers.text import Tokenizer
from glassformer.training.model_files import CARD, WEIGHTS
from glassformer.training.run_folder import check_unused, hold


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


def open_published(
    folder: Path, keys: Mapping[str, Any], device: torch.device | str = "cpu"
) -> Opened:
    """The published model of a folder that has these keys, without the rows of its
    vocabulary that have no token (many are padded to a multiple of 64).

    CheckpointError: a model that is not known here, or a file that is missing or damaged.
    """
    of = with_pooling(published(folder, keys))
    tensors = tensors_of(folder, of.family.prefix)
    model = filled(of, tensors, device)
    if of.model.reads_patches:
        return Opened(of, model)
    target, source = _tokenizers(of)
    size = max(target.vocab_size, source.vocab_size)
    if size < model.config.vocab_size:
        model = with_first_tokens(model, size)
    return Opened(of, model, target, source if source.fingerprint != target.fingerprint else None)


def _tokenizers(of: Published) -> tuple[Tokenizer, Tokenizer]:
    """Read the tokenizers of the target and of the source, which are one of most models."""
    kind = of.family.model_type
    target = published_tokenizer(of.folder, kind)
    searches = of.model.is_encoder_decoder
    return target, published_tokenizer(of.folder, kind, "source") if searches else target


def import_run(opened: Opened, run: Path, origin: str = "") -> None:
    """Write a published model as a run folder, whose card names its `origin`, by default its
    folder; ConfigError: the folder holds something."""
    check_unused(run)
    with hold(run), replacing_files(run) as new:
        opened.write(new)
        save_weights(opened.model, new / WEIGHTS)
    write_text(run / CARD, _card(opened, run, origin or opened.of.folder.resolve().name))


def _card(opened: Opened, run: Path, origin: str) -> str:
    of, config = opened.of, opened.model.config
    return f"""---
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
