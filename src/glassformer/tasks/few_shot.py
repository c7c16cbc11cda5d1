"""Zero- and few-shot prompts: labelled examples before a text, and the likeliest label as its
answer.

    Text: what a film
    Label: good

    Text: I slept
    Label:              log p(good | ...), log p(bad | ...)
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.errors import ConfigError, DataError
from glassformer.core.random_stream import epoch_key, permute
from glassformer.data.config import DataConfig
from glassformer.data.records.labelled import Labelled, labelled
from glassformer.data.sources import resolve
from glassformer.data.tables import input_table
from glassformer.data.usual_columns import columns_of, with_usual_columns
from glassformer.metrics.baselines import commonest
from glassformer.metrics.comparison import judged
from glassformer.models.transformer import Transformer
from glassformer.tasks.task import Task

TEMPLATE = "Text: {text}\nLabel: {label}"
PAIR_TEMPLATE = "Text: {text}\nSecond text: {pair}\nLabel: {label}"
BETWEEN = "\n\n"
"""Between two examples of a prompt."""
TOGETHER = 64
"""Texts whose prompts are in memory at once."""
Asked = tuple[str, str | None]
"""A text, and its second text."""
COLUMNS = ("text_field", "pair_field", "label_field")
FORMATS = ("jsonl", "csv", "tsv", "parquet")


@dataclass(frozen=True)
class Chosen:
    """The likeliest label of a text, and for all labels log p in nats and p among them.

    `by_length`: the label whose log p divided by its number of characters is largest.
    """

    label: str
    by_length: str
    log_probs: dict[str, float]
    probabilities: dict[str, float]


@dataclass(frozen=True)
class FewShot:
    """A language model that answers with one of some labels, asked by prompts with examples.

    The template has {text}, {pair} for the second text of a pair, and {label} at its end. Equal to
    the accuracy (`accuracy`) and the one normalized by length (`accuracy_norm`) of evaluation
    harnesses.
    """

    model: Transformer
    task: Task
    labels: tuple[str, ...]
    shots: tuple[Labelled, ...] = ()
    template: str = TEMPLATE

    @classmethod
    def of(
        cls,
        model: Transformer,
        task: Task,
        examples: Sequence[Labelled],
        n: int = 5,
        template: str | None = None,
        seed: int | None = None,
    ) -> "FewShot":
        """With `n` of these examples as shots, as many of each label as there can be: the first, or
        any by a `seed`. Their labels are the answers.

        ConfigError: another template, another task, or fewer than two labels.
        """
        labels = tuple(dict.fromkeys(one.labels[0] for one in examples if one.labels))
        if len(labels) < 2:
            raise ConfigError(
                f"The examples have {len(labels)} label(s), and an answer is chosen among labels; "
                "give examples of at least two."
            )
        paired = any(one.pair is not None for one in examples)
        form = template or (PAIR_TEMPLATE if paired else TEMPLATE)
        named = sorted(re.findall(r"\{(text|pair|label)\}", form))
        if named != ["label", *(["pair"] if paired else []), "text"] or form[-7:] != "{label}":
            fields = "{text}, {pair}" if paired else "{text}"
            raise ConfigError(
                f"The template {form!r} needs {fields} and {{label}} once each, {{label}} at its "
                "end."
            )
        shots = balanced(examples, labels, n, seed)
        made = cls(model, task, labels, tuple(examples[i] for i in shots), form)
        made.task.likelihoods(model, [])  # another task is refused before any work
        return made

    def prompt(self, text: str, pair: str | None = None) -> str:
        """The shots and the text, up to its label."""
        asked = self._filled(text, pair, "").removesuffix(" ")
        shots = (self._filled(one.text, one.pair, one.labels[0]) for one in self.shots)
        return BETWEEN.join([*shots, asked])

    def _filled(self, text: str, pair: str | None, label: str) -> str:
        of = {"text": text, "pair": pair or "", "label": label}
        return re.sub(r"\{(text|pair|label)\}", lambda found: of[found[1]], self.template)

    def fitting(self, texts: Sequence[Asked]) -> "FewShot":
        """The same with as many shots as fit into the model beside the longest of these texts."""
        if not texts:
            return self
        room = lambda of, text: min(
            self.task.room(self.model, of.prompt(*text), answer) for answer in of.answers
        )
        bare = replace(self, shots=())
        longest = min(texts, key=lambda text: room(bare, text))
        made = self
        while made.shots and room(made, longest) < 0:
            made = replace(made, shots=made.shots[:-1])
        return made

    @property
    def answers(self) -> tuple[str, ...]:
        """The labels as they continue a prompt."""
        space = " " if self.template.endswith(" {label}") else ""
        return tuple(f"{space}{label}" for label in self.labels)

    def choose(self, texts: Sequence[Asked]) -> list[Chosen]:
        """The label of each text (and its second text); ConfigError: a prompt that does not fit."""
        parts = (texts[at : at + TOGETHER] for at in range(0, len(texts), TOGETHER))
        return [one for part in parts for one in self._chosen(part)]

    def _chosen(self, texts: Sequence[Asked]) -> list[Chosen]:
        prompts = [self.prompt(*text) for text in texts]
        pairs = [(prompt, answer) for prompt in prompts for answer in self.answers]
        found = [one.log_prob for one in self.task.likelihoods(self.model, pairs)]
        rows = np.array(found).reshape(len(texts), len(self.labels))
        lengths = np.array([len(label) for label in self.labels])
        shares = np.exp(rows - np.logaddexp.reduce(rows, 1, keepdims=True))
        return [
            Chosen(
                self.labels[row.argmax()],
                self.labels[(row / lengths).argmax()],
                dict(zip(self.labels, row.tolist(), strict=True)),
                dict(zip(self.labels, share.tolist(), strict=True)),
            )
            for row, share in zip(rows, shares, strict=True)
        ]

    def evaluate(self, rows: Sequence[Labelled]) -> dict[str, Any]:
        """Accuracy over labelled texts, beside that of their most frequent label; a label that no
        example has is never right."""
        made = self.fitting([(row.text, row.pair) for row in rows])
        found = made.choose([(row.text, row.pair) for row in rows])
        gold = [row.labels[0] for row in rows]
        counts = Counter(gold)
        share = lambda chosen: sum(map(str.__eq__, chosen, gold)) / len(gold)
        scores: dict[str, Any] = {
            "examples": len(rows),
            "shots": len(made.shots),
            "accuracy": share([one.label for one in found]),
            "accuracy_norm": share([one.by_length for one in found]),
        }
        if unseen := {name: n for name, n in counts.items() if name not in self.labels}:
            scores["unseen_classes"] = unseen
        majority = counts[commonest(counts) or ""] / len(gold)
        learned = {"metric": "accuracy", "scores": {"majority_class": {"accuracy": majority}}}
        return scores | {"baselines": judged(learned, scores)}


def balanced(
    examples: Sequence[Labelled], labels: Sequence[str], n: int, seed: int | None = None
) -> list[int]:
    """The numbers of `n` examples, one of each label after another."""
    order = np.arange(len(examples))
    if seed is not None:
        order = permute(order, max(1, len(examples)), epoch_key(seed, 0))
    of = {
        label: [i for i in order.tolist() if examples[i].labels[:1] == (label,)] for label in labels
    }
    rounds = max(map(len, of.values()), default=0)
    return [own[turn] for turn in range(rounds) for own in of.values() if turn < len(own)][:n]


def examples_of(path: str | Path) -> list[Labelled]:
    """The labelled texts of a table with its usual columns; DataError: it has none of them."""
    config = _config(path)
    rows = [row for row in labelled(config)]
    if wrong := next((row for row in rows if len(row.labels) != 1), None):
        raise DataError(f"{wrong.where} has {len(wrong.labels)} labels, not one; mend it")
    return rows


def texts_of(path: str | Path) -> list[Asked]:
    """The texts of a table without labels, each with its second text if the table has one."""
    config = _config(path)
    settings = COLUMNS[: 1 if config.pair_field is None else 2]
    rows = [row.values for row in input_table(resolve(str(path), config)[0], settings).rows()]
    return [(str(text or ""), None if not pair else str(pair[0] or "")) for text, *pair in rows]


def is_labelled(path: str | Path) -> bool:
    """Whether a table has a column of labels."""
    config = _config(path)
    return config.label_field in columns_of(resolve(str(path), config)[0])


def _config(path: str | Path) -> DataConfig:
    splits = {"train": {"path": str(path)}, "validation": {"fraction": 0.0}}
    config = DataConfig.parse(splits)
    for source in resolve(str(path), config):
        if source.kind not in FORMATS:
            raise DataError(
                f"{source.path} is no table of texts with labels; give .jsonl, .csv, .tsv or "
                ".parquet with the columns text and label"
            )
    return with_usual_columns(config, COLUMNS)[0]
