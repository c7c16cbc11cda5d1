"""Toy data of tags, classes and running text, and small recipes for them; see small_runs for what
they share."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from glassformer.models.config import ModelConfig
from glassformer.processors.config import ModelFacts
from glassformer.processors.documents import DocumentsProcessor
from glassformer.processors.pairs import PairsProcessor
from glassformer.processors.text import TextProcessor, WordsProcessor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.processors.tokens.text_reader import TextReader
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.predictors.embed import Embed
from glassformer.tokenizers.text import Tokenizer
from small_runs import flat, overlaid, values

LETTERS = "abcdefgh"


def words(draw: random.Random, least: int = 2, most: int = 9) -> list[str]:
    return [draw.choice(LETTERS) for _ in range(draw.randint(least, most))]


def next_tags(sentence: Sequence[str]) -> list[str]:
    """The tag of a word tells in which half of the alphabet the next word is: nothing before it
    knows."""
    following = [
        "END" if word is None else "LOW" if word in "abcd" else "HIGH"
        for word in (*sentence[1:], None)
    ]
    return following


def slash(sentence: Iterable[str], tags: Iterable[str]) -> str:
    return " ".join(f"{word}/{tag}" for word, tag in zip(sentence, tags, strict=True)) + "\n"


def tag_file(
    folder: Path, n: int = 60, seed: int = 0, name: str = "tags.txt", least: int = 2, most: int = 9
) -> str:
    draw = random.Random(seed)
    sentences = [words(draw, least, most) for _ in range(n)]
    (folder / name).write_text(
        "".join(slash(sentence, next_tags(sentence)) for sentence in sentences)
    )
    return str(folder / name)


def json_file(folder: Path, name: str, rows: Iterable[tuple[Any, Any]]) -> str:
    """Texts (or lists of words) with labels (or tags), as JSON lines."""
    (folder / name).write_text(
        "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    )
    return str(folder / name)


def order_label(sentence: Sequence[str]) -> str:
    """Which of a and b comes first."""
    return min("ab", key=[*sentence, "a", "b"].index)


def two_labels(sentence: Sequence[str]) -> list[str]:
    """Two rules that have nothing to do with each other; a text may follow both or none."""
    return [name for name, so in (("h", "h" in sentence), ("low", sentence[0] in "abcd")) if so]


def class_file(
    folder: Path, n: int = 60, seed: int = 0, label=order_label, name: str = "classes.jsonl"
) -> str:
    draw = random.Random(seed)
    texts = [words(draw) for _ in range(n)]
    return json_file(folder, name, [(" ".join(text), label(text)) for text in texts])


ONCE = {"evaluate.every": 8, "save.every": 8}
"""Saving takes longer than all the rest of a small run."""


def merged(
    folder: Path, own: dict[str, dict[str, Any]], changes: dict[str, dict[str, Any]]
) -> Recipe:
    return Recipe.parse(values(folder, **overlaid(own, changes)))


def tag_recipe(folder: Path, **changes: Any) -> Recipe:
    path = flat(changes).get("data.train.path") or tag_file(folder)
    own = {
        "model": {"architecture": "encoder", "head": "tag"},
        "data": {"train.path": path, "format": "slash"},
        "processor.tokenizer": {"kind": "word"},
        "train": ONCE,
    }
    return merged(folder, own, changes)


def class_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    path = flat(changes).get("data.train.path") or class_file(folder)
    own = {
        "model": {"architecture": "encoder", "head": "classify", "pool": "mean"},
        "data": {"train.path": path},
        "processor.tokenizer": {"kind": "word"},
        "train": ONCE,
    }
    return merged(folder, own, changes)


def masked_recipe(folder: Path, **changes: dict[str, Any]) -> Recipe:
    return merged(
        folder, {"model": {"architecture": "encoder", "head": "masked_lm"}, "train": ONCE}, changes
    )


LEARNING = {
    "steps": 60,
    "batch_size": 32,
    "schedule.warmup_steps": 5,
    "optimizer.learning_rate": 0.01,
    "optimizer.weight_decay": 0.0,
    "evaluate.every": 60,
    "evaluate.batches": None,
    "save.every": 60,
}
"""What learns a toy in a second."""


def embedder(model: Any, reader: TextReader) -> Embed:
    """Vectors by a reader, of a task that says nothing else."""
    processor = SimpleNamespace(medium="", reader=reader)
    recipe = SimpleNamespace(model=model.config, processor=SimpleNamespace(vectors=None))
    task: Any = SimpleNamespace(processor=processor, recipe=recipe)
    return Embed(model, task)


def embed(
    model: Any, reader: TextReader, texts: Sequence[str], pool: str = "mean", **options: Any
) -> np.ndarray:
    """The vectors of texts by a reader."""
    predictor = embedder(model, reader)
    _, found = predictor.predict_given(texts, {"pool": pool, **options})
    return predictor.gather([one.value for one in found])


def reader_of(config: ModelConfig, tokenizer: Tokenizer, prefix: str = "") -> TextReader:
    """How the usual processor of a model reads a text for its vector; `prefix`: before a source."""
    facts = ModelFacts.of(config)
    if config.is_encoder_decoder:
        return PairsProcessor(PairTokenizer(tokenizer, tokenizer, prefix), facts).reader
    usual = {"lm": DocumentsProcessor, "masked_lm": DocumentsProcessor, "tag": WordsProcessor}
    return usual.get(config.head, TextProcessor)(tokenizer, facts).reader
