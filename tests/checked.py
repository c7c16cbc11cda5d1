"""The type checker behind the shape checks: beartype, except where it cannot check an annotation at
all.

That is `Self` (beartype knows it only when it decorates a whole class, and jaxtyping gives it one
method at a time) and protocols of other packages that are not made for isinstance. An int is a
float, as in every type checker.
"""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception, BeartypeDecorHintPep3119Exception

strict = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return strict(function)
    except (BeartypeDecorHintPep673Exception, BeartypeDecorHintPep3119Exception):
        return function
