"""Edits in a real browser: the handles of a head, the list of edits, and what comes of them."""

import json
import re
from urllib.parse import quote, unquote

import pytest

from every import slow_but
from glassformer.inspect.edits import Mean, Set, Zero
from serve.browser.seeing import figure, number, settled, table
from serve.browser.test_pages_attention import look_of

NONE = "decoder.blocks.0.attention"


def after(page):
    """The answers in the outcome: label -> percent, as they stand."""
    rows = page.locator(".pair-row:not(.pair-head)").evaluate_all(
        "rows => rows.map(r => r.getAttribute('aria-label'))"
    )
    found = {}
    for row in rows:
        name, _, rest = row.rpartition(": ")
        parts = re.fullmatch(
            r"before (\S+|< 0.01) percent, after (\S+|< 0.01) percent, change (\S+)", rest
        )
        found[name] = parts.groups() if parts else rest
    return found


@pytest.mark.parametrize("family", slow_but(["lm", "classify", "tag"], "classify"))
def test_a_head_is_silenced_by_one_switch_and_the_outcome_is_the_models(
    opened, explorer_of, family
):
    page = opened(family, "page=head&layer=1&head=0&query=1&position=1")
    stack = "decoder" if family == "lm" else "encoder"
    page.wait_for_selector(".touch .toggle")
    page.get_by_label("Say nothing (0)").check(force=True)
    page.wait_for_selector(".pair-change")
    clean = look_of(explorer_of(family))
    edited = clean.edit([Zero(f"{stack}.blocks.1.attention.z", head=0)])
    at = -1 if family == "classify" else 1  # the position; a class is the answer to the whole
    rows = [look.probabilities(at) for look in (clean, edited)]
    shown = after(page)
    assert len(shown) >= 2
    for name, (was, now, change) in shown.items():
        i = list(clean.names).index(name)
        assert "<" in was or number(was) == pytest.approx(100 * float(rows[0][i]), abs=0.0051)
        assert "<" in now or number(now) == pytest.approx(100 * float(rows[1][i]), abs=0.0051)
        assert change == "±0.00" or number(change) == pytest.approx(
            100 * float(rows[1][i] - rows[0][i]), abs=0.0051
        )
    assert "Zero" in settled(page).url
    page.get_by_label("Say nothing (0)").uncheck(force=True)
    page.wait_for_selector(".pair-row.single")
    assert "Zero" not in settled(page).url


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
    assert "Set" not in settled(page).url


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
    address = unquote(settled(page).url)
    assert "shelf" in address
    assert not re.search("edits=[^&]*Zero", address)
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
    page = opened("classify", f"page=edit&edits={quote(json.dumps(bad))}", refusals=True)
    page.wait_for_selector(".problem")
    page.get_by_role("button", name="Remove: edit 1").click()
    page.wait_for_selector(".problem", state="detached")


def test_a_list_of_edits_is_split_and_put_together_again(modules):
    got = modules.evaluate("""async () => {
        const {ordered, split, put, without, found, zero, temperature} =
          await import("./pages/edit_list.js");
        const first = "d.blocks.0.attention", second = "d.blocks.1.attention";
        const a = zero(first, 1), b = temperature(first, 1, 2), c = zero(second, 0);
        const all = [{edit: a, on: false}, {edit: b, on: true}, {edit: c, on: false}];
        const {edits, shelf} = split(all);
        return [JSON.stringify(ordered(edits, shelf)) === JSON.stringify(all), edits.length,
          put([a, b], {...b, tau: 5}).map((e) => e.tau ?? 0),
          without([a, b], {...b, tau: 9}).length, found([a, b], c)];
    }""")
    assert got == [True, 1, [0, 5], 1, None]


def test_the_same_edit_everywhere_is_each_edit_alone(opened, explorer_of):
    page = opened("tag", "page=edit&position=2")
    page.get_by_role("button", name="Run all").click()
    look = look_of(explorer_of("tag"))
    layers, length = look.model.config.n_layers, len(look.elements)
    page.locator(
        ".reading", has_text=f"{layers * length} of {layers * length} places tried"
    ).wait_for()
    shown = [row[1:] for row in table(page, "Effect of each place")]
    answer = int(look.logits[2].argmax())
    for layer in range(layers):
        for position in range(length):
            edited = look.edit([Mean(f"encoder.blocks.{layer}.resid_post", position=position)])
            change = float(edited.logits[2, answer] - look.logits[2, answer])
            assert number(shown[layer][position]) == pytest.approx(change, rel=2e-3, abs=2e-5)


def test_what_the_model_refuses_is_not_added(opened):
    page = opened("tag", "page=edit", refusals=True)
    page.get_by_role("textbox", name="Another input").fill("a")
    page.get_by_role("button", name="Patch what this head says from the other input").click()
    page.wait_for_selector(".problem")
    assert page.locator(".edit-list > li").count() == 0
