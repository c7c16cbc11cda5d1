"""What holds on every page of every family: nothing fails, everybody can use it, and it fits."""

import pytest

from every import slow_but
from serve.browser.conftest import DESK
from serve.browser.seeing import FAINT, FITTED, PAGES, faults, settled
from serve.conftest import CAPABILITIES

NAME = (
    "(e) => [e.tagName, e.type, e.dataset.i, e.getAttribute('aria-label') || "
    "e.textContent].join(' ')"
)
SEEN = (
    f"() => {{ const e = document.activeElement; return e === document.body ? '' : ({NAME})(e); }}"
)
TABBED = f"""() => {{
  const focusable = "a[href], button, input, select, textarea, summary, [tabindex]";
  return [...document.querySelectorAll(focusable)].filter((el) =>
    el.tabIndex >= 0 && !el.disabled && el.checkVisibility()
    && !(el.type === "radio" && !el.checked)).map({NAME});
}}"""
"""What the Tab key should have led to; of radio buttons, only the one that is chosen."""
RINGED = """() => {
  const e = document.activeElement;
  const style = getComputedStyle;
  const ringed = (one) =>
    one && (style(one).outlineStyle !== "none" || style(one).boxShadow !== "none");
  const near = [e, e.nextElementSibling, e.closest("label")];
  return near.some(ringed) ? "" : e.outerHTML.slice(0, 120);
}"""
MOST_TABS = 600


@pytest.mark.parametrize(
    "family",
    slow_but(["lm", "mixture", "tag", "translate"], "lm"),
)
def test_every_page_is_for_everybody(visiting_model, family):
    found = {}
    with visiting_model(family) as visit:
        page = visit.page
        for name in page.evaluate(PAGES, CAPABILITIES[family]):
            visit.turn_to(f"{name}&query=1&key=0")
            here = faults(page)
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                if faint := page.evaluate(FAINT):
                    here[scheme] = faint
            for width in (1024, 420):
                page.set_viewport_size({"width": width, "height": 800})
                if (wide := settled(page).evaluate(FITTED, width)) > width:
                    here[str(width)] = wide
            page.set_viewport_size(DESK)
            if here or visit.problems:
                found[name] = {**here, "said": list(visit.problems)}
    assert found == {}


@pytest.mark.parametrize(
    "family",
    slow_but(
        ["translate", "image", "tag", "masked", "classify", "audio", "depiction"], "translate"
    ),
)
def test_the_other_families_pages_stand_too(visiting_model, family):
    found = {}
    with visiting_model(family) as visit:
        for name in visit.page.evaluate(PAGES, CAPABILITIES[family]):
            if name != "learn" and (here := faults(visit.turn_to(name))):
                found[name] = here
    assert found == {}


@pytest.mark.slow  # every page, some twenty seconds
def test_the_tab_key_leads_to_everything_and_out_again(visiting_model):
    found = {}
    with visiting_model("lm") as visit:
        page = visit.page
        for name in page.evaluate(PAGES, CAPABILITIES["lm"]):
            visit.turn_to(f"{name}&query=1&key=0")
            page.evaluate("document.activeElement.blur()")
            here, seen, dim, rounds = {}, set(), set(), 0
            for _ in range(MOST_TABS):
                page.keyboard.press("Tab")
                if not (name_of := page.evaluate(SEEN)):
                    rounds += 1
                    if (
                        rounds == 2
                    ):  # the first may begin in the middle: where something had the focus before
                        break
                    continue
                seen.add(name_of)
                dim.add(page.evaluate(RINGED))
            else:
                here["last"] = "the last Tab does not leave the page"
            here |= {
                "missed": sorted({*page.evaluate(TABBED)} - seen),
                "without a ring": sorted(dim - {""}),
            }
            if any(here.values()):
                found[name] = here
    assert found == {}
