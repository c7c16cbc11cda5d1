"""Run folders of tiny models that nobody trained: weights, configuration, what encodes inputs; no
recipe."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import glassformer as gf
import tiny
from glassformer.models.weights import config_json, save_weights
from glassformer.tokenizers.text import Tokenizer


def bare_run(
    folder: Path, tokenizer: Tokenizer, kept: Iterable[Any] = (), more: int = 0, **changes: Any
) -> gf.Run:
    """The folder as a run; `kept`: readers or a palette to save, `more`: outcomes beside tokens."""
    if changes.get("elements") != "patches":
        changes["vocab_size"] = tokenizer.vocab_size + more
        tokenizer.save(folder / "tokenizer.json")
    model = copy.deepcopy(tiny.model(**changes)).float()
    save_weights(model, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_json(model.config)))
    for one in kept:
        one.save(folder)
    return gf.load(folder)
