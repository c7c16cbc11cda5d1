"""A model as a folder of a published class, which transformers loads.

config.json  model.safetensors  generation_config.json
tokenizer.json  tokenizer_config.json  special_tokens_map.json     or  preprocessor_config.json
chat_template.jinja
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from glassformer.core.axes import Tensor, Tensors
from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError
from glassformer.core.files import Values, write_json
from glassformer.families.fit import Fit, nearest
from glassformer.interop.generation import generation_keys
from glassformer.interop.parity import Parity, Plan, compare_outputs
from glassformer.layers.lora import plain_parameters
from glassformer.media.image import ImageReader
from glassformer.media.patches import pair, unpatchify
from glassformer.models.account import Account
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import save_tensors
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task

LIBRARY = "transformers"
Classes = Callable[[ModelConfig], Mapping[str, Values]] | None
"""Published classes that a program knows for a model, with the values of fields that it computes;
None: all."""
SHOWN = 6
"""Differences that are named in an error."""
FILTERS = {"nearest": 0, "bilinear": 2, "bicubic": 3}


def plan(recipe: Recipe, program: str = LIBRARY, only: Classes = None) -> Plan:
    """The published class that a recipe's model would be written as, for a program that knows the
    classes `only`."""
    fit = nearest(recipe.model, recipe.task, only and only(recipe.model))
    if fit is None:
        return Plan(None, (f"task={recipe.task!r}, which {program} has no models for",))
    return Plan(fit.name, fit.differences)


def fitting(model: ModelConfig, task: str, program: str = LIBRARY, only: Classes = None) -> Fit:
    """The published class that computes what the model does, for a program that knows the classes
    `only`; ConfigError: there is none, with the nearest one and the fields in which it differs."""
    best = nearest(model, task, only and only(model))
    if best is None:
        raise ConfigError(
            f"{program} has no models for task={task!r}; use it here, or export it --to onnx."
        )
    if not best.differences:
        return best
    shown, more = "; ".join(best.differences[:SHOWN]), len(best.differences) - SHOWN
    raise ConfigError(
        f"This model fits no class of {program}. The nearest, {best.name}, differs in {shown}"
        f"{f' and {more} more' if more > 0 else ''}; train with those values."
    )


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write the folder of a published model; returns its class. ConfigError: none fits."""
    return write_as(fitting(model.config, task.recipe.task), model, task, folder)


def write_as(fit: Fit, model: Transformer, task: Task, folder: Path) -> str:
    """Write the folder of this class, which fits; returns it. ConfigError: what is read, or the
    tokenizer, cannot be written."""
    save_model(fit, model, folder)
    reader = task.processor.reader
    if isinstance(reader, ImageReader):
        write_json(folder / "preprocessor_config.json", _preprocessing(reader))
        return fit.name
    tokenizer = task.processor.tokenizer
    if reader.tokenizer.fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"Source and target have a tokenizer each, and a folder for {fit.name} has one; train "
            "with processor.tokenizer.shared=true."
        )
    tokenizer.with_frame(reader.frame).save(folder / "tokenizer.json")
    known = ("bos", "eos", "unk", "pad", "mask", "cls", "sep")
    roles = {role: tokenizer.specials[role] for role in known if role in tokenizer.specials}
    ids: Values = {f"{role}_token_id": index for role, index in roles.items()}
    if model.config.is_encoder_decoder:
        ids["decoder_start_token_id"] = task.processor.begin
    write_json(folder / "config.json", {**fit.keys, **ids})
    symbols = {f"{role}_token": tokenizer.symbol(i) for role, i in roles.items()}
    write_json(folder / "special_tokens_map.json", symbols)
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config.max_length,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", about | symbols)
    if (template := task.processor.template) is not None:
        template.save(folder)
        ids["eos_token_id"] = sorted(template.ends)
    if model.config.predicts_next:
        write_json(folder / "generation_config.json", ids | generation_keys(task.recipe.generate))
    return fit.name


def compare(model: Transformer, task: Task, folder: Path) -> Parity:
    """Compare with the class of transformers that the folder is for.

    ConfigError: the library is not installed, or no example input fits into the model.
    """
    try:
        import transformers
    except ImportError:
        raise ConfigError(
            "The export is compared in transformers, which is not installed; run pip install "
            "'glassformer[export]', or add --no-check."
        ) from None
    with silent():
        name = fitting(model.config, task.recipe.task).name
        theirs: Any = getattr(transformers, name)
        theirs = theirs.from_pretrained(folder, local_files_only=True).eval()
        greedy = transformers.GenerationConfig(do_sample=False, num_beams=1)
        if (own := getattr(theirs, "generation_config", None)) is not None:
            kept = ("pad_token_id", "bos_token_id", "decoder_start_token_id")
            greedy.update(**{name: getattr(own, name) for name in kept})
            theirs.generation_config = greedy  # without the folder's settings, its end too

        def outputs(batch: Batch) -> Tensor:
            with torch.inference_mode():
                found = theirs(**_inputs(batch, model.config))
            for kind in ("logits", "pooler_output", "last_hidden_state"):
                if (values := getattr(found, kind, None)) is not None:
                    return values
            raise ConfigError(f"{name} has no outputs to compare.")

        def generate(batch: Batch, n: int) -> Sequence[int]:
            given = _inputs(batch, model.config)
            found = theirs.generate(**given, generation_config=greedy, max_new_tokens=n)
            return found[0, batch.elements.shape[1] :].tolist()

        target = f"transformers {transformers.__version__}"
        return compare_outputs(target, model, task, outputs, generate)


@contextmanager
def silent() -> Iterator[None]:
    """Silence the warnings and progress bars of transformers while the body runs."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def usage(task: Task, name: str) -> str:
    """The lines that load the folder, beside which this file lies."""
    reads = task.processor.auto_class
    return f"""```python
from transformers import {reads}, {name}

model = {name}.from_pretrained(".")
reader = {reads}.from_pretrained(".")
```"""


def _inputs(batch: Batch, config: ModelConfig) -> Tensors:
    """A batch of one by the names of arguments there."""
    elements, types = batch.elements, batch.token_type_ids
    if elements.is_floating_point():
        assert config.grid is not None
        assert config.patch is not None
        pixels = unpatchify(elements, config.patch, config.grid)
        return {"pixel_values": pixels.permute(0, 3, 1, 2)}
    if batch.source is not None:
        return {"input_ids": batch.source.elements, "decoder_input_ids": elements}
    types = {} if types is None else {"token_type_ids": types}
    return {"input_ids": elements} | types


def save_model(fit: Fit, model: Transformer, folder: Path) -> None:
    """Write configuration and weights as this class, which fits."""
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(tensors(widen(model, fit), fit), folder / "model.safetensors")
    write_json(folder / "config.json", dict(fit.keys))


def _preprocessing(reader: ImageReader) -> Values:
    config = reader.config
    height, width = config.dims
    crops = config.resize == "crop"
    if config.resize == "pad" or (crops and height != width and config.resize_to is None):
        raise ConfigError(
            f"Images are resized by {config.resize!r} to {height} x {width}, which "
            "preprocessor_config.json cannot say; use resize='stretch', or squares."
        )
    tall, wide = pair(config.resize_to or config.dims)
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": tall} if crops else {"height": tall, "width": wide},
        "do_center_crop": crops or config.resize_to is not None,
        "crop_size": {"height": height, "width": width},
        "resample": FILTERS[config.interpolation],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(config.mean or ()),
        "image_std": list(config.std or ()),
    }


@torch.no_grad()
def widen(model: Transformer, fit: Fit) -> Transformer:
    """Return the model with zero biases where only the class has some.

    ConfigError: a weight that the class does not have.
    """
    made = Transformer(fit.family.model(fit.head, fit.keys), seed=None)
    own = dict(plain_parameters(model))
    account = Account(f"A model as {fit.name}", own)
    for name, parameter in made.named_parameters():
        account.take(own.get(name))
        parameter.copy_(own[name].cpu()) if name in own else parameter.zero_()
    account.finish()
    return made.eval()


@torch.no_grad()
def tensors(model: Transformer, fit: Fit) -> Tensors:
    """The tensors of a published model by their names."""
    config = model.config
    ours: Tensors = dict(model.named_parameters())
    stored = fit.family.layout(fit.head, ours, config).values()
    found = {one.name: one.write(ours, config).contiguous() for one in stored}
    for second, first in fit.family.tied.items():  # a bias with two names, by version
        if first in found and found[first].dim() == 1:
            found[second] = found[first].clone()
    return found
