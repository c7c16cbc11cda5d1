"""The files of the page, and the page as one HTML file, also with the answers that it needs.

    static/*.js ── in the order of their imports ──> [source, number of a module, source, ...]

There is one such list for each module; the browser joins it with the blob address of each number. A
module imports another by its relative path in double quotes. `contents.js`, the modules of the
pages, is made from the schema. A saved page has `globalThis.glassformerSaved` = {state, answers},
answers by the page's requests, and a policy that forbids the network.
"""

import base64
import html
import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, GlassformerError, suggest
from glassformer.files import finite
from glassformer.serve.explorer.schema import PAGES, STATIC, STREAMS
from glassformer.serve.explorer.wire import Reply

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' blob:; "
    "img-src data: blob:"
)
IMPORT = re.compile(r'"(\.\.?/[\w./-]+\.js(?:on)?)"(?: with \{type: "json"\})?')
"""The text by which a module imports another, which has the path of the other."""
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
CONTENTS = "contents.js"


def linked(entry: str, static: Path = STATIC) -> str:
    """One ES module with `entry` and all that it imports; it exports the default of `entry`."""
    return f"{_loader(entry, static)}export default page.default;\n"


def _loader(entry: str, static: Path, pages: Iterable[str] = ()) -> str:
    modules = ordered(entry, static, pages)
    numbers = {name: i for i, name in enumerate(modules)}
    parts = [
        [f"export default {source}"] if name.endswith(".json") else cut(name, source, numbers)
        for name, source in modules.items()
    ]
    return LOADER % inside_html(parts)


def ordered(entry: str, static: Path = STATIC, pages: Iterable[str] = ()) -> dict[str, str]:
    """The sources of `entry` and all that it imports, each after its imports.

    `pages`: those that are linked; none: all.
    """
    sources: dict[str, str] = {}

    def visit(name: str) -> None:
        own = name == CONTENTS
        source = contents(pages or PAGES) if own else (static / name).read_text(encoding="utf-8")
        for module in imports(name, source):
            if module not in sources:
                visit(module)
        sources[name] = source

    visit(entry)
    return sources


def imports(name: str, source: str) -> list[str]:
    """The modules that a module imports, as paths below `static`."""
    folder = posixpath.dirname(name)
    return [posixpath.normpath(posixpath.join(folder, path)) for path in IMPORT.findall(source)]


def cut(name: str, source: str, numbers: Mapping[str, int]) -> list[str | int]:
    """A module's source with the number of a module in place of each import."""
    pieces: list[str | int] = [*IMPORT.split(source)]
    pieces[1::2] = [numbers[module] for module in imports(name, source)]
    return pieces


def contents(pages: Iterable[str]) -> str:
    """The module `contents.js` with these pages of the schema; ConfigError: no such page."""
    head = "// @ts-check\n// The modules of the pages, as schema.json names them."
    lines, named = [head, 'import {described} from "./schema.js";'], []
    for i, name in enumerate(pages):
        if name not in PAGES:
            raise ConfigError(f"There is no page {name!r}; {suggest(name, PAGES)}")
        lines.append(f'import {{page as page{i}}} from "./{PAGES[name]["module"]}";')
        named.append(f'"{name}": page{i}')
    return "\n".join([*lines, f"export const pages = described({{{', '.join(named)}}});\n"])


def inside_html(value: Any) -> str:
    """A value as JSON for a script element: nothing in it ends the script."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def document(
    handle: Callable[[Any], Reply],
    stream: Callable[[Any], Iterable[dict[str, Any]]],
    state: dict[str, Any],
    questions: list[str],
    title: str,
    pages: list[str],
) -> Reply:
    """A view as one HTML file, the bytes `html`: pages, selection, and the answers to `questions`.

    Questions are answered by `handle`, or by `stream`; those with an error are left out.
    ConfigError: a question that is not JSON.
    """
    answers: dict[str, Any] = {}
    for question in questions:
        try:
            op = (request := json.loads(question))["op"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise ConfigError(
                "request.questions must be requests as JSON texts; send them as they were asked."
            ) from None
        with suppress(GlassformerError):
            if op in STREAMS:
                answers[question] = [*stream(request), {"done": True}]
            elif op != "document":
                answers[question] = base64.b64encode(handle(request).to_bytes()).decode()
    page = saved(finite(state), answers, title, pages).encode("utf-8", "replace")
    return Reply({"title": title, "answers": len(answers)}, {"html": np.frombuffer(page, np.uint8)})


def saved(
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    title: str,
    pages: Iterable[str] = (),
) -> str:
    """The HTML file; `pages`: those that it has, none: all.

    A single page is laid out for a cell of a notebook.
    """
    chosen = tuple(pages)
    kept = inside_html({"state": state, "answers": answers})
    held = f"<script>globalThis.glassformerSaved={kept}</script>\n"
    room = "cell alone" if len(chosen) == 1 else ""
    return _page(title, held, _loader("saved.js", STATIC, chosen), room)


def framed() -> str:
    """The page in a notebook's frame, which sends its requests to the frame's owner."""
    return _page("glassformer", "", _loader("framed.js", STATIC), "cell")


def _page(title: str, held: str, module: str, room: str) -> str:
    """The HTML file with style and module in it; `room`: classes for where it stands."""
    styles = ("style.css", "cell.css") if room else ("style.css",)
    return PAGE.format(
        room=f'class="{room}" ' if room else "",
        policy=POLICY,
        title=html.escape(title),
        style="\n".join(
            (STATIC / name).read_text(encoding="utf-8").replace("</", "<\\/") for name in styles
        ),
        script=f'{held}<script type="module">{module}</script>',
    )
