"""Who can use the pages: keyboard, screen reader, small screens, dark and forced colours, less
motion."""

import pytest

from every import slow_but
from serve.browser.seeing import FAINT, FITTED, faults
from serve.browser.test_learn import LESSONS


@pytest.mark.parametrize("lesson", slow_but(LESSONS, "patches"))
def test_a_lesson_has_landmarks_and_names_can_be_read_and_fits_the_screen(visit, lesson):
    page = visit.open(lesson)
    assert faults(page, model=False) == {}
    assert page.title().endswith("glassformer")
    assert page.locator("[role=status]").count() >= 1
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(FAINT) == [], scheme
    for width in (1024, 420):
        page.set_viewport_size({"width": width, "height": 800})
        assert visit.settled().evaluate(FITTED, width) <= width


def test_first_tab_leads_past_the_rail(visit):
    page = visit.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert (
        page.evaluate("location.hash") == "#page=learn"
    )  # the address is the selection's, not the link's


def test_every_control_is_reached_by_tab_and_none_keeps_it(visit):
    page = visit.open("queries-and-keys")
    seen = []
    for _ in range(120):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(() => { const e = document.activeElement; return e === document.body ? '' : "
            "`${e.tagName} ${e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? "
            "e.textContent}`; })()"
        )
        if not name:
            break
        seen.append(name.strip())
    assert name == "", "the last Tab leaves the page"
    assert any("turn both" in each for each in seen)
    assert any("Attention in the plane" in each for each in seen)


def test_help_lists_the_keys_and_closes(visit):
    page = visit.open()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    assert "largest of the row" in dialog.text_content()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_theme_is_chosen_and_kept(visit):
    page = visit.open()
    ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = ground()
    page.get_by_role("button", name="Theme: Auto").click()
    page.get_by_role("button", name="Theme: Light").click()
    assert ground() != light
    page.reload()
    page.wait_for_selector("h1")
    assert ground() != light


def test_motion_stops_when_asked(visiting):
    with visiting(reduced_motion="reduce") as visit:
        page = visit.open("self-attention")
        moving = page.evaluate(
            "[...document.querySelectorAll('body *')].filter((e) => "
            "parseFloat(getComputedStyle(e).transitionDuration) > 0).length"
        )
        assert moving == 0


def test_forced_colours_keep_pictures_and_controls(visiting):
    with visiting(forced_colors="active") as visit:
        page = visit.open("causal-mask")
        assert (
            page.locator(".matrix-canvas").first.evaluate(
                "(e) => getComputedStyle(e).forcedColorAdjust"
            )
            == "none"
        )


def test_without_a_model_the_rail_says_how_to_open_one(visit):
    page = visit.open()
    assert "glassformer inspect RUN" in page.get_by_role("navigation", name="Pages").text_content()
    assert len(LESSONS) == page.locator(".rail-parts a").count()
