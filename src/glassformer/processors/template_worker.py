"""The process that renders chat templates: a line of JSON in, a line of JSON out.

    {"template": "...", "values": {"messages": [...]}}  ->  {"text": "...", "answers": [[4, 9]]}
                                                        ->  {"error": "..."}

A template is a program of a stranger. It runs in Jinja's sandbox, in a process that may use little
time and memory, open no file and write to none. This file is run as a script and imports nothing of
the package.
"""

import json
import signal
import sys
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.sandbox import ImmutableSandboxedEnvironment

SECONDS = 0.1
"""Processor time of one rendering."""
MEMORY = 256 << 20
"""Bytes of the whole process."""
LONGEST = 1 << 22
"""Characters of a rendered text."""
BEGIN, END = "\ufdd0", "\ufdd1"
"""Marks of an answer in the text: code points that are no characters."""


class Generation(Extension):
    """The tag {% generation %} ... {% endgeneration %} around what the assistant says."""

    tags = {"generation"}  # noqa: RUF012 - as Jinja has it

    def parse(self, parser: Any) -> nodes.Node:
        """The block with marks around it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_marked")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _marked(self, caller: Any) -> str:
        return f"{BEGIN}{caller()}{END}"


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """A value as JSON, characters as they are."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def raise_exception(message: str) -> None:
    """Refuse the messages, as a template asks for it."""
    raise TemplateError(message)


def strftime_now(form: str) -> str:
    """The present time."""
    return datetime.now().strftime(form)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, whose errors are raised as they are: Jinja would read its own files for a
    better traceback."""

    def handle_exception(self, source: str | None = None) -> NoReturn:
        """Raise the present exception."""
        raise


def environment() -> Sandbox:
    """The sandbox with what published templates use."""
    made = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, LoopControlExtension]
    )
    made.filters["tojson"] = tojson
    functions: Any = made.globals
    functions |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    return made


ENVIRONMENT = environment()


@lru_cache(8)
def compiled(template: str) -> Any:
    """A template ready to be rendered."""
    return ENVIRONMENT.from_string(template)


def rendered(template: str, values: dict[str, Any]) -> dict[str, Any]:
    """The text, and the places of the answers that the template marks."""
    pieces, size = list[str](), 0
    for piece in compiled(template).generate(**values):
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST:
            return {"error": f"its text has more than {LONGEST:,} characters"}
    text, answers, size = "", list[list[int]](), 0
    kept = list[str]()
    for part in "".join(pieces).split(BEGIN):
        inside, mark, behind = part.partition(END)
        if mark:
            answers.append([size, size + len(inside)])
        kept += [inside, behind]
        size += len(inside) + len(behind)
    text = "".join(kept)
    return {"text": text, "answers": answers}


def answered(line: str) -> dict[str, Any]:
    """The reply to a request; what a template raises is an error in it."""
    try:
        request = json.loads(line)
        return rendered(request["template"], request["values"])
    except MemoryError:
        return {"error": "it needs too much memory"}
    except SecurityError as error:
        return {"error": f"it reaches for what a template may not have ({error})"}
    except TemplateSyntaxError as error:
        return {"syntax": f"line {error.lineno}: {error.message}"}
    except TemplateError as error:
        return {"error": str(error.message)}
    except Exception as error:  # noqa: BLE001 - a template can raise any
        return {"error": f"{type(error).__name__}: {error}"}


def limit() -> None:
    """Give up rights that rendering does not need, where the system has limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, most in (("AS", MEMORY), ("FSIZE", 0), ("NOFILE", 0), ("CORE", 0)):
        name = getattr(resource, f"RLIMIT_{kind}")
        resource.setrlimit(name, (most, most))


def main() -> None:
    """Answer lines until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asks
    sys.stdin.reconfigure(encoding="utf-8")  # pyright: ignore
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # pyright: ignore
    ENVIRONMENT.from_string("{{ strftime_now('%d') | tojson }}").render()  # imports the rest
    limit()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    timer = getattr(signal, "setitimer", None)
    for line in iter(sys.stdin.readline, ""):
        if timer is not None:  # the signal ends the process
            timer(signal.ITIMER_PROF, SECONDS)
        reply = json.dumps(answered(line))
        if timer is not None:
            timer(signal.ITIMER_PROF, 0)
        sys.stdout.write(reply + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
