"""Objectives: what a model learns: targets, loss, scores and baselines of one output.

    Example ──target──> Batch ──model──> Output ──loss──> LossSum

An objective has the encoded inputs of each split, if it is trained or evaluated, and a feed, their
batches. It never knows what an input holds: that is the processor's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.core.batch import Batch
from glassformer.core.distributed.processes import ALONE, Processes
from glassformer.core.errors import ConfigError, DataError, amount, plural
from glassformer.layers.losses import LossSum, cross_entropy
from glassformer.metrics.writing import LanguageModelScore
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs, split_of
from glassformer.processors.processor import Processor
from glassformer.processors.tokens.elements import EncodedInput, token_names
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import Metric
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.objectives.feed import with_next_tokens
from glassformer.tasks.task import Task

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


class Objective:
    """One kind of output; see the module."""

    feeds: ClassVar[type[Any]]
    """The kind of its feed."""
    outcome: ClassVar[str] = "tokens"
    """Kind of its outcomes: tokens, tags, class, vectors."""
    has_next: ClassVar[bool] = False
    """Whether equations are checked with the next tokens as targets."""
    metrics: ClassVar[tuple[Metric, ...]] = ("loss", "accuracy")
    """Scores by which the best model may be chosen."""

    def __init__(self, task: Task, data: Mapping[str, Any] | None = None):
        self.task, self.recipe, self.processor = task, task.recipe, task.processor
        self.folder, self._data = task.folder, data

    @classmethod
    def data_of(cls, recipe: Recipe, inputs: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        """The inputs of each split, with targets that the task stores."""
        return inputs

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """The recipe with values from the data; DataError, ConfigError: it cannot be learned."""
        return recipe.with_vocabulary(processor.vocab_size)

    def check(self, records: Any) -> None:
        """Raise DataError for a record that the model cannot read."""
        self.processor.check(records)

    def load_stored(self) -> Mapping[str, Any] | None:
        """The inputs that the run folder keeps, without their files; None: it keeps none."""
        return self.processor.load_stored(self.recipe.data, self.folder)

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
                f"no {name} {self.processor.noun} is left of {amount(len(found.records), 'row')}: "
                "none can be read, or none has a target within model.max_length"
            )
        return found

    @property
    def validated(self) -> bool:
        """Whether there is a validation split."""
        return self.feed.validated

    @property
    def shown_split(self) -> str:
        """The split that samples are of."""
        return "validation" if self.validated else "train"

    @cached_property
    def feed(self) -> Any:
        """The batches of its training data; see `objectives.feed`."""
        return self.feeds(self)

    def explain_scores(self) -> list[str]:
        """Return sentences on how scores are measured."""
        return []

    def opening(self) -> list[str]:
        """Sentences on the data, logged when training begins."""
        return self.feed.opening()

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """Training loss, summed over targets."""
        return cross_entropy(logits, targets, self.recipe.train.label_smoothing)

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """Scores of a split, `loss` among them; by default those of its targets."""
        return self.score_targets(model, split, of).result()

    def score_targets(self, model: Transformer, split: str, of: Evaluation) -> LanguageModelScore:
        """Return the loss over the targets of a split, and how many are the likeliest."""
        batches = self.feed.batches_to_score(split, of, model.config.max_length)
        return evaluate(model, batches, of.precision, of.processes)

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
        self.feed.check()

    def scores(
        self, model: Transformer, precision: torch.dtype, processes: Processes = ALONE
    ) -> dict[str, Any] | None:
        """Scores of the validation split during training; None: there is none."""
        if not self.validated:
            return None
        of = replace(self.validation(precision), processes=processes)
        return self.evaluate(model, "validation", of)

    def validation(self, precision: torch.dtype = torch.float32) -> Evaluation:
        """Return the share of the validation split that is scored during training."""
        train = self.recipe.train
        limits = train.evaluate.batches, train.evaluate.decode_lines, self.feed.sequences
        return Evaluation(precision, None, *limits)

    def training_baselines(self) -> dict[str, Any]:
        """`baselines` of what `scores` scores; {}: there is no validation split."""
        if not self.validated:
            return {}
        return self.baselines("validation", self.validation(), lambda: self.split("train").records)

    def sample(self, model: Transformer) -> Sample | None:
        """Sample output at this step; None: none is requested."""
        return self.make_sample(model) if self.recipe.train.sample.tokens else None

    def make_sample(self, model: Transformer) -> Sample | None:
        """Sample output; None: this task has none."""
        return None

    @property
    def use(self) -> str:
        """A command that uses the model."""
        return f"glassformer {self.task.verb} {self.folder} < lines"

    def card(self) -> Card:
        """Lines of the model card."""
        read = "; ".join(self.processor.description()).removeprefix("tokenizer: ")
        tokens = self.processor.elements == "tokens"
        reads = "Tokenizer" if tokens else f"{self.processor.noun}s".capitalize()
        return Card(read, self.feed.size, f"{self.use}\nglassformer evaluate {self.folder}", reads)

    def excerpt(self, batch: Batch) -> str:
        """Beginning of a batch, for an error message."""
        return self.processor.tokenizer.decode(batch.elements[0, :24].tolist())

    def outcomes(self) -> tuple[str, ...]:
        """Names of the logits: tokens, tags or classes; () for vectors."""
        return token_names(self.processor.tokenizer, self.recipe.model.vocab_size)

    def piece(self, index: int) -> str:
        """Name of a token id in a view of training data."""
        return self.processor.tokenizer.piece(index)

    def source_piece(self, index: int) -> str:
        """Name of a token id of an encoder-decoder's source."""
        return self.processor.reader.tokenizer.piece(index)

    def target_name(self, index: int) -> str:
        """Name of a target in a view of training data."""
        return self.piece(index)

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
        batch = self.encode(self.task.first_input() if text is None else text).batch
        return with_next_tokens(batch, model.config.max_length) if self.has_next else batch

    def check_search(self) -> None:
        """Raise ConfigError for a model without beam search."""
        if not self.recipe.model.is_encoder_decoder:
            raise ConfigError(
                "--beams is for what an encoder-decoder writes, and this model is none; leave it "
                "out."
            )


class Vectors(Objective):
    """Vectors of inputs; nothing is trained."""

    outcome = "vectors"

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """Refused: there is no target to learn."""
        raise ConfigError(
            "task=feature-extraction is nothing to train; train another task, and take its vectors "
            "with `glassformer embed`."
        )

    def card(self) -> Card:
        """Lines of the model card; nothing is learned in a step."""
        described = "; ".join(self.processor.description())
        lines = " < lines" if self.processor.tokenizer else ""
        return Card(described, "nothing", f"glassformer {self.task.verb} {self.folder}{lines}")

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """Refused."""
        raise self.task.refusal("evaluating")

    def outcomes(self) -> tuple[str, ...]:
        """No names, because vectors are no choices."""
        return ()
