"""The pages are plain modules that draw only what they are given. Source text alone is read: no
browser is needed."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import glassformer
from every import of_every
from glassformer.serve.explorer.page import CONTENTS, contents
from glassformer.serve.explorer.schema import PAGES

STATIC = Path(glassformer.__file__).parent / "serve" / "explorer" / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
SOURCES = {path.relative_to(STATIC).as_posix(): path.read_text() for path in SCRIPTS}
STYLE = (STATIC / "style.css").read_text()
SOURCES[CONTENTS] = contents(PAGES)
every_script = of_every(SOURCES)

IMPORT = re.compile(
    r"""^\s*(?:import|export)\b[^;"']*?from\s*["']([^"']+)["'];?|^\s*import\s*["']([^"']+)["']""",
    re.MULTILINE,
)
FORBIDDEN = {
    r"\bMath\s*\.\s*random\b": "numbers that are not computed from what is shown",
    r"\b(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write": "text that becomes markup",
    r"https?://|\bwss?://": "addresses outside this folder",
    r"\beval\s*\(|new\s+Function\b|setTimeout\(\s*[\"'`]": "text that becomes code",
    r"\brequire\s*\(|import\s*\(": "imports that the linker cannot follow",
    r"sendBeacon|XMLHttpRequest|new\s+WebSocket|EventSource": "other ways to the network than "
    "wire.js",
}


def imports(name: str) -> list[str]:
    """What a module imports, as paths below `static`."""
    found = [one or other for one, other in IMPORT.findall(SOURCES[name])]
    assert all(re.match(r"\.\.?/", each) for each in found), f"{name}: a bare import in {found}"
    return [
        (STATIC / name).parent.joinpath(each).resolve().relative_to(STATIC.resolve()).as_posix()
        for each in found
    ]


def code(source: str) -> str:
    """A source without its comments, which may name what is forbidden."""
    return re.sub(r"(?m)^\s*//.*$|/\*[^`]*?\*/", "", source)


@every_script
def test_scripts_draw_only_what_they_are_given(name):
    source = code(SOURCES[name])
    for pattern, meaning in FORBIDDEN.items():
        assert not (found := re.search(pattern, source)), f"{found[0]}: {meaning}"


def test_fetch_is_called_in_one_place():
    assert [name for name in SOURCES if re.search(r"\bfetch\s*\(", code(SOURCES[name]))] == [
        "wire.js"
    ]


@every_script
def test_imports_are_files_that_are_there(name):
    assert [each for each in imports(name) if not (STATIC / each).is_file()] in ([], [CONTENTS])


def test_no_two_modules_import_each_other():
    assert list(
        TopologicalSorter({name: imports(name) for name in SOURCES}).static_order()
    )  # CycleError otherwise


def test_every_module_is_reached_from_the_page():
    reached, waiting = (
        set(),
        ["main.js", "framed.js", "widget.js", "saved.js"],
    )  # of a server, of a notebook (its frame, its cell), of a saved page
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [each for each in imports(name) if each.endswith(".js")]
    assert sorted(set(SOURCES) - reached) == []


@every_script
def test_what_is_imported_is_exported(name):
    for names, source in re.findall(
        r"""^import\s*\{([^}]*)\}\s*from\s*["']([^"']+)["']""", SOURCES[name], re.MULTILINE
    ):
        path = (STATIC / name).parent.joinpath(source).resolve().relative_to(STATIC.resolve())
        target = SOURCES[path.as_posix()] if path.suffix == ".js" else ""
        offered = set(
            re.findall(
                r"^export\s+(?:async\s+)?(?:function\*?|const|let|class)\s+(\w+)",
                target,
                re.MULTILINE,
            )
        )
        for listed in re.findall(r"^export\s*\{([^}]*)\}", target, re.MULTILINE):
            offered |= {each.strip() for each in listed.split(",")}
        assert {
            each.split(" as ")[0].strip() for each in names.split(",") if each.strip()
        } <= offered, f"{name} from {source}"


@every_script
def test_a_module_says_what_it_is(name):
    lines = SOURCES[name].splitlines()
    assert lines[0] == "// @ts-check"
    assert lines[1].startswith("// ")
    assert len(lines[1]) > 20


@pytest.mark.parametrize("name", ["index.html", "style.css"])
def test_page_and_style_ask_nobody(name):
    text = (STATIC / name).read_text()
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(", text)
    assert not re.search(
        r"<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=", text
    )  # the server's policy forbids them


# Colours: name -> (light, dark), as style.css has them.
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+):\s*light-dark\((#\w{6}),\s*(#\w{6})\)", STYLE)
}
TEXT = ["ink", "soft", "accent", "good", "bad", "q-ink", "k-ink", "v-ink"]
TEXT_ON = [
    ("on-accent", "accent"),
    ("paper", "ink"),
    ("ink", "tint"),
    ("accent", "tint"),
    ("ink", "bad-tint"),
]
SHAPES = ["edge", "q", "v", "mark-good", "mark-bad"]
PAIRS = [(4.5, text, ground) for text in TEXT for ground in ("paper", "raised")]
PAIRS += (
    [(4.5, *pair) for pair in TEXT_ON]
    + [(3.0, shape, "paper") for shape in SHAPES]
    + [(3.0, "edge", "raised")]
)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("least", "text", "ground"), PAIRS)
def test_colours_can_be_told_apart(least, text, ground, theme):
    assert contrast(COLOURS[text][theme], COLOURS[ground][theme]) >= least


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(
        4.48, abs=0.01
    )  # the known grey just below 4.5


def test_every_colour_stands_once():
    rules = re.sub(r":root\s*\{.*?\}", "", STYLE, count=1, flags=re.DOTALL)
    assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b", rules)) <= {"#0006"}  # the shade behind a dialog


def test_motion_stops_when_asked():
    assert "prefers-reduced-motion: reduce" in STYLE
    assert "forced-colors: active" in STYLE
