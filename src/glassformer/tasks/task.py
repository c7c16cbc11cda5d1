"""What comes out of a model: targets, loss, scores, predictions, and how they are shown.

    Example ──target──> Batch ──model──> Output ──loss──> LossSum
                                           └──predict──> text, tags, classes, image

A task has a recipe, a processor, and for training the encoded inputs of each split. It never knows
what an input holds: that is the processor's.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.errors import ConfigError, GlassformerError, plural
from glassformer.generate.config import GenerateConfig
from glassformer.generate.tag import Tags
from glassformer.generate.text import Delta, Generated
from glassformer.losses import LossSum
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, split_of
from glassformer.processors.pair_tokenizer import PairTokenizer
from glassformer.processors.processor import EncodedInput, Processor
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import Metric

SHOWN = 5
"""Examples in a sample."""


@dataclass(frozen=True)
class Card:
    """What a task adds to a model card."""

    tokenizer: str
    step: str
    use: str
    reads: str = "Tokenizer"
    """What `tokenizer` describes."""


@dataclass(frozen=True)
class Sample:
    """Sample output at a step: as lines for a person, and as values for the report."""

    text: str
    values: dict[str, Any]


class Task(ABC):
    """One kind of output; see the module."""

    pipelines: ClassVar[tuple[str, ...]]
    """Names of the task, as the ecosystem's pipelines have them."""
    inputs: ClassVar[tuple[str, ...]]
    """Processors that it goes with."""
    capabilities: ClassVar[frozenset[str]]
    """What the explorer may ask of it: generates, masked, tags, classes, vectors, draws."""
    summary: ClassVar[str]
    """What a model with this task does, in a clause; `{inputs}`: the processor's plural noun."""
    verb: ClassVar[str]
    """The command that uses it."""
    metrics: ClassVar[tuple[Metric, ...]] = ("loss", "accuracy")
    """Scores by which the best model may be chosen."""
    sections: ClassVar[frozenset[str]] = frozenset()
    """Sections of a recipe that only some processors and tasks read."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Fields of `train` that only some processors and tasks have."""
    continues: ClassVar[bool] = False
    """Whether generated text continues its prompt."""
    first_prompt: ClassVar[str] = ""
    """The prompt where none is given."""

    def __init__(
        self,
        recipe: Recipe,
        processor: Any,
        folder: Path,
        data: Mapping[str, Any] | None = None,
    ):
        self.recipe, self.processor, self.folder = recipe, processor, folder
        self._data = data

    @classmethod
    def open(
        cls,
        recipe: Recipe,
        processor: Any,
        records: Any,
        folder: Path,
        splits: Sequence[str] | None = None,
        scratch: Path | None = None,
    ) -> Self:
        """The task with its data: encoded in the run folder, or in another one (`scratch`)."""
        place = scratch or folder
        inputs = processor.open(records, place, splits)
        return cls(recipe, processor, folder, cls.data_of(recipe, inputs, place))

    @classmethod
    def data_of(cls, recipe: Recipe, inputs: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """The inputs of each split with what the task stores of their targets."""
        return inputs

    @classmethod
    @abstractmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """The recipe with what follows from the data; DataError, ConfigError: not learnable."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """Encoded inputs of each split."""
        assert self._data is not None, "a task without data only predicts"
        return self._data

    def split(self, name: str) -> Any:
        """The inputs of a split; DataError: it is empty."""
        return split_of(self.data, name)

    @property
    def validated(self) -> bool:
        """Whether there is a validation split."""
        return "validation" in self.data

    @property
    def shown_split(self) -> str:
        """The split that samples are of."""
        return "validation" if self.validated else "train"

    @property
    @abstractmethod
    def length(self) -> int:
        """Elements of a typical sequence."""
        ...

    @property
    @abstractmethod
    def elements(self) -> int:
        """Elements of all training data (of pairs, targets)."""
        ...

    @property
    @abstractmethod
    def sequences(self) -> int:
        """Sequences in a step, about."""
        ...

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Hash of the training data, 16 hex digits."""
        ...

    @abstractmethod
    def opening(self) -> list[str]:
        """Sentences on the data, said when training begins."""
        ...

    @abstractmethod
    def batches(self, step: int) -> list[Batch]:
        """The micro-batches of a step, a function of (seed, step)."""
        ...

    @abstractmethod
    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """Training loss, summed over targets."""
        ...

    @abstractmethod
    def evaluate(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        how: GenerateConfig | None = None,
        **limits: int | None,
    ) -> dict[str, Any]:
        """Scores of a split, `loss` among them."""
        ...

    def check_folder(self) -> None:
        """Raise CheckpointError for a run folder whose files do not belong together."""
        return

    def check_size(self) -> None:
        """Raise DataError for data that are too small or too long to train on."""
        return

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """Scores of the validation split while training; None: there is none."""
        return self.evaluate(model, "validation", precision) if self.validated else None

    @abstractmethod
    def sample(self, model: Transformer) -> Sample | None:
        """Sample output at this step; None: none is asked for."""
        ...

    @abstractmethod
    def card(self) -> Card:
        """Lines of the model card."""
        ...

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """JSON schema of a reply."""
        ...

    def excerpt(self, batch: Batch) -> str:
        """How a batch begins, to be named in an error."""
        return self.processor.tokenizer.decode((batch.source or batch).elements[0, :24].tolist())

    def outcomes(self) -> tuple[str, ...]:
        """Names of the logits: tokens, tags or classes; () for vectors."""
        return ()

    def piece(self, index: int) -> str:
        """Name of a token id in a view of training data."""
        return self.processor.tokenizer.piece(index)

    def source_piece(self, index: int) -> str:
        """The same for an encoder-decoder's source."""
        return self.piece(index)

    def target_name(self, index: int) -> str:
        """Name of a target in a view of training data."""
        return self.piece(index)

    @property
    def pictured(self) -> bool:
        """Whether inputs can be shown as images."""
        return bool(self.processor.medium)

    def thumbnail(self, where: str) -> np.ndarray | None:
        """The validation input of this name as an array to look at; None: there is nothing."""
        return None

    def pace(self, elements_per_second: float) -> str:
        """Training speed in words."""
        return f"{elements_per_second:,.0f} {plural(self.processor.unit)}/s"

    def example_inputs(self, folder: Path, sampled: Sequence[Any] = ()) -> list[Any]:
        """Inputs to begin with, as requests have them; `sampled`: those of the latest samples."""
        return self.processor.example_inputs(folder, sampled)

    def next_tokens(self, prompt: Sequence[int], given: Sequence[int]) -> tuple[range, int] | None:
        """Tokens that may come next and how many are left; None: any, without an end."""
        return None

    def encode(self, given: Any) -> EncodedInput:
        """One input as one sequence with named elements; nothing is cut."""
        return self.processor.encode(given)

    def batch_to_check(self, model: Transformer, text: str | None) -> Batch:
        """A batch that equations are checked on: of a text, else of an example input."""
        return self.encode(self.first_input() if text is None else text).batch

    def first_input(self) -> Any:
        """An example input that the model can read, as `Run.look` takes it."""
        neutral = self.processor.neutral_inputs()
        for given in (*self.processor.kept_inputs(self.folder), *neutral):
            with suppress(GlassformerError):
                self.encode(given)
                return given
        raise ConfigError(f"{self.folder} keeps no example input; give one.")

    # What other tasks do: refused with the command that this one is for.

    def _refuse(self, doing: str) -> ConfigError:
        return ConfigError(
            f"{self.folder} is a model for {self.recipe.task}, so {doing} is not for it; use "
            f"`glassformer {self.verb}`."
        )

    def check_search(self) -> None:
        """Raise ConfigError for a task that generates no target of a source."""
        raise ConfigError(
            "--beams is for what an encoder-decoder writes, and this model is none; leave it out."
        )

    def stream(self, model: Transformer, prompt: str, how: GenerateConfig) -> Iterator[Delta]:
        """The text that continues a prompt, as it grows."""
        raise self._refuse("streaming text")

    def generate(
        self,
        model: Transformer,
        prompts: Sequence[str],
        files: Mapping[str, Any],
        how: GenerateConfig,
        **options: Any,
    ) -> list[Generated]:
        """The text for each prompt, beside files that all of them are about."""
        raise self._refuse("generating text")

    def score(self, model: Transformer, text: str) -> list[tuple[str, float | None]]:
        """Each token of a text with its log-probability in nats (None for the first)."""
        raise self._refuse("scoring text")

    def translate(
        self,
        model: Transformer,
        texts: Sequence[str],
        how: GenerateConfig,
        batch_size: int = 32,
        first: int = 1,
    ) -> list[Any]:
        """The best targets of each source text."""
        raise self._refuse("translating")

    def answer(
        self, model: Transformer, inputs: Sequence[Any], how: GenerateConfig, **options: Any
    ) -> list[Generated]:
        """The text for each row of parts."""
        raise self._refuse("answering")

    def score_pairs(
        self, model: Transformer, pairs: Sequence[tuple[str, str]], first: int = 1
    ) -> list[list[float]]:
        """Log-probability of each token of each target."""
        raise self._refuse("scoring pairs")

    @property
    def pair(self) -> PairTokenizer:
        """The tokenizers of a source and a target."""
        raise self._refuse("reading a source")

    def tag(self, model: Transformer, inputs: Iterable[Any], top: int = 1) -> Iterator[Tags]:
        """The `top` likeliest classes of each word of each input, as inputs come."""
        raise self._refuse("tagging")

    def classify(self, model: Transformer, inputs: Sequence[Any]) -> np.ndarray:
        """The probability of every class for each input, float32 [N, C]."""
        raise self._refuse("classifying")

    def draw(
        self, model: Transformer, prompts: Sequence[str], how: GenerateConfig, batch_size: int = 64
    ) -> np.ndarray:
        """An image for each prompt, uint8 [N, H, W, 3]."""
        raise self._refuse("drawing")


def fingerprint_of(inputs: Inputs, targets: Iterable[bytes]) -> str:
    """Hash of inputs and targets, 16 hex digits."""
    import hashlib

    seen = hashlib.sha256()
    for part in (*inputs.fingerprint(), *targets):
        seen.update(part + b"|")
    return seen.hexdigest()[:16]
