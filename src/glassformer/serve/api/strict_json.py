"""Strict JSON of a request: no NaN, no name twice in an object, bounded nesting; in linear time."""

import json
import re
from collections import Counter
from typing import Any

import numpy as np

from glassformer.serve.api.problems import ApiError

STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Strings, the last one perhaps without its end."""
STEPS = np.zeros(256, np.int8)
STEPS[[*b"[{"]], STEPS[[*b"]}"]] = 1, -1
MOST_NAMES = 4096
"""Names of an object: of more, a schema would have as many complaints."""


def parsed(body: bytes, depth: int) -> Any:
    """The value of a body in UTF-8; ApiError 400: it is no strict JSON."""
    try:
        text = body.decode("utf-8")
        if nesting(text) > depth:
            raise ApiError(400, f"The request is nested deeper than {depth} levels; flatten it.")
        return json.loads(
            text, parse_constant=_refuse, parse_float=_float, object_pairs_hook=_object
        )
    except (ValueError, RecursionError) as error:
        said = str(error)[:100]
        raise ApiError(400, f"The request is no JSON ({said}); send an object in UTF-8.") from None


def nesting(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    outside = STRINGS.sub("", text).encode("ascii", "replace")
    return int(STEPS[np.frombuffer(outside, np.uint8)].cumsum().max(initial=0))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:20]} is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_NAMES:
        raise ValueError(f"an object has {len(pairs)} names, more than {MOST_NAMES}")
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{twice[:40]!r} is there twice")
    return found
