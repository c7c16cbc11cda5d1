"""Tasks: targets, loss, scores and predictions of a model, and how they are shown.

    Example ──target──> Batch ──model──> Output ──loss──> LossSum
                                           └──predict──> text, tags, classes, image

A task has a recipe, a processor, and for training the encoded inputs of each split. It never knows
what an input holds: that is the processor's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.errors import ConfigError, DataError, GlassformerError, counted, plural
from glassformer.data.collate import Share
from glassformer.layers.losses import LossSum, cross_entropy
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, split_of
from glassformer.processors.processor import EncodedInput, Processor
from glassformer.processors.tokens.pair_tokenizer import PairTokenizer
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import Metric
from glassformer.tasks.evaluate import EVERYTHING, Evaluation
from glassformer.tasks.options import OPTIONS

SHOWN = 5
"""Examples in a sample."""


@dataclass(frozen=True)
class Card:
    """Lines of a model card that depend on the task."""

    tokenizer: str
    step: str
    use: str
    reads: str = "Tokenizer"
    """Heading of `tokenizer`."""


@dataclass(frozen=True)
class Sample:
    """Sample output at a step: as lines for a person, and as values for the report."""

    text: str
    values: dict[str, Any]


def refused(doing: str) -> Any:
    """A method that another task has: here it raises ConfigError."""

    def method(self: "Task", *arguments: Any, **options: Any) -> Any:
        raise self.refusal(doing)

    return method


class Task(ABC):
    """One kind of output; see the module."""

    capabilities: ClassVar[tuple[str, ...]]
    """Pages of the explorer: generates, masked, tags, classes, vectors, draws."""
    outcome_kind: ClassVar[str] = "vectors"
    """Kind of its outcomes: tokens, tags, class, vectors."""
    summary: ClassVar[str]
    """What a model with this task does, in a clause; `{inputs}`: the processor's plural noun."""
    verb: ClassVar[str]
    """The command that uses it."""
    uses: ClassVar[tuple[Any, ...]] = ()
    """Its predictors, the main one first."""
    metrics: ClassVar[tuple[Metric, ...]] = ("loss", "accuracy")
    """Scores by which the best model may be chosen."""

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
        kept: Mapping[str, Any] | None = None,
    ) -> Self:
        """The task with its data: encoded in the run folder, or in another one (`scratch`), or
        `kept` inputs as they are."""
        place = scratch or folder
        inputs = processor.open(records, place, splits) if kept is None else kept
        return cls(recipe, processor, folder, cls.data_of(recipe, inputs, place))

    @classmethod
    def data_of(cls, recipe: Recipe, inputs: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """The inputs of each split, with targets that the task stores."""
        return inputs

    @classmethod
    @abstractmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """The recipe with values from the data; DataError, ConfigError: it cannot be learned."""
        ...

    def stored(self) -> Mapping[str, Any] | None:
        """The inputs that the run folder keeps, without their files; None: it keeps none."""
        return self.processor.stored(self.recipe.data, self.folder)

    def save(self, folder: Path) -> None:
        """Write the files that opening a run reads, beside its model and its recipe."""
        self.processor.save(folder)

    @property
    def data(self) -> Mapping[str, Any]:
        """Encoded inputs of each split."""
        assert self._data is not None, "a task without data only predicts"
        return self._data

    def split(self, name: str) -> Any:
        """The inputs of a split; DataError: it is empty, or nothing of it is left."""
        found = split_of(self.data, name)
        if isinstance(found, Inputs) and not len(found.owner):
            raise DataError(
                f"no {name} {self.processor.noun} is left of {counted(len(found.records), 'row')}: "
                "none can be read, or none has a target within model.max_length"
            )
        return found

    @property
    def validated(self) -> bool:
        """Whether there is a validation split."""
        return "validation" in self.data

    @property
    def shown_split(self) -> str:
        """The split that samples are of."""
        return "validation" if self.validated else "train"

    @property
    def length(self) -> int:
        """Elements of a typical training sequence; 0: nothing is trained."""
        return 0

    @property
    def elements(self) -> int:
        """Elements of all training data (of pairs, targets)."""
        return 0

    @property
    def sequences(self) -> int:
        """Sequences in a step, about."""
        return 0

    @property
    def fingerprint(self) -> str:
        """Hash of the training data, 16 hex digits."""
        return ""

    @property
    def extent(self) -> str:
        """How much training data there is, in words."""
        return f"{self.elements:,} {plural(self.processor.unit)}"

    def measured(self) -> list[str]:
        """How scores are measured, in sentences."""
        return []

    def opening(self) -> list[str]:
        """Sentences on the data, logged when training begins."""
        return self.processor.description()

    def share(self, step: int, rank: int = 0, count: int = 1) -> Share:
        """The micro-batches of a step that process `rank` of `count` computes, a function of (seed,
        step, rank, count); together those of all processes are the same for any `count`."""
        return Share([])

    def batches(self, step: int) -> list[Batch]:
        """All micro-batches of a step."""
        return self.share(step).batches

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """Training loss, summed over targets."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    @abstractmethod
    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """Scores of a split, `loss` among them."""
        ...

    def baselines(
        self, split: str, of: Evaluation, train: Callable[[], Sequence[Any]]
    ) -> dict[str, Any]:
        """Scores of baselines on the same inputs as `evaluate`, learned from the records of the
        training split, as `metrics.scores.Learned`; {}: this task has none."""
        return {}

    def check_folder(self) -> None:
        """Raise CheckpointError for a run folder whose files do not belong together."""
        return

    def check_size(self) -> None:
        """Raise DataError for data that are too small or too long to train on."""
        return

    def scores(
        self, model: Transformer, precision: torch.dtype, processes: Processes = ALONE
    ) -> dict[str, Any] | None:
        """Scores of the validation split during training; None: there is none."""
        if not self.validated:
            return None
        of = replace(self.validation(precision), processes=processes)
        return self.evaluate(model, "validation", of)

    def validation(self, precision: torch.dtype = torch.float32) -> Evaluation:
        """How much of the validation split is scored during training."""
        train = self.recipe.train
        limits = train.evaluate.batches, train.evaluate.decode_lines, self.sequences
        return Evaluation(precision, None, *limits)

    def training_baselines(self) -> dict[str, Any]:
        """`baselines` of what `scores` scores; {}: there is no validation split."""
        if not self.validated:
            return {}
        return self.baselines("validation", self.validation(), lambda: self.split("train").records)

    def sample(self, model: Transformer) -> Sample | None:
        """Sample output at this step; None: none is asked for."""
        return self.sampled(model) if self.recipe.train.sample.tokens else None

    def sampled(self, model: Transformer) -> Sample | None:
        """Sample output; None: this task has none."""
        return None

    @abstractmethod
    def card(self) -> Card:
        """Lines of the model card."""
        ...

    @cached_property
    def predictors(self) -> Mapping[str, Any]:
        """The predictors of this task and its inputs, by verb."""
        return {one.name: one for one in self.uses if one.misfit(self) is None}

    @property
    def main(self) -> str:
        """The verb of its first predictor."""
        return next(iter(self.predictors), self.verb)

    def schema(self) -> dict[str, Any]:
        """JSON schema of a reply."""
        return self.uses[0].schema(self)

    def excerpt(self, batch: Batch) -> str:
        """Beginning of a batch, for an error message."""
        return self.processor.tokenizer.decode(batch.elements[0, :24].tolist())

    @property
    def views(self) -> set[str]:
        """Pages of the explorer: of its outcomes, and of its inputs."""
        return {*self.capabilities, *self.processor.capabilities, *self.processor.media()}

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
        return self.processor.tokenizer is None

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
        """A batch that equations are checked on: of a text, else of an example input.

        ConfigError: the model reads no text.
        """
        if text is not None and self.processor.tokenizer is None:
            raise ConfigError(
                f"{self.folder} reads one {self.processor.name} and no text, got --text {text!r}; "
                f"leave it out to check an {self.processor.name} input that the run keeps."
            )
        return self.encode(self.first_input() if text is None else text).batch

    def first_input(self) -> Any:
        """An example input that the model can read, as `Run.look` takes it."""
        neutral = self.processor.neutral_inputs()
        for given in (*self.processor.kept_inputs(self.folder), *neutral):
            with suppress(GlassformerError):
                self.encode(given)
                return given
        raise ConfigError(f"{self.folder} keeps no example input; give one.")

    def check_search(self) -> None:
        """Raise ConfigError for a task without beam search."""
        raise ConfigError(
            "--beams is for what an encoder-decoder writes, and this model is none; leave it out."
        )

    @property
    def pair(self) -> PairTokenizer:
        """The tokenizers of a source and a target."""
        raise self.refusal("reading a source")

    def misfit(self, verb: str) -> ConfigError:
        """The error for a verb that this task, or its inputs, has no predictor for."""
        if found := self.lack(verb):
            return ConfigError(f"{self.folder} {''.join(found)}")
        return self.refusal(OPTIONS[verb].doing)

    def lack(self, use: str) -> tuple[str, str] | None:
        """Why it has no predictor of a verb or route; see `Predictor.misfit`."""
        return next((one.misfit(self) for one in self.uses if use in (one.name, *one.routes)), None)

    def refusal(self, doing: str) -> ConfigError:
        """The error for a verb of another task, with this task's own command."""
        return ConfigError(
            f"{self.folder} is a model for {self.recipe.task}, so {doing} is not for it; use "
            f"`glassformer {self.verb}`."
        )
