"""The pictures of docs/inside.md: pages of the explorer in a browser without a window, as small
PNG files.

    make demo
    python tools/explorer_shots.py runs/demo-lm docs/explorer  [NAME=HASH ...]

Needs playwright and a chromium that `tools/browser.sh` finds; Pillow, if there, makes them smaller.
"""

import subprocess
import sys
from pathlib import Path

from glassformer.run import load
from glassformer.serve.explorer.handler import Explorer
from glassformer.serve.explorer.routes import Server

INPUT = (
    "&input=Return+a+list+of+the+keys+in+the+dictionary."
    "+Return+a+list+of+the+values+in+the+dictionary."
)
SHOTS = {
    "attention": "page=attention&layer=1&head=3" + INPUT,
    "head": "page=head&layer=1&head=3" + INPUT,
    "flow": "page=flow" + INPUT,
}
MOST = 150_000
"""Bytes of a picture."""


def main(run: Path, folder: Path, shots: dict[str, str]) -> None:
    """Write one picture for each of `shots`, by their names; SystemExit: one is too large."""
    with Server(Explorer(load(run)), port=0) as server, server.beside():
        take(server.address, folder, shots)


def take(address: str, folder: Path, shots: dict[str, str]) -> None:
    """The same of an explorer at an address."""
    from playwright.sync_api import sync_playwright

    finder = ["bash", str(Path(__file__).parent / "browser.sh"), "find"]
    chromium = subprocess.run(finder, capture_output=True, text=True, check=True).stdout.strip()
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--no-zygote"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
        page.goto(address)
        for name, selected in shots.items():
            page.goto("about:blank")
            page.goto(f"{address.partition('?')[0]}#{selected}")
            page.wait_for_selector("h1")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(1500)
            file = folder / f"{name}.png"
            page.screenshot(path=file)
            smaller(file)
            if file.stat().st_size > MOST:
                sys.exit(
                    f"{file} has {file.stat().st_size:,} bytes, more than {MOST:,}; choose a "
                    f"simpler view."
                )
        browser.close()


def smaller(file: Path) -> None:
    """The same picture in a table of 128 colours."""
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(file) as picture:
        few = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


if __name__ == "__main__":
    chosen = dict(one.split("=", 1) for one in sys.argv[3:])
    main(Path(sys.argv[1]), Path(sys.argv[2]), chosen or SHOTS)
