"""Images drawn from a text, judged by a model that names everything in an image."""

from collections.abc import Sequence

import numpy as np

from glassformer.errors import ConfigError
from glassformer.run import Run


def judged(judge: Run, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[bool]:
    """Whether the judge sees exactly the words of each prompt that are its classes, in images uint8
    [H, W, C].

    ConfigError: a judge without `multi_label`, or a prompt without a word that it knows.
    """
    if not judge.model.config.multi_label:
        raise ConfigError(
            f"{judge.folder} gives each picture one class; judge by a model with "
            "model.multi_label=true."
        )
    known, right = set(judge.classes), []
    for prompt, seen in zip(prompts, judge.classify(list(images)), strict=True):
        wanted = set(prompt.split()) & known
        if not wanted:
            raise ConfigError(
                f"{prompt!r} has no word that {judge.folder} can see; it knows "
                f"{', '.join(judge.classes)}."
            )
        right.append(wanted == set(seen))
    return right
