"""The answers of the gallery: python -m docsite.export RUNS docs/gallery

RUNS/demo-NAME is the run of a demo. A browser opens its views (gallery.json) in the explorer, then
its page *Export* saves what was seen as one HTML file; the answers in that file, its selection and
a picture of its first view are stored. Needs playwright and a chromium that `tools/browser.sh`
finds.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from PIL import Image

from glassformer.run import load
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.routes import Server

SAVED = re.compile(r"globalThis\.glassformerSaved=(.*?)</script>", re.DOTALL)
SIZE = {"width": 1280, "height": 860}
MOST = 1_500_000
"""Bytes of the answers of a model."""
QUIET = "() => !document.querySelector('.working, [aria-busy=true]')"


@dataclass(frozen=True)
class Shown:
    """A model of the gallery: its title, what it is, its pages, the first of which is opened
    first, a selection for all of them, and an input (none: its first example)."""

    title: str
    about: str
    views: Sequence[str]
    selection: str = ""
    input: str = ""
    run: str = ""


MODELS: Mapping[str, Shown] = json.loads(
    Path(__file__).with_name("gallery.json").read_text(encoding="utf-8"),
    object_hook=lambda row: Shown(**row) if "title" in row else row,
)


SCORES = ("accuracy", "exact_match", "perplexity", "loss")
"""The first of these that a task has is told."""


def scored(run: Path) -> str:
    """The score of a run on its validation split, and its steps."""
    opened = load(run)
    found = opened.evaluate()
    name = next(name for name in SCORES if name in found)
    form = "" if name in ("perplexity", "loss") else " %"
    told = f"{found[name] * (100 if form else 1):.3g}{form}"
    assert opened.recipe is not None
    steps = opened.recipe.train.steps
    return f"{steps} training steps; {name.replace('_', ' ')} on validation data {told}."


def taken(page: Any, address: str, shown: Shown) -> tuple[dict[str, Any], bytes]:
    """What the page Export saves after the views of a model, and a picture of the first."""
    given = f"&{shown.selection}" + (f"&input={quote_plus(shown.input)}" if shown.input else "")
    page.goto(address)
    page.wait_for_selector("h1")
    for view in (*shown.views[1:], shown.views[0]):  # one page, so that answers are kept
        page.evaluate("to => { location.hash = to; }", f"page={view}{given}")
        page.wait_for_load_state("networkidle")
        page.wait_for_function(QUIET)
        page.wait_for_timeout(800)  # the drawing of a picture, which asks nothing
    picture = page.screenshot()
    page.evaluate("to => { location.hash = to; }", f"page=export{given}")
    page.wait_for_selector("text=Save as HTML")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as HTML").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    found = SAVED.search(text)
    assert found, "the saved page holds no answers"
    return json.loads(found[1]), picture


def main(runs: Path, folder: Path, names: Sequence[str]) -> None:
    """Store the answers of models; SystemExit: they are too large.

    Runs are opened from within their folder: answers name the path of a run, and that of this
    machine has no place in them.
    """
    from playwright.sync_api import sync_playwright

    finder = ["bash", str(Path(__file__).parents[1] / "browser.sh"), "find"]
    chromium = subprocess.run(finder, capture_output=True, text=True, check=True).stdout.strip()
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        flags = ["--no-sandbox", "--no-zygote", "--disable-gpu"]
        browser = started.chromium.launch(executable_path=chromium, args=flags)
        for name in names or MODELS:
            run = Path(MODELS[name].run or f"demo-{name}")
            with chdir(runs), Server(Explorer(load(run)), port=0) as server, server.beside():
                page = browser.new_page(viewport=SIZE, color_scheme="light", accept_downloads=True)
                page.set_default_timeout(120_000)
                held, picture = taken(page, server.address, MODELS[name])
                page.close()
                store(folder, name, held, scored(run), picture)
        browser.close()


def store(folder: Path, name: str, held: dict[str, Any], scores: str, picture: bytes) -> None:
    """Write the files of a model."""
    shown = MODELS[name]
    about = {"title": shown.title, "about": f"{shown.about} {scores}"}
    text = json.dumps({"place": [*MODELS].index(name), **about, **held}, separators=(",", ":"))
    if len(text) > MOST:
        sys.exit(f"{name} has {len(text):,} bytes of answers, more than {MOST:,}; show less.")
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    with Image.open(BytesIO(picture)) as full:
        half = full.convert("RGB").resize((SIZE["width"] // 2, SIZE["height"] // 2))
    few = half.quantize(128, dither=Image.Dither.NONE)
    few.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
