"""Examples in groups of a few elements."""

from collections.abc import Iterator, Sequence

from glassformer.data.example import Example
from glassformer.tasks.predictors.predictor import STEP


def groups(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    """Split examples into runs of at most `STEP` elements, or of a single one."""
    begin = size = 0
    for number, example in enumerate(examples):
        if number > begin and size + example.length > STEP:
            yield examples[begin:number]
            begin, size = number, 0
        size += example.length
    if examples:
        yield examples[begin:]
