"""Base of tasks that generate tokens for an input: of a text, or of an image."""

from collections.abc import Sequence
from typing import Any

from glassformer.data.example import Example
from glassformer.data.order import spread
from glassformer.models.transformer import Transformer
from glassformer.processors.inputs import Inputs
from glassformer.processors.tokens.elements import token_names
from glassformer.tasks.evaluate import EVERYTHING, Evaluation, evaluate
from glassformer.tasks.predictors.embed import Embed
from glassformer.tasks.records import RecordTask, merged


class GenerativeTask(RecordTask):
    """Tokens for each input; loss is on these tokens alone."""

    uses = (Embed,)
    capabilities, outcome_kind = ("generates",), "tokens"

    def answered(self, inputs: Inputs, numbers: Sequence[int]) -> list[Example]:
        """Examples with the tokens to be generated."""
        return merged(inputs.examples(numbers), self.targets_of(inputs, numbers))

    def measured(self) -> list[str]:
        """See `Task`."""
        return ["Loss and accuracy are of each target given those before it."]

    def evaluate(
        self, model: Transformer, split: str, of: Evaluation = EVERYTHING
    ) -> dict[str, Any]:
        """See `Task`: each target given those before it."""
        inputs = self.split(split)
        groups = inputs.groups(model.config.max_length)
        chosen = (groups[i] for i in spread(len(groups), of.limit))
        batches = (self.collate([[e] for e in self.answered(inputs, own)]) for own in chosen)
        return evaluate(model, batches, of.precision, of.processes).result()

    def outcomes(self) -> tuple[str, ...]:
        """See `Task`."""
        return token_names(self.processor.tokenizer, self.recipe.model.vocab_size)
