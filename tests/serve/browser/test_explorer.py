"""The explorer as a reader has it: the real server of tiny runs, every page, and a page that was taken along."""

# ruff: noqa: E501 - lines of JavaScript are not Python's

import pytest

from serve.browser.conftest import Visit
from serve.browser.test_reach import NAMELESS

PAGES = "async (family) => (await import('./contents.js')).pages.filter((p) => !p.families || p.families.includes(family)).map((p) => p.id)"
PICTURES = """() => [...document.querySelectorAll("figure, canvas, svg[role]")].filter((el) => el.checkVisibility() && !el.closest("[aria-hidden=true]")).map((el) => {
  const named = (one) => one && (one.getAttribute("aria-label") || one.getAttribute("aria-hidden") || document.getElementById(one.getAttribute("aria-labelledby") ?? "")?.textContent.trim());
  return named(el) || named(el.closest("[role]")) || (el.matches("canvas, svg") && named(el.closest("figure"))) ? "" : el.outerHTML.slice(0, 120);
}).filter(Boolean)"""


@pytest.mark.parametrize("family", ["lm", "translate", "mixture"])
def test_every_page_stands_on_a_real_model(visiting_model, family):
    with visiting_model(family) as visit:
        for name in visit.page.evaluate(PAGES, family):
            page = visit.turn_to(name)
            assert page.locator("h1").count() == 1, name
            assert page.locator(".problem").all_text_contents() == [], name
            assert page.evaluate(NAMELESS) == [], name
            assert page.evaluate(PICTURES) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= 1440, name
            assert visit.problems == [], name


@pytest.mark.parametrize("width", [420, 1024])
def test_no_page_is_wider_than_the_screen(visiting_model, width):
    with visiting_model("lm", viewport={"width": width, "height": 800}) as visit:
        for name in visit.page.evaluate(PAGES, "lm"):
            assert visit.turn_to(name).evaluate("document.documentElement.scrollWidth") <= width, name


def test_input_keys_address_and_errors(visiting_model):
    with visiting_model("lm") as visit:
        page = visit.turn_to("attention")
        page.keyboard.press("/")
        page.keyboard.press("Control+A")
        page.keyboard.type("the cat sat")
        page.keyboard.press("Enter")
        visit.settled()
        assert "input=the+cat+sat" in page.url
        assert "ms" in page.locator(".timing").text_content()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("]")
        page.keyboard.press("}")
        visit.settled()
        assert "layer 1 head 1" in page.title()
        address = page.url
        assert "layer=1&head=1" in address
        python = page.locator(".inspector .code").text_content()
        assert 'gf.look(run, "the cat sat")' in python
        assert "layer=1, head=1" in python

        page.goto("about:blank")
        page.goto(address)  # the address alone restores everything
        page.wait_for_selector(".atlas-canvas")
        assert page.locator("textarea").input_value() == "the cat sat"
        assert "layer 1 head 1" in page.title()

        page.locator("textarea").fill("")
        page.get_by_role("button", name="Run").click()
        visit.settled()
        (said,) = page.locator("main .problem").all_text_contents()
        assert said.count(". ") == 0  # one sentence
        assert said.endswith(".")
        assert page.locator(".timing").text_content() == "no answer"


def test_a_link_without_an_input_shows_the_first_example(visiting_model):
    with visiting_model("lm") as visit:
        page = visit.turn_to("attention")
        assert page.locator("textarea").input_value() != ""


def test_pages_taken_along_open_from_disk_without_a_network(visiting_model, browser, tmp_path):
    file = tmp_path / "saved.html"
    with visiting_model("lm", accept_downloads=True) as visit:
        page = visit.turn_to("attention")
        shown = page.locator(".metric-list").text_content()
        visit.turn_to("head")
        page = visit.turn_to("export")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as HTML").click()
        download.value.save_as(file)
    context = browser.new_context(offline=True)
    away = Visit(context.new_page(), file.as_uri())
    away.page.goto(file.as_uri())
    away.page.wait_for_selector(".matrix-canvas")  # it opens with the page that one came from
    away.page.get_by_role("navigation").get_by_role("link", name="Attention").click()
    away.page.wait_for_selector(".metric-list")
    assert away.page.locator(".metric-list").text_content() == shown
    away.page.keyboard.press("]")
    away.page.wait_for_timeout(100)
    assert "head 1" in away.page.title()
    away.page.get_by_role("navigation").get_by_role("link", name="Training").click()
    assert "saved without that" in away.page.locator(".problem").first.text_content()
    problems = away.problems
    context.close()
    assert problems == []


def test_tensors_are_saved_as_they_are(visiting_model, explored, tmp_path):
    import numpy as np
    from safetensors.numpy import load_file

    with visiting_model("lm", accept_downloads=True) as visit:
        page = visit.turn_to("export")
        with page.expect_download() as download:
            page.get_by_role("button", name="attention.pattern as safetensors").first.click()
        download.value.save_as(tmp_path / "pattern.safetensors")
        words = page.locator("textarea").input_value()
    look = explored("lm").explorer.run.look(words)
    (name,) = load_file(tmp_path / "pattern.safetensors")
    assert name == "values"
    saved = load_file(tmp_path / "pattern.safetensors")[name]
    np.testing.assert_allclose(
        saved, look[download.value.suggested_filename.removesuffix(".safetensors")].tensor, atol=1e-6
    )
