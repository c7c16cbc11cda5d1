"""The page in one piece: its modules linked into one, and a view with its answers saved as a file
that opens from disk.

    static/*.js ── in the order of their imports ──> [source, number of a module, source, ...] for each
                                                      └─ joined in the browser with the blob address of each number

A saved page asks nobody: `globalThis.glassformerSaved` is {state, answers}, answers by the
questions as the page asked them. Only static imports of "./x.js" and "../x.js" can be linked, and a
policy in the page forbids the network.
"""

import base64
import html
import json
import posixpath
import re
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import finite
from glassformer.serve.explorer.files import STATIC
from glassformer.serve.explorer.requests import Ask
from glassformer.serve.explorer.wire import Reply

IMPORT = re.compile(
    r"""^[ \t]*(?:import|export)\b(?:[^"'`;]*?\bfrom)?\s*(["'])(?P<name>[^"'\n]+)\1""", re.MULTILINE
)
"""An import or a re-export at the beginning of a line, over several lines if need be."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' blob:; "
    "img-src data: blob:"
)
LOADER = """const urls = [];
for (const parts of %s) {
  const source = parts.map((part) => (typeof part === "number" ? JSON.stringify(urls[part]) : part)).join("");
  urls.push(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
}
const page = await import(urls.at(-1));
"""
MOST_ANSWERS = 500
CONTENTS, SAVED, FRAMED = "contents.js", "saved.js", "framed.js"
PAGE = re.compile(
    r'export const page = \{\s*id: "(?P<id>\w+)",\s*title: "[^"]*",\s*'
    r"families: (?P<families>null|\[[^\]]*\])"
)
ENTRY = """%s
import {mount} from "./shell.js";
import {canonical} from "./state.js";
import {fromFile, makeWire} from "./wire.js";
const {state, answers} = globalThis.glassformerSaved;
const known = Object.entries(answers).map(([question, answer]) => [canonical(JSON.parse(question)), answer]);
mount(document.body, {pages, wire: makeWire(fromFile(Object.fromEntries(known))), bind: false, start: state});
"""
"""What `main.js` is to a saved page: the same shell, whose questions are answered from the page."""


@dataclass(frozen=True)
class Page:
    """A page of the explorer: its module below `static`, and the families of models that it is for
    (None: all)."""

    module: str
    families: tuple[str, ...] | None


def contents(static: Path = STATIC) -> dict[str, Page]:
    """The pages by their ids, as `contents.js` imports them; ConfigError: a module that is no
    page."""
    found: dict[str, Page] = {}
    for line in IMPORT.finditer(_source(static / CONTENTS)):
        module = resolved(CONTENTS, line["name"])
        said = PAGE.search(_source(static / module))
        if said is None:
            raise ConfigError(
                f"{module} says no id, title and families of a page; begin `export const page` "
                f"with them."
            )
        families = said["families"]
        found[said["id"]] = Page(
            module, None if families == "null" else tuple(re.findall(r"\w+", families))
        )
    return found


def linked(entry: str, static: Path = STATIC) -> str:
    """One ES module that has `entry` and all that it imports in it, and exports its default.

    ConfigError: a file that is missing, an import that is no relative path, files that import each
    other in a circle.
    """
    return f"{_loader(entry, static)}export default page.default;\n"


def _loader(entry: str, static: Path, pages: Iterable[str] = ()) -> str:
    modules = ordered(entry, static, pages)
    numbers = {name: i for i, name in enumerate(modules)}
    pieces = [cut(name, source, numbers) for name, source in modules.items()]
    return LOADER % inside_html(pieces)


def ordered(entry: str, static: Path = STATIC, pages: Iterable[str] = ()) -> dict[str, str]:
    """The sources of `entry` and of all that it imports, each after those that it imports; errors
    as of `linked`.

    `pages`: those that the entry of a saved page has; none: all.
    """
    sources: dict[str, str] = {}
    graph: dict[str, list[str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in sources:
            continue
        sources[name] = _entry(pages, static) if name == SAVED else _source(static / name)
        graph[name] = [resolved(name, found["name"]) for found in IMPORT.finditer(sources[name])]
        waiting += graph[name]
    try:
        return {name: sources[name] for name in TopologicalSorter(graph).static_order()}
    except CycleError as error:
        raise ConfigError(
            f"{' imports '.join(reversed(error.args[1]))}; modules in a circle cannot be linked."
        ) from None


def _entry(pages: Iterable[str], static: Path) -> str:
    """The module that a saved page begins with; ConfigError: a page that there is not."""
    chosen = list(dict.fromkeys(pages))
    if not chosen:
        return ENTRY % f'import {{pages}} from "./{CONTENTS}";'
    known = contents(static)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"There is no page {name!r}; {suggest(name, known)}")
    lines = [
        f'import {{page as page{i}}} from "./{known[name].module}";'
        for i, name in enumerate(chosen)
    ]
    return ENTRY % "\n".join(
        [*lines, f"const pages = [{', '.join(f'page{i}' for i in range(len(chosen)))}];"]
    )


def _source(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        raise ConfigError(f"{file} cannot be read, and the page needs it; restore it.") from None


def resolved(importer: str, specifier: str) -> str:
    """The path below `static` of what a module imports; ConfigError: it is not relative, or
    outside."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(importer), specifier))
    if not specifier.startswith(("./", "../")) or path.startswith("..") or not path.endswith(".js"):
        raise ConfigError(
            f'{importer} imports "{specifier}"; only "./x.js" and "../x.js" inside of static '
            f"can be linked."
        )
    return path


def cut(name: str, source: str, numbers: Mapping[str, int]) -> list[str | int]:
    """A module's source with the number of a module in place of each quoted import."""
    pieces: list[str | int] = []
    end = 0
    for found in IMPORT.finditer(source):
        begin, stop = found.span("name")
        pieces += [
            source[end : begin - 1],
            numbers[resolved(name, found["name"])],
        ]  # the quotes go too
        end = stop + 1
    return [*pieces, source[end:]]


def inside_html(value: Any) -> str:
    """A value as JSON that can stand in a script of a page: nothing in it ends the script."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


class DocumentAsk(Ask):
    """What is saved."""

    state: dict[str, Any] = Field(description="what is selected")
    questions: list[str] = Field(
        [],
        max_length=MOST_ANSWERS,
        description="the requests whose answers the page needs, as JSON texts",
    )
    title: str = Field("glassformer", max_length=200, description="the name of the page")
    pages: list[str] = Field([], max_length=100, description="the pages that it has; none: all")


def document(
    ask: DocumentAsk,
    handle: Callable[[Any], Reply],
    stream: Callable[[Any], Iterable[dict[str, Any]]],
    streams: Container[str],
) -> Reply:
    """A view as one HTML file, the bytes `html`: the page, what is selected, and the answers to its
    questions.

    Questions are answered by `handle`, or by `stream` if their op is one of `streams`. One without
    an answer (an error) is left out, and the page says so when it asks. ConfigError: a question
    that is no JSON.
    """
    answers: dict[str, Any] = {}
    for question in ask.questions:
        try:
            request = json.loads(question)
        except (ValueError, RecursionError):
            raise ConfigError(
                "request.questions must be requests as JSON texts; send them as they were asked."
            ) from None
        op = request.get("op") if isinstance(request, dict) else None
        if not isinstance(op, str) or op == "document":
            continue
        with suppress(GlassformerError):
            if op in streams:
                answers[question] = [*stream(request), {"done": True}]
            else:
                answers[question] = base64.b64encode(handle(request).to_bytes()).decode()
    page = saved(finite(ask.state), answers, ask.title, ask.pages).encode("utf-8", "replace")
    return Reply(
        {"title": ask.title, "answers": len(answers)}, {"html": np.frombuffer(page, np.uint8)}
    )


def saved(
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    title: str,
    pages: Iterable[str] = (),
    static: Path = STATIC,
) -> str:
    """The page with everything in it; `pages`: those that it has, none: all. Errors as of `linked`.

    One page alone is meant for a cell of a notebook.
    """
    chosen = tuple(pages)
    held = f"<script>globalThis.glassformerSaved={inside_html({'state': state, 'answers': answers})}</script>\n"
    return _page(
        title,
        held,
        _loader(SAVED, static, chosen),
        static,
        "cell alone" if len(chosen) == 1 else "",
    )


def framed(static: Path = STATIC) -> str:
    """The page as a notebook's frame has it: it asks whoever put it there. Errors as of
    `linked`."""
    return _page("glassformer", "", _loader(FRAMED, static), static, "cell")


def _page(title: str, held: str, module: str, static: Path, room: str) -> str:
    """The page's file with style and module in it; `room`: classes for where it stands."""
    page = _source(static / "index.html")
    page = re.sub(
        r"<title>.*?</title>",
        lambda _: f"<title>{html.escape(title)}</title>",
        page,
        flags=re.DOTALL,
    )
    page = re.sub(r'<link\b[^>]*\brel="icon"[^>]*>\s*', "", page)
    page = re.sub(
        r'<link\b[^>]*\brel="stylesheet"[^>]*\bhref="([^"]+)"[^>]*>',
        lambda m: _style(m[1], static),
        page,
    )
    script = f'{held}<script type="module">{module}</script>'
    page = re.sub(r'<script\b[^>]*\btype="module"[^>]*>\s*</script>', lambda _: script, page)
    if room:
        page = re.sub(r"<html\b", lambda m: f'{m[0]} class="{room}"', page, count=1)
        page = page.replace("</head>", f"{_style('cell.css', static)}\n</head>", 1)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return re.sub(r"<head\b[^>]*>", lambda m: f"{m[0]}\n{policy}", page, count=1)


def _style(name: str, static: Path) -> str:
    source = _source(static / posixpath.normpath(name)).replace("</", "<\\/")
    return f"<style>{source}</style>"
