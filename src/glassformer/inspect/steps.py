"""A translation as an alignment: which source element each target element looked at most when it was chosen.

    steps: for each target element the recorded rows of cross-attention [layer][head][source element]

Row t is that of the element from which target token t was read (see `alignment.py`). Attention tells where the model
looked, not what it took from there. Knows: rows of attention. Does not know: models, decoding, elements' names.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.errors import ConfigError

CrossRows = Sequence[Sequence[Sequence[float]]]
"""Of one step: [layer][head][source element]."""


@dataclass(frozen=True)
class Aligned:
    """A target element with the source element that it looked at most, and the attention that this one got."""

    target: int
    source: int
    weight: float


def cross_weights(
    steps: Sequence[CrossRows], layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> np.ndarray:
    """The mean over layers and heads of the rows of all steps, float64 [target elements, source elements].

    `layers` and `heads` count the recorded ones from 0. Layers default to the one before the last, whose heads align
    best in a trained model (Garg et al. 2019, section 3), heads to all. ConfigError: no cross-attention, or a number
    that was not recorded.
    """
    table = np.array(steps, dtype=np.float64)
    if table.ndim != 4 or not table.size:
        raise ConfigError(
            "These steps have no rows of cross-attention; record an encoder-decoder with Watch(attention=True)."
        )
    n_layers, n_heads = table.shape[1:3]
    chosen = _chosen(layers, n_layers, "layer", [max(0, n_layers - 2)])
    return table[:, chosen][:, :, _chosen(heads, n_heads, "head", range(n_heads))].mean((1, 2))


def strongest(
    steps: Sequence[CrossRows],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    without: Collection[int] = (),
) -> list[Aligned]:
    """The source element with the largest weight for each target element; of equals, the first.

    Source elements `without` which the table is to be made (an end symbol, on which much attention rests) are passed
    over; their weight is not handed to others. ConfigError: as above, and none left.
    """
    table = cross_weights(steps, layers, heads)
    left = [at for at in range(table.shape[1]) if at not in without]
    if not left:
        raise ConfigError(f"All {table.shape[1]} source elements are left out; leave at least one in.")
    most = table[:, left].argmax(1)
    return [Aligned(t, left[s], float(table[t, left[s]])) for t, s in enumerate(most.tolist())]


def _chosen(asked: Sequence[int] | None, n: int, what: str, default: Sequence[int]) -> list[int]:
    chosen = list(default if asked is None else asked)
    wrong = [number for number in chosen if not 0 <= number < n]
    if wrong or not chosen:
        named = f"{what} {wrong[0]}" if wrong else f"no {what}"
        raise ConfigError(f"The table cannot be made of {named}; give some of the recorded {what}s 0 to {n - 1}.")
    return chosen
