"""Vectors of inputs: nothing is learned."""

from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation
from glassformer.tasks.objectives.objective import Card, Objective


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

    @property
    def verb(self) -> str:
        """See `Objective`: no command computes vectors of images and audio."""
        return "embed" if self.processor.tokenizer else "inspect"

    def card(self) -> Card:
        """See `Objective`."""
        described = "; ".join(self.processor.description())
        lines = " < lines" if self.processor.tokenizer else ""
        return Card(described, "nothing", f"glassformer {self.task.verb} {self.folder}{lines}")

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """Refused."""
        raise self.task.refusal("evaluating")

    def outcomes(self) -> tuple[str, ...]:
        """See `Objective`."""
        return ()
