"""A model as a file for llama.cpp and the programs on it, `model.gguf`, by the package gguf.

What llama.cpp knows is listed in `gguf.json`: classes of models, names of sizes, and tokenizers by
the fields of a tokenizer.json. Of kind gpt2 they have tokens, merges, and the name of how a text is
cut before. Of kind llama they have tokens and scores, and the pair of the highest score is merged
first.

Source: ggml-org/llama.cpp, src/llama-model.cpp and src/llama-vocab.cpp.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from glassformer.core.axes import Tensors
from glassformer.core.errors import ConfigError
from glassformer.core.files import Values
from glassformer.families.fit import Fit
from glassformer.interop.parity import Plan
from glassformer.interop.targets import transformers as published
from glassformer.layers.position.rotary import slowing
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Task
from glassformer.tokenizers.decoding import ALPHABET, MARK
from glassformer.tokenizers.frame import Frame
from glassformer.tokenizers.text import Tokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

LIBRARY, FILE = "llama.cpp", "model.gguf"
KINDS = ("bpe", "byte")
"""Kinds of tokenizers that llama.cpp reads."""

KNOWN = json.loads(files("glassformer.interop").joinpath("gguf.json").read_text(encoding="utf-8"))
CLASSES: dict[str, tuple[str, Values]] = KNOWN["classes"]
"""The architecture of each published class, with the values of fields that it computes."""
ONLY = {name: only for name, (_, only) in CLASSES.items()}
TURNED = re.compile(r".*\.attention\.[qk]_proj\.(weight|bias)")
"""Parameters whose rotary angles turn rows 2i and 2i + 1 in `llama`, here i and i + half."""
OPTIONS = (
    "type",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "byte_fallback",
    "ignore_merges",
    "merges",
)
WITHOUT_EFFECT = ("trim_offsets", "split")
"""Keys of steps that llama.cpp needs not know."""
BYTES = {"gpt2": [*ALPHABET], "llama": [f"<0x{byte:02X}>" for byte in range(256)]}
ROLES = ("bos", "eos", "unk", "pad", "mask")
NO_MERGE = f"{MARK} {MARK}"
"""A pair that no text has: llama.cpp needs at least one."""


def plan(recipe: Recipe) -> Plan:
    """The published class as which a recipe's model would be written."""
    own = recipe.processor.tokenizer
    found = published.plan(recipe, LIBRARY, lambda model: ONLY)
    if found.name is None or own.path is not None or own.kind in KINDS:
        return found
    other = f"processor.tokenizer.kind={own.kind!r} (not {' or '.join(KINDS)})"
    return Plan(found.name, (*found.differences, other))


fitting = partial(published.fitting, program=LIBRARY, only=lambda model: ONLY)
"""The published class that llama.cpp computes as the model; ConfigError: as of transformers."""


def write(model: Transformer, task: Task, folder: Path) -> str:
    """Write the file; returns the published class. ConfigError: none fits, or not its tokenizer, or
    the package gguf is not installed."""
    try:
        import gguf
    except ImportError:
        raise ConfigError(
            "GGUF is written by the package gguf, which is not installed; run pip install "
            "'glassformer[gguf]'."
        ) from None
    fit, config = fitting(model.config, task.recipe.task), model.config
    writer = gguf.GGUFWriter(folder / FILE, CLASSES[fit.name][0])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    epsilon = "layer_norm_eps" if config.norm == "layer" else "layer_norm_rms_eps"
    rotary = KNOWN["rotary"] if config.position == "rotary" else {}
    for name, field in {**KNOWN["sizes"], **rotary, epsilon: "epsilon"}.items():
        getattr(writer, f"add_{name}")(getattr(config, field))
    if config.rotary_factor != 1 and config.rotary_wavelengths is None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rotary_factor)
    processor = task.processor
    add_tokenizer(writer, processor.tokenizer, processor.reader.frame, config.vocab_size)
    if processor.template is not None:
        writer.add_chat_template(processor.template.text)
    for name, tensor in tensors(fit, model).items():
        writer.add_tensor(name, tensor.detach().cpu().float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return fit.name


def tensors(fit: Fit, model: Transformer) -> Tensors:
    """The tensors of the file by their names; ConfigError: a weight that has none."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    model_arch = CLASSES[fit.name][0]
    (kind,) = (kind for kind, name in MODEL_ARCH_NAMES.items() if name == model_arch)
    known = get_tensor_name_map(kind, model.config.n_layers)
    ours: Tensors = dict(published.widen(model, fit).named_parameters())
    if model_arch == "llama":
        for name in filter(TURNED.fullmatch, ours):
            halves = ours[name].unflatten(0, (-1, 2, model.config.head_width // 2))
            ours[name] = halves.transpose(1, 2).flatten(0, 2)
    found: Tensors = {}
    for stored in fit.family.layout(fit.head, ours, model.config).values():
        name = known.get_name(stored.name, (".weight", ".bias"))
        if name is None:
            raise ConfigError(
                f"llama.cpp's {model_arch} has no tensor for the weight {stored.ours[0]}, which "
                "would be lost; export it --to transformers."
            )
        found[name] = torch.cat([ours[one] for one in stored.ours])
    if (lengths := model.config.rotary_wavelengths) is not None:
        change = model.config.rotary_base, model.config.rotary_factor, lengths
        found["rope_freqs.weight"] = 1 / slowing(
            model.config.head_width, *change, torch.device("cpu")
        )
    return found


def usage(task: Task, name: str) -> str:
    """The lines that load the file, beside which this one lies."""
    return f"""```python
from llama_cpp import Llama

print(Llama("{FILE}")("The", max_tokens=32))
```"""


def add_tokenizer(writer: "GGUFWriter", tokenizer: Tokenizer, frame: Frame, size: int) -> None:
    """Add a tokenizer, filled up to a size with tokens that no text has.

    ConfigError: llama.cpp would read texts as other tokens.
    """
    from gguf import TokenType

    known, model = _find(tokenizer.definition), tokenizer.definition["model"]
    vocab, added = model["vocab"], tokenizer.definition.get("added_tokens") or []
    # older files write a pair as one text
    pairs = [one.split(" ") if isinstance(one, str) else one for one in model.get("merges") or []]
    names = {i: piece for piece, i in vocab.items()} | {one["id"]: one["content"] for one in added}
    types = dict.fromkeys(vocab.values(), TokenType.NORMAL)
    ids = range(max(size, tokenizer.vocab_size))
    writer.add_tokenizer_model(known["model"])
    writer.add_tokenizer_pre(known["pre"])
    if known["model"] == "gpt2":
        writer.add_token_merges([*map(" ".join, pairs)] or [NO_MERGE])
        space = MARK
    else:
        writer.add_add_space_prefix(known["add_space_prefix"])
        ranks = {piece: i for i, piece in enumerate(dict.fromkeys(map("".join, pairs)))}
        writer.add_token_scores([-float(ranks.get(names.get(i, ""), len(ranks))) for i in ids])
        types |= {vocab[name]: TokenType.BYTE for name in BYTES["llama"]}
        space = " "  # added tokens are sought in a text before its spaces are marked
    for one in added:
        names[one["id"]] = one["content"].replace(MARK, space)
        types[one["id"]] = (TokenType.USER_DEFINED, TokenType.CONTROL)[bool(one.get("special"))]
    types[tokenizer.specials.get("unk", -1)] = TokenType.UNKNOWN
    writer.add_token_list([names.get(i, f"[PAD{i}]") for i in ids])
    writer.add_token_types([types.get(i, TokenType.UNUSED) for i in ids])
    _add_symbols(writer, tokenizer.specials, frame)


def _add_symbols(writer: "GGUFWriter", specials: Mapping[str, int], frame: Frame) -> None:
    if "eos" not in specials:
        raise ConfigError(
            "The tokenizer has no symbol for the end of a text, which llama.cpp needs; add <eos> "
            "to its special symbols."
        )
    # without one, llama.cpp takes the token 11 for the beginning
    ids = {"bos": specials["eos"], **specials}
    if frame.begin not in ((), (ids["bos"],)):
        raise _refusal(f"{frame.begin} before a text (not one symbol for the beginning)")
    for role in ROLES:
        if role in ids:
            getattr(writer, f"add_{role}_token_id")(ids[role])
    writer.add_add_bos_token(bool(frame.begin))
    writer.add_add_eos_token(False)  # the end of a text is not the end of a prompt


def _find(definition: Mapping[str, Any]) -> Values:
    """Return the entry of this tokenizer; ConfigError: there is none, with the fields in which the
    nearest one differs."""
    given = {name: definition.get(name) for name in ("normalizer", "pre_tokenizer")}
    hook = lambda step: {key: step[key] for key in step if key not in WITHOUT_EFFECT}
    own = json.loads(json.dumps(given), object_hook=hook)
    own |= {f"model.{name}": definition["model"].get(name) or None for name in OPTIONS}
    own["model.merges"] = own["model.merges"] and True
    rows = KNOWN["tokenizers"]
    others = [
        [f"{k}={v!s:.80} (not {of!s:.80})" for k, v in own.items() if v != (of := row["of"].get(k))]
        for row in rows
    ]
    nearest = min(range(len(rows)), key=lambda i: len(others[i]))
    if others[nearest]:
        raise _refusal("; ".join(others[nearest]))
    known = rows[nearest]
    if missing := {*BYTES[known["model"]]} - definition["model"]["vocab"].keys():
        raise _refusal(f"no token {min(missing)} in model.vocab (every byte needs one)")
    return known


def _refusal(problem: str) -> ConfigError:
    return ConfigError(
        f"llama.cpp reads no tokenizer with {problem}; models with a tokenizer of "
        "processor.tokenizer.kind=bpe or byte export."
    )
