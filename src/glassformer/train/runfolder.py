"""The run folder: what is in it before training begins, and the model that it holds in the end.

    RUN/recipe.yaml  tokenizer.json  tokens/  metrics.jsonl  report.html  checkpoints/
    RUN/config.json  model.safetensors  generation_config.json  README.md     the model itself, the best so far

Knows: files and their meaning. Does not know: steps.
"""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer import __version__
from glassformer.data.config import DataConfig
from glassformer.data.sources import capture_stdin
from glassformer.data.split import texts_for_tokenizer
from glassformer.data.store import TokenStore
from glassformer.errors import ConfigError, DataError
from glassformer.files import LOCK, digest, write_json, write_text, writing
from glassformer.models.config import ModelConfig
from glassformer.models.transformer import Transformer
from glassformer.models.weights import config_json, save_weights
from glassformer.tokens.text import Tokenizer
from glassformer.tokens.train import train_tokenizer
from glassformer.train.checkpoint import Checkpoints
from glassformer.train.recipe import Recipe, read_yaml

LOGS = ("metrics.jsonl", "report.html")
WHOLE = 1 << 20  # more tokens than these are not read through to know them again


@dataclass
class Material:
    """What a run is made from: the resolved recipe, the tokenizer, and (once stored) the tokens."""

    recipe: Recipe
    tokenizer: Tokenizer
    run: Path
    _store: TokenStore | None = None

    @property
    def store(self) -> TokenStore:
        """The tokens of every split."""
        assert self._store is not None, "store_files comes first"
        return self._store

    def store_files(self) -> None:
        """Write the tokenizer into the run folder, and build the token store (or find it unchanged)."""
        recipe, eos = self.recipe, self.tokenizer.specials.get("eos")
        self.tokenizer.save(self.run / "tokenizer.json")
        self._store = TokenStore.open_or_build(
            self.run / "tokens",
            self.tokenizer.encode,
            self.tokenizer.fingerprint,
            self.tokenizer.vocab_size,
            eos,
            recipe.data,
        )
        length = recipe.train.length or recipe.model.max_length
        have = len(self._store.split("train").tokens)
        if have < length + 1:
            raise DataError(
                f"The training text has {have} tokens and a training sequence needs {length + 1}; "
                "use a longer text or a smaller model.max_length."
            )

    @property
    def fingerprint(self) -> str:
        """What the run's data are, in 16 hex digits: the counts of every split, and tokens spread over all of it."""
        seen = hashlib.sha256(json.dumps(self.store.counts, sort_keys=True).encode())
        for name in sorted(self.store.counts):
            tokens = self.store.split(name).tokens
            seen.update(tokens[:: len(tokens) // WHOLE + 1].tobytes())
        return seen.hexdigest()[:16]


def prepare(recipe: Recipe, run: Path, resume: bool, say: Callable[[str], None]) -> Material:
    """Check the folder and the text, and make the tokenizer; nothing but a copy of standard input is written yet."""
    if recipe.data.path is None:
        raise ConfigError("The recipe has no data.path; add data.path=FILE (a text file, glob, folder or -).")
    saved = run / "recipe.yaml"
    if resume and not saved.is_file():
        if not (run / LOCK).is_file():
            raise ConfigError(f"{run} holds no run to resume; leave out --resume to begin one.")
        resume = False
        say("the run was stopped before it began; beginning it")
    if not resume:
        check_unused(run)
    check_writable(run)
    check_language_model(recipe.model)
    recipe = replace(recipe, data=absolute(capture_stdin(recipe.data, run)))
    if resume:
        tokenizer, begun = Tokenizer.load(run / "tokenizer.json"), Recipe.parse(read_yaml(saved))
        recipe = recipe.with_vocabulary(tokenizer.vocab_size)
        check_same(recipe, begun, run)
        if recipe.train.precision == "auto":  # measured once: today's measurement could change the bits
            recipe = recipe.with_precision(begun.train.precision)
    else:
        tokenizer = train_tokenizer(recipe.tokenizer, texts_for_tokenizer(recipe.data))
        recipe = recipe.with_vocabulary(tokenizer.vocab_size)
    say(f"tokenizer: {tokenizer.kind}, {tokenizer.vocab_size:,} tokens")
    return Material(recipe, tokenizer, run)


def check_unused(run: Path) -> None:
    """Raise ConfigError if the folder holds a run or a model."""
    steps = Checkpoints(run).steps()
    if steps:
        raise ConfigError(f"{run} already holds a run at step {steps[-1]}; add --resume or choose another --run.")
    if (run / "model.safetensors").exists():
        raise ConfigError(f"{run} already holds a model; choose another --run.")
    if (run / LOCK).exists():  # a run that was stopped before its first checkpoint
        return
    for name in ("recipe.yaml", "tokenizer.json", "config.json", "generation_config.json", "README.md", *LOGS):
        if (run / name).exists():
            raise ConfigError(f"{run} already holds {name}, which training would replace; choose another --run.")


def check_language_model(model: ModelConfig) -> None:
    """Raise ConfigError unless the next token is what the model predicts."""
    if model.architecture != "decoder" or model.head != "lm":
        raise ConfigError(
            f"model.architecture={model.architecture!r} with model.head={model.head!r} is no language model, the only "
            "kind that `glassformer train` trains by now; use architecture decoder and head lm."
        )


def check_writable(run: Path) -> None:
    """Raise ConfigError if the folder cannot be made or written, before any work is done for it."""
    place = run.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"{place} is a file, not a folder; choose another --run.")
    if not os.access(place, os.W_OK):
        raise ConfigError(f"{place} cannot be written; choose another --run.")


def check_same(recipe: Recipe, saved: Recipe, run: Path) -> None:
    """Raise ConfigError if model, data, tokenizer, optimizer or seed differ from the run's own; others may change."""
    new, old = recipe.values(), saved.values()
    fixed = {"model": old["model"], "tokenizer": old["tokenizer"], "data": old["data"], "train": ("optimizer", "seed")}
    for section, keys in fixed.items():
        for key in keys:
            if new[section][key] != (value := old[section][key]):
                raise ConfigError(
                    f"{run} was trained with {section}.{key}={value!r}, not {new[section][key]!r}; "
                    "resume it with its own recipe or choose another --run."
                )


def absolute(data: DataConfig) -> DataConfig:
    """The same files by absolute paths, so that the run can be used from any folder."""
    base = Path(data.root or ".").expanduser().absolute()

    def placed(path: str | list[str] | None) -> str | list[str] | None:
        if isinstance(path, list):
            return [str(placed(part)) for part in path]
        return path if path is None or path.startswith("builtin:") else str(base / Path(path).expanduser())

    changed = {field: placed(getattr(data, field)) for field in ("path", "validation_path", "test_path")}
    store = None if data.store is None else str(base / Path(data.store).expanduser())
    return data.model_copy(update={**changed, "store": store, "root": None})


def export(
    model: Transformer, recipe: Recipe, tokenizer: Tokenizer, run: Path, step: int, scores: dict[str, float]
) -> None:
    """Write the model itself into the run folder: weights, configuration, generation defaults, card."""
    with writing(run):
        save_weights(model, run / "model.safetensors")
        write_json(run / "config.json", config_json(model.config))
        write_json(run / "generation_config.json", recipe.generate.model_dump(mode="json"))
        write_text(run / "README.md", card(model, recipe, tokenizer, run, step, scores))


def is_exported(run: Path, checkpoint: Path) -> bool:
    """True if the run folder holds the model of a checkpoint, whole."""
    weights, others = run / "model.safetensors", ("config.json", "generation_config.json", "README.md")
    try:
        return all((run / name).is_file() for name in others) and digest(weights) == digest(checkpoint / weights.name)
    except OSError:
        return False


def card(
    model: Transformer, recipe: Recipe, tokenizer: Tokenizer, run: Path, step: int, scores: dict[str, float]
) -> str:
    """A model card: what it is, from what, how good, how to use it."""
    config, train = model.config, recipe.train
    paths = recipe.data.path if isinstance(recipe.data.path, list) else [str(recipe.data.path)]
    rows = [f"| {key.replace('_', ' ')} | {_number(value)} |" for key, value in scores.items()]
    results = "\n".join(["| score | value |", "| --- | --- |", *rows] if rows else ["There was no validation text."])
    return f"""---
library_name: glassformer
pipeline_tag: text-generation
tags: [glassformer, transformer, {config.architecture}]
---

# {run.name}

A {config.architecture} Transformer with {model.n_parameters:,} parameters ({config.n_layers} layers,
{config.d_model} wide, {config.n_heads} heads, context {config.max_length}), trained from random weights.

- **Data**: {", ".join(f"`{Path(path).name}`" for path in paths)}
- **Tokenizer**: {tokenizer.kind}, {tokenizer.vocab_size:,} tokens
- **Training**: step {step:,} of {train.steps:,}, {train.batch_size} x {train.length or config.max_length} tokens
  a step, {train.optimizer}, seed {train.seed}; every field is in `recipe.yaml`
- **Made with**: glassformer {__version__}

## Evaluation on the validation split

{results}

## Use

```
glassformer generate {run} --prompt "..."
glassformer evaluate {run}
```

## Limits

The model repeats the patterns of its training text, its errors and prejudices included; what it writes is not checked.
"""


def _number(value: int | float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"
