"""Strict JSON of a request: no NaN, no name twice in an object, bounded nesting."""

import json
import re
from typing import Any

from glassformer.serve.api.problems import ApiError

STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
BRACKETS = re.compile(r"[\[\]{}]")
DIGITS = 400
"""Characters of a number: beyond, Python's conversion takes quadratic time."""


def parsed(body: bytes, depth: int) -> Any:
    """The value of a body in UTF-8; ApiError 400: it is no strict JSON."""
    try:
        text = body.decode("utf-8")
        if nesting(text) > depth:
            raise ApiError(400, f"The request is nested deeper than {depth} levels; flatten it.")
        return json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_float,
            parse_int=_int,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError) as error:
        said = str(error)[:100]
        raise ApiError(400, f"The request is no JSON ({said}); send an object in UTF-8.") from None


def nesting(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    deepest = depth = 0
    for bracket in BRACKETS.findall(STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:20]} is too large")
    return value


def _int(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"{digits[:20]}... is too large")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is there twice")
    return found
