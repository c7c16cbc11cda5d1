"""The page as one HTML file, also with the answers that it needs.

    static/*.js ── in the order of their imports ──> [source, number of a module, source, ...]

There is one such list for each module; the browser joins it with the blob address of each number. A
module imports another by its relative path in double quotes. `contents.js`, the modules of the
pages, is made from the schema. A saved page has `globalThis.glassformerSaved` = {state, answers},
answers by the page's requests, and a policy that forbids the network.
"""

import html
import json
import posixpath
import re
from collections.abc import Collection, Mapping
from typing import Any

from glassformer.serve.explorer.schema import PAGES, STATIC

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


def contents(pages: Collection[str]) -> str:
    """The module `contents.js` with these pages of the schema."""
    head = "// @ts-check\n// The modules of the pages, as schema.json names them."
    lines, named = [head, 'import {described} from "./schema.js";'], []
    for i, name in enumerate(pages):
        lines.append(f'import {{page as page{i}}} from "./{PAGES[name]["module"]}";')
        named.append(f'"{name}": page{i}')
    return "\n".join([*lines, f"export const pages = described({{{', '.join(named)}}});\n"])


def modules(entry: str, pages: Collection[str] = PAGES) -> dict[str, list[str | int]]:
    """Return the sources of `entry` and its imports, each after its own, with the number of a
    module in place of each import."""
    found: dict[str, list[str | int]] = {}

    def number(name: str) -> int:
        if name not in found:
            own = contents(pages) if name == CONTENTS else (STATIC / name).read_text("utf-8")
            parts: list[str | int] = [f"export default {own}"]
            if not name.endswith(".json"):
                parts = [*IMPORT.split(own)]
                paths = [posixpath.join(posixpath.dirname(name), str(path)) for path in parts[1::2]]
                parts[1::2] = [number(posixpath.normpath(path)) for path in paths]
            found[name] = parts
        return list(found).index(name)

    number(entry)
    return found


def link(entry: str, pages: Collection[str] = PAGES) -> str:
    """A script with `entry` and all that it imports, which becomes `page`."""
    return LOADER % inside_html([*modules(entry, pages).values()])


def inside_html(value: Any) -> str:
    """A value as JSON for a script element: nothing in it ends the script."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def save_page(
    state: Mapping[str, Any],
    answers: Mapping[str, Any],
    title: str,
    pages: Collection[str] = PAGES,
) -> str:
    """The HTML file with a selection, answers and pages."""
    kept = inside_html({"state": state, "answers": answers})
    held = f"<script>globalThis.glassformerSaved={kept}</script>\n"
    return _page(title, held, link("saved.js", pages))


def frame_page() -> str:
    """The page in a notebook's frame, which sends its requests to the frame's owner."""
    return _page("glassformer", "", link("framed.js"), cell=True)


def _page(title: str, held: str, module: str, cell: bool = False) -> str:
    """The HTML file with style and module in it; `cell`: laid out for a cell of a notebook."""
    styles = ("style.css", "cell.css") if cell else ("style.css",)
    return PAGE.format(
        room='class="cell" ' if cell else "",
        policy=POLICY,
        title=html.escape(title),
        style="\n".join((STATIC / name).read_text("utf-8") for name in styles),
        script=f'{held}<script type="module">{module}</script>',
    )
