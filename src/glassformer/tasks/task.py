"""Tasks: a processor, an objective and predictors: what goes in, what is learned, what comes out.

record ──processor──> Example ──objective──> Batch ──model──> Output ──objective──> LossSum
given ──predictor──> sequences ──predictor──> Prediction
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.core.errors import ConfigError, GlassformerError
from glassformer.recipe.recipe import Recipe
from glassformer.recipe.train import Metric
from glassformer.tasks.options import OPTIONS


@dataclass(frozen=True)
class Kind:
    """One kind of task."""

    objective: type[Any]
    predictors: tuple[type[Any], ...]
    """The main one first."""
    capabilities: tuple[str, ...]
    """Pages of the explorer: generates, masked, tags, classes, vectors, draws."""
    summary: str
    """The work of a model, in a clause; `{inputs}`: the processor's plural noun."""

    def uses(self, given: str) -> tuple[type[Any], ...]:
        """Return the predictors that read an input of this name."""
        return tuple(one for one in self.predictors if not one.inputs or given in one.inputs)

    def metrics(self, given: str) -> tuple[Metric, ...]:
        """Return the scores by which the best model may be chosen."""
        return (*self.objective.metrics, *self.uses(given)[0].metrics)

    def open(
        self,
        recipe: Recipe,
        processor: Any,
        records: Any,
        folder: Path,
        splits: Sequence[str] | None = None,
        scratch: Path | None = None,
        kept: Mapping[str, Any] | None = None,
    ) -> "Task":
        """The task with its data: encoded in the run folder, or in another one (`scratch`), or
        `kept` inputs as they are."""
        place = scratch or folder
        inputs = processor.open(records, place, splits) if kept is None else kept
        data = self.objective.data_of(recipe, inputs, place)
        return Task(self, recipe, processor, folder, data)


class Task:
    """A kind of task with its recipe and its processor; with its data, to train or to evaluate."""

    def __init__(
        self,
        kind: Kind,
        recipe: Recipe,
        processor: Any,
        folder: Path,
        data: Mapping[str, Any] | None = None,
    ):
        self.kind, self.recipe, self.processor, self.folder = kind, recipe, processor, folder
        self.objective: Any = kind.objective(self, data)

    @property
    def feed(self) -> Any:
        """The batches of its training data; see `objectives.feed`."""
        return self.objective.feed

    def save(self, folder: Path) -> None:
        """Write the files that opening a run reads, beside its model and its recipe."""
        self.objective.save(folder)

    @property
    def uses(self) -> tuple[type[Any], ...]:
        """The predictors of its kind that read its inputs, the main one first."""
        return self.kind.uses(self.processor.name)

    @cached_property
    def predictors(self) -> Mapping[str, Any]:
        """The predictors of this task by verb."""
        return {one.name: one for one in self.uses if one.misfit(self) is None}

    @property
    def verb(self) -> str:
        """The command that uses it: that of its first predictor; media without one can be seen."""
        return next(iter(self.predictors), "inspect")

    def schema(self) -> dict[str, Any]:
        """JSON schema of a reply."""
        return self.uses[0].schema(self)

    @property
    def views(self) -> set[str]:
        """Pages of the explorer: of its outcomes, and of its inputs."""
        processor = self.processor
        return {*self.kind.capabilities, *processor.capabilities, *processor.media()}

    def encode(self, given: Any) -> Any:
        """Encode one input as one sequence with named elements; see `Objective`."""
        return self.objective.encode(given)

    def first_input(self) -> Any:
        """An example input that the model can read, as `Run.look` takes it."""
        neutral = self.processor.neutral_inputs()
        for given in (*self.processor.kept_inputs(self.folder), *neutral):
            with suppress(GlassformerError):
                self.encode(given)
                return given
        raise ConfigError(f"{self.folder} keeps no example input; give one.")

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
