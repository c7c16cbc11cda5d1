"""Feature extraction: a vector for each input, from a trunk without a head for predictions."""

from typing import Any

import torch

from glassformer.core.errors import ConfigError
from glassformer.layers.losses import LossSum
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.evaluate import EVERYTHING, Evaluation
from glassformer.tasks.objectives.objective import Card, Objective


class Vectors(Objective):
    """Vectors of inputs; nothing is trained."""

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
        return "inspect" if self.processor.medium else "embed"

    def card(self) -> Card:
        """See `Objective`."""
        described = "; ".join(self.processor.description())
        lines = "" if self.processor.medium else " < lines"
        return Card(described, "nothing", f"glassformer {self.task.verb} {self.folder}{lines}")

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """Refused."""
        raise self.task.refusal("a loss")

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """Refused."""
        raise self.task.refusal("evaluating")
