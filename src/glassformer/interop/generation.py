"""`generation_config.json` of a published model, and the fields of `generate`.

Most keys are fields of the same name; `num_beams` is `beams`, and `max_length` of an
encoder-decoder counts the symbol that begins its target.
"""

from pathlib import Path

from glassformer.core.errors import CheckpointError, ConfigError
from glassformer.core.files import Values, read_json
from glassformer.models.config import ModelConfig
from glassformer.runtime.config import SAMPLING, GenerateConfig
from glassformer.runtime.prompts import check_settings
from glassformer.runtime.selectors.constraints import CONSTRAINTS, is_set

FILE = "generation_config.json"
_LIMITS = ("eos_token_id", *CONSTRAINTS)
TOP_K = 50
"""Of a file that samples and names none."""
NOT_READ = {
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "guidance_scale": 1.0,
    "diversity_penalty": 0.0,
    "penalty_alpha": None,
    "top_h": None,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "watermarking_config": None,
}
"""Keys that change what is generated and are not read here, with the values that change nothing."""


def not_read(folder: Path, keys: Values) -> list[str]:
    """Keys of these files that change what is generated, and are not read."""
    own = _keys(folder, keys)
    found = [key for key, plain in NOT_READ.items() if own.get(key, plain) not in (plain, None)]
    if own.get("do_sample") and (own.get("num_beams") or 1) > 1:
        found.append("do_sample beside num_beams")
    return found + ["task_specific_params"] * bool(keys.get("task_specific_params"))


def generation(folder: Path, keys: Values, model: ModelConfig) -> GenerateConfig:
    """Default generation of the model: greedy, unless its files say otherwise.

    `keys`: of config.json, where models of before 2023 have them. CheckpointError: a value that is
    none, or an id that the model does not have.
    """
    if not model.predicts_next:
        return GenerateConfig.parse({"temperature": 0.0})
    path = folder / FILE
    path = path if path.is_file() else folder / "config.json"
    try:
        own = {key: value for key, value in _keys(folder, keys).items() if value is not None}
        config = GenerateConfig.parse(_fields(own, model.is_encoder_decoder))
        ends = tuple(index for index in config.eos_token_id if index < model.vocab_size)
        config = config.model_copy(update={"eos_token_id": ends})  # others never occur
        check_settings(config, model.vocab_size)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be read ({str(error)[:100]}); restore it.") from None
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return config


def generation_keys(config: GenerateConfig) -> Values:
    """The keys of `generation_config.json` for these fields."""
    own = config.model_dump(mode="json")
    values = {"max_new_tokens": config.max_new_tokens}
    values |= {name: own[name] for name in _LIMITS if is_set(config, name)}
    if config.beams > 1:
        early = "never" if config.early_stopping is None else config.early_stopping
        search = {"num_beams": config.beams, "length_penalty": config.length_penalty}
        return values | search | {"early_stopping": early}
    if config.beams or config.temperature == 0:
        return values | {"do_sample": False}
    own["top_k"] = config.top_k or 0
    settings = {name: own[name] for name in sorted(SAMPLING) if own[name] is not None}
    return values | {"do_sample": True} | settings


def _keys(folder: Path, keys: Values) -> Values:
    path = folder / FILE
    return read_json(path) if path.is_file() else keys


def _fields(own: Values, searches: bool) -> Values:
    """The fields of keys that have a value; `searches`: an encoder-decoder."""
    names = [*_LIMITS, "max_new_tokens"]
    found: Values = {"length_ratio": None} if searches else {}
    if (stop := own.get("stop_strings")) is not None:
        found["stop"] = [stop] if isinstance(stop, str) else stop
    if (beams := own.get("num_beams", 1)) > 1:
        found |= {"beams": beams, "early_stopping": own.get("early_stopping", False)}
        found["length_penalty"] = own.get("length_penalty", 1.0)
    elif own.get("do_sample"):
        names += SAMPLING - {"top_k"}
        found["top_k"] = own.get("top_k", TOP_K) or None
    else:
        found |= {"beams": 1} if searches else {"temperature": 0.0}
    if searches and "max_length" in own and "max_new_tokens" not in own:
        found["max_new_tokens"] = own["max_length"] - 1  # the first of them is no new token
    if own.get("min_new_tokens"):
        names.remove("min_length")  # which is then not read there
    return found | {name: own[name] for name in names if name in own}
