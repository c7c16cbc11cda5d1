"""A real browser for the pages: one chromium and one server of each tiny run for all tests.

`tools/browser.sh` says where a chromium is. Without one these tests are skipped and say so; with
one they all run.
"""

import contextlib
import functools
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from glassformer.serve.explorer.page import CONTENTS, contents
from glassformer.serve.explorer.routes import HEADERS, Server
from glassformer.serve.explorer.schema import PAGES, STATIC
from serve.browser.seeing import settled

FINDER = Path(__file__).parents[3] / "tools" / "browser.sh"
FLAGS = [
    "--no-sandbox",
    "--no-zygote",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-gpu",
    "--renderer-process-limit=1",
]
"""As root, with the same pixels everywhere; with a zygote, some machines take half a minute to end
it. Without a process for graphics and with one for all pages, a visit is a tenth shorter."""
DESK = {"width": 1440, "height": 900}

WATCH = """(() => {
  let open = 0, still = 0;
  const begun = () => { open++; still = 0; }, ended = () => { open--; still = 0; };
  const own = {setTimeout: window.setTimeout};
  for (const [owner, name] of [
    [window, "fetch"],
    [Response.prototype, "arrayBuffer"],
    [Response.prototype, "json"],
    [ReadableStreamDefaultReader.prototype, "read"],
  ]) {
    const before = owner[name];
    owner[name] = function (...given) {
      begun();
      const answer = before.apply(this, given);
      answer.then(ended, ended);
      return answer;
    };
  }
  window.setTimeout = (fn, after, ...given) => { // the address is written a moment later
    if (!(after <= 200)) return own.setTimeout.call(window, fn, after, ...given);
    begun();
    return own.setTimeout.call(window, () => { ended(); fn(...given); }, after);
  };
  new MutationObserver(() => (still = 0)).observe(
    document, {subtree: true, childList: true, attributes: true, characterData: true});
  window.isSettled = () => !open && still++ > 2;
})()"""
"""Whether a page asks nothing and has not changed for some frames: `isSettled()`, asked once a
frame."""


class Static(SimpleHTTPRequestHandler):
    """The folder alone, under the policy of the explorer's server; who asks about a model hears
    that there is none."""

    protocol_version = "HTTP/1.1"

    def end_headers(self):
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def do_GET(self):
        if self.path != f"/{CONTENTS}":
            return super().do_GET()
        body = contents(PAGES).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"error": "No run is open here.", "kind": "ConfigError"}'
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def _serving(server: Any) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.fixture(scope="session")
def static_site() -> Iterator[str]:
    """The address of the pages without a model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Static, directory=STATIC))
    with _serving(server):
        yield f"http://127.0.0.1:{server.server_port}/"


@pytest.fixture(scope="session")
def explored(explorer_of) -> Iterator[Any]:
    """The server of a tiny run of a family, as `glassformer inspect` starts it."""
    with contextlib.ExitStack() as open_ones:

        @functools.cache
        def served(family: str) -> Server:
            server = open_ones.enter_context(Server(explorer_of(family), port=0))
            open_ones.enter_context(server.beside())
            return server

        yield served


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    bash = shutil.which("bash")
    found = (
        bash
        and subprocess.run(
            [bash, str(FINDER), "find"], capture_output=True, text=True, check=True
        ).stdout
    )
    if not found:
        pytest.skip(
            "there is no chromium: `make browser` installs one, or GLASSFORMER_CHROMIUM names one"
        )
    from playwright.sync_api import (
        sync_playwright,  # of the extra `dev`: with a browser there, nothing is skipped
    )

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found.strip(), args=FLAGS)
        yield opened
        opened.close()


class Visit:
    """A page, and what went wrong on it: errors, warnings, refusals, and requests to anyone but the
    site."""

    def __init__(self, context: Any, site: str, refusals: bool):
        self.site, self.refusals, self.problems = site, refusals, []
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        context.on("console", self._heard)
        context.on("request", lambda request: self._asked(request.url))
        context.add_init_script(WATCH)
        context.set_default_timeout(60_000)  # a busy machine is no fault of the page
        self.page = context.new_page()
        self.page.on("websocket", lambda socket: self._asked(socket.url))

    def _heard(self, message: Any) -> None:
        refused = "400 (Bad Request)" in message.text and message.location.get("url", "").endswith(
            ("/api", "/stream")
        )
        if message.type in ("error", "warning") and not (refused and self.refusals):
            self.problems.append(f"{message.type}: {message.text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.site, "blob:", "data:", "about:")):
            self.problems.append(f"asked {url}")

    def settled(self) -> Any:
        """The page, once it has asked and drawn all that it wants to."""
        return settled(self.page)

    def turn_to(self, at: str) -> Any:
        """A page of the explorer and a selection, once it stands."""
        self.page.goto(f"{self.site}#page={at}")
        self.page.wait_for_selector("h1")
        return self.settled()

    def open(self, lesson: str = "") -> Any:
        """A lesson, or their table of contents."""
        self.page.goto(f"{self.site}#page=learn" + (f"&lesson={lesson}" if lesson else ""))
        self.page.wait_for_selector("h1")
        return self.page


@pytest.fixture(scope="session")
def visiting_at(browser):
    """Opens fresh pages at an address, as a context, which fails if anything on it failed.

    `refusals`: the server refuses a request there, and that is right.
    """

    @contextlib.contextmanager
    def visiting(site: str, *, refusals: bool = False, **options: Any) -> Iterator[Visit]:
        context = browser.new_context(**{"viewport": DESK, **options})
        visit = Visit(context, site, refusals)
        yield visit
        problems = visit.problems
        context.close()
        assert problems == []

    return visiting


@pytest.fixture(scope="session")
def visiting(visiting_at, static_site):
    """Opens fresh pages without a model, of other sizes and themes, as a context."""
    return functools.partial(visiting_at, static_site, refusals=True)


@pytest.fixture
def visit(visiting) -> Iterator[Visit]:
    """A fresh page without a model."""
    with visiting() as opened:
        yield opened


@pytest.fixture(scope="module")
def modules(visiting):
    """One page for all tests that only call functions of its modules."""
    with visiting() as visit:
        yield visit.open()


@pytest.fixture
def visiting_model(visiting_at, explored):
    """Opens a page and a selection of the explorer of a family's tiny run, as a context; `answers`
    hears what the server answers."""

    @contextlib.contextmanager
    def visiting_of(
        family: str, at: str = "page=model", answers: Any = None, **options: Any
    ) -> Iterator[Visit]:
        address = explored(family).address
        with visiting_at(address.partition("?")[0], **options) as visit:
            if answers is not None:
                visit.page.on("response", answers)
            visit.page.goto(f"{address}#{at}")
            visit.page.wait_for_selector("h1")
            visit.settled()
            yield visit

    return visiting_of


@pytest.fixture
def opened(visiting_model):
    """The page of a family at a selection; the test fails if anything on it failed."""
    with contextlib.ExitStack() as stack:

        def open_(family: str, at: str, **options: Any) -> Any:
            return stack.enter_context(visiting_model(family, at, **options)).page

        yield open_
