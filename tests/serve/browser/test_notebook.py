"""A notebook's cells in a real browser: the live page."""

import base64
import contextlib
import queue
import time
from typing import Any

import pytest

from glassformer.serve.explorer.messages import Mailbox
from glassformer.serve.explorer.notebook import WIDGET, View

TEXT = "the cat sat on a mat"
HOST = """<!doctype html><html><head><title>notebook</title>
<style>p { color: rgb(1, 2, 3); }</style></head>
<body style="background: rgb(255, 255, 255)">
<p id="text">a cell</p><div id="a"></div><div id="b"></div></body></html>"""
MODEL = """async ([name, esm]) => {
  const source = new Blob([esm], {type: "text/javascript"});
  const module = await import(URL.createObjectURL(source)), heard = new Set();
  const model = {
    send: (said) => toKernel(name, said),
    on: (_, fn) => heard.add(fn),
    off: (_, fn) => heard.delete(fn),
  };
  const array = (part) => Uint8Array.from(atob(part), (one) => one.charCodeAt(0));
  const bytes = (part) => new DataView(array(part).buffer);
  const tell = (said, parts) => [...heard].forEach((fn) => fn(said, parts.map(bytes)));
  window.fromKernel = {...window.fromKernel, [name]: tell};
  const el = document.getElementById(name);
  window.leave = {...window.leave, [name]: module.default.render({model, el})};
}"""  # what anywidget and a notebook do with the module


class Notebook:
    """A page with cells, a kernel that answers them, and what went wrong on it."""

    def __init__(self, context: Any):
        self.problems, self.views, self.sent, self.said = [], {}, queue.Queue(), []
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        context.on("console", self._heard)
        context.on("request", self._asked)
        context.set_default_timeout(20_000)
        self.page = context.new_page()
        self.page.expose_function("toKernel", self._told)
        self.page.set_content(HOST)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("blob:", "data:", "about:")):
            self.problems.append(f"asked {request.url}")

    def _told(self, name: str, message: dict[str, Any]) -> None:
        self.said.append(message)
        self.views[name]._heard(message)

    def show(self, name: str, view: View) -> Any:
        """Show a view in a cell; its frame, once the page stands."""
        self.views[name] = view
        put = self.sent.put
        view._mail = Mailbox(
            view.explorer, lambda message, parts: put((name, message, [*map(encoded, parts)]))
        )
        self.page.evaluate(MODEL, [name, WIDGET.read_text()])
        return self.drawn(name)

    def frame(self, name: str) -> Any:
        return self.page.query_selector(f"#{name} iframe").content_frame()

    def drawn(self, name: str) -> Any:
        self.until(lambda: self.page.query_selector(f"#{name} iframe") is not None)
        self.until(lambda: bool(self.frame(name).query_selector("figure canvas, figure svg")))
        return self.frame(name)

    def until(self, so: Any) -> None:
        """Carry messages until it is so."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                while True:
                    name, message, parts = self.sent.get_nowait()
                    self.page.evaluate(
                        "([name, said, parts]) => fromKernel[name](said, parts)",
                        [name, message, parts],
                    )
            with contextlib.suppress(Exception):  # a frame that is just loading
                if so():
                    return
            self.page.wait_for_timeout(15)
        raise AssertionError(f"it never was so; problems: {self.problems}")


def encoded(part: bytes) -> str:
    return base64.b64encode(part).decode()


@pytest.fixture
def cells(browser):
    """A notebook; the test fails if anything on it failed."""
    context = browser.new_context(viewport={"width": 1000, "height": 800}, color_scheme="light")
    opened = Notebook(context)
    yield opened
    problems = opened.problems
    context.close()
    assert problems == []


def view_of(explorer: Any, page: str = "head", given: Any = TEXT, **selected: Any) -> View:
    return View(explorer, given, 600, page=page, **selected)


DARKEST = """() => {
  const copy = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const found = [255];
  for (const canvas of document.querySelectorAll(".matrix-stack canvas")) {
    copy.clearRect(0, 0, 300, 150);
    copy.drawImage(canvas, 0, 0);
    const {data} = copy.getImageData(0, 0, 300, 150);
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.push(data[i]);
  }
  return found.reduce((least, one) => Math.min(least, one));
}"""


def test_a_live_page_is_drawn_and_follows_python_and_the_other_way(cells, lm):
    view = view_of(lm, layer=1, head=2)
    frame = cells.show("a", view)
    assert frame.title().startswith("One head, layer 1 head 2")
    cells.until(lambda: frame.evaluate(DARKEST) < 60)  # a first query looks at itself alone
    assert cells.page.query_selector("#a iframe").bounding_box()["height"] == 600
    view.select(head=0, query=3)
    cells.until(lambda: frame.title().startswith("One head, layer 1 head 0"))
    cells.until(lambda: "score" in frame.inner_text("figure:has(h3:text-is('The selected row'))"))
    frame.press("main", "{")
    cells.until(lambda: view.selection["layer"] == 0)
    frame.press("main", "]")
    cells.until(lambda: view.selection["head"] == 1)
    frame.click("nav[aria-label=Pages] >> text=Tokens")
    cells.until(lambda: view.selection["page"] == "tokens")
    frame.fill("textarea", "a dog ran")
    frame.get_by_role("button", name="Run", exact=True).click()
    cells.until(lambda: view.selection["input"] == "a dog ran")
    assert len(view.look().elements) == 9


def test_a_stream_is_drawn_item_by_item_and_stops_when_told(cells, lm):
    frame = cells.show("a", view_of(lm, "flow"))
    measure = frame.get_by_role("button", name="Measure", exact=True)
    cells.until(measure.is_visible)
    measure.click()
    cells.until(lambda: "8 heads" in frame.inner_text("main"))
    asked = [message for message in cells.said if "lines" in message]
    assert [message["lines"]["op"] for message in asked] == ["sweep"]


def test_an_error_is_a_sentence_on_the_page(cells, lm):
    frame = cells.show("a", view_of(lm))
    frame.fill("textarea", "a" * 99)
    frame.get_by_role("button", name="Run", exact=True).click()
    cells.until(lambda: frame.query_selector("main .problem") is not None)
    assert "48" in frame.inner_text("main .problem")


def test_cells_do_not_disturb_each_other_nor_the_notebook(cells, lm, explorer_of):
    styled = "getComputedStyle(document.getElementById('text')).color"
    sheets = cells.page.evaluate("document.styleSheets.length")
    one, other = view_of(lm), view_of(explorer_of("tag"), given="the cat")
    cells.show("a", one)
    frame = cells.show("b", other)
    frame.press("main", "]")
    cells.until(lambda: other.selection["head"] == 1)
    assert one.selection["head"] == 0
    assert cells.frame("a").title().startswith("One head, layer 0 head 0")
    cells.page.press("body", "]")  # the notebook's own key
    cells.page.wait_for_timeout(100)
    assert (one.selection["head"], other.selection["head"]) == (0, 1)
    assert cells.page.title() == "notebook"
    assert cells.page.evaluate("location.href") == "about:blank"
    assert cells.page.evaluate("document.styleSheets.length") == sheets
    assert cells.page.evaluate(styled) == "rgb(1, 2, 3)"
    assert cells.page.evaluate("Object.keys(document.documentElement.dataset)") == []


def test_the_page_is_light_or_dark_with_the_notebook(cells, lm):
    frame = cells.show("a", view_of(lm))
    ground = "getComputedStyle(document.body).backgroundColor"
    light = frame.evaluate(ground)
    cells.page.evaluate("document.body.style.background = 'rgb(17, 17, 17)'")
    cells.until(lambda: frame.evaluate(ground) != light)
    cells.page.evaluate("document.body.style.background = 'white'")
    cells.until(lambda: frame.evaluate(ground) == light)


def test_a_cell_that_is_moved_begins_where_it_was(cells, lm):
    view = view_of(lm)
    frame = cells.show("a", view)
    frame.press("main", "]")
    cells.until(lambda: view.selection["head"] == 1)
    cells.page.evaluate(
        "document.getElementById('b').append(document.querySelector('#a iframe'))"
    )  # frames load anew
    assert cells.drawn("b").title().startswith("One head, layer 0 head 1")
    view.select(head=2)
    cells.until(lambda: cells.frame("b").title().startswith("One head, layer 0 head 2"))


def test_a_cell_that_is_cleared_leaves_nothing(cells, lm):
    cells.show("a", view_of(lm))
    cells.page.evaluate("leave.a()")
    cells.until(lambda: cells.said[-1].get("bye") is True)
    assert cells.page.evaluate("document.getElementById('a').childNodes.length") == 0
