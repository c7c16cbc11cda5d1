"""Pictures that were drawn of a text, judged by another model: one that tells everything that is in
a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError
from glassformer.run.run import Run


@dataclass(frozen=True)
class Judgement:
    """What a picture is to show, what the judge sees in it, and whether that is all of it and
    nothing else."""

    wanted: frozenset[str]
    seen: frozenset[str]

    @property
    def right(self) -> bool:
        """Whether the judge sees exactly what is wanted."""
        return self.wanted == self.seen


def judged(judge: Run, pictures: Sequence[np.ndarray], prompts: Sequence[str]) -> list[Judgement]:
    """Each picture, uint8 [H, W, C], held against those words of its prompt that are classes of the
    judge.

    ConfigError: a judge without `multi_label`, or a prompt without a word that it knows.
    """
    if not judge.model.config.multi_label:
        raise ConfigError(
            f"{judge.folder} gives each picture one class; judge by a model with "
            f"model.multi_label=true."
        )
    known, found = set(judge.classes), []
    for prompt, seen in zip(prompts, judge.classify(list(pictures)), strict=True):
        wanted = frozenset(prompt.split()) & known
        if not wanted:
            raise ConfigError(
                f"{prompt!r} has no word that {judge.folder} can see; it knows "
                f"{', '.join(judge.classes)}."
            )
        found.append(Judgement(wanted, frozenset(seen)))
    return found
