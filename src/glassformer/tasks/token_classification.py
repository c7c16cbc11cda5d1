"""Tagging: sentences of words to a class for each word (Note D: one prediction per element)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.data.formats.tagged_words import words_text
from glassformer.data.tagged import Tagged, tagged
from glassformer.errors import ConfigError, DataError, counted
from glassformer.generate.tag import tag
from glassformer.losses import LossSum, cross_entropy
from glassformer.metrics.classes import TagScore
from glassformer.metrics.spans import SpanScore, invalid_count, scheme_of
from glassformer.metrics.worst import Worst
from glassformer.models.transformer import Transformer
from glassformer.processors.words import WordTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.examples import (
    LARGEST_TABLE,
    Classes,
    ExampleTask,
    by_split,
    class_names,
    split_of,
)
from glassformer.tasks.task import Card, Sample
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

SHOWN = 3


class TaggingTask(ExampleTask[Tagged]):
    """A tag for each word."""

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run has its tokenizer; otherwise it is made from the training sentences."""
        self._run = run
        self._splits = by_split(tagged(recipe.data))
        train = split_of(self._splits, "train")
        texts = (words_text(sentence.words) for sentence in train)
        self.tokenizer = (
            Tokenizer.load(run / "tokenizer.json")
            if begun
            else train_tokenizer(recipe.tokenizer, texts)
        )
        tags = set(chain.from_iterable(sentence.tags for sentence in train))
        self.recipe = recipe.with_vocabulary(self.tokenizer.vocab_size).with_classes(sorted(tags))
        self.classes = Classes(self.recipe.model.classes)
        self.words = WordTokenizer(self.tokenizer, self.length_limit, recipe.data.overlap)

    @staticmethod
    def training_texts(recipe: Recipe) -> Iterator[str]:
        """What the tokenizer is made from."""
        return (
            words_text(sentence.words)
            for sentence in tagged(recipe.data)
            if sentence.split == "train"
        )

    @property
    def length_limit(self) -> int:
        """Elements in a window."""
        return self.recipe.train.length or self.recipe.model.max_length

    def store(self) -> None:
        """See `Task`. DataError: a training tag that `model.classes` lacks, or only one.
        ConfigError: bad choices."""
        for sentence in self.split("train"):
            self.classes.check(sentence.tags, sentence.where)
        if len(names := self.classes.names) < 2:
            raise DataError(
                f"every training word has the tag {', '.join(names)!r}; give two or more (see "
                f"data.tag_field)"
            )
        if self.recipe.train.best == "f1" and not mark_spans(names):
            raise ConfigError(
                "train.best='f1' is of tags that mark spans, like B-PER; use accuracy, "
                "macro_f1 or loss."
            )
        _ = self._weights, self._batches  # refused before anything is written
        self.tokenizer.save(self._run / "tokenizer.json")

    def _examples(self) -> list[Example]:
        examples: list[Example] = []
        for sentence in self.split("train"):
            tags = self.classes.numbers(sentence.tags)
            for pieces in self.words.windows(sentence.words):
                examples.append(Example(pieces.ids, tags[pieces.begin : pieces.end], pieces.at))
        return examples

    def opening(self) -> list[str]:
        """See `Task`: also which scheme span tags follow, and how often they do not."""
        train, names = self.split("train"), self.classes.names
        long = sum(
            1 for s in train if sum(len(self.words.pieces(w)) for w in s.words) > self.words.room
        )
        tags = [sentence.tags for sentence in train]
        scheme = scheme_of(tags)
        sentences = [
            f"tokenizer: {self.tokenizer.kind}, {self.tokenizer.vocab_size:,} tokens",
            self._batches.described(self.recipe.train.steps, "sentences"),
            f"{len(names)} tags: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}",
        ]
        if scheme is not None:
            broken = invalid_count(tags, scheme)
            sentences.append(
                f"tags mark spans by {scheme.name}, with {counted(broken, 'violation')}"
            )
        if long:
            sentences.append(
                f"{counted(long, 'sentence')} longer than the model are read by overlapping windows"
            )
        return sentences

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        weights = self.weights(logits.device)
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing, weights)

    def split_scores(
        self, model: Transformer, split: str, precision: torch.dtype = torch.float32
    ) -> dict[str, Any]:
        """Scores of a whole split by its name."""
        return tag_scores(model, self.words, self.split(split), precision)

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first validation (else training) sentences with their tags, wrong ones
        beside the right."""
        if not self.recipe.train.sample_tokens:
            return None
        shown = self.split("validation" if self.validated else "train")[:SHOWN]
        lines = []
        for sentence, tags in zip(
            shown, tag(model, self.words, [s.words for s in shown]), strict=True
        ):
            found = [self.classes.names[i] for i in tags.classes[:, 0]]
            words = zip(sentence.words[:24], sentence.tags, found, strict=False)
            lines.append(
                " ".join(f"{w}/{f}" if f == t else f"{w}/{f}[not {t}]" for w, t, f in words)
            )
        text = "\n".join(lines)
        return Sample(text, {"sample": text})

    def card(self) -> Card:
        """See `Task`."""
        return self.card_of(
            "token-classification",
            "sentences",
            f"glassformer tag {self._run} < lines\nglassformer evaluate {self._run}",
        )


def tag_scores(
    model: Transformer,
    words: WordTokenizer,
    sentences: Sequence[Tagged],
    precision: torch.dtype = torch.float32,
) -> dict[str, Any]:
    """Scores of a model's tags: `loss`, `accuracy` and a table by class, of span tags `f1`,
    `precision`, `recall`.

    A tag that the model does not know is wrong, and counted by name in `unseen_classes`.
    """
    names = class_names(model)
    classes, score, span_score, worst = Classes(names), TagScore(names), SpanScore(), Worst()
    nats = known = 0.0
    unseen: Counter[str] = Counter()
    found = tag(model, words, (sentence.words for sentence in sentences), len(names), precision)
    for sentence, tags in zip(sentences, found, strict=True):
        gold, first = classes.numbers(sentence.tags), tags.classes[:, 0]
        unseen.update(
            t for t, number in zip(sentence.tags, gold.tolist(), strict=True) if number < 0
        )
        chances = np.where(tags.classes == gold[:, None], tags.probabilities, 0).sum(1)
        losses = -np.log(np.maximum(chances, 1e-30))[gold >= 0].astype(np.float64)
        nats, known = nats + float(losses.sum()), known + len(losses)
        predicted = [names[i] for i in first]
        score.add(gold, first)
        span_score.add(sentence.tags, predicted)
        if len(losses):
            worst.add(float(losses.mean()), _as_row(sentence, predicted))
    spans = mark_spans(names)
    return {
        "loss": nats / max(1, known),
        **score.result(),
        **(
            {name: value for name, value in span_score.result().items() if name != "macro_f1"}
            if spans
            else {}
        ),
        "table": span_score.table() if spans else score.table(),
        **(
            {}
            if len(names) > LARGEST_TABLE
            else {"confusion": {"names": list(names), "counts": score.confusion()}}
        ),
        "worst": worst.rows(),
        **({"unseen_classes": dict(unseen)} if unseen else {}),
    }


def mark_spans(names: Sequence[str]) -> bool:
    """Whether most of these tags mark spans."""
    return scheme_of([name] for name in names) is not None


def _as_row(sentence: Tagged, predicted: Sequence[str]) -> dict[str, Any]:
    wrong = [
        f"{word}: {tag}, not {gold}"
        for word, gold, tag in zip(sentence.words, sentence.tags, predicted, strict=True)
        if tag != gold
    ]
    return {"text": " ".join(sentence.words[:60]), "wrong": "; ".join(wrong[:12])}
