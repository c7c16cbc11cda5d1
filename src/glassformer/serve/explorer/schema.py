"""The explorer's contract: state, pages, ops and their arguments, of `static/schema.json`.

The pages read the same file. Values of a page's first questions are plain, `$name` for a value of
its context, or `*name` for one question for each value of a list. Arguments that a question leaves
out come from the selection if it has a field of that name.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from glassformer.serve.explorer.files import STATIC

SCHEMA = json.loads((STATIC / "schema.json").read_text(encoding="utf-8"))
ARGUMENTS, CONTROLS = SCHEMA["arguments"], SCHEMA["controls"]
PAGES: dict[str, dict[str, Any]] = {page["id"]: page for page in SCHEMA["pages"]}
DEFAULTS: Mapping[str, Any] = {name: field["default"] for name, field in SCHEMA["state"].items()}
"""The state of a page without any selection."""


def arguments(op: str) -> dict[str, dict[str, Any]]:
    """The arguments of an op: type, bounds, default and description by name."""
    own = SCHEMA["ops"][op]["arguments"]
    return {name: ARGUMENTS.get(f"{op}.{name}") or ARGUMENTS[name] for name in own}


def look_of(s: Mapping[str, Any]) -> dict[str, Any]:
    """The look of a selection, as requests have it."""
    return {name: s[name] for name in ("input", "edits", "checkpoint")}


def filled(op: str, s: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """A request of an op for a selection."""
    has = {**CONTROLS, **s, "look": look_of(s)}
    own = {
        name: has[name]
        for name, spec in arguments(op).items()
        if ARGUMENTS.get(name) is spec and name in has
    }
    default = {
        name: ARGUMENTS[name]["default"]
        for name, value in own.items()
        if value is None and "default" in ARGUMENTS[name]
    }
    return {"op": op, **own, **default, **given}


def first_questions(
    page: str, s: Mapping[str, Any], context: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The requests of a page when it opens."""
    for question in PAGES[page]["questions"]:
        named = {name: value for name, value in question.items() if name != "op"}
        lists = [
            context[value[1:]]
            if value[:1] == "*"
            else [context[value[1:]] if value[:1] == "$" else value]
            for value in named.values()
        ]
        for values in product(*lists):
            yield filled(question["op"], s, **dict(zip(named, values, strict=True)))
