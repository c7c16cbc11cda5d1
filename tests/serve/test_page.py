"""The linker: modules in the order of their imports, as one; and a saved page that holds its
answers."""

import base64
import json
import re
from os.path import normpath
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.serve.explorer.page import cut, framed, linked, ordered, saved
from serve.asking import ask, reply_of

MAIN = """import {a} from "./pages/a.js";
import {
  b,
  c,
} from "./b.js";
import "./d.js";
const s = "import x from y";
"""


def files(folder, **sources):
    for name, source in sources.items():
        path = folder / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def parts_of(module: str) -> list[list[str | int]]:
    """What the linker put into the loader."""
    found = re.search(r"for \(const parts of (.*)\) \{\n", module)
    assert found
    return json.loads(found[1])


def test_a_module_stands_behind_all_that_it_imports(tmp_path):
    static = files(
        tmp_path,
        main=MAIN,
        pages__a='export {b as a} from "../b.js";\n',
        b='export const b = 1, c = 2; // from "nothing"\n',
        d='export * from "./b.js";\nimport e from "./e.js";\n',
        e="export default 5;\n",
        unused='import "./nowhere.js";\n',
    )
    modules = ordered("main.js", static)
    assert set(modules) == {"main.js", "pages/a.js", "b.js", "d.js", "e.js"}
    names = list(modules)
    for one, other in (
        ("b.js", "pages/a.js"),
        ("pages/a.js", "main.js"),
        ("e.js", "d.js"),
        ("d.js", "main.js"),
    ):
        assert names.index(one) < names.index(other)
    for name, parts in zip(names, parts_of(linked("main.js", static)), strict=True):
        # with names in place of the numbers, it is the source with the same names in place of its
        # addresses
        again = "".join(part if isinstance(part, str) else f"<{names[part]}>" for part in parts)
        address = re.compile(r'"(\.{1,2}/[^"\n]+\.js)"')
        at = Path(name).parent
        assert again == address.sub(lambda m, at=at: f"<{normpath(at / m[1])}>", modules[name])


def test_nothing_in_a_source_ends_the_script(tmp_path):
    static = files(tmp_path, a='export const evil = "</script><!--";\n')
    module = linked("a.js", static)
    assert "</script" not in module
    assert "<!--" not in module
    assert parts_of(module) == [['export const evil = "</script><!--";\n']]


def test_pieces_are_cut_at_the_quotes():
    assert cut("a.js", 'import {b} from "./b.js";\nb();', {"b.js": 3}) == [
        "import {b} from ",
        3,
        ";\nb();",
    ]


def test_a_saved_page_holds_its_answers_and_asks_nobody(lm):
    look = {"input": "</script><img src=x>the cat"}
    questions = [
        json.dumps({"op": "model"}),
        json.dumps({"look": look, "op": "look"}),
        json.dumps({"look": look, "op": "effects", "target": 1}),
        json.dumps({"look": look, "op": "head", "layer": 99, "head": 0}),
        json.dumps({"op": "document", "state": {}}),
    ]
    reply = ask(
        lm,
        "document",
        state={"page": "tokens", "input": look["input"]},
        questions=questions,
        title="<b>",
    )
    html = reply.arrays["html"].tobytes().decode()
    assert reply.header["answers"] == 3
    assert "<title>&lt;b&gt;</title>" in html
    found = re.search(r"globalThis\.glassformerSaved=(.*)</script>", html)
    assert found
    held = json.loads(found[1])
    assert held["state"] == {"page": "tokens", "input": look["input"]}
    assert list(held["answers"]) == questions[:3]
    again = reply_of(base64.b64decode(held["answers"][questions[1]]))
    assert again.header["elements"] == ask(lm, "look", look=look).header["elements"]
    assert held["answers"][questions[2]][-1] == {"done": True}
    assert html.count("<script") == html.count("</script>") == 2
    assert "<img" not in html
    assert "default-src 'none'" in html
    assert not re.search(r"""<[^>]*\b(src|href)=["'](?!data:)""", html.partition("<script")[0])
    with pytest.raises(ConfigError, match="as JSON texts"):
        ask(lm, "document", state={}, questions=["{"])


def test_the_explorers_own_pages_can_be_linked():
    for entry in ("main.js", "widget.js", "saved.js", "framed.js"):
        assert ordered(entry)
    assert "glassformerSaved" in saved({}, {}, "x")
    assert "glassformerSaved" not in framed()
    assert "default-src 'none'" in framed()


def test_a_saved_page_may_be_one_alone(lm):
    assert "pages/head.js" in ordered("saved.js", pages=["head"])
    assert "pages/train.js" not in ordered("saved.js", pages=["head"])
    assert len(saved({}, {}, "x", ["head"])) < len(saved({}, {}, "x")) / 1.5
    assert '<html class="cell alone" lang="en">' in saved({}, {}, "x", ["head"])
    assert '<html lang="en">' in saved({}, {}, "x")
    with pytest.raises(ConfigError, match="There is no page 'hed'; did you mean 'head'"):
        ask(lm, "document", state={}, pages=["hed"])
