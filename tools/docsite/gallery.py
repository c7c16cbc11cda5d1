"""The gallery: saved pages of the explorer, assembled from stored answers and the present modules.

    docs/gallery/NAME.json  {title, about, state, answers}   made by `docsite.export`
    docs/gallery/NAME.png   the page that it opens with

Answers are stored without the pages that show them, so a page is always of the present explorer.
"""

import html
import json
import re
import shutil
from pathlib import Path

from glassformer.serve.explorer.page import save_page
from glassformer.serve.explorer.schema import STATIC

CARD = """<figure>
<a href="gallery/{name}.html"><img src="gallery/{name}.png" alt="{alt}" loading="lazy"></a>
<figcaption><a href="gallery/{name}.html"><strong>{title}</strong></a>. {about}</figcaption>
</figure>
"""
LESSON = re.compile(r'^  id: "([\w-]+)",\n.*\n  title: "([^"]+)",', re.MULTILINE)
IMPORTS = re.compile(r'from "\.\./(learn/L\d+\.js)"')


def gallery(answers: Path, folder: Path) -> str:
    """Write the pages of the gallery and of the lessons into a folder; the Markdown that links to
    them."""
    folder.mkdir(parents=True)
    cards = [_model(file, folder) for file in sorted(answers.glob("*.json"), key=_place)]
    links = []
    for name, title in lessons():
        page = save_page({"page": "learn", "lesson": name}, {}, f"{title} · glassformer", LEARN)
        (folder / f"lesson-{name}.html").write_text(page, encoding="utf-8")
        links.append(f'<li><a href="gallery/lesson-{name}.html">{html.escape(title)}</a></li>\n')
    cards = f'<div class="gallery">\n{"".join(cards)}</div>\n'
    return f"\n## Models\n\n{cards}\n## Lessons\n\n<ol>\n{''.join(links)}</ol>\n"


LEARN = ("model", "learn")
"""The pages in the file of a lesson."""


def _place(file: Path) -> int:
    return json.loads(file.read_text(encoding="utf-8"))["place"]


def _model(file: Path, folder: Path) -> str:
    """Write the page of a model; its card."""
    held = json.loads(file.read_text(encoding="utf-8"))
    page = save_page(held["state"], held["answers"], f"{held['title']} · glassformer")
    (folder / f"{file.stem}.html").write_text(page, encoding="utf-8")
    shutil.copy(file.with_suffix(".png"), folder)
    title, about = html.escape(held["title"]), html.escape(held["about"])
    return CARD.format(name=file.stem, title=title, about=about, alt=f"The page of: {title}")


def lessons() -> list[tuple[str, str]]:
    """Name and title of each lesson, in order."""
    listed = IMPORTS.findall((STATIC / "pages" / "learn.js").read_text(encoding="utf-8"))
    found = [LESSON.findall((STATIC / name).read_text(encoding="utf-8")) for name in listed]
    return [one for (one,) in found]
