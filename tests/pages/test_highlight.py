"""A text in colours is the text: nothing is added but colour, and what a page shows can be read
back from it."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import printable
from glassformer.pages import colours
from glassformer.pages.highlight import (
    PALETTE,
    PLAIN,
    coloured,
    highlight_html,
    legend,
    styles,
)

NAMES = ("function", "local", "keyword", "operator")
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x1b\r"), max_size=60)


@st.composite
def tagged(draw):
    source = draw(texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(source)), max_size=8)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    return source, spans, [draw(st.sampled_from(NAMES)) for _ in spans]


@given(tagged())
def test_without_its_colours_the_text_is_what_it_was(case):
    source, spans, tags = case
    shown = coloured(source, spans, tags, NAMES)
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == source
    assert shown.count("\x1b[0m") == sum(tag not in PLAIN for tag in tags)


@given(tagged())
def test_a_page_shows_the_text_and_names_the_tags(case):
    source, spans, tags = case
    shown = highlight_html(source, spans, tags, NAMES, "x")
    inside = shown[shown.index("<pre>") + 5 : shown.index("</pre>")]
    assert html.unescape(re.sub(r"</?span[^>]*>", "", inside)) == printable(source)
    assert re.findall(r'title="(\w+)"', inside) == [tag for tag in tags if tag not in PLAIN]


def test_real_code_keeps_every_character():
    source = "def f(x):  # <three>\n\treturn x & 'a' \\\n\n"
    spans = [word.span() for word in re.finditer(r"\S+", source)]
    shown = coloured(source, spans, ["local"] * len(spans), NAMES)
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == source


def test_every_tag_has_a_style_of_its_own_while_there_are_enough():
    names = [f"t{i}" for i in range(len(PALETTE))]
    assert sorted(styles([*names, *PLAIN]).values()) == list(range(len(PALETTE)))
    assert all(name in legend(names) for name in names)


def test_contrast_is_at_least_four_and_a_half():
    for style in PALETTE:
        for colour, ground in ((style["light"], "#fdfdfc"), (style["dark"], "#14181a")):
            one, other = (tuple(bytes.fromhex(value[1:])) for value in (colour, ground))
            assert colours.contrast(one, other) >= 4.5, colour
