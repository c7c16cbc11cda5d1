"""The tokenizer and the encoded texts in a run folder, and whether they belong together."""

import json
from pathlib import Path
from typing import Any

from glassformer.core.errors import CheckpointError
from glassformer.data.config import DataConfig
from glassformer.data.store import ABOUT, MANIFEST, Store, place_of
from glassformer.models.config import ModelConfig
from glassformer.tokenizers.roles import START
from glassformer.tokenizers.text import Tokenizer

FILE, STORE = "tokenizer.json", "tokens"


def load_tokenizer(folder: Path, model: ModelConfig) -> Tokenizer:
    """A run's tokenizer; CheckpointError: it has more tokens than the model."""
    tokenizer = Tokenizer.load(folder / FILE)
    check_vocabulary(folder, tokenizer, model.vocab_size)
    return tokenizer


def check_vocabulary(folder: Path, tokenizer: Tokenizer, rows: int, of: str = "The") -> None:
    """Raise CheckpointError for a tokenizer with more tokens than the model has rows, unless the
    last ones are special symbols that no text needs (such as <mask> in bart-large-cnn)."""
    roles = tokenizer.specials
    needed = {*tokenizer.frame_or("bos", "eos").symbols}
    needed |= {roles[role] for role in ("bos", "eos", START) if role in roles}
    extra = range(rows, tokenizer.vocab_size)
    if any(index in needed or not tokenizer.skips(index) for index in extra):
        raise CheckpointError(
            f"{of} tokenizer of {folder} has {tokenizer.vocab_size} tokens and its model rows for "
            f"{rows}; they are of different runs or models."
        )


def kept_store(
    data: DataConfig, folder: Path, kind: str, tokenizer: dict[str, Any]
) -> Store | None:
    """The store of a run's encoded data; None: there is none by this tokenizer, as where other runs
    share data.store."""
    place = place_of(data, folder / STORE)
    store = Store.open(place, kind) if (place / MANIFEST).is_file() else None
    return store if store is not None and store.request["tokenizer"] == tokenizer else None


def check_stored(folder: Path, tokenizer: Tokenizer, key: str, file: str = FILE) -> None:
    """Raise CheckpointError if another tokenizer of the same size made the stored tokens."""
    try:
        about = json.loads((folder / STORE / ABOUT).read_bytes())
        made_by = about["request"]["tokenizer"][key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # a run without its tokens is still a model
    if made_by != tokenizer.fingerprint:
        raise CheckpointError(
            f"{folder / file} is not the tokenizer this run was trained with; restore it from a "
            "backup."
        )
