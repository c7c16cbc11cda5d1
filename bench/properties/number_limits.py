"""Numbers at, below and beyond their limits, and values of other types, wherever a number is."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from glassformer.core.errors import GlassformerError
from glassformer.recipe.fields import field_rows
from glassformer.recipe.reading import read_recipe, replace_value
from glassformer.recipe.recipe import Recipe
from glassformer.serve.explorer.schema import SCHEMA, arguments
from properties.asking import posted, served
from serve.asking import reply_of


def numbers(low: float | None, high: float | None) -> list[Any]:
    """Values at, below and beyond limits, and values of other types."""
    edges = [edge + step for edge in (low, high) if edge is not None for step in (-1, 0, 1)]
    whole = [2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**31) - 1, -(2**63) - 1, 10**400]
    parts = [-1, 0, 1, 0.5, -0.0, 1e-320, 1e308]
    others = [True, False, None, "", "1", "nan", "1" * 5000, [1], [], {}, {"a": 1}, [[1]]]
    return [*edges, *whole, *parts, *others, *RAW]


RAW = [float("nan"), float("inf"), -float("inf")]
"""json writes these as NaN and Infinity, which other readers refuse."""


def _example(explorer: Any) -> Any:
    return explorer.handle({"op": "model"}).header["examples"][0]


def requests(explorer: Any) -> Iterator[dict[str, Any]]:
    """Requests of every op, with every value in the place of every number."""

    look = {"input": _example(explorer)}
    needed = {"look": look, "a": look, "b": look, "point": "head.logits"}
    for op in SCHEMA["ops"]:
        if op == "document":
            continue
        own = arguments(op)
        base = {"op": op} | {
            name: needed.get(name, 0) for name, spec in own.items() if "default" not in spec
        }
        yield base
        for name, spec in own.items():
            kind = spec.get("type")
            of = spec["items"] if kind == "array" else spec
            if of.get("type") not in ("integer", "number", "baseline"):
                continue
            for value in numbers(spec.get("minimum"), spec.get("maximum", spec.get("maxItems"))):
                yield base | {name: [value] if kind == "array" else value}
    for checkpoint in numbers(0, 1 << 31):
        yield {"op": "look", "look": look | {"checkpoint": checkpoint}}
    for edits in ([{}] * 1001, [{"edit": "Zero", "point": "*", "head": 2**63}], [[]] * 5):
        yield {"op": "look", "look": look | {"edits": edits}}
    yield {"op": "look", "look": {"input": [1] * 100_000}}
    yield {"op": "look", "look": {"input": "x" * 1_000_000}}


def bodies() -> list[tuple[str, bytes]]:
    """Requests that are none."""
    deep = b"[" * 10_000 + b"]" * 10_000
    bomb = gzip.compress(bytes(1 << 24))
    digits = b'{"op": "look", "look": {"input": "a", "checkpoint": ' + b"9" * 100_000 + b"}}"
    return [("depth", deep), ("gzip", bomb), ("digits", digits), ("empty", b""), ("cut", b'{"op"')]


def number_limits(explorer: Any) -> tuple[Counter[int], float, list[str]]:
    """Statuses, the longest time of a refusal in seconds, and what should not be."""
    look = json.dumps({"op": "look", "look": {"input": _example(explorer)}})
    statuses, slowest, problems = Counter[int](), 0.0, list[str]()
    with served(explorer) as server:
        first = _numbers(posted(server, "/api", look.encode())[2])
        tries = [(str(one)[:80], json.dumps(one).encode()) for one in requests(explorer)]
        for what, body in [*tries, *bodies()]:
            stream = any(f'"op": "{op}"'.encode() in body for op in ("generate", "sweep"))
            status, took, answer = posted(server, "/stream" if stream else "/api", body)
            statuses[status] += 1
            if status >= 400:
                slowest = max(slowest, took)
                told = json.loads(answer)
                if status >= 500 or set(told) != {"error", "kind"} or "\n" in told["error"]:
                    problems.append(f"{what}: {status} {answer[:200]!r}")
        if _numbers(posted(server, "/api", look.encode())[2]) != first:
            problems.append("the same look has another answer")
    return statuses, slowest, problems


def _numbers(answer: bytes) -> Any:
    """An answer without the time that it took."""
    reply = reply_of(answer)
    header = {name: one for name, one in reply.header.items() if name not in ("ms", "cached")}
    return header, {name: array.tobytes() for name, array in reply.arrays.items()}


def recipe_fields() -> tuple[Counter[str], list[str]]:
    """Every field of a recipe with every number and text, in a file and as an override."""
    found, problems = Counter[str](), list[str]()
    for row in field_rows():
        if not any(kind in row.type for kind in ("int", "float", "number")):
            continue
        for value in numbers(0, None):
            for given in ("file", "override"):
                try:
                    if given == "file":
                        Recipe.parse(replace_value({"task": "text-generation"}, row.path, value))
                    else:
                        read_recipe(None, ["task=text-generation", f"{row.path}={value}"[:6000]])
                    found["taken"] += 1
                except GlassformerError:
                    found["told"] += 1
                except Exception as error:  # noqa: BLE001 - this is what is looked for
                    problems.append(f"{given}: {row.path}={str(value)[:40]}: {error!r}"[:300])
    return found, problems
