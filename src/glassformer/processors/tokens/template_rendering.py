"""Rendering of chat templates in Jinja's sandbox, with what published templates use.

A template is a program of a stranger: `render` runs in a worker process. Jinja and the rest of the
standard library that rendering needs are imported with this file, since a worker opens no file.
"""

import json
from datetime import datetime
from functools import lru_cache, partial
from io import StringIO
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2 import debug as debug  # which Jinja imports at an error
from jinja2.ext import Extension, LoopControlExtension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from glassformer.core.errors import DataError

LONGEST = 1 << 22
"""Characters of a rendered text."""
SHOWN = 200
"""Characters of an error of a template."""
Span = tuple[int, int]


class Generation(Extension):
    """The tag {% generation %} ... {% endgeneration %} around what the assistant says."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja has it
    text, answers = StringIO(), list[Span]()
    """What is rendered so far, and the spans of answers in it."""

    def parse(self, parser: Any) -> nodes.Node:
        """Return the block as a call of `_note`."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_note"), [], [], body).set_lineno(line)

    def _note(self, caller: Any) -> str:
        answer, begin = caller(), self.text.tell()
        self.answers.append((begin, begin + len(answer)))
        return answer


def raise_exception(message: str) -> None:
    """Refuse the messages with this reason."""
    raise TemplateError(message)


ENVIRONMENT = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, LoopControlExtension]
)
ENVIRONMENT.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
functions: Any = ENVIRONMENT.globals
functions |= {
    "raise_exception": raise_exception,
    "strftime_now": lambda form: datetime.now().strftime(form),
}
compiled = lru_cache(8)(ENVIRONMENT.from_string)
compiled("{{ strftime_now('%d') | tojson }}").render()  # imports the rest


def render(template: str, values: dict[str, Any]) -> tuple[str, list[Span]]:
    """Return the text of a template, and the spans of characters that it marks as answers.

    DataError: Jinja cannot read it, it fails, or it writes more than `LONGEST` characters.
    """
    text, answers = Generation.text, Generation.answers = StringIO(), []
    try:
        for piece in compiled(template).generate(**values):
            text.write(piece)
            if text.tell() > LONGEST:
                raise TemplateError(f"its text has more than {LONGEST:,} characters")
    except Exception as error:  # noqa: BLE001 - a template can raise any
        said = " ".join(f"{type(error).__name__}: {error}".split())[:SHOWN]
        raise DataError(
            f"the chat template does not render these messages: {said}; change them, or the "
            "template"
        ) from None
    return text.getvalue(), answers
