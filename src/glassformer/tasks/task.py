"""What a run trains on: the side of training that knows the data, whatever they are.

language.py       running text, next tokens           transduction.py     pairs, an encoder-decoder
masked.py         running text, masked tokens         tagging.py          words, a tag for each
mixture.py        rows of text, pictures, sounds      classification.py   texts, a class or several for each
depiction.py      texts, pictures to be drawn         perception.py       pictures, recordings, the same
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from glassformer.batch import Batch
from glassformer.losses import LossSum
from glassformer.models.transformer import Transformer
from glassformer.recipe.recipe import Recipe

WHOLE = 1 << 20  # more tokens than these are not read through to know them again


def fingerprint(counts: dict[str, dict[str, int]], columns: Iterable[np.ndarray]) -> str:
    """What stored tokens are, in 16 hex digits: from how many there are, and ids spread over all of
    every column."""
    seen = hashlib.sha256(json.dumps(counts, sort_keys=True).encode())
    for tokens in columns:
        seen.update(tokens[:: len(tokens) // WHOLE + 1].tobytes())
    return seen.hexdigest()[:16]


@dataclass(frozen=True)
class Card:
    """What a task adds to a model card: the field's name for it, its vocabulary, a step's size, how
    to use it."""

    pipeline_tag: str
    tokenizer: str
    step: str
    use: str
    reads: str = "Tokenizer"
    """What `tokenizer` tells of."""


@dataclass(frozen=True)
class Sample:
    """What a model writes by now: as lines for a person, and as values for the report."""

    text: str
    values: dict[str, Any]


@runtime_checkable
class Depicts(Protocol):
    """A task whose examples can be shown as pictures."""

    def thumbnail(self, where: str) -> str | None:
        """The validation example of that name as the address of a small PNG file; None: there is
        none."""
        ...


@runtime_checkable
class Paced(Protocol):
    """A task whose elements are no tokens."""

    def pace(self, elements_per_second: float) -> str:
        """How fast the data go by in training, in their own words."""
        ...


class Task(Protocol):
    """A recipe's data and tokenizers, made once; batches and scores are functions of them and of
    the step."""

    recipe: Recipe
    """With the vocabulary of the tokenizer."""

    @property
    def length(self) -> int:
        """Elements of a typical sequence: what the operations of a step are counted with."""
        ...

    @property
    def elements(self) -> int:
        """Elements of all training data (of pairs, targets): what an epoch is."""
        ...

    def store(self) -> None:
        """Write tokenizers into the run folder, and build the stored tokens (or find them
        unchanged)."""
        ...

    @property
    def validated(self) -> bool:
        """Whether there is a validation split."""
        ...

    @property
    def fingerprint(self) -> str:
        """What the run's data are, in 16 hex digits."""
        ...

    def opening(self) -> list[str]:
        """Sentences on the data and how often they are seen, for the beginning of a run."""
        ...

    def batches(self, step: int) -> list[Batch]:
        """The parts of a step's batch, a function of (seed, step)."""
        ...

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """What training makes small."""
        ...

    def scores(self, model: Transformer, precision: torch.dtype) -> dict[str, Any] | None:
        """Scores of the validation split, `loss` among them; None without one."""
        ...

    def sample(self, model: Transformer) -> Sample | None:
        """What the model writes by now; None if nothing is asked."""
        ...

    def excerpt(self, batch: Batch) -> str:
        """How a batch begins, to be named in an error."""
        ...

    def card(self) -> Card:
        """What the model card says of the task."""
        ...
