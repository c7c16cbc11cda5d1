"""Feature extraction: a vector for each input, from a trunk without a head for predictions."""

from dataclasses import replace
from typing import Any

from glassformer.core.errors import ConfigError, suggest
from glassformer.layers.heads import Pool
from glassformer.processors.processor import Processor
from glassformer.recipe.recipe import Recipe
from glassformer.tasks.predictors.embed import Embed
from glassformer.tasks.task import Card, Task, refused


class FeatureExtraction(Task):
    """Vectors of inputs; nothing is trained."""

    uses = (Embed,)
    capabilities = frozenset({"vectors"})
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
    def pool(self) -> Pool:
        """See `Task`: as the model was trained to; BERT's pooler was trained for another task."""
        own = self.recipe.model
        return own.pool if own.head == "pool" and not own.pooler else "mean"

    @property
    def verb(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """See `Task`: no command computes the vectors of images and audio, but they can be seen."""
        return "inspect" if self.processor.medium else "embed"

    @property
    def normalizes(self) -> bool:
        """See `Task`."""
        own = self.recipe.processor.vectors
        return own is None or own.normalize

    def text_reader(self, prompt: str | None = None) -> Any:
        """See `Task`: as models of sentences were trained to."""
        own = self.recipe.processor.vectors
        if own is None or (prompt is not None and not own.prompts):
            return super().text_reader(prompt)
        name = own.prompt if prompt is None else prompt
        if name is not None and name not in own.prompts:
            raise ConfigError(f"There is no prompt {name!r}; {suggest(name, own.prompts)}")
        before = "" if name is None else own.prompts[name]
        reader = self.processor.reader
        return replace(reader, prefix=before, cut=own.max_length, lowercase=own.lowercase)

    def card(self) -> Card:
        """See `Task`."""
        described = "; ".join(self.processor.description())
        lines = "" if self.processor.medium else " < lines"
        return Card(described, "nothing", f"glassformer {self.verb} {self.folder}{lines}")

    def reply(self) -> dict[str, Any]:
        """See `Task`."""
        return {"vector": {"type": "array", "items": {"type": "number"}}}
