"""Names of tasks, as the ecosystem's pipelines have them, and the models each is learned by."""

from dataclasses import dataclass

from glassformer.errors import ConfigError, suggest


@dataclass(frozen=True)
class Pipeline:
    """The usual input of a task, its heads, and the architectures that have them, usual first."""

    input: str
    heads: tuple[str, ...]
    architectures: tuple[str, ...]
    greedy: bool = False
    """Whether text is generated greedily unless a recipe says otherwise."""
    masks: bool = False
    """Whether only train.mask_fraction of the elements is predicted."""


PIPELINES = {
    "text-generation": Pipeline("documents", ("lm",), ("decoder",)),
    "fill-mask": Pipeline("documents", ("masked_lm",), ("encoder",), masks=True),
    "text-to-text": Pipeline("pairs", ("lm",), ("encoder_decoder",)),
    "image-text-to-text": Pipeline("parts", ("lm",), ("decoder", "encoder_decoder"), True),
    "audio-text-to-text": Pipeline("parts", ("lm",), ("decoder", "encoder_decoder"), True),
    "token-classification": Pipeline("words", ("tag",), ("encoder", "decoder")),
    "text-classification": Pipeline("text", ("classify",), ("encoder", "decoder")),
    "image-classification": Pipeline("image", ("classify",), ("encoder",)),
    "audio-classification": Pipeline("audio", ("classify",), ("encoder",)),
    "image-text-classification": Pipeline("parts", ("classify",), ("encoder", "decoder")),
    "text-to-image": Pipeline("parts", ("lm",), ("decoder",)),
    "feature-extraction": Pipeline("text", ("none", "pool"), ("encoder", "decoder")),
}
"""Sequences of parts are read where `input` is parts."""


def pipeline_of(task: str) -> Pipeline:
    """A pipeline by its name; ConfigError: there is none."""
    if task not in PIPELINES:
        raise ConfigError(f"There is no task {task!r}; {suggest(task, PIPELINES)}")
    return PIPELINES[task]
