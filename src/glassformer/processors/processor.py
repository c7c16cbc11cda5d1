"""Processors: a record of the data, or an input of a request, to examples and batches.

    record ──given──> input ──windows──> examples ──collate──> Batch
    input ──encode──> one batch with the name of each element (for looks)

A processor is fitted on records, or loaded from a run folder. It never knows what is predicted.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import ConfigError, DataError
from glassformer.data.config import DataConfig
from glassformer.data.example import Example
from glassformer.data.formats.delimited import is_default
from glassformer.data.sources import TEXT_SUFFIXES, left_out
from glassformer.data.usual_columns import with_usual_columns
from glassformer.models.config import ModelConfig
from glassformer.processors.config import Augmentations, ModelFacts, ProcessorConfig
from glassformer.processors.inputs import Inputs, Order, Sizes, by_length, by_split
from glassformer.processors.requests import RequestInputs
from glassformer.processors.tokens.elements import EncodedInput

SENTENCES = (
    "The chicken didn't cross the road because it was too tired.",
    "The chicken didn't cross the road because it was too wide.",
    "a dog runs",
    "a dog",
    "a",
)
"""Note B's sentences, where "it" changes with the last word; and shorter ones."""


@dataclass(frozen=True)
class Window:
    """A part of an input that fits into the model, and the units of the input that it predicts."""

    example: Example
    units: slice = field(default_factory=lambda: slice(None))
    cut: int = 0
    """Elements of the input that are left out."""


class Processor(RequestInputs):
    """Encodes one kind of input; see the module."""

    noun: ClassVar[str]
    """Name of one input in sentences."""
    unit: ClassVar[str] = "token"
    """Name of an element of a sequence."""
    elements: ClassVar[str] = "tokens"
    """The model's `elements`."""
    capabilities: tuple[str, ...] = ()
    """Views of an input besides those of its media: pair, parts."""
    auto_class: ClassVar[str] = "AutoTokenizer"
    """The class of transformers that reads its files."""
    summary: str = ""
    """What a model with these inputs does, where that says more than its task."""
    suffixes: ClassVar[Collection[str]] = TEXT_SUFFIXES
    """Suffixes of the files that are read in a folder."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Settings of data that name the columns of a table of its records, its inputs first."""
    batch_rows: ClassVar[int] = 128
    """Rows of a batch outside training."""
    records: ClassVar[Callable[[DataConfig], Iterable[Any]] | None] = None
    """Reads the records of all splits; None: they are not kept in memory."""
    tokenizer: Any
    """The tokenizer of its texts; None: it reads none, and a line names a file."""
    pair: Any = None
    """The tokenizers of a source and a target; None: an input has one side."""
    facts: ModelFacts
    vocab_size: int = 0
    """Token ids of its inputs; 0: they are patches."""

    @classmethod
    def resolve(
        cls, data: DataConfig, begun: DataConfig | None, say: Callable[[str], None]
    ) -> DataConfig:
        """Return the settings with the columns of a run that has begun, or with the usual ones of
        the files; report these, and what is left out."""
        for sentence in left_out(data, cls.suffixes):
            say(sentence)
        if begun is not None:
            own = {name: getattr(begun, name) for name in cls.columns if is_default(data, name)}
            return data.model_copy(update=own)
        data, sentence = with_usual_columns(data, cls.columns)
        if sentence is not None:
            say(sentence)
        return data

    @classmethod
    def read(cls, data: DataConfig) -> Any:
        """The records of every split; of data that are not kept in memory, their settings."""
        return data if cls.records is None else by_split(cls.records(data))

    @classmethod
    @abstractmethod
    def fit(
        cls, config: ProcessorConfig, data: DataConfig, records: Any, facts: ModelFacts
    ) -> Self:
        """A processor for these records, with tokenizers made from the training split."""

    @classmethod
    def completed(
        cls, config: ProcessorConfig, begun: ProcessorConfig | None = None
    ) -> ProcessorConfig:
        """The settings with values that follow from others; `begun`: of the run that goes on."""
        return config

    @classmethod
    @abstractmethod
    def take_over(
        cls,
        config: ProcessorConfig,
        trunk: ModelConfig,
        folder: Path,
        begun: ProcessorConfig | None,
    ) -> ProcessorConfig:
        """Return the settings with those of the folder of a trunk, on which its weights depend, or
        with those of a run that has `begun`. ConfigError: they contradict each other."""
        ...

    @classmethod
    def training_texts(cls, config: ProcessorConfig, data: DataConfig) -> Iterator[str]:
        """The texts that a tokenizer is made from; ConfigError: inputs are no text."""
        raise ConfigError(
            f"input={cls.name!r} has no tokenizer; `glassformer data show` shows how "
            f"{cls.noun}s are encoded."
        )

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, data: DataConfig, model: ModelConfig, facts: ModelFacts) -> Self:
        """The processor of a run folder. CheckpointError: it does not belong to the model."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the files that `load` reads."""

    @abstractmethod
    def open(
        self, records: Any, folder: Path, splits: Sequence[str] | None = None
    ) -> Mapping[str, Inputs]:
        """Encode the records of these splits (None: all); large ones are stored in the folder."""

    def load_stored(self, data: DataConfig, folder: Path) -> Mapping[str, Any] | None:
        """The inputs that a run folder keeps, without their files; None: it keeps none."""
        return None

    @abstractmethod
    def order(self, inputs: Inputs, lengths: np.ndarray, sizes: Sizes) -> Order:
        """Which training sequences are in the batch of each step; `lengths` count answers too."""

    @abstractmethod
    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """The batch of these rows of examples."""

    @abstractmethod
    def windows(self, given: Any) -> list[Window]:
        """The sequences of one input, at least one. DataError, ConfigError: it is no such input."""

    @abstractmethod
    def encode(self, given: Any) -> EncodedInput:
        """One input as one sequence with named elements; nothing is cut."""

    def prompt(self, given: Any, crossed: bool = False) -> EncodedInput:
        """Encode the beginning of a sequence, without its end, or with what was written after it;
        `crossed`: it is the source beside which a decoder writes."""
        return self.encode(given)

    def batches(self, examples: Sequence[Example]) -> Iterator[tuple[list[int], Batch]]:
        """All examples in batches of like length, with their numbers in the targets' order."""
        for numbers in by_length([example.length for example in examples], self.batch_rows):
            yield numbers, self.collate([[examples[i]] for i in numbers])

    def for_training(self, facts: ModelFacts, how: Augmentations) -> Self:
        """Return this processor for the resolved model; its training examples are augmented."""
        return replace(cast(Any, self), facts=facts, how=how)

    def mixed(self, targets: np.ndarray, n_classes: int, numbers: Any, step: int) -> np.ndarray:
        """Class targets of a step's training sequences, by number, mixed as their inputs are."""
        return targets

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Settings of data that name the columns of an input in a table; none: tables have none."""
        return self.columns[:1]

    def from_values(self, values: Sequence[Any], where: str) -> Any:
        """Return the input in these columns of a row, or in one line; None: there is none."""
        text = "" if values[0] is None else cell_text(values[0], where)
        return text if text.strip() else None

    def within(self, given: Any, folder: str) -> Any:
        """Return an input of a table in this folder, where names of files begin."""
        return given

    def to_values(self, given: Any) -> dict[str, Any]:
        """An input as plain values beside its prediction."""
        return {"text": given}

    def one_or_several(self, given: Any) -> tuple[bool, list[Any]]:
        """Whether one input was given, and not a list of inputs; all of them."""
        single = isinstance(given, str | tuple | Path | np.ndarray)
        return single, [given] if single else list(given)

    def words(self, given: Any) -> list[str]:
        """The words of an input, of a processor that tells where each word ends."""
        return []

    def longest(self, records: Any) -> int | None:
        """Elements of the longest sequence, where max_length follows from it; None: it does not."""
        return None

    def check(self, records: Any) -> None:
        """Raise DataError for a record that the model cannot read."""
        return

    def model_fields(self) -> dict[str, Any]:
        """Fields of the model that follow from the inputs."""
        return {}

    @abstractmethod
    def description(self) -> list[str]:
        """How inputs are encoded, in sentences."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON schema of one input in a request."""

    def check_targets(self) -> None:
        """Raise ConfigError for targets in separate files, unless they are the other side."""
        if self.pair is None:
            raise ConfigError(
                "Only an encoder-decoder has targets beside its data; leave out --targets."
            )

    def pictures(self, batch: Batch, row: int = 0) -> dict[int, Any]:
        """Return the processor and the patches of each image or audio clip of a row, by the place
        of the first."""
        return {}

    @staticmethod
    def read_texts(record: Any) -> Sequence[str]:
        """The texts that a model reads of a record; (): an image, or audio."""
        return ()

    def request_of(self, record: Any) -> list[Any]:
        """A record as an input of a request: none, or one."""
        return []

    def kept_inputs(self, folder: Path) -> list[Any]:
        """Inputs that a run folder keeps, as `encode` takes them."""
        return self.example_inputs(folder)

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """Inputs to begin with, as requests have them; `sampled`: of the latest samples."""
        return list(sampled)

    def neutral_inputs(self) -> list[Any]:
        """Inputs for a model whose folder keeps none, as `encode` takes them."""
        return list(SENTENCES)


def cell_text(value: Any, where: str) -> str:
    """A cell as text, a list of words with spaces between; DataError: it is something else."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return " ".join(value)
    if not isinstance(value, str):
        raise DataError(f"{where} has {value!r:.40} where a text is read; give a string")
    return value


def check_length(length: int, longest: int, what: str = "The input") -> None:
    """Raise ConfigError for a sequence longer than the model."""
    if length > longest:
        raise ConfigError(
            f"{what} has {length} elements and the model reads {longest} at once; shorten it by "
            f"{length - longest}, or take a model with a larger model.max_length."
        )


def ids_of(given: Any) -> list[int] | None:
    """Token ids; None: the input is something else."""
    numbers = given.tolist() if hasattr(given, "tolist") else given
    whole = isinstance(numbers, list | tuple) and all(type(number) is int for number in numbers)
    return list(numbers) if whole else None
