"""Bases of objectives on single records: encoded inputs with their targets, or tokens to write."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from glassformer.core.batch import Batch
from glassformer.core.errors import amount
from glassformer.data.example import Example
from glassformer.data.records.pairs import PairText
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.tokens.elements import EncodedInput
from glassformer.tasks.evaluate import Evaluation
from glassformer.tasks.objectives.feed import ExampleFeed
from glassformer.tasks.objectives.objective import Objective, Sample

LONGEST = 400
Rows = tuple[list[dict[str, Any]], list[Any]]
"""Rows of a sample with what is right, and their inputs as those of requests."""


class ExampleObjective(Objective):
    """A target for each record: one value, one for each word, or an answer."""

    feeds = ExampleFeed

    def target(self, record: Any, units: slice) -> dict[str, Any]:
        """Targets of a sequence with these units of a record, as fields of an example."""
        raise NotImplementedError

    share_prefix: bool = False
    """Whether examples with the same first elements may be read in one row."""

    @cached_property
    def training(self) -> Inputs:
        """The training inputs."""
        return self.split("train")

    @cached_property
    def targets(self) -> list[dict[str, Any]]:
        """The target of each training sequence."""
        return self.targets_of(self.training, range(len(self.training.owner)))

    def targets_of(self, inputs: Inputs, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The targets of some sequences."""
        if inputs.has_targets:
            return [{}] * len(numbers)
        return [self.target(inputs.record(i), inputs.units(i)) for i in numbers]

    def examples(
        self, inputs: Inputs, numbers: Sequence[int], step: int | None = None
    ) -> list[Example]:
        """Return sequences with their targets; `step`: those of a training step."""
        known = step is not None
        own = [self.targets[i] for i in numbers] if known else self.targets_of(inputs, numbers)
        pairs = zip(inputs.examples(numbers, step), own, strict=True)
        return [replace(example, **target) if target else example for example, target in pairs]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Elements of each training sequence, its answer among them."""
        return self.training.lengths

    def collate(self, rows: Sequence[Sequence[Example]]) -> Batch:
        """The batch of these rows of examples."""
        return self.processor.collate(rows)

    line: ClassVar[str] = "{source}\n  -> {output}"
    """A row of a sample, for a person."""

    def rows(self, model: Transformer) -> Rows:
        """Rows of a sample; see `make_sample`."""
        raise NotImplementedError

    def make_sample(self, model: Transformer) -> Sample:
        """See `Objective`: the first records."""
        rows, given = self.rows(model)
        text = "\n".join(self.line.format(**row) for row in rows)
        return Sample(text, {"samples": rows, "inputs": given})

    def records_to_score(self, split: str, of: Evaluation) -> list[Any]:
        """The records of a split that an evaluation scores."""
        every = self.split(split).records
        return [every[i] for i in of.records(len(every))]

    def long_inputs(self) -> list[str]:
        """A sentence on inputs longer than the model, if there are any."""
        if not (long := int((np.bincount(self.training.owner) > 1).sum())):
            return []
        noun = amount(long, self.processor.noun)
        return [f"{noun} longer than the model are read by overlapping windows"]

    def samples(self, n: int) -> tuple[list[Any], list[Any]]:
        """The first `n` records to show, and the same as inputs of requests."""
        records = self.split(self.shown_split).records[:n]
        return records, [one for record in records for one in self.processor.request_of(record)]


class GeneratedTokens(ExampleObjective):
    """Tokens for each input; loss is only on these tokens."""

    def encode(self, given: Any) -> EncodedInput:
        """See `Objective`: up to what is generated."""
        return self.processor.prompt(given, self.recipe.model.is_encoder_decoder)

    def explain_scores(self) -> list[str]:
        """See `Objective`: of targets."""
        return ["Loss and accuracy are of each target given those before it."]


def preview(record: Any) -> str:
    """Return its text (of two texts, both), its source, its parts with the names of their files, or
    the place of the file."""
    if isinstance(record, PairText):
        return record.source
    parts = getattr(record, "parts", None)
    if parts is not None:
        return " ".join(
            value if kind == "text" else f"[{Path(value).name}]" for kind, value in parts
        )
    text, pair = getattr(record, "text", None), getattr(record, "pair", None)
    if text is None:
        return record.where
    return (text if pair is None else f"{text} / {pair}")[:LONGEST]
