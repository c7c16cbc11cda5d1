"""The documentation site, opened from disk: links, requests, gallery, lessons, search, equations."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from docsite.export import MODELS
from docsite.gallery import lessons
from glassformer.serve.explorer.schema import PAGES

ROOT = Path(__file__).parents[3]
NEEDED = ("sphinx", "furo", "myst_parser", "latex2mathml")
LINKS = "() => [...document.querySelectorAll('a[href]')].map((a) => a.href)"
IDS = "() => [...document.querySelectorAll('[id], a[name]')].map((el) => el.id || el.name)"
OPEN = """(title) => {
  const links = [...document.querySelectorAll("nav.rail a")];
  links.find((a) => a.textContent === title).click();
}"""
TITLES = {name: page["title"] for name, page in PAGES.items()}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, NEEDED)),
        reason="the site needs the extra `docs`: `make docs` installs it",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built; a warning of Sphinx, such as of a broken reference, is an error."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tools"))
    built = subprocess.run(
        [sys.executable, "-m", "docsite", folder],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def file_of(address: str) -> Path:
    return Path(unquote(urlsplit(address).path))


def test_every_link_leads_somewhere_and_nothing_is_asked_of_another_host(site, visiting_at):
    """All pages that can be reached from the first; an error in the console fails, too."""
    start = (site / "index.html").as_uri()
    links: dict[str, list[str]] = {}
    anchors: dict[str, set[str]] = {}
    waiting = [start]
    with visiting_at(site.as_uri()) as visit:
        while waiting:
            address = waiting.pop()
            if address in links:
                continue
            visit.page.goto(address, wait_until="load")
            links[address] = visit.page.evaluate(LINKS)
            anchors[address] = set(visit.page.evaluate(IDS))
            here = [urldefrag(link)[0] for link in links[address] if link.startswith("file:")]
            inner = [one for one in here if "/gallery/" not in one and one.endswith(".html")]
            waiting += [one for one in dict.fromkeys(inner) if one not in links]
    assert len(links) > 60
    for page, targets in links.items():
        for target in targets:
            address, anchor = urldefrag(target)
            if urlsplit(address).scheme in ("http", "https", "mailto"):
                continue
            assert file_of(address).is_file(), f"{page}: {target}"
            assert site in file_of(address).parents, f"{page}: {target}"
            assert not anchor or unquote(anchor) in anchors.get(address, ()), f"{page}: {target}"


@pytest.mark.parametrize("name", MODELS)
def test_a_page_of_the_gallery_has_its_views(site, visiting_at, name):
    address = (site / "gallery" / f"{name}.html").as_uri()
    with visiting_at(address) as visit:
        visit.page.goto(address)
        visit.page.wait_for_selector("h1")
        visit.settled()
        for view in MODELS[name].views:
            visit.page.evaluate(OPEN, TITLES[view])
            visit.settled()
            now = visit.page.locator("nav.rail a[aria-current=page]")
            assert now.text_content() == TITLES[view]
            assert visit.page.locator("main .problem").all_text_contents() == []
            assert visit.page.locator("main").text_content()


@pytest.mark.parametrize(("name", "title"), lessons())
def test_a_lesson_opens_from_disk(site, visiting_at, name, title):
    address = (site / "gallery" / f"lesson-{name}.html").as_uri()
    with visiting_at(address) as visit:
        visit.page.goto(address)
        visit.page.wait_for_selector("article.lesson")
        assert visit.page.locator("h1").text_content() == title
        assert visit.page.locator("figure.figure").count() >= 1
        told = visit.page.locator(".checked summary").text_content()
        agree = re.search(r"(\d+) of (\d+) values agree", told)
        assert agree
        assert agree[1] == agree[2]


def test_search_works_from_disk(site, visiting_at):
    with visiting_at(site.as_uri()) as visit:
        visit.page.goto((site / "search.html").as_uri() + "?q=perplexity")
        visit.page.wait_for_selector("#search-results li a")


def test_equations_are_drawn_and_lead_to_their_functions(site, visiting_at):
    with visiting_at(site.as_uri()) as visit:
        visit.page.goto((site / "notes.html").as_uri())
        assert visit.page.locator("math").count() > 60
        assert visit.page.locator("math", has_text="\\").count() == 0
        row = visit.page.locator("tr", has=visit.page.locator("math msqrt")).first
        assert (
            row.locator("a")
            .get_attribute("href")
            .endswith("#glassformer.layers.attention.attend.attention_scores")
        )
