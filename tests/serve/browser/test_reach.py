"""Who can use the pages: keyboard, screen reader, small screens, dark and forced colours, less motion."""

# ruff: noqa: E501 - lines of JavaScript are not Python's

import pytest

from serve.browser.test_learn import LESSONS, every_lesson

NAMELESS = """() => [...document.querySelectorAll("button, input, select, a, summary, [role=application], [role=slider], [role=region]")].filter((el) => el.checkVisibility()).filter((el) =>
  !(el.getAttribute("aria-label") || el.textContent.trim() || [...(el.labels ?? [])].some((label) => label.textContent.trim()))).map((el) => el.outerHTML.slice(0, 120))"""
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const lum = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || e.closest(".later, .faded, .faint, :disabled")) continue;
    const style = getComputedStyle(e), drawn = e.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [a, b] = [lum(rgb(drawn)), lum(ground(e))].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) found.push(`${e.tagName}.${e.getAttribute("class") ?? ""} ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""
SMALL = """() => [...document.querySelectorAll("button, summary, select, .toggle, .choice label, .range, .contents-list a, .rail a")].filter((el) => el.checkVisibility())
  .map((el) => [el.className, el.getBoundingClientRect()]).filter(([, box]) => box.width < 24 || box.height < 24).map(([name, box]) => `${name} ${Math.round(box.width)}x${Math.round(box.height)}`)"""


@every_lesson
def test_landmarks_one_heading_and_names(visit, lesson):
    page = visit.open(lesson)
    assert page.locator("h1").count() == 1
    for role in ("banner", "navigation", "main"):
        assert page.get_by_role(role).count() >= 1
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(SMALL) == []
    assert page.title().endswith("glassformer")
    assert page.locator("[role=status]").count() >= 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@every_lesson
def test_text_can_be_read(visiting, lesson, scheme):
    with visiting(color_scheme=scheme) as visit:
        page = visit.open(lesson)
        assert page.evaluate(FAINT) == []


@pytest.mark.parametrize("width", [420, 1024])
@every_lesson
def test_nothing_is_wider_than_the_screen(visiting, lesson, width):
    with visiting(viewport={"width": width, "height": 800}) as visit:
        page = visit.open(lesson)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_first_tab_leads_past_the_rail(visit):
    page = visit.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("location.hash") == "#page=learn"  # the address is the selection's, not the link's


def test_every_control_is_reached_by_tab_and_none_keeps_it(visit):
    page = visit.open("queries-and-keys")
    seen = []
    for _ in range(120):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "(() => { const e = document.activeElement; return e === document.body ? '' : `${e.tagName} ${e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent}`; })()"
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
            "[...document.querySelectorAll('body *')].filter((e) => parseFloat(getComputedStyle(e).transitionDuration) > 0).length"
        )
        assert moving == 0


def test_forced_colours_keep_pictures_and_controls(visiting):
    with visiting(forced_colors="active") as visit:
        page = visit.open("causal-mask")
        assert page.locator(".matrix-canvas").first.evaluate("(e) => getComputedStyle(e).forcedColorAdjust") == "none"


def test_without_a_model_the_rail_says_how_to_open_one(visit):
    page = visit.open()
    assert "glassformer inspect RUN" in page.get_by_role("navigation", name="Pages").text_content()
    assert len(LESSONS) == page.locator(".rail-parts a").count()
