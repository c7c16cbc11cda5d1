"""The explorer as one HTML file: its modules linked, and a page saved with the answers it needs.

    static/*.js ── in the order of their imports ──> [source, number of a module, source, ...]

There is such a list for each module, joined in the browser with the blob address of each number.

A module imports another by its relative path in double quotes, which is replaced wherever it
stands. A saved page has `globalThis.glassformerSaved` = {state, answers}, answers by the page's
requests, and a policy that forbids the network.
"""

import base64
import html
import json
import posixpath
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import finite
from glassformer.serve.explorer.files import STATIC
from glassformer.serve.explorer.schema import PAGES
from glassformer.serve.explorer.wire import Reply

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' blob:; "
    "img-src data: blob:"
)
LOADER = """const urls = [];
for (const parts of %s) {
  const source = parts
    .map((part) => (typeof part === "number" ? JSON.stringify(urls[part]) : part))
    .join("");
  urls.push(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
}
const page = await import(urls.at(-1));
"""
PAGE = """<!doctype html>
<html {room}lang="en">
<head>
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
{script}
</head>
<body><noscript>The explorer needs JavaScript.</noscript></body>
</html>
"""
SAVED, FRAMED = "saved.js", "framed.js"
JSON_IMPORT = ' with {type: "json"}'
ENTRY = """%s
import {mount} from "./shell.js";
import {canonical} from "./state.js";
import {fromFile, makeWire} from "./wire.js";
const {state, answers} = globalThis.glassformerSaved;
const known = Object.entries(answers).map(
  ([question, answer]) => [canonical(JSON.parse(question)), answer],
);
const wire = makeWire(fromFile(Object.fromEntries(known)));
mount(document.body, {pages, wire, bind: false, start: state});
"""
"""The main module of a saved page."""


def linked(entry: str, static: Path = STATIC) -> str:
    """One ES module with `entry` and all that it imports; it exports the default of `entry`.

    ConfigError: a missing file, or files that import each other in a circle.
    """
    return f"{_loader(entry, static)}export default page.default;\n"


def _loader(entry: str, static: Path, pages: Iterable[str] = ()) -> str:
    modules = ordered(entry, static, pages)
    numbers = {name: i for i, name in enumerate(modules)}
    return LOADER % inside_html([cut(name, source, numbers) for name, source in modules.items()])


def ordered(entry: str, static: Path = STATIC, pages: Iterable[str] = ()) -> dict[str, str]:
    """The sources of `entry` and all that it imports, each after its imports; errors of `linked`.

    `pages`: those of the entry of a saved page; none: all.
    """
    there = [
        file.relative_to(static).as_posix()
        for ending in ("js", "json")
        for file in static.rglob(f"*.{ending}")
    ]
    sources: dict[str, str] = {}
    graph: dict[str, list[str]] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = _entry(pages) if name == SAVED else _source(static / name)
            own = () if name.endswith(".json") else there
            graph[name] = [one for one in own if specifier(name, one) in sources[name]]
            waiting += graph[name]
    try:
        return {name: sources[name] for name in TopologicalSorter(graph).static_order()}
    except CycleError as error:
        raise ConfigError(
            f"{' imports '.join(reversed(error.args[1]))}; modules in a circle cannot be linked."
        ) from None


def specifier(importer: str, module: str) -> str:
    """The text by which a module imports another, both as paths below `static`."""
    path = posixpath.relpath(module, posixpath.dirname(importer) or ".")
    path = path if path.startswith("../") else f"./{path}"
    return f'"{path}"{JSON_IMPORT if path.endswith(".json") else ""}'


def cut(name: str, source: str, numbers: Mapping[str, int]) -> list[str | int]:
    """A module's source with the number of a module in place of each import."""
    if name.endswith(".json"):
        return [f"export default {source}"]
    pieces: list[str | int] = [source]
    for module, number in numbers.items():
        mark = specifier(name, module)
        for i in range(len(pieces) - 1, -1, -1):
            first, *rest = str(pieces[i]).split(mark) if isinstance(pieces[i], str) else [pieces[i]]
            pieces[i : i + 1] = [first, *(part for one in rest for part in (number, one))]
    return pieces


def _entry(pages: Iterable[str]) -> str:
    """The main module of a saved page; ConfigError: no such page."""
    chosen = list(dict.fromkeys(pages))
    if not chosen:
        return ENTRY % 'import {pages} from "./contents.js";'
    for name in chosen:
        if name not in PAGES:
            raise ConfigError(f"There is no page {name!r}; {suggest(name, PAGES)}")
    lines = ['import {described} from "./schema.js";']
    lines += [
        f'import {{page as page{i}}} from "./{PAGES[name]["module"]}";'
        for i, name in enumerate(chosen)
    ]
    named = ", ".join(f'"{name}": page{i}' for i, name in enumerate(chosen))
    return ENTRY % "\n".join([*lines, f"const pages = described({{{named}}});"])


def _source(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        raise ConfigError(f"{file} cannot be read, and the page needs it; restore it.") from None


def inside_html(value: Any) -> str:
    """A value as JSON for a script element: nothing in it ends the script."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def document(
    handle: Callable[[Any], Reply],
    stream: Callable[[Any], Iterable[dict[str, Any]]],
    streams: Container[str],
    state: dict[str, Any],
    questions: list[str],
    title: str,
    pages: list[str],
) -> Reply:
    """A view as one HTML file, the bytes `html`: pages, selection, and the answers to `questions`.

    Questions are answered by `handle`, or by `stream` for an op of `streams`; those with an error
    are left out. ConfigError: a question that is not JSON.
    """
    answers: dict[str, Any] = {}
    for question in questions:
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
    page = saved(finite(state), answers, title, pages).encode("utf-8", "replace")
    return Reply({"title": title, "answers": len(answers)}, {"html": np.frombuffer(page, np.uint8)})


def saved(
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    title: str,
    pages: Iterable[str] = (),
    static: Path = STATIC,
) -> str:
    """The HTML file; `pages`: those that it has, none: all. Errors of `linked`.

    A single page is laid out for a cell of a notebook.
    """
    chosen = tuple(pages)
    kept = inside_html({"state": state, "answers": answers})
    held = f"<script>globalThis.glassformerSaved={kept}</script>\n"
    room = "cell alone" if len(chosen) == 1 else ""
    return _page(title, held, _loader(SAVED, static, chosen), static, room)


def framed(static: Path = STATIC) -> str:
    """The page in a notebook's frame, which asks the frame's owner. Errors of `linked`."""
    return _page("glassformer", "", _loader(FRAMED, static), static, "cell")


def _page(title: str, held: str, module: str, static: Path, room: str) -> str:
    """The HTML file with style and module in it; `room`: classes for where it stands."""
    styles = ("style.css", "cell.css") if room else ("style.css",)
    return PAGE.format(
        room=f'class="{room}" ' if room else "",
        policy=POLICY,
        title=html.escape(title),
        style="\n".join(_source(static / name).replace("</", "<\\/") for name in styles),
        script=f'{held}<script type="module">{module}</script>',
    )
