"""Feature extraction: a vector for each input, from a trunk without a head for predictions."""

from typing import Any

import torch

from glassformer.batch import Batch
from glassformer.errors import ConfigError
from glassformer.generate.config import GenerateConfig
from glassformer.losses import LossSum
from glassformer.models.transformer import Transformer
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.task import Card, Sample, Task


class FeatureExtraction(Task):
    """Vectors of inputs; nothing is trained."""

    pipelines = ("feature-extraction",)
    inputs = ("text", "image", "audio", "parts")
    capabilities = frozenset({"vectors"})
    summary = "computes vectors"
    verb = "embed"

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """Refused: there is no target to learn."""
        raise ConfigError(
            "task=feature-extraction is nothing to train; train another task, and take its vectors "
            "with `glassformer embed`."
        )

    @property
    def length(self) -> int:
        """See `Task`."""
        return 0

    @property
    def elements(self) -> int:
        """See `Task`."""
        return 0

    @property
    def sequences(self) -> int:
        """See `Task`."""
        return 0

    @property
    def fingerprint(self) -> str:
        """See `Task`."""
        return ""

    def opening(self) -> list[str]:
        """See `Task`."""
        return self.processor.description()

    def batches(self, step: int) -> list[Batch]:
        """See `Task`."""
        return []

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> LossSum:
        """Refused."""
        raise self._refuse("a loss")

    def evaluate(
        self,
        model: Transformer,
        split: str,
        precision: torch.dtype = torch.float32,
        how: GenerateConfig | None = None,
        **limits: int | None,
    ) -> dict[str, Any]:
        """Refused."""
        raise self._refuse("evaluating")

    def sample(self, model: Transformer) -> Sample | None:
        """See `Task`."""
        return None

    def card(self) -> Card:
        """See `Task`."""
        described = "; ".join(self.processor.description())
        return Card(described, "nothing", f"glassformer embed {self.folder} < lines")

    def schema(self) -> dict[str, Any]:
        """See `Task`."""
        vector = {"type": "array", "items": {"type": "number"}}
        return {"type": "object", "properties": {"vector": vector}, "required": ["vector"]}
