"""Pairs that are too long for a model."""

from collections.abc import Iterator, Mapping
from typing import Any

from glassformer.processors.pairs import PairInputs
from glassformer.recipe.recipe import Recipe


def left_out(data: Mapping[str, Any], recipe: Recipe) -> Iterator[str]:
    """A sentence for each split with pairs that are too long."""
    longest, own = recipe.model.max_length, recipe.train.length
    field = "train.length" if own else "model.max_length"
    limits = (("train", field, own or longest), ("validation", "model.max_length", longest))
    for split, field, most in limits:
        inputs, name = data.get(split), "training" if split == "train" else split
        if isinstance(inputs, PairInputs) and (n := inputs.too_long(most)):
            yield (
                f"left out: {n:,} {name} pairs with a side of more than {most} tokens; raise "
                f"{field} to use them"
            )
