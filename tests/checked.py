"""The type checker behind the shape checks: beartype, except for methods that give back `Self`.

beartype knows `Self` only when it decorates a whole class, and jaxtyping gives it one method at a time.
"""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
