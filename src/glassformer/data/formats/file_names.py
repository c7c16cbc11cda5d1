"""Fields in file names, by a template such as `{label}_{speaker}_{index}.wav`."""

import re
from functools import lru_cache

from glassformer.core.errors import ConfigError


def fields_of(pattern: str, name: str) -> dict[str, str] | None:
    """The text of each field of a template in a path; None if the path does not match.

    A template with n slashes is matched against the last n + 1 parts of the path. A field is one
    character or more within one part; of several matches, earlier fields are longer:
    `{label}_{index}.jpg` finds the label `basset_hound` in `basset_hound_12.jpg`. ConfigError: see
    `template`.
    """
    expression, fields = template(pattern)
    found = expression.fullmatch("/".join(name.split("/")[-pattern.count("/") - 1 :]))
    return found and dict(zip(fields, found.groups(), strict=True))


@lru_cache
def template(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """An expression for the end of a path, and the names of its fields.

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
        parts = ["([^/]+)" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces)]
        return re.compile("".join(parts)), fields
    raise ConfigError(
        f"data.label_pattern {pattern!r} {problem}; write it like "
        f"{{label}}_{{speaker}}_{{index}}.wav"
    )
