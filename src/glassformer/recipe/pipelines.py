"""Names of tasks, as the ecosystem's pipelines have them, and the models that learn each."""

from dataclasses import dataclass

from glassformer.core.errors import ConfigError, suggest


@dataclass(frozen=True)
class Pipeline:
    """Inputs of a task, its heads, and the architectures that have them; the usual one first."""

    inputs: tuple[str, ...]
    heads: tuple[str, ...]
    architectures: tuple[str, ...]
    greedy: bool = False
    """Whether text is generated greedily unless a recipe says otherwise."""
    masks: bool = False
    """Whether only train.mask_fraction of the elements is predicted."""
    words: bool = False
    """Whether each word is predicted."""

    @property
    def input(self) -> str:
        """The usual input."""
        return self.inputs[0]


CLASSIFIED = ("text", "image", "audio", "parts")
"""Inputs that have one vector each."""
BOTH, EITHER = ("decoder", "encoder_decoder"), ("encoder", "decoder")
PIPELINES = {
    "text-generation": Pipeline(("documents", "messages"), ("lm",), ("decoder",)),
    "fill-mask": Pipeline(("documents",), ("masked_lm",), ("encoder",), masks=True),
    "text-to-text": Pipeline(("pairs", "parts"), ("lm",), ("encoder_decoder",)),
    "image-text-to-text": Pipeline(("parts", "pairs"), ("lm",), BOTH, True),
    "audio-text-to-text": Pipeline(("parts", "pairs"), ("lm",), BOTH, True),
    "token-classification": Pipeline(("words", "parts"), ("tag",), EITHER, words=True),
    "text-classification": Pipeline(CLASSIFIED, ("classify",), EITHER),
    "image-classification": Pipeline(("image", *CLASSIFIED), ("classify",), ("encoder",)),
    "audio-classification": Pipeline(("audio", *CLASSIFIED), ("classify",), ("encoder",)),
    "image-text-classification": Pipeline(("parts", *CLASSIFIED), ("classify",), EITHER),
    "text-to-image": Pipeline(("parts",), ("lm",), ("decoder",)),
    "feature-extraction": Pipeline(CLASSIFIED, ("none", "pool"), EITHER),
}
"""Sequences of parts are read where `input` is parts."""


def pipeline_of(task: str) -> Pipeline:
    """A pipeline by its name; ConfigError: there is none."""
    if task not in PIPELINES:
        raise ConfigError(f"There is no task {task!r}; {suggest(task, PIPELINES)}")
    return PIPELINES[task]
