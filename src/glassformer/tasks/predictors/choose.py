"""`choose`: the likeliest label of a text, by prompts with labelled examples before it.

Text: what a film
Label: good

Text: I slept
Label:              log p(good | ...), log p(bad | ...)
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ConfigError, DataError, one_line
from glassformer.core.random_stream import epoch_key, permute
from glassformer.data.config import DataConfig
from glassformer.data.records.labelled import Labelled, read_labelled
from glassformer.data.sources import resolve
from glassformer.data.usual_columns import with_usual_columns
from glassformer.metrics.baselines import commonest
from glassformer.metrics.scores import judge
from glassformer.processors.processor import cell_text
from glassformer.tasks.options import ChooseOptions
from glassformer.tasks.predictors.predictor import WHOLE, Parsed, Prediction, Predictor
from glassformer.tasks.predictors.score import Score

TEMPLATE = "Text: {text}\nLabel: {label}"
PAIR_TEMPLATE = "Text: {text}\nSecond text: {pair}\nLabel: {label}"
BETWEEN = "\n\n"
"""Between two examples of a prompt."""
TOGETHER = 64
"""Texts whose prompts are in memory at the same time."""
Asked = tuple[str, str | None]
"""A text, and its second text."""
COLUMNS = ("text_field", "pair_field", "label_field")
FORMATS = ("jsonl", "csv", "tsv", "parquet")


@dataclass(frozen=True)
class Chosen(Prediction):
    """The likeliest label of a text, and for all labels log p in nats and p among them.

    `by_length`: the label whose log p divided by its number of characters is largest. `shots`: the
    number of examples before the text.
    """

    label: str | None = None
    by_length: str | None = None
    log_probs: dict[str, float] = field(default_factory=dict)
    probabilities: dict[str, float] = field(default_factory=dict)
    shots: int = 0

    @property
    def value(self) -> str | None:
        """Return the value that the verb of a run gives."""
        return self.label

    def line(self) -> str:
        """Return the prediction as a line."""
        if self.label is None:
            return ""
        return f"{self.probabilities[self.label]:.4f}\t{one_line(self.label)}"

    def json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"shots": self.shots} if self.label is None else dict(vars(self))

    def columns(self) -> dict[str, Any]:
        """Return the new columns of a row."""
        return {"label": self.label, "probability": self.probabilities.get(self.label or "")}


@dataclass(frozen=True)
class FewShot:
    """Prompts with examples, whose answer is the likeliest of some labels.

    The template has {text}, {pair} for the second text of a pair, and {label} at its end. Equal to
    the accuracy (`accuracy`) and the one normalized by length (`accuracy_norm`) of evaluation
    harnesses.
    """

    score: Score
    labels: tuple[str, ...]
    shots: tuple[Labelled, ...] = ()
    template: str = TEMPLATE

    def prompt(self, text: str, pair: str | None = None) -> str:
        """The shots and the text, up to its label."""
        last = self._fill(text, pair, "").removesuffix(" ")
        shots = (self._fill(one.text, one.pair, one.labels[0]) for one in self.shots)
        return BETWEEN.join([*shots, last])

    def _fill(self, text: str, pair: str | None, label: str) -> str:
        of = {"text": text, "pair": pair or "", "label": label}
        return re.sub(r"\{(text|pair|label)\}", lambda found: of[found[1]], self.template)

    def fitting(self, texts: Sequence[Asked]) -> "FewShot":
        """Return prompts with the shots that fit into the model beside the longest of texts."""
        if not texts:
            return self
        room = lambda of, text: min(
            self.score.room(of.prompt(*text), answer) for answer in of.answers
        )
        longest = min(texts, key=lambda text: room(replace(self, shots=()), text))
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
        return self.label([self.prompt(*text) for text in texts])

    def label(self, prompts: Sequence[str]) -> list[Chosen]:
        """The label of each prompt."""
        parts = (prompts[at : at + TOGETHER] for at in range(0, len(prompts), TOGETHER))
        return [one for part in parts for one in self._label_together(part)]

    def _label_together(self, prompts: Sequence[str]) -> list[Chosen]:
        pairs = [(prompt, answer) for prompt in prompts for answer in self.answers]
        found = [one.log_prob for one in self.score.likelihoods(pairs)]
        rows = np.array(found).reshape(len(prompts), len(self.labels))
        lengths = np.array([len(label) for label in self.labels])
        shares = np.exp(rows - np.logaddexp.reduce(rows, 1, keepdims=True))
        return [
            Chosen(
                self.labels[row.argmax()],
                self.labels[(row / lengths).argmax()],
                dict(zip(self.labels, row.tolist(), strict=True)),
                dict(zip(self.labels, share.tolist(), strict=True)),
                len(self.shots),
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
        return scores | {"baselines": judge(learned, scores)}


class Choose(Predictor[ChooseOptions]):
    """A label for each text, or pair of texts, with the shots that fit beside it."""

    name, inputs = "choose", ("documents", "messages", "pairs")
    reply: ClassVar = {"label": {"type": "string", "description": "the likeliest label"}}
    _known: tuple[Any, FewShot] | None = None
    """The last options, and the examples that they name."""

    def prompts(self, options: ChooseOptions) -> FewShot:
        """Return prompts with the examples that were named, balanced over labels: the first, or any
        by a seed. Their labels are the answers.

        ConfigError: no examples, another template, or fewer than two labels.
        """
        if self._known is None or self._known[0] is not options:
            self._known = options, self._prompts(options)
        return self._known[1]

    def _prompts(self, options: ChooseOptions) -> FewShot:
        if options.shots is None:
            raise ConfigError("choose: shots is missing, a table of labelled texts; name one.")
        examples = examples_of(options.shots)
        labels = tuple(dict.fromkeys(one.labels[0] for one in examples if one.labels))
        if len(labels) < 2:
            raise ConfigError(
                f"The examples have {len(labels)} label(s), and an answer is chosen among labels; "
                "give examples of at least two."
            )
        paired = any(one.pair is not None for one in examples)
        form = options.template or (PAIR_TEMPLATE if paired else TEMPLATE)
        form = form.replace("\\n", "\n").replace("\\t", "\t")
        named = sorted(re.findall(r"\{(text|pair|label)\}", form))
        if named != ["label", *(["pair"] if paired else []), "text"] or form[-7:] != "{label}":
            fields = "{text}, {pair}" if paired else "{text}"
            raise ConfigError(
                f"The template {form!r} needs {fields} and {{label}} once each, {{label}} at its "
                "end."
            )
        shots = balance(examples, labels, options.n_shots, options.seed)
        score = self.task.predictors["score"](self.model, self.task)
        return FewShot(score, labels, tuple(examples[i] for i in shots), form)

    def check(self, options: ChooseOptions) -> None:
        """See `Predictor`: the examples are read, which also say whether texts come in pairs."""
        self.prompts(options)

    @property
    def data(self) -> DataConfig:
        """See `Predictor`: the columns are those of the examples."""
        assert self._known is not None, "options are checked first"
        return _config(self._known[0].shots)

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Return the columns of a text, or of two."""
        return COLUMNS[: 1 if self.data.pair_field is None else 2]

    def several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Predictor`: a text, or a tuple of two."""
        single = isinstance(given, str | tuple)
        return single, [given] if single else list(given)

    def from_values(self, values: Sequence[Any], where: str) -> Any:
        """Return the text of a line or cell."""
        text, *pair = ("" if one is None else cell_text(one, where) for one in values)
        return (text, *pair) if pair else text

    def values(self, given: Any) -> dict[str, Any]:
        """Return the input as plain values."""
        own = [given] if isinstance(given, str) else given
        return dict(zip(("text", "pair"), own, strict=False))

    def parse(
        self, given: Any, options: ChooseOptions, where: str = "The input", number: int = 1
    ) -> Parsed:
        """Read an input; `about` has its prompt and its number of shots."""
        text, pair = (given, None) if isinstance(given, str) else given
        if not text.strip():
            return Parsed(given, ())
        every, note = self.prompts(options), ""
        own = every.fitting([(text, pair)])
        if len(own.shots) < len(every.shots):
            used = f"{len(own.shots)} of {len(every.shots)} shots"
            note = f"{used}, since no more fit into the model beside the text"
        return Parsed(given, (), (own.prompt(text, pair), len(own.shots)), number, note)

    def predict(
        self, inputs: Iterable[Parsed], options: ChooseOptions, elements: int = WHOLE
    ) -> Iterator[Chosen | None]:
        """Yield the prediction of each input, and None after each step."""
        every, inputs = self.prompts(options), list(inputs)
        found = iter(every.label([one.about[0] for one in inputs if one.about]))
        yield
        for one in inputs:
            known = replace(next(found), shots=one.about[1]) if one.about else None
            yield known or Chosen(shots=len(every.shots))

    def columns(self, options: ChooseOptions) -> tuple[str, ...]:
        """Return the new columns of a row."""
        return "label", "probability"


def balance(
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
    rows = [*read_labelled(_config(path))]
    if wrong := next((row for row in rows if len(row.labels) != 1), None):
        raise DataError(f"{wrong.where} has {len(wrong.labels)} labels, not one; mend it")
    return rows


def _config(path: str | Path) -> DataConfig:
    config = DataConfig.parse({"train": {"path": str(path)}, "validation": {"fraction": 0.0}})
    for source in resolve(str(path), config):
        if source.kind not in FORMATS:
            raise DataError(
                f"{source.path} is no table of texts with labels; give .jsonl, .csv, .tsv or "
                ".parquet with the columns text and label"
            )
    return with_usual_columns(config, COLUMNS)[0]
