"""The linker: modules in the order of their imports, as one; and a saved page that holds its
answers."""

import base64
import json
import re

import pytest

from glassformer.core.errors import ConfigError
from glassformer.serve.explorer.page import frame_page, link, modules, save_page
from serve.asking import ask, reply_of

MAIN = """import {a} from "./pages/a.js";
import {
  b,
  c,
} from "./b.js";
import "./d.js";
const s = "import x from y";
"""


def test_a_module_stands_behind_all_that_it_imports(tmp_path, monkeypatch):
    sources = {
        "main": MAIN,
        "pages/a": 'export {b as a} from "../b.js";\n',
        "b": 'export const b = 1, c = 2; // from "nothing"\n',
        "d": 'export * from "./b.js";\nimport e from "./e.js";\n',
        "e": 'export const evil = "</script><!--";\n',
        "unused": 'import "./nowhere.js";\n',
    }
    (tmp_path / "pages").mkdir()
    for name, source in sources.items():
        (tmp_path / f"{name}.js").write_text(source)
    monkeypatch.setattr("glassformer.serve.explorer.page.STATIC", tmp_path)
    found = modules("main.js")
    assert list(found) == ["b.js", "pages/a.js", "e.js", "d.js", "main.js"]
    assert found["pages/a.js"] == ["export {b as a} from ", 0, ";\n"]
    assert [part for part in found["main.js"] if isinstance(part, int)] == [1, 0, 3]
    script = link("main.js")
    assert "</script" not in script
    assert "<!--" not in script


def test_a_saved_page_holds_its_answers_and_asks_nobody(lm):
    look = {"input": "</script><img src=x>the cat"}
    questions = [
        json.dumps({"op": "model"}),
        json.dumps({"look": look, "op": "look"}),
        json.dumps({"look": look, "op": "sweep", "target": 1}),
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
        assert modules(entry)
    assert "glassformerSaved" in save_page({}, {}, "x")
    assert "glassformerSaved" not in frame_page()
    assert "default-src 'none'" in frame_page()


def test_a_saved_page_may_have_some_pages():
    assert "pages/head.js" in modules("saved.js", ["head"])
    assert "pages/train.js" not in modules("saved.js", ["head"])
    assert len(save_page({}, {}, "x", ["head"])) < len(save_page({}, {}, "x")) / 1.5
