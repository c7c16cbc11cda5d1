"""Fields in file names, by a template such as `{label}_{speaker}_{index}.wav`."""

import re
from functools import lru_cache

from glassformer.errors import ConfigError


def fields_of(pattern: str, name: str) -> dict[str, str] | None:
    """The text of each field of a template in a path; None if the path does not match.

    A template with n slashes is matched against the last n + 1 parts of the path. A field is one
    character or more within one part; of several matches, earlier fields are longer:
    `{label}_{index}.jpg` finds the label `basset_hound` in `basset_hound_12.jpg`. ConfigError: see
    `template`.
    """
    literals, fields = template(pattern)
    rest = "/".join(name.split("/")[-pattern.count("/") - 1 :])
    if not rest.endswith(literals[-1]):
        return None
    rest = rest.removesuffix(literals[-1])
    found: dict[str, str] = {}
    # from the right, each literal as far right as it goes: never a reason to try again, however
    # long the name
    for literal, field in zip(literals[-2:0:-1], fields[:0:-1], strict=True):
        at = rest.rfind(literal, 0, len(rest) - 1)
        if at < 0:
            return None
        found[field] = rest[at + len(literal) :]
        rest = rest[:at]
    if not rest.startswith(literals[0]) or len(rest) == len(literals[0]):
        return None
    found[fields[0]] = rest.removeprefix(literals[0])
    return {field: found[field] for field in fields}


@lru_cache
def template(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Literals before, between and after the fields, and the names of the fields.

    ConfigError: no field, a repeated field, two fields without a literal between them, a stray
    brace.
    """
    pieces = re.split(r"\{(\w+)\}", pattern)
    literals, fields = tuple(pieces[::2]), tuple(pieces[1::2])
    if any("{" in literal or "}" in literal for literal in literals):
        problem = "has a brace that belongs to no field"
    elif not fields:
        problem = "has no field"
    elif len(set(fields)) < len(fields):
        problem = "has a field twice"
    elif not all(literals[1:-1]):
        problem = "has two fields with nothing between them"
    else:
        return literals, fields
    raise ConfigError(
        f"data.label_pattern {pattern!r} {problem}; write it like "
        f"{{label}}_{{speaker}}_{{index}}.wav"
    )
