"""The browser's half of explorer_budget.py: a chromium without a window, in front of `glassformer
inspect`.

The forward pass is over before a clock starts. A picture counts once the frame with it has been
drawn; a hover is what the page itself does from the mouse's event until the frame with it has been
laid out and painted.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

FINDER = Path(__file__).parent.parent / "tools" / "browser.sh"
SHOWN = """([act, selector, label]) => new Promise((done) => {
  const begun = performance.now(), {port1, port2} = new MessageChannel();
  const there = () => [...document.querySelectorAll(selector)].some(
    (el) => el.getAttribute("aria-label")?.startsWith(label));
  // heard after the frame was laid out and painted
  const frame = () => requestAnimationFrame(() => port2.postMessage(0));
  port1.onmessage = () => (there() ? done(performance.now() - begun) : frame());
  if (act.hash) location.hash = act.hash;
  else document.querySelector(act.on).dispatchEvent(
    new KeyboardEvent("keydown", {key: act.key, bubbles: true}));
  frame();
})"""
"""Do something, and say after how many milliseconds a picture of that name has been painted."""
LISTEN = """() => {
  window.moves = [];
  window.slow = 0;
  new PerformanceObserver((list) => (window.slow += list.getEntries().length))
    .observe({type: "longtask"});
  addEventListener("pointermove", () => {
    const begun = performance.now(), {port1, port2} = new MessageChannel();
    port1.onmessage = () => window.moves.push(performance.now() - begun);
    // heard after the frame was laid out and painted
    requestAnimationFrame(() => port2.postMessage(0));
  }, {capture: true});
}"""
MOVES = 60
QUIET = 0.2
MIB = 1 << 20


def chromium() -> str:
    """The path of one, "" if there is none."""
    done = subprocess.run(["bash", str(FINDER), "find"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextmanager
def inspecting(folder: Path, threads: int) -> Iterator[str]:
    """The address of a run's explorer, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "glassformer",
        "inspect",
        str(folder),
        "--no-browser",
        "--port",
        "0",
    ]
    environ = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)


class Wire:
    """What answers weigh on the wire, by their ops."""

    def __init__(self, session: Any):
        self.bytes: dict[str, int] = {}
        self._ops: dict[str, str] = {}
        self._heard = time.monotonic()
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self._sent)
        session.on("Network.loadingFinished", self._finished)

    def rest(self, page: Any) -> None:
        """Return when nothing has been asked or answered for `QUIET` seconds."""
        while time.monotonic() < self._heard + QUIET:
            page.wait_for_timeout(1000 * QUIET)

    def _sent(self, event: Any) -> None:
        self._heard = time.monotonic()
        asked = event["request"].get("postData", "")
        if asked.startswith('{"op":"'):
            self._ops[event["requestId"]] = asked[7 : asked.index('"', 7)]

    def _finished(self, event: Any) -> None:
        self._heard = time.monotonic()
        if op := self._ops.pop(event["requestId"], ""):
            self.bytes[op] = max(self.bytes.get(op, 0), int(event["encodedDataLength"]))


def measured(folder: Path, words: str, threads: int, times: int, heads: int) -> dict[str, float]:
    """Medians of milliseconds (of the hover: the slowest of twenty), bytes, and the heap at the
    end."""
    from playwright.sync_api import sync_playwright

    with inspecting(folder, threads) as address, sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--no-zygote"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        session = page.context.new_cdp_session(page)
        wire, site, text = Wire(session), address.partition("?")[0], quote(words)
        page.goto(address)
        grids, opened, switched = [], [], []
        for _ in range(times):
            page.goto("about:blank")  # a page that has asked nothing yet
            page.goto(f"{site}#page=learn&input={text}")
            # a function: an expression is evaluated in the page, which its policy forbids
            page.wait_for_function(
                "() => document.querySelector('.timing')?.textContent.includes('element')",
                timeout=120_000,
            )
            grids.append(
                page.evaluate(
                    SHOWN,
                    [
                        {"hash": f"page=attention&input={text}"},
                        ".matrix-stack",
                        "Attention patterns",
                    ],
                )
            )
        for head in range(heads):
            page.evaluate(
                SHOWN,
                [
                    {"hash": f"page=attention&head={head}&input={text}"},
                    ".matrix-stack",
                    "Attention patterns",
                ],
            )
            wire.rest(
                page
            )  # a head is chosen before it is opened, and asked for as soon as it is chosen
            enter = {"on": ".atlas .matrix-stack", "key": "Enter"}
            opened.append(
                page.evaluate(SHOWN, [enter, ".matrix-stack", f"Attention, layer 0 head {head}"])
            )
            page.wait_for_selector(".inside-verdict")
        for head in reversed(range(heads - 1)):
            before = {"on": ".matrix-stack", "key": "["}
            switched.append(
                page.evaluate(SHOWN, [before, ".matrix-stack", f"Attention, layer 0 head {head}"])
            )
            page.wait_for_selector(".inside-verdict")
        page.evaluate(LISTEN)
        canvas = page.locator(".matrix-canvas").first
        canvas.evaluate("(el) => el.scrollIntoView({block: 'start'})")
        box = canvas.bounding_box()
        top, height = max(box["y"], 100), min(box["y"] + box["height"], 880) - max(box["y"], 100)
        for i in range(MOVES):
            across, down = (i + 1) / (MOVES + 1), (i % 7 + 1) / 8
            page.mouse.move(box["x"] + box["width"] * across, top + height * down)
            page.wait_for_function("(count) => moves.length > count", arg=i)
        moves, slow = sorted(page.evaluate("moves")), page.evaluate("slow")
        heap = session.send("Runtime.getHeapUsage")
        browser.close()
    return {
        "grid ms": statistics.median(grids),
        "grid bytes": wire.bytes["thumbnails"],
        "head ms": statistics.median(opened),
        "next head ms": statistics.median(switched),
        "head bytes": wire.bytes["head"],
        "hover ms": moves[int(0.95 * len(moves))],
        "long tasks in hovering": slow,
        "heap MiB": sum(
            heap.get(name, 0) for name in ("usedSize", "embedderHeapUsedSize", "backingStorageSize")
        )
        / MIB,
    }
