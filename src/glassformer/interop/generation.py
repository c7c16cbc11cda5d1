"""`generation_config.json` of a published model to the fields of `generate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import CheckpointError, ConfigError
from glassformer.files import read_json
from glassformer.generate.config import GenerateConfig

FILE = "generation_config.json"
TOP_K = 50
"""Of a file that samples and names none."""
NOT_READ = {
    "bad_words_ids": None,
    "forced_bos_token_id": None,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
"""Keys that change what is generated and are not read here, with the values that change nothing."""
SAMPLED = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def not_read(folder: Path, keys: Mapping[str, Any]) -> list[str]:
    """Keys of these files that change what is generated, and are not read."""
    path = folder / FILE  # a llama2.c file has none beside it
    own = {**keys, **read_json(path)} if path.is_file() else keys
    return [key for key, plain in NOT_READ.items() if own.get(key, plain) not in (plain, None)]


def generation(folder: Path, keys: Mapping[str, Any], searches: bool) -> GenerateConfig:
    """How the model generates by default: greedily, unless its files say otherwise.

    `keys`: of config.json, where models of before 2023 have them. `searches`: an encoder-decoder,
    which has beams. CheckpointError: a value that is none.
    """
    path, own = folder / FILE, dict(keys)
    try:
        if path.is_file():
            own = read_json(path)
        return GenerateConfig.parse(_fields(own, searches))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({str(error)[:100]}); restore it.") from None
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _fields(own: Mapping[str, Any], searches: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"temperature": 0.0}
    beams = own.get("num_beams") or 1
    if searches:
        found = {"beams": beams}
        if beams > 1 and own.get("length_penalty") is not None:
            found["length_penalty"] = own["length_penalty"]
    elif own.get("do_sample"):
        given = {name: own.get(name) for name in SAMPLED}
        given["top_k"] = own.get("top_k", TOP_K)
        found = {name: value for name, value in given.items() if value is not None}
        found = {name: value for name, value in found.items() if (name, value) != ("top_k", 0)}
    if own.get("max_new_tokens") is not None:
        found["max_new_tokens"] = own["max_new_tokens"]
    elif searches and own.get("max_length") is not None:
        found["max_new_tokens"] = own["max_length"] - 1  # the first of them is no new token
    return found
