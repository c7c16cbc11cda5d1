"""From the first page to an answer: by keyboard alone, and from a slider to the pixels and digits
of a matrix."""

import re

import numpy as np
import pytest
import torch

from every import slow_but
from glassformer.inspect.edits import Temperature
from serve.browser.seeing import number, settled, table
from serve.browser.test_pages_attention import look_of

FOCUSED = """() => {
  const e = document.activeElement;
  const labels = () => [...(e.labels ?? [])].map((label) => label.textContent).join(" ");
  return e === document.body ? "" : e.getAttribute("aria-label") || labels() || e.textContent;
}"""
RAMP = "async (dark) => Array.from((await import('./ramp.js')).ramp('attention', dark))"
DRAWN = """([selector, across, down]) => {
  const canvas = document.querySelector(selector), context = canvas.getContext("2d");
  const {data, width} = context.getImageData(0, 0, canvas.width, canvas.height);
  return down.map((y) => across.map((x) => {
    const at = 4 * (Math.floor(y * canvas.height) * width + Math.floor(x * canvas.width));
    return [...data.slice(at, at + 4)];
  }));
}"""
"""The colours at some shares of a canvas's width and height."""


def tab_to(page, what):
    """Press Tab until something of that name has the focus."""
    seen = []
    for _ in range(150):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if re.search(what, seen[-1]):
            return seen[-1]
    raise AssertionError(f"{what} is not reached by Tab, but {seen}")


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    return settled(page)


def test_from_the_first_page_to_an_edited_answer_by_keyboard_alone(visiting_model, explorer_of):
    with visiting_model("lm") as visit:
        page = visit.page
        tab_to(page, "Skip to the page")
        press(page, "/", "Control+A")
        page.keyboard.type("the dog ran")
        press(page, "Enter")
        page.evaluate("document.activeElement.blur()")
        tab_to(page, "^Attention$")
        press(page, "Enter")
        assert page.locator("h1").text_content() == "Attention"
        tab_to(page, "^Attention patterns")
        press(page, "ArrowDown", "ArrowRight", "Enter")
        assert "page=head" in page.url
        assert "layer=1&head=1" in page.url
        page.evaluate("document.activeElement.blur()")
        tab_to(page, "^Attention, layer 1 head 1, ")
        press(page, "End", "ArrowDown", "ArrowDown", "Home", "Enter")
        said = page.locator(".matrix [aria-live]").first.text_content()
        assert "query=2&key=0" in page.url
        weight = float(explorer_of("lm").run.look("the dog ran").pattern(1, 1)[2, 0])
        assert number(said.rpartition(" ")[2]) == pytest.approx(weight, rel=1e-3)
        tab_to(page, "Say nothing")
        press(page, "Space")
        assert "Zero" in page.url
        assert "KL" in page.locator(".touching").text_content()
        tab_to(page, "Back to the model as it is")
        press(page, "Enter")
        assert "Zero" not in page.url


def test_a_slider_moves_the_matrix_as_the_formula_says(opened, explorer_of):
    page = opened("lm", "page=head&layer=1&head=0")
    look = look_of(explorer_of("lm"))
    before = table(page, "Attention pattern")
    page.get_by_label("Temperature", exact=True).fill("2.5")
    after = table(settled(page), "Attention pattern")
    hot = (look.scores(1, 0).double() / 2.5).softmax(-1)
    for row, (shown, own) in enumerate(zip(after, hot.tolist(), strict=True)):
        assert shown[row + 2 :] == ["masked"] * (len(own) - row - 1)
        values = [number(cell) for cell in shown[1 : row + 2]]
        assert values == pytest.approx(own[: row + 1], rel=6e-4, abs=1e-9)
    assert after != before
    edited = look.edit([Temperature("decoder.blocks.1.attention.scores", head=0, tau=2.5)])
    assert torch.allclose(edited.pattern(1, 0).double(), hot, atol=1e-6)


@pytest.mark.parametrize("dark", slow_but([False, True], True))
def test_pixels_of_a_head_are_the_colours_of_the_models_weights(opened, explorer_of, dark):
    page = opened("lm", "page=head&layer=1&head=1", color_scheme="dark" if dark else "light")
    pattern = look_of(explorer_of("lm")).pattern(1, 1).numpy()
    colours = np.array(page.evaluate(RAMP, dark), dtype="<u4").view(np.uint8).reshape(256, 4)
    length = len(pattern)
    at = [(i + 0.15) / length for i in range(length)]  # beside the digits
    drawn = np.array(page.evaluate(DRAWN, [".matrix-canvas", at, at]))
    seen = np.tril(np.ones_like(pattern, dtype=bool))
    np.testing.assert_array_equal(
        drawn[seen], colours[np.rint(255 * np.sqrt(pattern[seen])).astype(int)]
    )
    assert (drawn[~seen][:, 3] < 255).all()  # hatched: no colour of any weight, not even of 0
    assert len({tuple(colour) for colour in drawn[seen]}) > length


def test_pixels_of_the_grid_are_the_weights_of_every_head(opened, explorer_of):
    page = opened("lm", "page=attention")
    look, colours = look_of(explorer_of("lm")), page.evaluate(RAMP, False)
    config, length = look.model.config, len(look.elements)
    side, gap = page.evaluate(
        "[parseFloat(getComputedStyle(document.querySelector('.atlas-cross')).width), 8]"
    )
    inside = (np.arange(length) + 0.5) / length * side
    places = lambda count: (
        (np.arange(count)[:, None] * (side + gap) + inside) / (count * (side + gap) - gap)
    ).ravel()
    across, down = places(config.n_heads).tolist(), places(config.n_layers).tolist()
    drawn = np.array(page.evaluate(DRAWN, [".atlas-canvas", across, down]), dtype=np.uint8)
    levels = np.rint(
        255
        * np.sqrt(
            [[look.pattern(y, x) for x in range(config.n_heads)] for y in range(config.n_layers)]
        )
    )
    expected = np.array(colours, dtype="<u4")[levels.astype(int)].transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(drawn.view("<u4")[..., 0], expected.reshape(drawn.shape[:2]))
