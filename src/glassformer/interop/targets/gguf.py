"""A model as a file for llama.cpp and the programs on it.

model.gguf
"""

from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import import_module
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.batch import Batch
from glassformer.errors import ConfigError, GlassformerError
from glassformer.families.fit import Fit
from glassformer.interop.gguf.architectures import (
    Architecture,
    as_stored,
    nearest_architecture,
    rotary_divisors,
    values_of,
)
from glassformer.interop.gguf.file import write_gguf
from glassformer.interop.gguf.vocabulary import vocabulary
from glassformer.interop.parity import INPUTS, TOKENS, Parity, batches, compared
from glassformer.interop.plan import Plan
from glassformer.interop.targets.transformers import differing, tensors, widened
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task

LIBRARY, FILE = "llama.cpp", "model.gguf"
KINDS = ("bpe", "byte")
"""Kinds of tokenizers that llama.cpp reads."""
TEXTS = (
    "It's 12 o'clock, the 3rd of May 2024: we'll see 1234567 of them!",
    "  two  spaces,\ttabs\n\nand lines\r\n",
    "naïve Straße, Привет мир, 你好世界, 🙂🙃 <bos> </s> <|im_start|>",
)
"""Texts that are read there and here, beside the examples."""


def planned(recipe: Recipe) -> Plan:
    """The architecture that a recipe's model would have."""
    found, own = nearest_architecture(recipe.model, recipe.task), recipe.processor.tokenizer
    if found is None:
        return Plan(None, (f"task={recipe.task!r}, which llama.cpp has no models for",))
    of, fit = found
    differences = [*fit.differences]
    if own.path is None and own.kind not in KINDS:
        differences.append(f"processor.tokenizer.kind={own.kind!r} (not {' or '.join(KINDS)})")
    return Plan(of.name, tuple(differences))


def fitting(model: ModelConfig, task: str) -> tuple[Architecture, Fit]:
    """The architecture that computes what the model does, and its published class; ConfigError:
    there is none, with the nearest one and the fields in which it differs."""
    found = nearest_architecture(model, task)
    if found is None:
        raise ConfigError(f"llama.cpp has no models for task={task!r}; export it --to onnx.")
    if found[1].differences:
        raise differing(found[0].name, "architecture of llama.cpp", found[1].differences)
    return found


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write the file; returns the architecture. ConfigError: none fits, or not its tokenizer."""
    of, fit = fitting(model.config, task.recipe.task)
    whole = widened(model, fit)
    reader = task.processor.reader
    values = values_of(of, whole.config) | {
        "general.file_type": 0,  # all float32
        **vocabulary(task.processor.tokenizer, reader.frame, model.config.vocab_size),
    }
    if (template := task.processor.template) is not None:
        values["tokenizer.chat_template"] = template.text
    divisors = rotary_divisors(model.config)
    write_gguf(folder / FILE, values, tensors(whole, as_stored(of, fit)) | divisors)
    return of.name


def compare(model: Transformer, task: Task, folder: Path) -> Parity:
    """Compare with llama.cpp by its Python binding: texts as tokens, logits, greedy tokens.

    ConfigError: the binding is not installed. GlassformerError: it reads a text as other tokens.
    """
    llama_cpp = _installed()
    of, _ = fitting(model.config, task.recipe.task)
    examples = [*islice(batches(task), INPUTS)]
    longest = max((batch.elements.shape[1] for batch in examples), default=0)
    room = min(longest + TOKENS, model.config.max_length)
    theirs = _opened(llama_cpp, folder / FILE, room)
    _check_texts(theirs, task, examples)

    def outputs(batch: Batch) -> Tensor:
        ids = batch.elements[0].tolist()
        theirs.reset()
        theirs.eval(ids)
        return torch.from_numpy(theirs.scores[: len(ids)].copy())[None]

    def continued(batch: Batch, n: int) -> Sequence[int]:
        ids = batch.elements[0].tolist()
        return [*islice(theirs.generate(ids, temp=0.0, repeat_penalty=1.0), n)]

    target = f"llama.cpp (llama-cpp-python {llama_cpp.__version__})"
    return compared(target, model, task, outputs, continued, of.close)


def usage(task: Task, name: str) -> str:
    """The lines that load the file, beside which this one lies."""
    return f"""```python
from llama_cpp import Llama

print(Llama("{FILE}")("The", max_tokens=32))
```"""


def _installed() -> Any:
    """llama.cpp's Python binding; ConfigError: it is missing."""
    try:  # pip compiles it, so that no extra has it
        return import_module("llama_cpp")
    except ImportError:
        raise ConfigError(
            "The export is compared in llama.cpp, whose Python binding is not installed; run pip "
            "install llama-cpp-python (it needs a C++ compiler), or add --no-check."
        ) from None


def _opened(llama_cpp: Any, file: Path, room: int) -> Any:
    """The file in llama.cpp with a cache of so many tokens in float32; GlassformerError: it does
    not load."""
    full: dict[str, Any] = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32}
    with redirect_stderr(StringIO()) as said:
        try:
            return llama_cpp.Llama(
                str(file), n_ctx=room, n_batch=room, logits_all=True, verbose=False, **full
            )
        except (ValueError, RuntimeError) as problem:
            reason = (said.getvalue().strip().splitlines() or [str(problem)])[0]
            raise GlassformerError(f"llama.cpp does not load the export: {reason}") from None


def _check_texts(theirs: Any, task: Task, examples: Sequence[Batch]) -> None:
    """GlassformerError: a text is other tokens there."""
    tokenizer, frame = task.processor.tokenizer, task.processor.reader.frame
    texts = [tokenizer.decode(batch.elements[0].tolist()) for batch in examples]
    for text in (*texts, *TEXTS):
        ours = [*frame.begin, *tokenizer.encode(text).tolist()]
        found = theirs.tokenize(text.encode("utf-8"), add_bos=True, special=False)
        if found != ours:
            raise GlassformerError(
                f"The export does not read the same: {text!r:.100} is {len(ours)} tokens here and "
                f"{len(found)} in llama.cpp, or others."
            )
