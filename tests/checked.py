"""The shape checks of the tests: jaxtyping with beartype, once for each combination of shapes.

A check costs a hundred microseconds or more, as much as a small model's whole layer, and depends on
the shapes and dtypes of a call's tensors alone. So a function without annotated shapes is left as
it is, and a call whose tensors have the shapes of an earlier one is not checked again.

beartype cannot check `Self` (it knows it only when it decorates a whole class, and jaxtyping gives
it one method at a time) and protocols of other packages that are not made for isinstance. An int is
a float, as in every type checker.
"""

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jaxtyping
import torch
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception, BeartypeDecorHintPep3119Exception

strict = beartype(conf=BeartypeConf(is_pep484_tower=True))
jaxtyped = jaxtyping.jaxtyped
# By place and not by function: a function inside a function is made anew by every call.
seen: dict[Any, dict[Any, set[Any]]] = {}
there = threading.local()


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return strict(function)
    except (BeartypeDecorHintPep673Exception, BeartypeDecorHintPep3119Exception):
        return function


def kind(value: Any) -> Any:
    """What a check depends on: the shape and dtype of a tensor, the type of anything else."""
    found = KINDS.get(type(value))
    return found(value) if found else type(value)


def tensor_kind(value: torch.Tensor) -> Any:
    return value.shape, value.dtype


KINDS: dict[type, Callable[[Any], Any]] = {
    torch.Tensor: tensor_kind,
    torch.nn.Parameter: tensor_kind,
    tuple: lambda value: tuple(map(kind, value)),
    list: lambda value: (list, kind(value[0]) if value else None),
    dict: lambda value: tuple((key, kind(item)) for key, item in value.items()),
}


def once_for_each_combination_of_shapes(*, typechecker: Any) -> Callable[[Any], Any]:
    """In the place of `jaxtyping.jaxtyped`, which jaxtyping's import hook puts before everything."""

    def decorate(item: Any) -> Any:
        if isinstance(item, classmethod | staticmethod):
            return type(item)(decorate(item.__func__))
        if isinstance(item, property):
            return property(decorate(item.fget), item.fset, item.fdel, item.__doc__)
        if isinstance(item, type):
            if "__init__" in vars(item) and hasattr(item, "__dataclass_fields__"):
                item.__init__ = decorate(item.__init__)
            return item
        if "[Tensor" not in "".join(map(str, item.__annotations__.values())):
            return item
        return remembering(item)

    def remembering(function: Callable[..., Any]) -> Callable[..., Any]:
        place = function.__module__, function.__qualname__, function.__code__
        shapes = seen.setdefault(place, {})
        whole = cache(lambda: jaxtyped(function, typechecker=typechecker))
        # The same signature around a result that is there already.
        again = cache(
            lambda: jaxtyped(
                wraps(function)(lambda *args, **kwargs: there.result), typechecker=typechecker
            )
        )

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_exporting():  # sizes are symbols there
                return function(*args, **kwargs)
            before = kind(args), kind(kwargs)
            results = shapes.get(before)
            if results is None:
                result = whole()(*args, **kwargs)
                shapes[before] = {kind(result)}
                return result
            result = function(*args, **kwargs)
            if (after := kind(result)) not in results:
                there.result = result
                again()(*args, **kwargs)
                results.add(after)
            return result

        return call

    return decorate
