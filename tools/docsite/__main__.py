"""Build the site: python -m docsite FOLDER; the Markdown that it is made from is in
FOLDER-source."""

import os
import shutil
import sys
from pathlib import Path

from docsite.gallery import gallery
from docsite.pages import Pages
from docsite.reference import commands, reference

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def source(root: Path, folder: Path, extra: Path) -> None:
    """Write the Markdown of the site into a folder, and the pages that are HTML already into
    `extra`."""
    made = Pages(root).pages
    architecture = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    public, folders = reference(root / "src" / "glassformer", architecture)
    made |= folders
    made["api.md"] += public
    made["commands.md"] += commands()
    made["gallery.md"] += gallery(root / "docs" / "gallery", extra / "gallery")
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    shutil.copytree(root / "docs" / "explorer", folder / "explorer")


def main(folder: Path) -> int:
    """Build the site into a folder; the exit code of Sphinx, whose warnings are errors."""
    from sphinx.cmd.build import build_main

    text, extra = Path(f"{folder}-source"), Path(f"{folder}-extra")
    for old in (folder, extra):
        shutil.rmtree(old, ignore_errors=True)
    source(ROOT, text, extra)
    os.environ |= {"DOCSITE_STATIC": str(HERE / "static"), "DOCSITE_EXTRA": str(extra)}
    # Four processes: with two, all pages of the reference would be the work of one.
    options = ["-q", "-W", "--keep-going", "-E", "-j", "4", "-c", str(HERE)]
    return build_main([*options, "-d", f"{folder}-cache", str(text), str(folder)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
