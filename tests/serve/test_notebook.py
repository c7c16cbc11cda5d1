"""The explorer in a notebook: messages say what the handler says, page and Python agree, cells keep
copies."""

import json
import queue
import sys
import threading
import types
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import glassformer as gf
from glassformer.core.errors import ConfigError, DataError
from glassformer.pages import kit
from glassformer.pages.scene import MARGIN, Box, Shades, Text
from glassformer.serve.explorer import notebook
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.messages import Mailbox
from glassformer.serve.explorer.page import frame_page
from glassformer.serve.explorer.schema import PAGES
from serve.asking import model_of, reply_of

TEXT = "the cat sat on a mat"


def view_of(explorer, page="head", given=TEXT, **selected):
    return notebook.View(explorer, given, page=page, **selected)


@pytest.fixture
def view(lm):
    return view_of(lm, layer=1, head=2)


class Widget:
    """What `anywidget.AnyWidget` is to a view."""

    def __init__(self):
        self.sent, self.heard = queue.Queue(), None

    def on_msg(self, fn):
        self.heard = fn

    def send(self, content, buffers=None):
        self.sent.put((json.loads(json.dumps(content)), buffers or []))

    def _repr_mimebundle_(self, **_):
        return {
            "application/vnd.jupyter.widget-view+json": {"model_id": "x"},
            "text/plain": "Widget()",
        }, {}


@pytest.fixture
def anywidget(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", types.SimpleNamespace(AnyWidget=Widget))
    monkeypatch.setattr(notebook, "in_kernel", lambda: True)


@pytest.fixture
def live(view, anywidget):
    """A view that is shown in a cell, and its widget."""
    view._repr_mimebundle_()
    return view, view._widget


def told(widget, message):
    """Say something as the page does, and everything that is said back, until nothing more comes
    for it."""
    widget.heard(widget, message, [])
    said = []
    while True:
        content, parts = widget.sent.get(timeout=20)
        said.append((content, parts))
        if content.get("done") or "error" in content or "id" not in content:
            return said


# messages

HEAD = {"look": {"input": TEXT}, "layer": 0, "head": 1}
REQUESTS = [
    {"op": "model"},
    {"op": "look", "look": HEAD["look"]},
    {"op": "thumbnails", "look": HEAD["look"]},
    {"op": "head", **HEAD},
    {"op": "row", **HEAD, "query": 2},
    {"op": "step", **HEAD, "query": 2},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one["op"])
def test_a_message_is_answered_as_the_handler_answers(live, request_):
    view, widget = live
    ((content, parts),) = told(widget, {"view": "v", "id": 7, "ask": request_})
    assert content == {"to": "v", "id": 7, "done": True}
    reply, direct = reply_of(parts[0]), view.explorer.handle(request_)
    same = {name: value for name, value in direct.header.items() if name not in ("ms", "cached")}
    assert {name: reply.header[name] for name in same} == json.loads(json.dumps(same))
    assert reply.arrays.keys() == direct.arrays.keys()
    for name, array in direct.arrays.items():
        np.testing.assert_array_equal(reply.arrays[name], array)


def test_a_stream_comes_item_by_item(live):
    view, widget = live
    request = {"op": "sweep", "look": HEAD["look"], "target": 1}
    said = told(widget, {"view": "v", "id": 1, "lines": request})
    assert [content.get("item") for content, _ in said[:-1]] == list(view.explorer.stream(request))
    assert said[-1] == ({"to": "v", "id": 1, "done": True}, [])


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"op": "head", **HEAD, "layer": 99}, "There is no layer 99"),
        ({"op": "hed"}, "There is no op 'hed'"),
        ({"op": "sweep"}, "no op 'sweep' here"),
        (None, "A request is a JSON object"),
    ],
)
def test_what_is_wrong_is_one_sentence(live, request_, sentence):
    ((content, _),) = told(live[1], {"view": "v", "id": 1, "ask": request_})
    assert sentence in content["error"]
    assert content["kind"] == "ConfigError"


class Slow(Explorer):
    """One whose answers wait until they are let go."""

    def __init__(self):
        self.going, self.ended = threading.Event(), threading.Event()

    def stream(self, request, gone=lambda: False):
        try:
            yield {"number": 0}
            assert self.going.wait(20)
            yield {"number": 1}
        finally:
            self.ended.set()

    def handle(self, request, gone=lambda: False):
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(
    "stop", [{"view": "v", "id": 1, "cancel": True}, None], ids=["cancelled", "left"]
)
def test_nothing_more_is_said_to_who_does_not_wait(stop):
    explorer, sent = Slow(), queue.Queue()
    mail = Mailbox(explorer, lambda message, parts: sent.put(message))
    mail.take({"view": "v", "id": 1, "lines": {}})
    assert sent.get(timeout=20) == {"to": "v", "id": 1, "item": {"number": 0}}
    if stop:
        mail.take({**stop, "id": 2})  # another question of the same view
        mail.take({**stop, "view": "w"})
        mail.take(stop)
    else:
        mail.leave("w")
        mail.leave("v")
    explorer.going.set()
    assert explorer.ended.wait(20)
    assert sent.empty()


def test_a_bug_is_said_too():
    sent = queue.Queue()
    Mailbox(Slow(), lambda message, parts: sent.put(message)).take(
        {"view": "v", "id": 1, "ask": {}}
    )
    said = sent.get(timeout=20)
    assert said["kind"] == "Bug"
    assert "ZeroDivisionError: a bug" in said["error"]


def test_a_request_whose_answer_cannot_be_sent_is_forgotten():
    def closed(message, parts):
        raise RuntimeError("the channel is closed")

    mail = Mailbox(Slow(), closed)
    mail._waiting["v", 1] = gone = threading.Event()
    with pytest.raises(RuntimeError):
        mail._answer(("v", 1), {"ask": {}}, gone)
    assert not mail._waiting


# the selection, from both sides


def test_page_and_python_select_the_same(live):
    view, widget = live
    seen = []
    stop = view.observe(seen.append)
    ((start, _),) = told(widget, {"view": "v", "hello": "start"})
    assert start == {"to": "v", "start": view.selection}
    view.select(head=3, query=2)
    assert widget.sent.get(timeout=20)[0] == {
        "not": "",
        "select": {"head": 3, "query": 2},
        "gone": [],
    }
    widget.heard(
        widget, {"view": "v", "select": {"key": 1, "metric": "first"}, "gone": [], "heard": 1}, []
    )
    # the other views are told, and not the one that said it
    assert widget.sent.get(timeout=20)[0] == {
        "not": "v",
        "select": {"key": 1, "metric": "first"},
        "gone": [],
    }
    widget.heard(widget, {"view": "v", "select": {}, "gone": ["metric"], "heard": 1}, [])
    assert [view.selection[name] for name in ("layer", "head", "query", "key")] == [1, 3, 2, 1]
    assert "metric" not in view.selection
    assert [(one["head"], one["key"], one.get("metric")) for one in seen] == [
        (3, None, None),
        (3, 1, "first"),
        (3, 1, None),
    ]
    stop()
    view.select(head=0)
    assert len(seen) == 3


def test_if_both_speak_at_once_they_agree_in_the_end(live):
    view, widget = live
    told(widget, {"view": "v", "hello": "start"})
    view.select(head=3)  # on its way, and the page has not heard of it when it says:
    widget.heard(widget, {"view": "v", "select": {"head": 1}, "gone": [], "heard": 0}, [])
    assert [widget.sent.get(timeout=20)[0]["select"] for _ in range(2)] == [
        {"head": 3},
        {"head": 1},
    ]
    assert view.selection["head"] == 1


def test_a_page_that_says_what_is_known_starts_nothing(live):
    view, widget = live
    widget.heard(widget, {"view": "v", "select": {"head": 2}, "gone": []}, [])
    assert widget.sent.empty()
    assert view.selection["head"] == 2


def test_a_selection_is_a_copy(view):
    kept = view.selection
    view.select(query=3, metric="first")
    assert view.selection == {**kept, "query": 3, "metric": "first"}
    view.selection["head"] = 3  # a copy
    assert view.selection["head"] == kept["head"]


def test_a_view_is_a_look(view, lm):
    same = lm.run.look(TEXT)
    assert view.look().pattern(1, 2).equal(same.pattern(1, 2))
    assert view.look() is view.look()
    edit = gf.edits.Zero("decoder.blocks.0.attention.z", head=1)
    view.edits = [edit]
    assert view.edits == (edit,)
    assert view.selection["edits"] == [edit.to_json()]
    np.testing.assert_allclose(view.look().logits, same.edit([edit]).logits, rtol=1e-5, atol=1e-6)
    view.edits = view.selection["edits"]
    assert view.edits == (edit,)


def test_a_patch_names_the_look_that_it_is_from(view):
    source = view.look()
    other = view_of(view.explorer, given="a dog ran on the mat")
    patch = gf.edits.Patch("decoder.blocks.0.resid_post", source=source, position=2)
    with pytest.raises(ConfigError, match="take it from"):
        other.edits = [patch]
    view.select(input="a dog ran on the mat", edits=[patch])
    assert view.selection["edits"][0]["source"] == {"input": TEXT, "edits": [], "checkpoint": None}
    point = "decoder.blocks.0.resid_post"
    assert view.look()[point].sel(position=2).tensor.equal(source[point].sel(position=2).tensor)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"page": "hed"}, "There is no page 'hed'; did you mean 'head'"),
        ({"page": ["head"]}, "There is no page"),
        ({"page": "image"}, "The page image needs a model with image or audio"),
        ({"layer": 2}, "There is no layer 2 here; give 0 to 1."),
        ({"head": 4}, "There is no head 4 here; give 0 to 3."),
        ({"head": True}, "There is no head True"),
        ({"head": None}, "There is no head None"),
        ({"query": 20}, "There is no query 20 here; give 0 to 19, or None."),
        ({"position": -21}, "There is no position -21"),
        ({"site": "cross"}, "has no attention side='', site='cross'"),
        ({"laier": 1}, "Nothing selected is called 'laier'; did you mean 'layer'"),
        ({"edits": [{"edit": "Zero", "point": "nowhere"}]}, "nowhere"),
        ({"edits": 3}, "is no list of edits"),
        ({"input": 1.5}, "1.5 is no input"),
        ({"input": "the " * 99}, "48"),
    ],
)
def test_what_there_is_not_cannot_be_selected(view, wrong, sentence):
    before = view.selection
    with pytest.raises(gf.GlassformerError) as error:
        view.select(**wrong)
    assert sentence in str(error.value)
    assert str(error.value).count("\n") == 0
    assert view.selection == before


def test_the_public_function_opens_a_folder(run_folder):
    view = gf.view(run_folder("lm"), page="tokens", head=1)
    assert view.selection["page"] == "tokens"
    assert view.selection["input"] == model_of(view.explorer)["examples"][0]
    assert repr(view) == "View(run, page='tokens', layer=0, head=1)"


# what a cell holds


def test_without_anywidget_a_cell_holds_a_picture(view, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setattr(notebook, "in_kernel", lambda: True)
    bundle = view._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png"}
    assert bundle["text/plain"] == "View(run, page='head', layer=1, head=2)"
    assert "pip install 'glassformer[notebook]'" in capsys.readouterr().err


def test_without_a_kernel_a_cell_holds_no_widget(view, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", types.SimpleNamespace(AnyWidget=Widget))
    assert not notebook.in_kernel()
    assert set(view._repr_mimebundle_()) == {"text/plain", "image/png"}
    shell = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert notebook.in_kernel()


def test_with_anywidget_the_live_page_comes_first(live):
    view, widget = live
    bundle = view._repr_mimebundle_()
    assert next(iter(bundle)) == "application/vnd.jupyter.widget-view+json"
    assert "image/png" in bundle
    assert view._widget is widget  # one for all cells that show the view
    assert "export default {render}" in widget._esm
    ((content, parts),) = told(widget, {"view": "v", "hello": "page"})
    assert content == {"to": "v", "page": True, "height": 720}
    assert parts == [frame_page().encode()]


def test_every_family_has_a_cell(explorer):
    card = model_of(explorer)
    for name, page in PAGES.items():
        if not page["needs"] or {*page["needs"]} & {*card["capabilities"]}:
            view_of(explorer, name, None)._image().image().verify()


# pictures


def places(page, image):
    """Each shade's corner in the image, and the shade."""
    left, top, *_ = page.bounds
    for mark in page:
        if isinstance(mark, Shades) or (isinstance(mark, Box) and mark.fill.startswith("s")):
            x, y = round(mark.x - left) + MARGIN, round(mark.y - top) + MARGIN
            yield mark, image[y : y + round(mark.height), x : x + round(mark.width)].astype(int)


def test_a_head_is_drawn_as_it_is(view):
    page = view._image()
    image, pattern = np.array(page.image()), view.look().pattern(1, 2).numpy()
    n, found = len(pattern), [*places(page, image)]
    seen = [(i, j) for i in range(n) for j in range(i + 1)]  # what a query may not see is left out
    assert len(found) == len(seen)
    table = kit.ramp(dark=False)
    for (i, j), (box, pixels) in zip(seen, found, strict=True):
        step = int(box.fill[1:])
        assert (pixels[len(pixels) // 2, len(pixels) // 2] == table[step]).all()
        assert abs(step - np.sqrt(pattern[i, j]) * (len(table) - 1)) < 0.6  # roots are bytes
    assert {mark.text for mark in page if isinstance(mark, Text)} >= {"t", "h", "·", "c"}


def test_all_heads_are_drawn_and_the_selected_is_framed(lm):
    view = view_of(lm, "attention", layer=1, head=3)
    page = view._image()
    frames = [mark.fill for mark in page if isinstance(mark, Box)]
    assert frames == ["line"] * 7 + ["mark"]
    seen, table = view.look(), kit.ramp(dark=False).astype(int)
    for number, (_, pixels) in enumerate(places(page, np.array(page.image()))):
        darkest = np.abs(pixels.reshape(-1, 1, 3) - table).sum(2).argmin(1).max()
        most = float(seen.pattern(number // 4, number % 4).max()) ** 0.5 * (len(table) - 1)
        assert abs(darkest - most) < 0.6
    assert number == 7


def test_next_tokens_are_bars_of_their_probabilities(lm):
    page = view_of(lm, "next")._image()
    chances = lm.run.look(TEXT).probabilities().sort(descending=True).values[:5].tolist()
    widths = [mark.width for mark in page if isinstance(mark, Box)]
    np.testing.assert_allclose(
        [width / widths[0] for width in widths], [p / chances[0] for p in chances], atol=0.003
    )


def test_a_long_input_is_one_picture(lm):
    assert max(view_of(lm, given="a" * 48)._image().image().size) < 1000


def test_a_picture_is_also_vectors(view, lm):
    root = ElementTree.fromstring(view._image().file("x"))
    space = {"s": "http://www.w3.org/2000/svg"}
    n = len(TEXT)
    assert len(root.findall("s:rect", space)) == 1 + n * (n + 1) // 2
    grid = view_of(lm, "attention")._image().file("x")
    assert len(ElementTree.fromstring(grid).findall("s:image", space)) == 8
    assert "var(" not in grid
    odd = view_of(lm, given="<&\x00'\"")  # letters that markup does not have
    ElementTree.fromstring(odd._image().file("x"))


# files


def test_a_view_is_saved_by_the_ending(view, tmp_path):
    assert view.save(tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"
    ElementTree.fromstring((tmp_path / view.save(str(tmp_path / "x.svg"))).read_text())
    with pytest.raises(ConfigError, match=r"not as '\.pgn'; did you mean '\.png'"):
        view.save(tmp_path / "x.pgn")
    with pytest.raises(gf.GlassformerError):
        view.save(tmp_path / "nowhere" / "x.png")


# inputs


@pytest.mark.parametrize("family", ["image", "audio"])
def test_what_is_given_comes_back(explorer_of, family, tmp_path):
    inputs = explorer_of(family).looks.inputs
    own = inputs.kept[family][0]
    wired = inputs.encode(own)
    json.dumps(wired)
    back = inputs.decode(wired)
    if family == "image":
        np.testing.assert_array_equal(back, own)
        Image.fromarray(own.squeeze()).save(tmp_path / "a.png")
        for value in (
            tmp_path / "a.png",
            str(tmp_path / "a.png"),
            {"image": str(tmp_path / "a.png")},
        ):
            np.testing.assert_array_equal(
                inputs.decode(inputs.encode(value)).squeeze(), own.squeeze()
            )
        with pytest.raises(DataError, match="nothere"):
            inputs.encode("nothere.png")
    else:
        assert back[1] == own[1]
        np.testing.assert_allclose(back[0], own[0], atol=1 / 32768)
    assert inputs.encode({family: "example:0"}) == {family: "example:0"}
    with pytest.raises(ConfigError, match=f"is no {family}"):
        inputs.encode(3.5)


def test_texts_and_ids_stay(lm):
    encode = lm.looks.inputs.encode
    assert encode(("a", "b")) == ["a", "b"]
    assert encode(np.array([1, 2])) == [1, 2]
    assert encode([{"text": "x"}, "y"]) == [{"text": "x"}, "y"]
    with pytest.raises(ConfigError, match="is no input"):
        encode(object())


# the example

EXAMPLE = Path(__file__).parents[2] / "examples" / "inspect.ipynb"


def test_the_example_runs_and_keeps_no_outputs(run_folder, tmp_path, monkeypatch, capsys):
    book = json.loads(EXAMPLE.read_text())
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo-lm").symlink_to(run_folder("lm"))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert names["seen"] == [(1, 3)]
    assert names["view"]._repr_mimebundle_()["image/png"]
    assert len(capsys.readouterr().out.splitlines()) == 5
    saved = {"head.png", "head.svg"}
    assert saved <= {path.name for path in tmp_path.iterdir()}
