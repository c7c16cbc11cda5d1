"""The explorer as a reader has it: the real server of tiny runs, and pages that are taken along."""

from urllib.parse import quote

import numpy as np
from safetensors.numpy import load_file

from serve.browser.seeing import settled

EDIT = quote('[{"edit":"Zero","point":"*.0.attention.z","head":1}]')
OVER = """() => {
  const edge = document.querySelector(".inspector").getBoundingClientRect().left;
  const drawn = (el) => el.checkVisibility() && !el.closest(".sr") && el.getBoundingClientRect();
  const clipped = (el) =>
    el.tagName !== "MAIN" &&
    (getComputedStyle(el).overflowX !== "visible" || clipped(el.parentElement));
  return [...document.querySelectorAll("main *")]
    .filter((el) => !clipped(el) && drawn(el) && drawn(el).width > 0 && drawn(el).right > edge + 1)
    .map((el) => el.outerHTML.slice(0, 90));
}"""


def test_input_keys_address_and_errors(visiting_model):
    with visiting_model("lm", "page=attention", refusals=True) as visit:
        page = visit.page
        page.keyboard.press("/")
        page.keyboard.press("Control+A")
        page.keyboard.type("the cat sat")
        page.keyboard.press("Enter")
        visit.settled()
        assert "input=the+cat+sat" in page.url
        timing = page.locator(".timing").text_content()
        assert timing.endswith((" ms", "kept"))  # kept: by the server, for an earlier test
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("]")
        page.keyboard.press("}")
        visit.settled()
        assert "layer 1 head 1" in page.title()
        address = page.url
        assert "layer=1&head=1" in address
        python = page.locator(".inspector .code").text_content()
        assert 'gf.look(run, "the cat sat")' in python
        assert "head_metrics(look)" in python

        page.goto("about:blank")
        page.goto(address)  # the address alone restores everything
        page.wait_for_selector(".atlas-canvas")
        visit.settled()
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
    with visiting_model("lm", "page=attention") as visit:
        assert visit.page.locator("textarea").input_value() != ""


def test_pages_taken_along_open_from_disk_without_a_network(visiting_model, visiting_at, tmp_path):
    file = tmp_path / "saved.html"
    with visiting_model("lm", "page=attention", accept_downloads=True) as visit:
        shown = visit.page.locator(".metric-list").text_content()
        visit.turn_to("head")
        page = visit.turn_to("export")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as HTML").click()
        download.value.save_as(file)
    with visiting_at(
        file.as_uri(), offline=True
    ) as away:  # which also fails if the page asks anyone anything
        page = away.page
        page.goto(file.as_uri())
        page.wait_for_selector(".matrix-canvas")  # it opens with the page that one came from
        page.locator(".matrix-stack").first.hover(position={"x": 3, "y": 3})
        assert (
            page.locator(".readout output").first.text_content() == "1"
        )  # the first sees itself alone
        page.get_by_role("navigation").get_by_role("link", name="Attention").click()
        page.wait_for_selector(".metric-list")
        assert page.locator(".metric-list").text_content() == shown
        page.keyboard.press("]")
        assert "head 1" in settled(page).title()
        page.get_by_role("navigation").get_by_role("link", name="Training").click()
        assert "saved without that" in page.locator(".problem").first.text_content()


def test_tensors_are_saved_as_they_are(visiting_model, explorer_of, tmp_path):
    with visiting_model("lm", "page=export", accept_downloads=True) as visit:
        page = visit.page
        with page.expect_download() as download:
            page.get_by_role("button", name="attention.pattern as safetensors").first.click()
        download.value.save_as(tmp_path / "pattern.safetensors")
        words = page.locator("textarea").input_value()
    look = explorer_of("lm").run.look(words)
    (name,) = load_file(tmp_path / "pattern.safetensors")
    assert name == "values"
    saved = load_file(tmp_path / "pattern.safetensors")[name]
    np.testing.assert_allclose(
        saved,
        look[download.value.suggested_filename.removesuffix(".safetensors")].tensor,
        atol=1e-6,
    )


def test_a_link_without_the_token_says_what_to_do(explored, visiting_at):
    site = explored("lm").address.partition("?")[0]
    with visiting_at(site) as visit:
        visit.turn_to("head&layer=1")
        said = visit.page.locator("main .problem").text_content()
        assert "open the address that `glassformer inspect` printed, then this link" in said
        visit.problems[:] = [one for one in visit.problems if "403 (Forbidden)" not in one]


def test_compare_leaves_the_input_as_it_is(opened, explorer_of):
    page = opened("lm", "page=compare")
    example = explorer_of("lm").handle({"op": "model"}).header["examples"][0]
    assert page.locator("textarea").input_value() == example
    assert "input=" not in page.url


def test_nothing_lies_over_the_inspector(visiting_model):
    with visiting_model("lm", viewport={"width": 1280, "height": 900}) as visit:
        for at in ("explain", "flow", "head&query=2", f"edit&edits={EDIT}", "compare"):
            assert visit.turn_to(at).evaluate(OVER) == [], at
        maps = ".compare-maps > div"
        tops = [visit.page.locator(maps).nth(i).bounding_box()["y"] for i in (0, 1)]
        assert tops[0] == tops[1], "A and B side by side"
