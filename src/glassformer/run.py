"""A trained model, opened for use: one folder, one object, the same verbs as the command line.

    run = gf.load("runs/demo-lm")
    run.generate("The", max_new_tokens=50)

Knows: run folders and everything below. Does not know: the command line, servers.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.batches import evaluation_batches
from glassformer.data.config import DataConfig
from glassformer.data.store import Split, TokenStore
from glassformer.errors import CheckpointError, ConfigError
from glassformer.generate import GenerateConfig, Generated, generate, score, stream
from glassformer.generate.text import Delta
from glassformer.models.transformer import Transformer
from glassformer.models.weights import load_model
from glassformer.tokens.text import Tokenizer
from glassformer.train.device import find_device
from glassformer.train.evaluate import evaluate
from glassformer.train.loop import train as train_run
from glassformer.train.recipe import Recipe, read_recipe, read_yaml


@dataclass(frozen=True)
class TokenScore:
    """One token of a scored text: its piece and log p in nats (None for the first, which nothing predicts)."""

    piece: str
    log_prob: float | None


@dataclass
class Run:
    """A model with its tokenizer, and the recipe it was trained with if the folder has one."""

    folder: Path
    model: Transformer
    tokenizer: Tokenizer
    recipe: Recipe | None = None

    def options(self, **changes: Any) -> GenerateConfig:
        """The run's generation defaults with changes; unknown names and bad values are ConfigErrors."""
        base = self.recipe.generate.model_dump() if self.recipe else {}
        return GenerateConfig.parse({**base, **changes})

    def generate(self, prompt: str | Sequence[str], **changes: Any) -> Any:
        """The new text for a prompt (str to str), or for each of a list of prompts (list to list)."""
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        texts = [result.text for result in self.generated(prompts, self.options(**changes))]
        return texts[0] if isinstance(prompt, str) else texts

    def generated(self, prompts: Sequence[str], config: GenerateConfig) -> list[Generated]:
        """Texts with token ids, log-probabilities and why each ended."""
        return generate(self.model, self.tokenizer, prompts, config)

    def stream(self, prompt: str, **changes: Any) -> Iterator[Delta]:
        """The new text for a prompt as it grows."""
        return stream(self.model, self.tokenizer, [prompt], self.options(**changes))

    def score(self, text: str) -> list[TokenScore]:
        """The log-probability of each token of a text, given those before it."""
        ids = self.tokenizer.encode(text).tolist()
        log_probs = [None, *score(self.model, ids)]
        return [TokenScore(self.tokenizer.piece(i), p) for i, p in zip(ids, log_probs, strict=True)]

    def evaluate(
        self, split: str = "validation", data: str | None = None, batch_size: int | None = None
    ) -> dict[str, Any]:
        """Loss, perplexity and bits per byte over a whole split of the run's own data, or over all of `data`."""
        part = self.tokens(split, data)
        size = batch_size or (self.recipe.train.batch_size if self.recipe else 16)
        batches = evaluation_batches(part, size, self.model.config.max_length)
        scores = evaluate(self.model, batches).result(part.n_bytes)
        return {"run": str(self.folder), "split": "all" if data else split, "data": data, **scores}

    def tokens(self, split: str, data: str | None = None) -> Split:
        """The tokens of a split of the run's own data, or of all of another text."""
        if data is None and self.recipe is None:
            raise ConfigError(f"{self.folder} has no recipe.yaml and so no data of its own; give --data PATH.")
        if data is None:
            assert self.recipe is not None
            return self._store(self.recipe.data, self.folder / "tokens").split(split)
        whole = DataConfig(path=data, validation_fraction=0.0)
        return self._store(whole, self.folder / "tokens-other").split("train")

    def _store(self, data: DataConfig, folder: Path) -> TokenStore:
        tokenizer = self.tokenizer
        return TokenStore.open_or_build(
            folder, tokenizer.encode, tokenizer.fingerprint, tokenizer.vocab_size, tokenizer.specials.get("eos"), data
        )


def load(folder: str | Path, device: str = "cpu") -> Run:
    """Open a run folder for use.

    Errors: CheckpointError if there is no whole model in it, ConfigError for a device that is not there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; give the folder of a run, for example runs/demo-lm.")
    model = load_model(folder, find_device(device))
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    if tokenizer.vocab_size > model.config.vocab_size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {tokenizer.vocab_size} tokens and its model {model.config.vocab_size}; "
            "they are of different runs."
        )
    recipe = folder / "recipe.yaml"
    return Run(folder, model, tokenizer, Recipe.parse(read_yaml(recipe)) if recipe.is_file() else None)


def train(
    recipe: str | Path, changes: dict[str, Any] | None = None, run: str | Path = "runs/last", resume: bool = False
) -> Run:
    """Train by a recipe file with changes such as {"train.steps": 200} in the folder `run`; returns it opened."""
    overrides = [f"{key}={json.dumps(value)}" for key, value in (changes or {}).items()]
    train_run(read_recipe(recipe, overrides), Path(run), resume)
    return load(run)
