"""A real browser for the pages. Without playwright or a chromium, these tests are skipped and say what is missing.

`GLASSFORMER_CHROMIUM` names another chromium than that on the path; its libraries are found by LD_LIBRARY_PATH as ever.
"""

import contextlib
import functools
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.serve.guard import HEADERS
from glassformer.serve.server import Server

STATIC = Path(glassformer.__file__).parent / "serve" / "static"
CHROMIUM = os.environ.get("GLASSFORMER_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"]  # the same pixels everywhere


class Static(SimpleHTTPRequestHandler):
    """The folder alone, under the policy of the explorer's server; who asks about a model hears that there is none."""

    protocol_version = "HTTP/1.1"

    def end_headers(self):
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b'{"error": "No run is open here.", "kind": "ConfigError"}'
        self.send_response(400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def static_site() -> Iterator[str]:
    """The address of the pages without a model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Static, directory=STATIC))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    if not CHROMIUM:
        pytest.skip("needs a chromium on the path, or its path in GLASSFORMER_CHROMIUM")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


class Visit:
    """A page, and what went wrong on it: errors, and questions to anyone but the site."""

    def __init__(self, page: Any, site: str):
        self.page, self.site, self.problems = page, site, []
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._heard)
        page.on("request", self._asked)
        self._waiting: set[Any] = set()
        for ended in ("requestfinished", "requestfailed"):
            page.on(ended, self._ended)

    def _heard(self, message: Any) -> None:
        without_model = "400 (Bad Request)" in message.text and message.location.get("url", "").endswith("/api")
        if message.type in ("error", "warning") and not without_model:
            self.problems.append(f"{message.type}: {message.text}")

    def _ended(self, request: Any) -> None:
        self._waiting.discard(request)

    def _asked(self, request: Any) -> None:
        self._waiting.add(request)
        if not request.url.startswith((self.site, "blob:", "data:")):
            self.problems.append(f"asked {request.url}")

    def settled(self) -> Any:
        """The page, once it has asked nothing for a while."""
        quiet = 0
        for _ in range(300):
            self.page.wait_for_timeout(50)
            quiet = 0 if self._waiting else quiet + 1
            if quiet == 5:
                return self.page
        raise AssertionError(f"still waiting for {[request.url for request in self._waiting]}")

    def turn_to(self, name: str) -> Any:
        """A page of the explorer, once it stands."""
        self.page.goto(f"{self.site}#page={name}")
        self.page.wait_for_selector("h1")
        return self.settled()

    def open(self, lesson: str = "") -> Any:
        """A lesson, or their table of contents."""
        self.page.goto(f"{self.site}#page=learn" + (f"&lesson={lesson}" if lesson else ""))
        self.page.wait_for_selector("h1")
        return self.page


@contextlib.contextmanager
def _visited(browser: Any, site: str, **options: Any) -> Iterator[Visit]:
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    visit = Visit(context.new_page(), site)
    yield visit
    problems = visit.problems
    context.close()
    assert problems == []


@pytest.fixture
def visit(browser, static_site) -> Iterator[Visit]:
    """A fresh page of the site; the test fails if anything on it failed."""
    with _visited(browser, static_site) as opened:
        yield opened


@pytest.fixture(scope="session")
def explored(explorer_of) -> Iterator[Any]:
    """The server of a tiny run of a family, as `glassformer inspect` starts it."""
    with contextlib.ExitStack() as open_ones:

        @functools.cache
        def served(family: str) -> Server:
            server = open_ones.enter_context(Server(explorer_of(family), port=0))
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            open_ones.callback(server.shutdown)
            return server

        yield served


@pytest.fixture
def visiting_model(browser, explored):
    """Opens the explorer of a family's tiny run on a fresh page, as a context."""

    @contextlib.contextmanager
    def visiting_of(family: str, **options: Any) -> Iterator[Visit]:
        address = explored(family).address
        with _visited(browser, address.partition("?")[0], **options) as visit:
            visit.page.goto(address)
            visit.page.wait_for_selector("h1")
            yield visit

    return visiting_of


@pytest.fixture
def visiting(browser, static_site):
    """Opens fresh pages of other sizes and themes, as a context."""
    return functools.partial(_visited, browser, static_site)
