"""Names of tasks, as the ecosystem's pipelines have them, and the models that learn each."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.core.errors import ConfigError, suggest


@dataclass(frozen=True)
class Pipeline:
    """Inputs of a task, its heads, and the architectures that have them; the usual one first."""

    inputs: Sequence[str]
    heads: Sequence[str]
    architectures: Sequence[str]
    greedy: bool = False
    """Whether text is generated greedily unless a recipe says otherwise."""
    masks: bool = False
    """Whether only train.mask_fraction of the elements is predicted."""

    @property
    def input(self) -> str:
        """The usual input."""
        return self.inputs[0]


TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PIPELINES = {name: Pipeline(**own) for name, own in TABLE.items()}
"""Sequences of parts are read where `input` is parts."""


def pipeline_of(task: str) -> Pipeline:
    """A pipeline by its name; ConfigError: there is none."""
    if task not in PIPELINES:
        raise ConfigError(f"There is no task {task!r}; {suggest(task, PIPELINES)}")
    return PIPELINES[task]
