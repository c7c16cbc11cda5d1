"""The explorer's contract with its pages, `static/schema.json`, and requests checked against it.

    {"op": "head", "look": {"input": "the cat", "edits": [], "checkpoint": null}, "layer": 3,
     "head": 5}

The pages read the same file: the fields of a selection, the pages, the ops and their arguments.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from glassformer.core.record import Record

STATIC = Path(__file__).parent / "static"
SCHEMA = json.loads((STATIC / "schema.json").read_text(encoding="utf-8"))
ARGUMENTS, CONTROLS = SCHEMA["arguments"], SCHEMA["controls"]
PAGES: dict[str, dict[str, Any]] = {page["id"]: page for page in SCHEMA["pages"]}
STREAMS = [name for name, op in SCHEMA["ops"].items() if op.get("stream")]
DEFAULTS: Mapping[str, Any] = {name: field["default"] for name, field in SCHEMA["state"].items()}
"""The state of a page without any selection."""


class LookRequest(Record):
    """A look: an input, edits, and a checkpoint."""

    section = "look"

    input: Any
    """a text, or another input of the model; see `inputs`"""
    edits: list[dict[str, Any]] = Field([], max_length=1000)
    """changes inside the model, in order"""
    checkpoint: int | None = Field(None, ge=0)
    """the step of a checkpoint; None: the model itself"""


Whole = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
TYPES: dict[str, Any] = {
    "integer": Whole,
    "number": float,
    "string": str,
    "boolean": bool,
    "object": dict[str, Any],
    "look": LookRequest,
    "baseline": Literal["zero", "mean"] | Whole,
}
BOUNDS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "maxItems": "max_length",
    "maxLength": "max_length",
}


class Request(Record, use_attribute_docstrings=False):  # slow, and the fields have none
    """The arguments of one op; see `Record.parse`."""

    section = "request"


def arguments(op: str) -> dict[str, dict[str, Any]]:
    """The arguments of an op: type, bounds, default and description by name."""
    own = SCHEMA["ops"][op]["arguments"]
    return {name: ARGUMENTS.get(f"{op}.{name}") or ARGUMENTS[name] for name in own}


def _type(spec: Mapping[str, Any]) -> Any:
    """The Python type of a JSON type."""
    kind = spec.get("type")
    if "enum" in spec:
        found: Any = Literal[tuple(spec["enum"])]
    else:
        found = list[_type(spec["items"])] if kind == "array" else TYPES[str(kind)]
    bounds = {BOUNDS[name]: value for name, value in spec.items() if name in BOUNDS}
    found = Annotated[found, Field(**bounds)] if bounds else found
    return found | None if spec.get("nullable") else found


def _request(op: str) -> type[Request]:
    fields: dict[str, Any] = {
        name: (_type(spec), spec.get("default", ...)) for name, spec in arguments(op).items()
    }
    return create_model(op, __base__=Request, __doc__=f"Arguments of {op}.", **fields)


REQUESTS = {op: _request(op) for op in SCHEMA["ops"]}
