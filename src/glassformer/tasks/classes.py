"""The classes of a task: their numbers, and their weights in the loss."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from glassformer.core.axes import Float, Tensor
from glassformer.core.errors import ConfigError, DataError, suggest


class Classes:
    """The classes of a task and their numbers."""

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        self._numbers = {name: i for i, name in enumerate(names)}

    def numbers(self, labels: Iterable[str]) -> np.ndarray:
        """The number of each label, int64; -1 for an unknown class."""
        return np.array([self._numbers.get(label, -1) for label in labels], np.int64)

    def check(self, labels: Iterable[str], where: str) -> None:
        """Raise DataError for an unknown class."""
        for label in labels:
            if label not in self._numbers:
                known = suggest(label, self.names)
                raise DataError(
                    f"{where} has the class {label!r}, which model.classes lacks; {known}"
                )

    def check_some_known(self, labels: Iterable[str], split: str) -> None:
        """Raise DataError if the inputs of a split have classes, and none that the model knows."""
        if (found := set(labels)) and found.isdisjoint(self.names):
            theirs, known = (", ".join(sorted(some)[:3]) for some in (found, self.names))
            raise DataError(
                f"no class of the {split} data (such as {theirs}) is known to the model (which has "
                f"{known} and the like); check data.{split} and its fields"
            )

    def weights(
        self, counts: np.ndarray, asked: str | dict[str, float]
    ) -> Float[Tensor, "C"] | None:
        """Weight of each class in the loss, 1 on average over training targets; None: all equal.

        `balanced` is proportional to 1 / counts. ConfigError: a weight of an unknown class, or
        below 0, or none above 0.
        """
        if asked == "none":
            return None
        if isinstance(asked, dict):
            for name, weight in asked.items():
                if name not in self._numbers:
                    raise ConfigError(
                        f"train.class_weights has {name!r}, which is no class; "
                        f"{suggest(name, self.names)}"
                    )
                if weight < 0:
                    raise ConfigError(
                        f"train.class_weights has {weight} for {name!r}; give 0 or more."
                    )
            weights = np.array([asked.get(name, 1.0) for name in self.names], np.float64)
        else:
            weights = 1 / np.maximum(counts, 1)
        if not weights @ counts:
            raise ConfigError(
                "train.class_weights are 0 for every class that occurs; give one of them more."
            )
        return torch.tensor(weights * counts.sum() / (weights @ counts), dtype=torch.float32)
