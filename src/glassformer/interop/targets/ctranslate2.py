"""A model as a folder for CTranslate2, made by its own converter from the published class.

config.json  model.bin  vocabulary.json, or shared_vocabulary.json of text to text
tokenizer.json
"""

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.core.files import read_json, write_json
from glassformer.interop.targets import transformers as published
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Task

LIBRARY, PROGRAM = "ctranslate2", "CTranslate2"
ENGINES = {
    "decoder": ("Generator", "generate_batch"),
    "encoder": ("Encoder", "forward_batch"),
    "encoder_decoder": ("Translator", "translate_batch"),
}
"""The class that runs a model, and its method, by architecture."""


def classes(model: ModelConfig) -> dict[str, dict[str, Any]]:
    """The published classes that the converter knows, with the values of fields that it takes for
    granted."""
    silu = {"activation": "silu", "rotary_wavelengths": None}
    rotary = {"rotary_factor": 1.0, "rotary_base": 10000.0}
    return {
        "GPT2LMHeadModel": {"epsilon": 1e-5},
        "LlamaForCausalLM": silu | {"d_head": model.d_model // model.n_heads},
        "Qwen3ForCausalLM": silu,
        "GemmaForCausalLM": rotary | {"attention_bias": False, "bias": False},
        "BertModel": {},
        "DistilBertModel": {},
        "T5ForConditionalGeneration": {"epsilon": 1e-6, "head_scale": True},
        "BartForConditionalGeneration": {},
    }


plan = partial(published.plan, program=PROGRAM, only=classes)
"""The published class as which a recipe's model would be converted."""
fitting = partial(published.fitting, program=PROGRAM, only=classes)
"""The published class as which a model is converted; ConfigError: as of transformers."""


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write the published class and convert it; returns the class. ConfigError: none fits, or a
    library is missing."""
    if not (find_spec("ctranslate2") and find_spec("transformers")):
        raise ConfigError(
            "Models are converted for CTranslate2 by its own converter, with transformers, and one "
            "of them is not installed; run pip install 'glassformer[ctranslate2]'."
        )
    from ctranslate2.converters import TransformersConverter

    fit = fitting(model.config, task.recipe.task)
    # it wants a pooler, which is 0 where the model has none
    whole = replace(fit, head=fit.family.heads[fit.name])
    with TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as scratch:
        published.write_as(whole, model, task, Path(scratch))
        try:
            with published.silent():
                converter = TransformersConverter(scratch, copy_files=["tokenizer.json"])
                converter.convert(str(folder), force=True)
        except (ValueError, KeyError) as problem:
            raise GlassformerError(
                f"CTranslate2 does not convert this model as {fit.name}: {problem}."
            ) from None
    # it writes null for a symbol that a tokenizer lacks, and does not read null
    values = {
        key: "" if value is None else value
        for key, value in read_json(folder / "config.json").items()
        if value is not None or key.endswith("_token")
    }
    write_json(folder / "config.json", values)
    return fit.name


def usage(task: Task, name: str) -> str:
    """The lines that load the folder, beside which this file lies."""
    engine, method = ENGINES[task.recipe.model.architecture]
    return f"""```python
from ctranslate2 import {engine}
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokens = tokenizer.encode("The text.").tokens
print({engine}(".").{method}([tokens]))
```"""
