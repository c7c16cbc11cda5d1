"""What browser tests look for on a page, and what they read from it."""

import re
from typing import Any

NAMELESS = """() => {
  const controls = "button, input, select, a, summary, "
    + "[role=application], [role=slider], [role=region]";
  const labelled = (el) => [...(el.labels ?? [])].some((label) => label.textContent.trim());
  const named = (el) =>
    el.getAttribute("aria-label") || el.textContent.trim() || labelled(el);
  return [...document.querySelectorAll(controls)]
    .filter((el) => el.checkVisibility()).filter((el) => !named(el))
    .map((el) => el.outerHTML.slice(0, 120));
}"""
"""Controls without a name."""
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const seen = new Map();
  const rgb = (c) => {
    if (!seen.has(c)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = c;
      canvas.fillRect(0, 0, 1, 1);
      seen.set(c, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return seen.get(c);
  };
  const linear = (v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const lum = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c[3] > 250) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.checkVisibility() || e.closest(".later, .faded, .faint, :disabled")) continue;
    const style = getComputedStyle(e);
    const drawn = e.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [a, b] = [lum(rgb(drawn)), lum(ground(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    const name = `${e.tagName}.${e.getAttribute("class") ?? ""}`;
    if (ratio < 4.5) found.push(`${name} ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""
"""Texts with less contrast than 4.5 : 1."""
SMALL = """() => {
  const targets = "button, summary, select, .toggle, .choice label, .range, "
    + ".contents-list a, .rail a";
  return [...document.querySelectorAll(targets)].filter((el) => el.checkVisibility())
    .map((el) => [el.className, el.getBoundingClientRect()])
    .filter(([name, box]) => !name.startsWith("patch") && (box.width < 24 || box.height < 24))
    .map(([name, box]) => `${name} ${Math.round(box.width)}x${Math.round(box.height)}`);
}"""
"""Targets of less than 24 pixels, the patches of a picture apart."""
PICTURES = """() => {
  const text = (id) => document.getElementById(id ?? "")?.textContent.trim();
  const named = (one) => one && (one.getAttribute("aria-label")
    || one.getAttribute("aria-hidden") || text(one.getAttribute("aria-labelledby")));
  const framed = (el) => el.matches("canvas, svg") && named(el.closest("figure"));
  return [...document.querySelectorAll("figure, canvas, svg[role]")]
    .filter((el) => el.checkVisibility() && !el.closest("[aria-hidden=true]"))
    .filter((el) => !(named(el) || named(el.closest("[role]")) || framed(el)))
    .map((el) => el.outerHTML.slice(0, 120));
}"""
"""Pictures without a name."""
STRAY = """() => [...document.querySelectorAll("main .readings")]
  .flatMap((el) => [...el.childNodes]).filter((one) => one.nodeType === 3)
  .map((one) => one.textContent)"""
"""Texts among the numbers that have no name."""
WIDTH = "document.documentElement.scrollWidth"
FITTED = f"""(width) => new Promise((done) => {{
  let frames = 60;
  const look = () =>
    {WIDTH} <= width || !frames-- ? done({WIDTH}) : requestAnimationFrame(look);
  look();
}})"""
"""How wide a page is once it fits, which a canvas does a frame after its room is known to be
narrower; or stays."""
PAGES = (
    "async (has) => (await import('./contents.js')).pages.filter((p) => !p.needs.length || "
    "p.needs.some((one) => has.includes(one))).map((p) => p.id)"
)

NAMED = [
    "application",
    "banner",
    "button",
    "combobox",
    "complementary",
    "dialog",
    "figure",
    "img",
    "link",
    "listbox",
    "navigation",
    "option",
    "radio",
    "region",
    "search",
    "slider",
    "spinbutton",
    "switch",
    "textbox",
]
"""Roles that say nothing without a name."""
_LINE = re.compile(r"""^(?P<depth> *)- ['"]?(?P<role>[a-z]+)(?P<name> ")?""")


def settled(page: Any) -> Any:
    """The page, once it has asked and drawn all that it wants to (see `WATCH`)."""
    page.wait_for_function("() => isSettled()")  # a string, the policy would forbid
    return page


def tree_faults(page: Any, model: bool = True) -> list[str]:
    """What is wrong with what a screen reader is told: landmarks, headings, names."""
    lines = page.locator("body").aria_snapshot().splitlines()
    roles = [
        (found["role"], bool(found["name"]), line.strip())
        for line in lines
        if (found := _LINE.match(line))
    ]
    faults = [line for role, name, line in roles if role in NAMED and role != "banner" and not name]
    marks = [role for role, _, _ in roles]
    for role in ("banner", "main", *(("search",) if model else ())):
        if marks.count(role) != 1:
            faults.append(f"{marks.count(role)} of {role}")
    if not any(line.startswith('- navigation "Pages"') for _, _, line in roles):
        faults.append("no navigation")
    if sum("[level=1]" in line for line in lines) != 1:
        faults.append("not one heading of level 1")
    return faults


def faults(page: Any, model: bool = True) -> dict[str, Any]:
    """Whatever is wrong with a page as it stands, whoever uses it."""
    found = {
        "problems": page.locator("main .problem").all_text_contents(),
        "nameless": page.evaluate(NAMELESS),
        "pictures": page.evaluate(PICTURES),
        "stray": page.evaluate(STRAY),
        "small": page.evaluate(SMALL),
        "tree": tree_faults(page, model),
    }
    return {what: those for what, those in found.items() if those}


def figure(page: Any, title: str) -> Any:
    return page.locator("figure.figure", has=page.get_by_role("heading", name=title, exact=True))


def table(page: Any, title: str) -> list[list[str]]:
    """The rows of a picture's table twin, as texts."""
    frame = figure(page, title)
    twin = frame.get_by_role("button", name="view as table")
    twin.click()
    rows = "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    found = frame.locator(".figure-table tbody tr").evaluate_all(rows)
    twin.click()
    return found


def number(text: str) -> float:
    """A number as the pages write it."""
    return float(
        text.replace("\u2009", "").replace("−", "-").replace("%", "").replace("+", "").rstrip(" ✓✗")
    )


def reading(page: Any, name: str) -> float:
    """A number that stands beside its name."""
    return number(page.locator(".reading", has_text=name).locator("output").first.text_content())
