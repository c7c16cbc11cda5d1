"""A model as a folder for CTranslate2, made by its own converter from the published class.

config.json  model.bin  vocabulary.json, or shared_vocabulary.json of text to text
tokenizer.json
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.batch import Batch, Positions
from glassformer.errors import ConfigError, GlassformerError
from glassformer.families.fit import Fit, fits, narrowed
from glassformer.files import read_json, scratch_folder, write_json
from glassformer.interop.parity import Parity, compared
from glassformer.interop.plan import Plan
from glassformer.interop.targets import transformers as published
from glassformer.interop.targets.transformers import differing
from glassformer.layers.heads import pool
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_tensors, save_tensors
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task

LIBRARY, LARGEST = "ctranslate2", 128 << 20
FULL: dict[str, Any] = {"device": "cpu", "compute_type": "float32"}


@dataclass(frozen=True)
class Converted:
    """A published class that the converter knows."""

    engine: str
    """The class of CTranslate2 that runs it."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """The values of fields that the converter takes for granted."""
    one_width: bool = False
    """Whether the heads share the width of the model."""


ROTARY = {"activation": "silu", "rotary_wavelengths": None}
CLASSES = {
    "GPT2LMHeadModel": Converted("Generator", {"epsilon": 1e-5}),
    "LlamaForCausalLM": Converted("Generator", ROTARY, one_width=True),
    "Qwen3ForCausalLM": Converted("Generator", ROTARY),
    "GemmaForCausalLM": Converted(
        "Generator",
        {"attention_bias": False, "bias": False, "rotary_factor": 1.0, "rotary_base": 10000.0},
    ),
    "BertModel": Converted("Encoder"),
    "DistilBertModel": Converted("Encoder"),
    "T5ForConditionalGeneration": Converted("Translator", {"epsilon": 1e-6, "head_scale": True}),
    "BartForConditionalGeneration": Converted("Translator"),
}


def planned(recipe: Recipe) -> Plan:
    """The published class as which a recipe's model would be converted."""
    fit = nearest_class(recipe.model, recipe.task)
    if fit is None:
        return Plan(None, (f"task={recipe.task!r}, which CTranslate2 has no models for",))
    return Plan(fit.name, fit.differences)


def nearest_class(model: ModelConfig, task: str) -> Fit | None:
    """The class in which the model differs least, of those that the converter knows; None: there is
    none for the task."""
    found = []
    for fit in (fit for fit in fits(model, task) if fit.name in CLASSES):
        of = CLASSES[fit.name]
        width = {"d_head": model.d_model // model.n_heads} if of.one_width else {}
        found.append(narrowed(fit, model, {**of.only, **width}))
    return min(found, key=lambda fit: len(fit.differences), default=None)


def fitting(model: ModelConfig, task: str) -> Fit:
    """The class as which a model is converted; ConfigError: there is none, with the nearest one."""
    fit = nearest_class(model, task)
    if fit is None:
        raise ConfigError(f"CTranslate2 has no models for task={task!r}; export it --to onnx.")
    if fit.differences:
        raise differing(fit.name, "class that CTranslate2 converts", fit.differences)
    return fit


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write the published class and convert it; returns the class. ConfigError: none fits, or a
    library is missing."""
    converters = _installed().converters
    fit = fitting(model.config, task.recipe.task)
    with scratch_folder() as scratch:
        published.write_as(fit, model, task, scratch)
        _pooler(model.config, scratch / "model.safetensors")
        converter: Any = converters.TransformersConverter(str(scratch))
        try:
            with published.silent():
                converter.convert(str(folder), force=True)
        except (ValueError, KeyError) as problem:
            raise GlassformerError(
                f"CTranslate2 does not convert this model as {fit.name}: {problem}."
            ) from None
        shutil.copy(scratch / "tokenizer.json", folder)
    values = read_json(folder / "config.json")
    # it writes null for a symbol that a tokenizer lacks, and does not read null
    values |= {key: "" for key, own in values.items() if own is None and key.endswith("_token")}
    write_json(folder / "config.json", {k: own for k, own in values.items() if own is not None})
    return fit.name


def _pooler(model: ModelConfig, file: Path) -> None:
    """Give a model without a pooler one of zeros: the converter wants one, else a random one."""
    if model.one_output and not model.pooler:
        d, stored = model.d_model, load_tensors(file)
        empty = {"pooler.dense.weight": torch.zeros(d, d), "pooler.dense.bias": torch.zeros(d)}
        save_tensors(stored | empty, file)


def _installed() -> Any:
    """The library; ConfigError: it is missing, or what its converter needs."""
    if not (find_spec("ctranslate2") and find_spec("transformers")):
        raise ConfigError(
            "Models are converted for CTranslate2 by its own converter, with transformers, and one "
            "of them is not installed; run pip install 'glassformer[ctranslate2]'."
        )
    import ctranslate2

    return ctranslate2


def compare(model: Transformer, task: Task, folder: Path) -> Parity:
    """Compare with CTranslate2, on the CPU in float32: logits, vectors or stream, greedy tokens.

    ConfigError: the library is not installed.
    """
    library = _installed()
    engine = CLASSES[fitting(model.config, task.recipe.task).name].engine
    theirs = getattr(library, engine)(str(folder), **FULL)
    outputs, continued = ENGINES[engine](theirs, model.config, folder)
    return compared(f"CTranslate2 {library.__version__}", model, task, outputs, continued)


def usage(task: Task, name: str) -> str:
    """The lines that load the folder, beside which this file lies."""
    engine = CLASSES[name].engine
    return f"""```python
from ctranslate2 import {engine}
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokens = tokenizer.encode("The text.").tokens
print({engine}(".").{CALLS[engine]}([tokens]))
```"""


CALLS = {
    "Generator": "generate_batch",
    "Encoder": "forward_batch",
    "Translator": "translate_batch",
}
Calls = tuple[Callable[[Batch], Tensor], Callable[[Batch, int], Sequence[int]]]


def _encoder(theirs: Any, model: ModelConfig, folder: Path) -> Calls:
    def outputs(batch: Batch) -> Tensor:
        kinds = batch.token_type_ids
        given = {} if kinds is None else {"token_type_ids": kinds.tolist()}
        found = theirs.forward_batch(batch.elements.tolist(), **given)
        if model.pooler:
            return torch.from_numpy(np.array(found.pooler_output))
        hidden = torch.from_numpy(np.array(found.last_hidden_state))
        if not model.one_output:
            return hidden
        positions = Positions.padded([hidden.shape[1]])
        return pool(hidden, positions, model.pool)

    return outputs, lambda batch, n: []


def _decoder(theirs: Any, model: ModelConfig, folder: Path) -> Calls:
    names = _names(folder)

    def outputs(batch: Batch) -> Tensor:
        return torch.from_numpy(np.array(theirs.forward_batch(batch.elements.tolist())))

    def continued(batch: Batch, n: int) -> Sequence[int]:
        def more(found: Sequence[int], n: int) -> Sequence[int]:
            prompt = [names[i] for i in (*batch.elements[0].tolist(), *found)]
            (result,) = theirs.generate_batch(
                [prompt], max_length=n, return_end_token=True, include_prompt_in_result=False
            )
            return result.sequences_ids[0]

        return _through_ends(more, n)

    return outputs, continued


def _translator(theirs: Any, model: ModelConfig, folder: Path) -> Calls:
    names = _names(folder)
    ids = {name: i for i, name in enumerate(names)}
    plain: dict[str, Any] = {"beam_size": 1, "max_input_length": 0, "min_decoding_length": 0}
    plain["return_end_token"] = True

    def outputs(batch: Batch) -> Tensor:
        """Those after each beginning of the target."""
        assert batch.source is not None
        source, target = (
            [names[i] for i in of.elements[0].tolist()] for of in (batch.source, batch)
        )
        rows = []
        for end in range(1, len(target) + 1):
            begin = target[1:end]  # the converted model writes the first one itself
            (found,) = theirs.translate_batch(
                [source], [begin], max_decoding_length=end, return_logits_vocab=True, **plain
            )
            rows.append(torch.from_numpy(np.array(found.logits[0][-1])))
        return torch.stack(rows)[None]

    def continued(batch: Batch, n: int) -> Sequence[int]:
        assert batch.source is not None
        source = [names[i] for i in batch.source.elements[0].tolist()]
        begin = batch.elements[0].tolist()[1:]

        def more(found: Sequence[int], n: int) -> Sequence[int]:
            prefix = [names[i] for i in (*begin, *found)]
            (result,) = theirs.translate_batch(
                [source], [prefix], max_decoding_length=len(prefix) + n, **plain
            )
            return [ids[name] for name in result.hypotheses[0]][len(prefix) :]

        return _through_ends(more, n)

    return outputs, continued


ENGINES = {"Generator": _decoder, "Encoder": _encoder, "Translator": _translator}


def _through_ends(more: Callable[[Sequence[int], int], Sequence[int]], n: int) -> Sequence[int]:
    """So many tokens, continued behind the symbol at which generation ends."""
    found: list[int] = []
    while len(found) < n:
        own = more(found, n - len(found))
        if not own:
            break
        found += own
    return found


def _names(folder: Path) -> list[str]:
    """The tokens in the order of their ids."""
    (file,) = folder.glob("*vocabulary.json")
    return read_json(file, LARGEST)
