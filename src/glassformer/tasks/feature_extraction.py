"""Feature extraction: a vector for each input, from a trunk without a head for predictions."""

from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.predictors.embed import Embed
from glassformer.tasks.task import Card, Task, refused


class FeatureExtraction(Task):
    """Vectors of inputs; nothing is trained."""

    uses = (Embed,)
    capabilities = ("vectors",)
    summary = "computes vectors"
    loss = refused("a loss")
    evaluate = refused("evaluating")

    @classmethod
    def resolve(cls, recipe: Recipe, processor: Processor, records: Any) -> Recipe:
        """Refused: there is no target to learn."""
        raise ConfigError(
            "task=feature-extraction is nothing to train; train another task, and take its vectors "
            "with `glassformer embed`."
        )

    @property
    def verb(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `Task`: no command computes the vectors of images and audio, but they can be seen."""
        return "embed" if self.processor.tokenizer else "inspect"

    def card(self) -> Card:
        """See `Task`."""
        described = "; ".join(self.processor.description())
        lines = " < lines" if self.processor.tokenizer else ""
        return Card(described, "nothing", f"glassformer {self.verb} {self.folder}{lines}")
