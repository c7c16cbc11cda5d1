"""Classification: texts, or pairs of texts, to a class for each, or to any number of classes (Note
D: one for all)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.data.example import Example
from glassformer.data.labelled import Labelled, labelled
from glassformer.errors import DataError, counted
from glassformer.generate.classify import Text, classify
from glassformer.losses import LossSum, binary_cross_entropy, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.processors.sequence import SequenceTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.class_scores import scores_of
from glassformer.tasks.examples import Classes, ExampleTask, by_split, split_of
from glassformer.tasks.task import Card, Sample
from glassformer.tokenizers.text import Tokenizer
from glassformer.tokenizers.train import train_tokenizer

SHOWN = 5


class ClassificationTask(ExampleTask[Labelled]):
    """A class for each text, or several."""

    def __init__(self, recipe: Recipe, run: Path, begun: bool):
        """`begun`: the run has its tokenizer; otherwise it is made from the training texts."""
        self._run = run
        self._splits = by_split(labelled(recipe.data))
        train = split_of(self._splits, "train")
        texts = (side for text in train for side in (text.text, text.pair) if side)
        self.tokenizer = (
            Tokenizer.load(run / "tokenizer.json")
            if begun
            else train_tokenizer(recipe.tokenizer, texts)
        )
        self._counts = Counter(chain.from_iterable(text.labels for text in train))
        recipe = recipe.with_vocabulary(self.tokenizer.vocab_size)
        self.recipe = recipe.with_classes(sorted(self._counts))
        self.classes = Classes(self.recipe.model.classes)
        self.sequences = SequenceTokenizer(
            self.tokenizer, recipe.train.length or recipe.model.max_length, recipe.data.overlap
        )
        self._long = 0

    @staticmethod
    def training_texts(recipe: Recipe) -> Iterator[str]:
        """What the tokenizer is made from."""
        texts = (text for text in labelled(recipe.data) if text.split == "train")
        return (side for text in texts for side in (text.text, text.pair) if side)

    def store(self) -> None:
        """See `Task`. DataError: a training class that `model.classes` lacks, or only one.
        ConfigError: weights."""
        for text in self.split("train"):
            self.classes.check(text.labels, text.where)
        for name in self._splits:
            self.split(name)
        if len(names := self.classes.names) < 2 and not self.recipe.model.multi_label:
            only = ", ".join(names)
            raise DataError(
                f"every training text is of the class {only!r}; give texts of at least two classes"
            )
        _ = self._weights, self._batches  # refused before anything is written
        self.tokenizer.save(self._run / "tokenizer.json")

    def split(self, name: str) -> list[Labelled]:
        """The texts of a split; DataError if it has none, or one of them several classes where one
        is asked."""
        texts = super().split(name)
        for text in texts:
            if len(text.labels) != 1 and not self.recipe.model.multi_label:
                several = counted(len(text.labels), "label")
                raise DataError(
                    f"{text.where} has {several}, not one; mend it or set model.multi_label=true"
                )
        return texts

    def _examples(self) -> list[Example]:
        token_type_ids = self.recipe.model.n_token_types > 1
        examples: list[Example] = []
        for text in self.split("train"):
            parts = self.sequences.sequences(text.text, text.pair)
            self._long += len(parts) > 1
            targets = self._targets(text)
            examples += [
                Example(
                    part.ids,
                    targets,
                    token_type_ids=part.token_type_ids if token_type_ids else None,
                )
                for part in parts
            ]
        return examples

    def _targets(self, text: Labelled) -> np.ndarray:
        numbers = self.classes.numbers(text.labels)
        if not self.recipe.model.multi_label:
            return numbers
        targets = np.zeros((1, len(self.classes.names)), np.int64)
        targets[0, numbers] = 1
        return targets

    def opening(self) -> list[str]:
        """See `Task`."""
        names, batches = self.classes.names, self._batches
        common = ", ".join(f"{name} {n:,}" for name, n in self._counts.most_common(8))
        sentences = [
            f"tokenizer: {self.tokenizer.kind}, {self.tokenizer.vocab_size:,} tokens",
            batches.described(self.recipe.train.steps, "texts"),
            f"{len(names)} classes, the most frequent: {common}",
        ]
        if self._long:
            sentences.append(
                f"{counted(self._long, 'text')} longer than the model are read by overlapping "
                f"windows"
            )
        return sentences

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """See `Task`."""
        weights = self.weights(logits.device)
        loss = binary_cross_entropy if self.recipe.model.multi_label else cross_entropy
        return loss(logits, targets, self.recipe.train.label_smoothing, weights)

    def split_scores(
        self, model: Transformer, split: str, precision: torch.dtype = torch.float32
    ) -> dict[str, Any]:
        """Scores of a whole split by its name."""
        return class_scores(model, self.sequences, self.split(split), precision)

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`: the first validation (else training) texts and their classes."""
        if not self.recipe.train.sample_tokens:
            return None
        shown = self.split("validation" if self.validated else "train")[:SHOWN]
        rows = []
        for text, probabilities in zip(
            shown, classify(model, self.sequences, _texts(shown)), strict=True
        ):
            best = int(probabilities.argmax())
            found = {
                "predicted": self.classes.names[best],
                "probability": float(probabilities[best]),
            }
            rows.append({"text": _shown(text), "class": ", ".join(text.labels), **found})
        lines = "\n".join(
            f"{row['predicted']} ({row['probability']:.0%})  {row['text'][:80]}" for row in rows
        )
        return Sample(lines, {"samples": rows})

    def card(self) -> Card:
        """See `Task`."""
        return self.card_of(
            "text-classification",
            "texts",
            f"glassformer classify {self._run} < lines\nglassformer evaluate {self._run}",
        )


def class_scores(
    model: Transformer,
    sequences: SequenceTokenizer,
    texts: Sequence[Labelled],
    precision: torch.dtype = torch.float32,
) -> dict[str, Any]:
    """Scores of a model's classes of texts; see `scores_of`."""
    rows = zip(texts, classify(model, sequences, _texts(texts), precision), strict=True)
    return scores_of(model, ((row, text.labels, _shown(text)) for text, row in rows))


def _texts(texts: Sequence[Labelled]) -> list[Text]:
    return [text.text if text.pair is None else (text.text, text.pair) for text in texts]


def _shown(text: Labelled) -> str:
    return (text.text if text.pair is None else f"{text.text} / {text.pair}")[:400]
