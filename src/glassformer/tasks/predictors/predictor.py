"""Predictors: what a model is used for, and predictions, which show themselves.

given ──parse──> Parsed: sequences ──predict──> Prediction ──> line, columns, JSON

A given is what a user gives: a text, a file, parts. A verb is the name of a predictor: the command,
the route and the method of a run have this name.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch

from glassformer.core.errors import ConfigError, one_line
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import cell_text
from glassformer.recipe.train import Metric
from glassformer.tasks.options import OPTIONS, Options
from glassformer.tasks.task import Task

WHOLE = 1 << 15
"""Elements of a step where no one else waits: enough to pack well, few enough to stay in memory."""
ALL = 1 << 62
"""Elements of a step that computes all inputs."""
STEP = 1024
"""Elements of a step between which other requests get their next token."""
Chosen = TypeVar("Chosen", bound=Options)


@dataclass(frozen=True)
class Prediction(ABC):
    """The answer of a model to one input."""

    between: ClassVar[str | None] = None
    """A line between two predictions in a text."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """The value that the verb of a run returns."""
        ...

    @abstractmethod
    def line(self) -> str:
        """The prediction as a pipe prints it, without the end of the line."""
        ...

    def cell(self) -> str:
        """The prediction as a line of a file of lines."""
        return self.line()

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """Plain values, as of --json and of a reply."""
        ...

    def columns(self) -> dict[str, Any]:
        """New columns of a row of a table."""
        return self.json()

    def picture(self) -> np.ndarray | None:
        """An image to look at, uint8 [H, W, 3]; None: there is none."""
        return None


@dataclass(frozen=True)
class Parsed:
    """An input that was read: its sequences, and what its prediction needs beside them."""

    given: Any
    windows: Sequence[Example]
    """(): nothing is computed of a blank input."""
    about: Any = None
    number: int = 1
    """Its place among the inputs, from 1."""
    note: str = ""
    """A sentence for the user."""


class Predictor(ABC, Generic[Chosen]):
    """One use of a model: inputs of a kind in, predictions out."""

    name: ClassVar[str]
    """The verb."""
    inputs: ClassVar[tuple[str, ...]] = ()
    """Inputs that it reads; (): all of its task's."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Scores of its predictions by which the best model may be chosen."""
    noun: ClassVar[str] = "Line"
    """Name of an input in an error, before its number."""
    together: int = 256
    """Inputs that a command computes together, if they are there already."""
    whole: ClassVar[int] = WHOLE
    """Elements of a step where no one else waits."""
    has_lines: ClassVar[bool] = True
    """Whether a prediction has a line; else a command prints JSON."""
    lines: ClassVar[bool] = True
    """Whether each line of standard input is an input; else all of it is one."""
    streams: ClassVar[bool] = False
    """Whether `stream` exists, and a terminal shows texts as they grow."""
    continues: ClassVar[bool] = False
    """Whether a text continues its prompt."""
    routes: ClassVar[tuple[str, ...]] = ()
    """Routes of the HTTP API, below /v1/, that it answers."""
    first: ClassVar[str] = ""
    """The prompt where none is given."""
    reply: ClassVar[Mapping[str, Any]] = {}
    """JSON schema of each value of a prediction."""

    def __init__(self, model: Transformer, task: Task, precision: torch.dtype = torch.float32):
        self.model, self.task, self.precision = model, task, precision
        self.processor = task.processor

    @classmethod
    def misfit(cls, task: Task) -> tuple[str, str] | None:
        """Why a task has no such predictor, in a clause, and how a sentence continues; None: it
        has."""
        return None

    def check(self, options: Chosen) -> None:
        """Raise ConfigError for a choice that does not fit the model."""
        return

    def resize(self, batch_size: int) -> None:
        """Compute this many inputs together."""
        self.together = batch_size

    def about(self, prompt: str, files: Mapping[str, Any]) -> Any:
        """The input of a prompt and files beside it; ConfigError: the model reads no files."""
        if files:
            raise ConfigError(
                f"{self.task.folder} reads text alone, not {' and '.join(files)}; leave out the "
                "others."
            )
        return prompt

    def several(self, given: Any) -> tuple[bool, list[Any]]:
        """Whether one input was given, and not a list of inputs; all of them."""
        return self.processor.one_or_several(given)

    def from_values(self, values: Sequence[Any], where: str) -> Any:
        """Return the input in a line, or in these columns of a row; None: they are empty."""
        return self.processor.from_values(values, where)

    @property
    def data(self) -> DataConfig:
        """Return the settings for reading a table."""
        return self.task.recipe.data

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Settings of data that name the columns of an input in a table."""
        return self.processor.input_columns

    def values(self, given: Any) -> dict[str, Any]:
        """An input as plain values beside its prediction."""
        return self.processor.to_values(given)

    def check_files(self, names: Sequence[str] | None) -> None:
        """Raise ConfigError for names of files where lines are read."""
        if names and self.processor.tokenizer:
            raise ConfigError(
                f"{self.task.folder} reads lines that hold a {self.processor.noun} each, and "
                f"{names[0]} is given as a file; give lines: < {names[0]}."
            )

    def beside(self, line: str, given: Any) -> str | None:
        """Text after a prediction in its line: of a file, a TAB and its name.

        None: the prediction is not printed, as that of an empty line between names of files.
        """
        if self.processor.tokenizer:
            return ""
        return None if given is None else f"\t{one_line(line)}"

    @abstractmethod
    def parse(
        self, given: Any, options: Chosen, where: str = "The input", number: int = 1
    ) -> Parsed:
        """Read an input; None is a blank one. DataError, ConfigError: it is no such input."""
        ...

    @abstractmethod
    def predict(
        self, inputs: Iterable[Parsed], options: Chosen, elements: int
    ) -> Iterator[Prediction | None]:
        """Return the prediction of each input in order, and None after each step of computation.

        A step has about this many `elements`.
        """
        ...

    def stream(self, one: Parsed, options: Chosen) -> Iterator[Any]:
        """Yield the text as it grows; ConfigError: no text is written."""
        raise self.task.refusal("streaming text")

    def record(self, one: Parsed, options: Chosen, watch: Any) -> Any:
        """Return a text with a record of each step; ConfigError: no text is written."""
        raise self.task.refusal("recording text")

    def predict_each(
        self, inputs: Iterable[Any], options: Chosen, elements: int | None = None
    ) -> Iterator[Any]:
        """Parse inputs, and return the prediction of each in order."""
        parsed = (
            self.parse(one, options, f"{self.noun} {n}", n) for n, one in enumerate(inputs, 1)
        )
        return filter(None, self.predict(parsed, options, elements or self.whole))

    def predict_given(self, given: Any, changes: Mapping[str, Any]) -> tuple[bool, list[Any]]:
        """Return whether one input was given, and not a list of inputs, and all predictions.

        ConfigError: unknown choices, or such as do not fit the model.
        """
        options: Any = OPTIONS[self.name].parse(changes)
        self.check(options)
        single, inputs = self.several(given)
        return single, list(self.predict_each(inputs, options))

    def gather(self, values: Sequence[Any]) -> Any:
        """The values of several predictions, as the verb of a run returns them."""
        return list(values)

    def columns(self, options: Chosen) -> tuple[str, ...]:
        """Names of the columns of a prediction, known before the first row."""
        return tuple(self.reply)

    @classmethod
    def schema(cls, task: Task) -> dict[str, Any]:
        """JSON schema of a prediction."""
        return {"type": "object", "properties": cls.reply, "required": list(cls.reply)}


class OfText(Predictor[Chosen]):
    """A predictor whose inputs are texts."""

    given: ClassVar[str] = "text"
    """Name of an input beside its prediction."""

    def several(self, given: Any) -> tuple[bool, list[Any]]:
        """See `Predictor`: anything that can be iterated is a list."""
        single = isinstance(given, str) or not isinstance(given, Iterable)
        return single, [given] if single else list(given)

    def from_values(self, values: Sequence[Any], where: str) -> Any:
        """See `Predictor`: an empty line is an empty text."""
        return "" if values[0] is None else cell_text(values[0], where)

    def values(self, given: Any) -> dict[str, Any]:
        """See `Predictor`: the text by the name `given`."""
        return {self.given: given}


def check_text(given: Any) -> str:
    """Return a text; ConfigError: it is something else."""
    if not isinstance(given, str):
        raise ConfigError(f"A text or a list of texts is needed, not {str(given)[:60]!r}.")
    return given
