"""The explorer's contract with its pages, `static/schema.json`, and requests checked against it.

    {"op": "head", "look": {"input": "the cat", "edits": [], "checkpoint": null}, "layer": 3,
     "head": 5}

The pages read the same file: the fields of a selection, the pages, the ops and their arguments.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, create_model

from glassformer.errors import ConfigError
from glassformer.record import Record

STATIC = Path(__file__).parent / "static"
SCHEMA = json.loads((STATIC / "schema.json").read_text(encoding="utf-8"))
ARGUMENTS, CONTROLS = SCHEMA["arguments"], SCHEMA["controls"]
PAGES: dict[str, dict[str, Any]] = {page["id"]: page for page in SCHEMA["pages"]}
STREAMS = [name for name, op in SCHEMA["ops"].items() if op.get("stream")]
DEFAULTS: Mapping[str, Any] = {name: field["default"] for name, field in SCHEMA["state"].items()}
"""The state of a page without any selection."""
MOST_EDITS = 1000
"""Edits of a look."""
Whole = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
TYPES: dict[str, Any] = {
    "integer": Whole,
    "number": float,
    "string": str,
    "boolean": bool,
    "object": dict[str, Any],
    "look": Annotated[Any, BeforeValidator(lambda values: LookRequest.parse(values))],
    "baseline": Literal["zero", "mean"] | Whole,
}
BOUNDS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "maxItems": "max_length",
    "maxLength": "max_length",
}


class Request(Record):
    """The arguments of one op; ConfigError: one is missing, unknown or of another type."""

    section = "request"

    @classmethod
    def parse(cls, values: Any) -> Self:
        """Check plain values; see `Record`."""
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise ConfigError(
                f"{cls.section} must be a JSON object of named arguments, not {brief(values)}."
            )
        cls.check_keys(values)
        for name, field in cls.model_fields.items():
            if field.is_required() and name not in values:
                raise ConfigError(f"{cls.section}.{name} is missing; give it: {field.description}.")
        return super().parse(dict(values))


class LookRequest(Request):
    """A look: an input, edits, and a checkpoint."""

    section = "look"

    input: Any = Field(description="a text, or another input of the model; see `inputs`")
    edits: list[dict[str, Any]] = Field(
        [], max_length=MOST_EDITS, description="changes inside the model, in order"
    )
    checkpoint: int | None = Field(
        None, ge=0, description="the step of a checkpoint; None: the model itself"
    )


def arguments(op: str) -> dict[str, dict[str, Any]]:
    """The arguments of an op: type, bounds, default and description by name."""
    own = SCHEMA["ops"][op]["arguments"]
    return {name: ARGUMENTS.get(f"{op}.{name}") or ARGUMENTS[name] for name in own}


def brief(value: Any, most: int = 60) -> str:
    """A value in a sentence, cut if it is long."""
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."


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
        name: (_type(spec), Field(spec.get("default", ...), description=spec["description"]))
        for name, spec in arguments(op).items()
    }
    return create_model(op, __base__=Request, __doc__=f"Arguments of {op}.", **fields)


REQUESTS = {op: _request(op) for op in SCHEMA["ops"]}
