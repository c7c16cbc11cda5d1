"""Tokens, attention, one head and edits in a real browser: what stands there is what the looks themselves have."""

import json
import re
import threading
from contextlib import ExitStack
from urllib.parse import quote

import numpy as np
import pytest

from glassformer.inspect.edits import Mean, Set, Zero
from glassformer.serve.server import Server
from serve.asking import first, own_look
from serve.browser.conftest import Visit
from serve.browser.test_reach import FAINT, NAMELESS, SMALL

PAGES = ["tokens", "attention", "head", "edit"]
NONE = "decoder.blocks.0.attention"


@pytest.fixture
def opened(browser, explorer_of):
    """Opens a page of the explorer of a family, at a selection; the test fails if anything on it failed."""
    with ExitStack() as stack:
        servers, visits = {}, []

        def served(family):
            if family not in servers:
                server = servers[family] = stack.enter_context(Server(explorer_of(family), port=0))
                thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
                thread.start()
                stack.callback(lambda: (server.shutdown(), thread.join()))
            return servers[family]

        def open_(family, at, **options):
            server = served(family)
            context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
            stack.callback(context.close)
            site = f"http://127.0.0.1:{server.server_address[1]}/"
            visit = Visit(context.new_page(), site)
            context.request.get(server.address)  # the cookie
            visit.page.goto(f"{site}#{at}")
            visit.page.wait_for_selector("figure.figure")
            visits.append(visit)
            return visit.page

        yield open_
        problems = [problem for visit in visits for problem in visit.problems]
    assert problems == []


def figure(page, title):
    return page.locator("figure.figure", has=page.get_by_role("heading", name=title, exact=True))


def look_of(explorer, edits=()):
    seen = own_look(explorer, first(explorer))
    return seen.edited(edits) if edits else seen


def settled(page, script, *given):
    page.wait_for_function(script, arg=given[0] if given else None)


def number(text):
    return float(text.replace("\u2009", "").replace("−", "-"))


@pytest.mark.parametrize("family", ["lm", "tag", "translate", "mixture"])
@pytest.mark.parametrize("at", PAGES)
def test_every_page_opens_and_can_be_used_by_all(opened, family, at):
    page = opened(family, f"page={at}&query=1&key=0")
    assert page.locator("h1").count() == 1
    page.wait_for_load_state("networkidle")
    assert page.locator(".problem").count() == 0
    assert page.evaluate(NAMELESS) == []
    assert [each for each in page.evaluate(SMALL) if not each.startswith("patch")] == []
    assert page.evaluate(FAINT) == []
    page.set_viewport_size({"width": 420, "height": 800})
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_the_atlas_is_walked_by_keys_and_enter_opens_the_head(opened):
    page = opened("lm", "page=attention")
    stack = page.locator(".atlas .matrix-stack")
    stack.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    said = page.locator(".atlas [aria-live]").text_content()
    assert re.match(r"layer 1 head 1: (≈ [a-z ]+ 0\.\d\d|(spread|sharp), \d\.\d bits), previous token ", said)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Who looks where")
    assert "layer=1" in page.url
    assert page.locator(".head-title strong").text_content() == "Layer 1 head 1"


def test_a_filter_fades_the_heads_below_it_and_says_how_many(opened, explorer_of):
    page = opened("lm", "page=attention&metric=entropy")
    look = look_of(explorer_of("lm"))
    n_layers, n_heads = look.model.config.n_layers, look.model.config.n_heads
    spread = []
    for layer in range(n_layers):
        for head in range(n_heads):
            p = look.pattern(layer, head)[1:].double()
            spread.append(float(-(p * p.clamp_min(1e-30).log2()).sum(-1).mean()))
    least = round(float(np.median(spread)), 2) + 0.005
    box = page.get_by_label("show heads from, number")
    box.fill(str(least))
    expected = f"{sum(x >= least for x in spread)} of {len(spread)} heads"
    said = page.locator(".attention-below .reading", has_text=expected)
    said.wait_for()


NAMES = """async ([names, values]) => (await import("./pages/attended.js")).headName(names, values)"""


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"previous": 0.94, "entropy": 0.3}, "≈ previous token 0.94"),
        ({"first": 0.8, "special": 0.8, "entropy": 0.3}, "≈ first token 0.80"),
        ({"previous": 0.29, "entropy": 2.84}, "spread, 2.8 bits"),
        ({"induction": float("nan"), "previous": 0.1, "entropy": 0.42}, "sharp, 0.4 bits"),
    ],
)
def test_a_head_is_named_with_the_number_that_says_how_much(visit, values, name):
    page = visit.open()
    assert page.evaluate(NAMES, [list(values), list(values.values())]) == name


def test_thumbnails_that_are_no_squares_are_stretched(visit):
    page = visit.open()
    got = page.evaluate(
        """async () => {
        const {squared} = await import("./pages/attention.js"), data = Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]);
        const {size, bytes} = squared({shape: [1, 1, 2, 4], data});
        return [size, Array.from(bytes)];
        }"""
    )
    assert got == [4, [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8]]


CELLS = "rows => rows.map(r => [...r.querySelectorAll('td')].map(c => c.textContent))"
PLACES = [("lm", "", "self"), ("translate", "", "cross"), ("translate", "encoder", "self")]


@pytest.mark.parametrize(("family", "side", "site"), PLACES)
def test_the_matrix_holds_the_models_own_weights(opened, explorer_of, family, side, site):
    page = opened(family, f"page=head&layer=1&head=1&side={side}&site={site}")
    pattern = look_of(explorer_of(family)).pattern(1, 1, side=side, site=site)
    page.get_by_role("button", name="Who looks where: view as table").click()
    rows = figure(page, "Who looks where").locator(".figure-table tbody tr").evaluate_all(CELLS)
    assert len(rows) == pattern.shape[0]
    for shown, own in zip(rows, pattern, strict=True):
        for cell, weight in zip(shown, own.tolist(), strict=True):
            assert weight == 0 if cell == "masked" else number(cell) == pytest.approx(weight, rel=6e-4, abs=1e-9)


PATTERN = np.random.default_rng(3).dirichlet([0.3] * 7, 7).astype(np.float32)
PARTS = """async ([values, share, masked]) => {
  const {strongest} = await import("./pages/head_patterns.js");
  const units = Array.from({length: 7}, (_, i) => ({label: String(i), kind: "token", from: [i]}));
  const shown = {queries: units, keys: units, values, masked: masked ? (r, c) => c > r : null, exact: true, name: ""};
  const got = strongest(shown, share);
  return [got.edges.map(([r, c]) => [r, c]), got.all, got.mass];
}"""


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_lines_are_the_fewest_that_cover_each_row(visit, share, masked):
    page = visit.open()
    values = np.tril(PATTERN) if masked else PATTERN
    edges, count, mass = page.evaluate(PARTS, [values.ravel().tolist(), share, masked])
    expected = set()
    for r, row in enumerate(values.astype(float)):
        seen = row[: r + 1] if masked else row
        order = np.argsort(-seen, kind="stable")
        before = np.cumsum(seen[order]) - seen[order]
        needed = order[(before < share * seen.sum()) & (seen[order] > 0)]
        expected |= {(r, int(c)) for c in needed}
    assert {tuple(edge) for edge in edges} == expected
    assert count == (28 if masked else 49)
    assert mass == pytest.approx(sum(float(values[edge]) for edge in expected) / values.sum(), rel=1e-5)


def test_words_sum_their_keys_and_average_their_queries(visit):
    page = visit.open()
    words = [None, 0, 1, 1, 1, 2, None]
    got = page.evaluate(
        """async ([values, words]) => {
        const {units, merged} = await import("./pages/head_patterns.js");
        const all = units(words.map((word, i) => ({label: "abcdefg"[i], kind: "token", word})), true);
        return [all.map((u) => u.label), Array.from(merged(values, 7, all, all))];
        }""",
        [PATTERN.ravel().tolist(), words],
    )
    groups = [[0], [1], [2, 3, 4], [5], [6]]
    expected = np.array([[PATTERN[np.ix_(q, k)].sum(1).mean() for k in groups] for q in groups])
    assert got[0] == ["a", "b", "cde", "f", "g"]
    np.testing.assert_allclose(np.array(got[1]).reshape(5, 5), expected, rtol=1e-5)


@pytest.mark.parametrize("family", ["lm", "masked", "translate"])  # grouped keys, a bias of distance, post-norm
def test_the_inside_agrees_with_the_model_in_float64(opened, family):
    page = opened(family, "page=head&layer=1&head=1&query=2")
    page.wait_for_selector(".inside-verdict")
    assert "agrees with the model" in page.locator(".inside-verdict").text_content()
    off = [number(text) for text in page.locator("[data-check]").all_text_contents()]
    assert len(off) == 3
    assert max(off) < 1e-4


def test_a_step_that_is_wrong_is_found(visit):
    page = visit.open()
    off = page.evaluate("""async () => {
        const {again} = await import("./pages/head_steps.js"), t = (shape, data) => ({shape, data});
        const arrays = {q: t([2], [1, 2]), k: t([3, 2], [1, 0, 0, 1, 5, 5]), v: t([3, 2], [1, 0, 0, 1, 9, 9]),
          scores: t([3], [0.5, 1, 0]), weights: t([3], [0, 0, 0]), z: t([2], [0, 0])};
        return again({header: {scale: 0.5, masked: [2]}, arrays});
    }""")
    e = np.exp([0.5, 1.0])
    weights = [*(e / e.sum()), 0]
    assert off["weights"] == pytest.approx(weights, abs=1e-12)
    assert off["z"] == pytest.approx(weights[:2], abs=1e-12)
    assert off["off"] == pytest.approx({"scores": 0, "weights": max(weights), "z": max(weights)}, abs=1e-12)


def test_play_steps_and_hides_what_comes_later(opened):
    page = opened("lm", "page=head&layer=0&head=0&query=2")
    page.wait_for_selector(".inside .steps td")
    assert page.locator(".inside .later").count() == 0
    back = page.get_by_role("button", name="Step back")
    for _ in range(9):
        back.click()
    assert back.is_disabled()
    assert "The query’s vector" in page.locator(".step-said").text_content()
    assert page.locator(".inside .steps tbody td").all_text_contents()[0] == "·"


def after(page):
    """The answers in the outcome: label -> percent, as they stand."""
    rows = page.locator(".pair-row:not(.pair-head)").evaluate_all("rows => rows.map(r => r.getAttribute('aria-label'))")
    found = {}
    for row in rows:
        name, _, rest = row.rpartition(": ")
        parts = re.fullmatch(r"before (\S+|< 0.01) percent, after (\S+|< 0.01) percent, change (\S+)", rest)
        found[name] = parts.groups() if parts else rest
    return found


@pytest.mark.parametrize("family", ["lm", "tag", "classify"])
def test_a_head_is_silenced_by_one_switch_and_the_outcome_is_the_models(opened, explorer_of, family):
    page = opened(family, "page=head&layer=1&head=0&query=1&position=1")
    stack = "decoder" if family == "lm" else "encoder"
    page.wait_for_selector(".touch .toggle")
    page.get_by_label("Say nothing (0)").check(force=True)
    page.wait_for_selector(".pair-change")
    clean = look_of(explorer_of(family))
    edited = clean.edited([Zero(f"{stack}.blocks.1.attention.z", head=0)])
    at = -1 if family == "classify" else 1  # the position; a class is the answer to the whole
    rows = [look.probabilities(at) for look in (clean, edited)]
    shown = after(page)
    assert len(shown) >= 2
    for name, (was, now, change) in shown.items():
        i = list(clean.names).index(name)
        assert "<" in was or number(was) == pytest.approx(100 * float(rows[0][i]), abs=0.0051)
        assert "<" in now or number(now) == pytest.approx(100 * float(rows[1][i]), abs=0.0051)
        assert change == "±0.00" or number(change) == pytest.approx(100 * float(rows[1][i] - rows[0][i]), abs=0.0051)
    settled(page, "() => location.hash.includes('Zero')")
    page.get_by_label("Say nothing (0)").uncheck(force=True)
    page.wait_for_selector(".pair-row.single")
    settled(page, "() => !location.hash.includes('Zero')")


FIRST_TEXT = "cells => cells.map(c => c.firstChild.textContent)"


def test_a_weight_is_dragged_and_the_rest_of_its_row_makes_room(opened, explorer_of):
    page = opened("lm", "page=head&layer=0&head=1&query=3&key=1")
    box = page.get_by_label("weight of the edge, number")
    box.wait_for()
    box.fill("0.75")
    edit = Set(f"{NONE}.pattern", head=1, query=3, key=1, to=0.75, renormalise=True)
    row = look_of(explorer_of("lm"), [edit]).pattern(0, 1)[3].tolist()
    order = sorted(range(4), key=lambda j: -row[j])
    values = figure(page, "The selected row").locator(".bar-value")
    values.filter(has_text="0.7500").wait_for()
    shown = values.evaluate_all(FIRST_TEXT)
    assert [number(text) for text in shown] == pytest.approx([row[j] for j in order], rel=6e-4)
    assert sum(row) == pytest.approx(1, abs=1e-6)
    page.get_by_role("button", name="Let the weight go").click()
    settled(page, "() => !location.hash.includes('Set')")


def test_a_masked_edge_cannot_be_moved(opened):
    page = opened("lm", "page=head&layer=0&head=1&query=1&key=3")
    page.wait_for_selector("text=Masked: this query may not see this key at all.")
    assert page.get_by_label("weight of the edge, number").is_disabled()


def test_an_edge_is_cut_and_its_row_grows(opened, explorer_of):
    page = opened("lm", "page=head&layer=0&head=1&query=3&key=1")
    page.wait_for_selector("text=Cut it")
    page.get_by_label("Cut it").check(force=True)
    page.wait_for_selector("text=the rest of the row has grown")
    own = look_of(explorer_of("lm")).pattern(0, 1)[3, :4].tolist()
    left = sorted((own[j] / (1 - own[1]) for j in (0, 2, 3)), reverse=True)
    values = figure(page, "The selected row").locator(".bar-value")
    values.nth(3).wait_for(state="detached")
    shown = values.evaluate_all(FIRST_TEXT)
    assert [number(text) for text in shown] == pytest.approx(left, rel=1e-3)


EDITS = [
    {"edit": "Zero", "point": f"{NONE}.z", "head": 1},
    {"edit": "Temperature", "point": f"{NONE}.scores", "head": 0, "tau": 3},
]


def test_edits_are_switched_off_moved_and_removed(opened):
    page = opened("lm", f"page=edit&edits={quote(json.dumps(EDITS))}")
    items = page.locator(".edit-list > li")
    assert items.count() == 2
    assert "layer 0 head 1 says nothing" in items.nth(0).text_content()
    assert "temperature 3" in items.nth(1).text_content()
    items.nth(0).get_by_role("switch").uncheck(force=True)
    settled(page, "() => location.hash.includes('shelf') && !/edits=[^&]*Zero/.test(decodeURIComponent(location.hash))")
    assert items.count() == 2
    assert items.nth(0).get_attribute("class") == "edit-off"
    page.reload()  # the address has those that are off, too
    page.wait_for_selector(".edit-list > li")
    assert items.nth(0).get_attribute("class") == "edit-off"
    items.nth(0).get_by_role("switch").check(force=True)
    page.get_by_role("button", name="Later: edit 1").click()
    assert "temperature 3" in items.nth(0).text_content()
    page.get_by_role("button", name="Remove: edit 2").click()
    assert items.count() == 1
    page.get_by_role("button", name="Remove: edit 1").click()
    assert page.locator(".edit-empty").is_visible()


def test_a_bad_edit_is_said_and_can_be_taken_back(opened):
    bad = [{"edit": "Zero", "point": "nowhere.z", "head": 1}]
    page = opened("classify", f"page=edit&edits={quote(json.dumps(bad))}")
    page.wait_for_selector(".problem")
    page.get_by_role("button", name="Remove: edit 1").click()
    page.wait_for_selector(".problem", state="detached")


def test_a_list_of_edits_is_split_and_put_together_again(visit):
    page = visit.open()
    got = page.evaluate("""async () => {
        const {ordered, split, put, without, found, zero, temperature} = await import("./pages/edit_list.js");
        const first = "d.blocks.0.attention", second = "d.blocks.1.attention";
        const a = zero(first, 1), b = temperature(first, 1, 2), c = zero(second, 0);
        const all = [{edit: a, on: false}, {edit: b, on: true}, {edit: c, on: false}], {edits, shelf} = split(all);
        return [JSON.stringify(ordered(edits, shelf)) === JSON.stringify(all), edits.length,
          put([a, b], {...b, tau: 5}).map((e) => e.tau ?? 0), without([a, b], {...b, tau: 9}).length, found([a, b], c)];
    }""")
    assert got == [True, 1, [0, 5], 1, None]


def test_the_same_edit_everywhere_is_each_edit_alone(opened, explorer_of):
    page = opened("tag", "page=edit&position=2")
    page.get_by_role("button", name="Run all").click()
    look = look_of(explorer_of("tag"))
    layers, length = look.model.config.n_layers, len(look.elements)
    page.locator(".reading", has_text=f"{layers * length} of {layers * length} places tried").wait_for()
    page.get_by_role("button", name="What changes the answer: view as table").click()
    shown = figure(page, "What changes the answer").locator(".figure-table tbody tr").evaluate_all(CELLS)
    answer = int(look.logits[2].argmax())
    for layer in range(layers):
        for position in range(length):
            edited = look.edited([Mean(f"encoder.blocks.{layer}.resid_post", position=position)])
            change = float(edited.logits[2, answer] - look.logits[2, answer])
            assert number(shown[layer][position]) == pytest.approx(change, rel=2e-3, abs=2e-5)


def test_what_the_model_refuses_is_not_added(opened):
    page = opened("tag", "page=edit")
    page.get_by_role("textbox", name="Another input").fill("a")
    page.get_by_role("button", name="Patch what this head says from the other input").click()
    page.wait_for_selector(".problem")
    assert page.locator(".edit-list > li").count() == 0


def test_tokens_are_those_of_the_look(opened, explorer_of):
    page = opened("tag", "page=tokens")
    look = look_of(explorer_of("tag"))
    page.wait_for_selector(".token-chip")
    ids = page.locator(".token-id").all_text_contents()
    assert ids == [str(element.id) for element in look.elements]
    drawn = page.locator(".token-text").all_text_contents()
    signs = str.maketrans({" ": "·", "\n": "⏎"})
    assert drawn == [e.label.translate(signs) if e.kind == "token" else e.label for e in look.elements]
    tags = page.locator(".token-tag").all_text_contents()
    assert tags == [look.names[i] for i in look.logits.argmax(-1).tolist()]
    page.locator(".token-chip").nth(2).click()
    assert page.locator(".token-chip.is-query").count() == 1
    settled(page, "() => location.hash.includes('query=2')")
    assert look.elements[2].label.encode().hex(" ") in page.locator(".token-detail").text_content()


def test_a_token_is_left_out(opened, explorer_of):
    page = opened("lm", "page=tokens&query=1")
    ids = [element.id for element in look_of(explorer_of("lm")).elements]
    page.wait_for_selector(".token-chip")
    page.get_by_role("button", name="Leave the token out").click()
    settled(page, "(count) => document.querySelectorAll('.token-chip').length === count", len(ids) - 1)
    assert page.locator(".token-id").all_text_contents() == [str(i) for i in ids[:1] + ids[2:]]


def test_patches_stand_in_their_grid(opened, explorer_of):
    page = opened("mixture", "page=tokens")
    look = look_of(explorer_of("mixture"))
    count = sum(element.kind in ("image", "audio") for element in look.elements)
    settled(page, "(count) => document.querySelectorAll('.patch').length === count", count)
    page.locator(".patch").first.click()
    settled(page, "() => document.querySelector('.patch[aria-pressed=true]') !== null")
    place = next(i for i, element in enumerate(look.elements) if element.kind in ("image", "audio"))
    settled(page, "(at) => location.hash.includes(`query=${at}`)", place)
