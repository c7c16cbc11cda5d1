"""What the documentation site is made of, before Sphinx sees it; tests/serve/browser/test_site.py
opens the site itself."""

import json
import posixpath
import re
from base64 import b64decode
from pathlib import Path

import pytest

from docsite.docstrings import restructured
from docsite.export import MODELS
from docsite.gallery import gallery, lessons
from docsite.pages import Pages, outside_code
from docsite.reference import commands, floors, modules, reference

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
GALLERY = ROOT / "docs" / "gallery"


@pytest.fixture(scope="module")
def pages():
    return Pages(ROOT).pages


@pytest.fixture(scope="module")
def folders():
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return reference(ROOT / "src" / "glassformer", architecture)


def test_no_link_leaves_the_site(pages, folders):
    there = {*pages, *folders[1]}
    for path, text in pages.items():
        prose = re.sub(r"^(````?).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
        for target in LINK.findall(prose):
            found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            found = target.removeprefix("/") if target.startswith("/") else found
            assert found in there or (ROOT / "docs" / found).is_file(), f"{path}: {target}"


def test_links_to_the_repository_become_links_to_pages(pages):
    assert "[lm](files/src/glassformer/recipes/lm.yaml.md)" in pages["language-models.md"]
    assert "[README](overview.md)" in pages["translation.md"]
    assert "[layers](api/glassformer.layers.md)" in pages["overview.md"]
    assert "{any}`glassformer.layers.attention.attend.attend`" in pages["notes.md"]
    assert "task: text-generation" in pages["files/src/glassformer/recipes/lm.yaml.md"]


def test_code_is_left_alone():
    assert outside_code("a\n```text\na\n```\na", str.upper) == "A\n```text\na\n```\nA"


def test_every_page_is_in_the_index(pages):
    named = set(re.findall(r"<([\w-]+)>$", pages["index.md"], re.MULTILINE))
    assert named == {path.removesuffix(".md") for path in pages if "/" not in path} - {"index"}


def test_every_module_is_in_the_reference(folders):
    text, source = "".join(folders[1].values()), ROOT / "src" / "glassformer"
    assert all(
        f"automodule:: {name}\n" in text for name in modules(source) if name != "glassformer"
    )
    order = re.findall(r"^api/glassformer\.(\w+)$", folders[0], re.MULTILINE)
    lowest_first = floors((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert order == [name for name in lowest_first if name in order]


def test_every_command_is_in_the_reference():
    text = commands()
    assert "## glassformer train\n" in text
    assert "--max-new-tokens" in text


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("a_ij * |x|_", "a\\_ij \\* \\|x\\|\\_"),
        ("`Run.tag` and `x = 1`", ":py:obj:`Run.tag`\\  and :code:`x = 1`\\ "),
        ("Sizes:\n\n    B  batch_", "Sizes:\n\n\n::\n\n    B  batch_"),
        ("- one\n  more", "- one\n  more"),
    ],
)
def test_a_docstring_is_shown_as_it_is_meant(said, written):
    found = "\n".join(restructured(said.split("\n"))).strip()
    assert found.split() == written.split()


def test_there_are_ten_lessons():
    assert len(lessons()) == 10
    assert lessons()[0] == ("context", "What a bank is")


@pytest.mark.parametrize("name", MODELS)
def test_the_gallery_has_every_model_and_no_path_of_a_machine(name):
    text = (GALLERY / f"{name}.json").read_text(encoding="utf-8")
    assert len(text) < 400_000
    assert (GALLERY / f"{name}.png").stat().st_size < 80_000
    held = json.loads(text)
    given = held["answers"].values()
    assert held["title"] == MODELS[name].title
    assert held["state"]["page"] == MODELS[name].views[0]
    raw = [b64decode(a) if isinstance(a, str) else json.dumps(a).encode() for a in given]
    assert not any(re.search(rb'[" ]/(?:tmp|home|root|work|Users)/', one) for one in raw)


def test_gallery_pages_are_made_of_the_present_explorer(tmp_path):
    links = gallery(GALLERY, tmp_path / "gallery")
    files = {file.name for file in (tmp_path / "gallery").glob("*.html")}
    assert files == set(re.findall(r'href="gallery/([\w-]+\.html)"', links))
    assert len(files) == len(MODELS) + 10
