"""A trained head in the plane of lesson 2, against numpy; and links that take the selection into
another tab."""

import numpy as np
import pytest

from serve.browser.seeing import figure, number, settled
from serve.browser.test_pages_attention import look_of

PLANE = "async ([q, k]) => (await import('./learn/trained.js')).strongestPlane(q, k)"


@pytest.mark.parametrize("shape", [(9, 9, 4), (30, 12, 16), (3, 5, 8)])
def test_the_plane_is_the_best_that_two_dimensions_can_do(modules, shape):
    queries, keys, width = shape
    draw = np.random.default_rng(queries)
    q, k = draw.normal(size=(queries, width)), draw.normal(size=(keys, width))
    shown = modules.evaluate(PLANE, [q.tolist(), k.tolist()])
    u, s, v = np.linalg.svd(q @ k.T)
    assert np.allclose(shown["sigma"], s[:2], rtol=1e-6)
    assert shown["share"] == pytest.approx((s[:2] ** 2).sum() / (s**2).sum(), rel=1e-6)
    best = u[:, :2] * s[:2] @ v[:2]
    assert np.allclose(
        np.array(shown["queries"]) @ np.array(shown["keys"]).T, best, atol=1e-3 * s[0]
    )


def test_lesson_2_shows_the_selected_head(opened, explorer_of):
    page = opened("lm", "page=learn&lesson=queries-and-keys&layer=1&head=3")
    frame = figure(page, "The same plane, with a trained head")
    look = look_of(explorer_of("lm"))
    q, k = (look[f"decoder.blocks.1.attention.{name}"].tensor.double().numpy() for name in "qk")
    k = k[3 // (len(q) // len(k))]
    s = np.linalg.svd(q[3] @ (k - k.mean(0)).T, compute_uv=False)
    shown = frame.locator(".reading output").first.text_content()
    assert number(shown.split("\u2009")[0]) == pytest.approx(
        100 * (s[:2] ** 2).sum() / (s**2).sum(), abs=0.06
    )
    frame.locator("select").nth(1).select_option("0")  # layer, head
    settled(page)
    assert page.evaluate("location.hash").endswith(
        "&layer=1"
    )  # head 0 is not written: it is what is meant without
    assert frame.locator(".reading output").first.text_content() != shown


def test_a_link_of_the_rail_opens_elsewhere_with_all_that_is_selected(opened):
    page = opened("lm", "page=attention&layer=1&head=2")
    page.get_by_role("textbox", name="Input").fill("a dog ran")
    page.keyboard.press("Enter")
    settled(page)
    with page.context.expect_page() as other:
        page.locator(".rail").get_by_role("link", name="One head").click(modifiers=["Control"])
    other = other.value
    other.wait_for_selector(".head-title")
    assert other.get_by_role("textbox", name="Input").input_value() == "a dog ran"
    assert "layer=1&head=2" in other.evaluate("location.hash")
    assert "page=attention" in page.evaluate("location.hash")  # nothing moved here
