"""The explorer in a notebook: `gf.view` shows a page for one input, and its selection is a Python
value.

    view = gf.view(run, "the cat sat", page="head", layer=3, head=5)
    view.selection["query"]
    view.select(head=6)
    view.look().pattern(3, 6)
    view.save("head.png")

A cell holds the live page, if anywidget is installed and a kernel runs, and a PNG for where they
are not.
"""

import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from glassformer.core.errors import ConfigError, brief, suggest
from glassformer.core.files import finite, replacing
from glassformer.inspect.edits import Patch
from glassformer.inspect.look import Look
from glassformer.inspect.points import Edit
from glassformer.pages.images import encode_png
from glassformer.pages.scene import Scene
from glassformer.run import Run, load
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.messages import Mailbox
from glassformer.serve.explorer.page import frame_page
from glassformer.serve.explorer.schema import DEFAULTS, STATIC, LookRequest
from glassformer.serve.explorer.selection import (
    Selection,
    check,
    check_names,
    look_of,
    static_image,
)

Edits = Sequence[Edit | Mapping[str, Any]]
WIDGET = STATIC / "widget.js"
ROOM = 256 << 20
"""Bytes of looks that a view keeps."""
HEIGHT = 720
"""Pixels of a cell."""


def view(
    what: Run | str | Path,
    given: Any = None,
    page: str = "attention",
    *,
    edits: Edits = (),
    height: int = HEIGHT,
    **selected: Any,
) -> "View":
    """A page of the explorer for one input of a run or run folder, as the value of a notebook's
    cell; see `View`.

    `given` is what `gf.look` takes, by default the run's first example. `selected`: layer, head,
    query, key, side, site, position, target, checkpoint, ...; `height` in pixels. A view
    has a copy of the run's weights: what is trained later is shown by another view. ConfigError: an
    unknown page, head or name, and the errors of `gf.look`.
    """
    run = replace(what, model=deepcopy(what.model)) if isinstance(what, Run) else load(what)
    chosen = {"page": page, "edits": edits, **selected}
    return View(Explorer(run, ROOM), given, height, **chosen)


class View:
    """The selection of a page, shared with the page: each side follows the other."""

    def __init__(
        self,
        explorer: Explorer,
        given: Any = None,
        height: int = HEIGHT,
        **selected: Any,
    ):
        self.explorer, self.height = explorer, height
        self._card = explorer.handle({"op": "model"}).header
        self._observers: list[Callable[[Selection], Any]] = []
        self._looks: WeakKeyDictionary[Look, dict[str, Any]] = WeakKeyDictionary()
        self._mail: Mailbox | None = None
        self._told: dict[str, int] = {}
        """Changes sent to each view."""
        self._widget: Any = None
        first = self._card["examples"][0] if given is None else given
        self._selection = dict(DEFAULTS)
        self.select(**{"input": first, **selected})

    @property
    def selection(self) -> Selection:
        """The selection by name: page, input, edits, layer, head, query, key, ...; a copy."""
        return dict(self._selection)

    def select(self, **values: Any) -> None:
        """Change some of the selection: `view.select(layer=3, head=5)`; None where it is allowed:
        no choice.

        ConfigError: an unknown name, page, head or place, an edit without effect; nothing changes
        then.
        """
        check_names(values)
        s = {**self._selection, **values}
        if not isinstance(s["edits"], list | tuple):
            raise ConfigError(f"edits={brief(s['edits'])} is no list of edits; give a list.")
        s["input"] = self.explorer.looks.inputs.encode(s["input"])
        s["edits"] = [self._plain(edit) for edit in s["edits"]]
        check(s, self._card, self._find(s))
        self._select(finite(s), "")

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The changes inside the model, in order; set it to `gf.edits` or to their plain values."""
        return self.look().edits

    @edits.setter
    def edits(self, edits: Edits) -> None:
        self.select(edits=list(edits))

    def look(self) -> Look:
        """The look that the page shows, with its input, edits and checkpoint, as `gf.look`
        returns it."""
        return self._find(self._selection)

    def observe(self, fn: Callable[[Selection], Any]) -> Callable[[], None]:
        """Call a function with the selection after each change, here or on the page; returns a
        function that stops it."""
        self._observers.append(fn)
        return lambda: self._observers.remove(fn) if fn in self._observers else None

    def save(self, path: str | Path) -> Path:
        """Write the picture of the selection, all heads, the selected one, or the next tokens, into
        a .png or .svg; the path.

        ConfigError: another suffix; CheckpointError: it cannot be written.
        """
        path = Path(path)
        writers: dict[str, Callable[[], bytes]] = {
            ".png": self._png,
            ".svg": lambda: self._image().file(repr(self)).encode("utf-8", "replace"),
        }
        suffix = path.suffix.lower()
        if suffix not in writers:
            raise ConfigError(
                f"A view is saved as {', '.join(writers)}, not as {suffix!r}; "
                f"{suggest(suffix, writers)}"
            )
        content = writers[suffix]()
        with replacing(path) as temporary:
            temporary.write_bytes(content)
        return path

    def __repr__(self) -> str:
        where = ", ".join(f"{name}={self._selection[name]!r}" for name in ("page", "layer", "head"))
        return f"View({self._card['name']}, {where})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The content of a cell; see the module."""
        live = self._live() if in_kernel() else None
        still = {"text/plain": repr(self), "image/png": base64.b64encode(self._png()).decode()}
        return still if live is None else {**live._repr_mimebundle_()[0], **still}

    def _find(self, s: Selection) -> Look:
        request = look_of(s)
        with self.explorer.looks.lock:
            found = self.explorer.looks.find(LookRequest.parse(request))
        self._looks[found] = request
        return found

    def _image(self) -> Scene:
        return static_image(self.explorer, self.look(), self._selection, self._card)

    def _png(self) -> bytes:
        return encode_png(self._image().image())

    def _select(self, s: Selection, view: str) -> None:
        """Select, and tell all views but the one that it comes from."""
        before, self._selection, no = self._selection, s, object()
        select = {name: value for name, value in s.items() if before.get(name, no) != value}
        gone = [name for name in before if name not in s]
        if not (select or gone):
            return
        if self._mail is not None:
            self._told = {name: count + (name != view) for name, count in self._told.items()}
            self._mail.send({"not": view, "select": select, "gone": gone}, [])
        for fn in list(self._observers):
            fn(dict(s))

    def _plain(self, edit: Edit | Mapping[str, Any]) -> dict[str, Any]:
        """An edit as requests have it: the source of a patch is the look's own request."""
        if not isinstance(edit, Edit):
            return dict(edit)
        if not isinstance(edit, Patch):
            return edit.to_json()
        known = self._looks.get(edit.source)
        if known is None:
            raise ConfigError(
                f"{edit!r}: the page needs a source from this view; take it from `view.look()` of "
                "another selection, or give the edit as plain values with source={'input': ...}."
            )
        named = type(edit)(edit.point, source=edit.source, name="look", **edit.at)
        return {**named.to_json(), "source": known}

    def _live(self) -> Any:
        """The widget of anywidget, made once; None, which is said: it is not installed."""
        if self._widget is not None:
            return self._widget
        try:
            kind = import_module("anywidget").AnyWidget
        except ImportError:
            sys.stderr.write(
                "this is a picture; for the live page, run pip install 'glassformer[notebook]'\n"
            )
            return None
        self._widget = type("Explored", (kind,), {"_esm": WIDGET.read_text("utf-8")})()
        self._mail = Mailbox(self.explorer, self._widget.send)
        self._widget.on_msg(lambda _, message, parts: self._heard(message))
        return self._widget

    def _heard(self, message: Mapping[str, Any]) -> None:
        """Act on a message of the page."""
        mail, view = self._mail, str(message.get("view"))
        assert mail is not None
        if message.get("hello") == "page":
            mail.send({"to": view, "page": True, "height": self.height}, [frame_page().encode()])
        elif message.get("hello"):
            self._told[view] = 0
            mail.send({"to": view, "start": self.selection}, [])
        elif message.get("bye"):
            self._told.pop(view, None)
            mail.leave(view)
        elif "select" in message:
            kept = {k: v for k, v in self._selection.items() if k not in message["gone"]}
            # After simultaneous changes, this view is told the final selection too.
            agreed = message.get("heard") == self._told.get(view)
            self._select({**kept, **message["select"]}, view if agreed else "")
        else:
            mail.take(message)


def in_kernel() -> bool:
    """Whether a notebook's kernel runs this, so that messages arrive."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
