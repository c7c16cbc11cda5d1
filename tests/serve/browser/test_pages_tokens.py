"""Tokens taken in the hand, in a real browser: dragged, moved by keys, left out, replaced, hidden;
what comes of it."""

import json
from urllib.parse import parse_qs, unquote

import numpy as np
import pytest

from glassformer.core.batch import Positions
from glassformer.inspect.edits import Mask
from glassformer.layers.position.rotary import grid_rotation, rotation
from serve.browser.seeing import number, settled, table
from serve.browser.test_pages_attention import look_of


def ids_on(page) -> list[int]:
    return [int(text) for text in page.locator(".token-id").all_text_contents()]


def state_of(page) -> dict:
    found = parse_qs(unquote(page.evaluate("location.hash"))[1:])
    return {name: value[0] for name, value in found.items()}


@pytest.fixture
def tokens(opened, explorer_of):
    """The page of a family, and the ids that stand there at first."""

    def of(family: str, at: str = ""):
        page = opened(family, f"page=tokens{at}")
        page.wait_for_selector(".token-chip")
        return page, [element.id for element in look_of(explorer_of(family)).elements]

    return of


def test_a_token_is_dragged_behind_another(tokens):
    page, ids = tokens("lm")
    chips = page.locator(".token-chip")
    chips.nth(0).drag_to(chips.nth(2), target_position={"x": 30, "y": 20})
    settled(page)
    assert ids_on(page) == [ids[1], ids[2], ids[0], *ids[3:]]
    page.go_back()
    settled(page)
    assert ids_on(page) == ids


def test_keys_move_leave_out_and_replace_a_token(tokens):
    page, ids = tokens("lm")
    page.locator(".token-chip").nth(1).focus()
    page.keyboard.press("Alt+ArrowRight")
    settled(page)
    assert ids_on(page) == [ids[0], ids[2], ids[1], *ids[3:]]
    assert page.evaluate("document.activeElement.dataset.i") == "2"  # the token that was moved
    page.keyboard.press("Delete")
    settled(page)
    assert ids_on(page) == [ids[0], ids[2], *ids[3:]]
    page.keyboard.press("Enter")
    page.keyboard.type(f"#{ids[0]}")
    page.keyboard.press("Enter")
    settled(page)
    assert ids_on(page)[:3] == [ids[0], ids[2], ids[0]]


def test_typed_text_becomes_the_tokenizers_ids(tokens, explorer_of):
    page, ids = tokens("lm")
    page.locator(".token-chip").nth(1).focus()
    page.keyboard.press("Delete")
    settled(page)
    page.locator(".token-chip").first.dblclick()
    page.locator(".token-edit").fill("at")
    page.keyboard.press("Enter")
    settled(page)
    run = explorer_of("lm").looks.run
    assert ids_on(page) == [*run.tokenizer.encode("at").tolist(), *ids[2:]]


def test_escape_leaves_a_token_as_it_was(tokens):
    page, ids = tokens("lm")
    page.locator(".token-chip").nth(1).focus()
    page.keyboard.press("Enter")
    page.locator(".token-edit").fill("zzz")
    page.keyboard.press("Escape")
    settled(page)
    assert ids_on(page) == ids
    assert page.evaluate("document.activeElement.dataset.i") == "1"


def test_a_hidden_token_is_the_edit_that_hides_it(tokens, explorer_of):
    page, _ = tokens("lm", "&query=2")
    page.get_by_role("button", name="Hide the token from attention").click()
    settled(page)
    assert page.locator(".token-chip.is-hidden").count() == 1
    look = look_of(explorer_of("lm")).edit([Mask("decoder.blocks.*.attention.scores", key=2)])
    rows = page.locator(".pair-row:not(.pair-head)").evaluate_all(
        "rows => rows.map(r => r.getAttribute('aria-label'))"
    )
    probabilities, names = look.probabilities(-1), look.names
    for row in rows:
        name, _, rest = row.rpartition(": ")
        after = float(rest.split("after ")[1].split(" ")[0])
        assert after == pytest.approx(100 * float(probabilities[names.index(name)]), abs=0.006)
    page.get_by_role("button", name="Leave the token out").click()
    settled(page)
    assert "edits" not in state_of(page)  # what hid it has gone with it


def test_the_way_back_is_the_text(tokens):
    page, ids = tokens("lm", "&query=1")
    page.get_by_role("button", name="Leave the token out").click()
    settled(page)
    assert json.loads(state_of(page)["input"]) == [ids[0], *ids[2:]]
    page.get_by_role("button", name="Back to the sequence as it was").click()
    settled(page)
    assert ids_on(page) == ids
    assert "was" not in state_of(page)


def test_a_source_is_touched_and_the_target_stays(opened, explorer_of):
    page = opened("translate", "page=tokens")
    look = look_of(explorer_of("translate"))
    source, target = ([e.id for e in some] for some in (look.source_elements, look.elements))
    assert ids_on(page) == [*source, *target]
    page.locator("[data-which=source] .token-chip").first.focus()
    page.keyboard.press("Alt+ArrowRight")
    settled(page)
    assert ids_on(page) == [source[1], source[0], *source[2:], *target]


def test_rotary_positions_are_the_angles_of_the_model(opened, explorer_of):
    page = opened("tag", "page=tokens")
    config = explorer_of("tag").looks.run.model.config
    assert config.position == "rotary"
    shown = [
        [number(cell) for cell in row[1:4]] for row in table(page, "Where each stands: angles")
    ]
    cosines = rotation(Positions.arange(3), config.head_width, config.rotary_base)[0][
        0, 0, :, : config.head_width // 2
    ]
    assert np.allclose(shown, cosines.T, atol=1e-3)


def test_angles_of_a_grid_are_those_of_the_model(modules):
    ask = "async (all) => (await import('./pages/tokens_positions.js')).gridAngles(all, 16, 100)"
    places = [None, (0, 0), (0, 1), (1, 0), (1, 1)]
    elements = [{"row": at and at[0], "column": at and at[1]} for at in places]
    shown = modules.evaluate(ask, elements)
    cosines = grid_rotation(Positions.arange(5), 16, 100.0, columns=2, first=1)[0][0, 0, :, :8]
    assert np.allclose(np.cos(shown), cosines, atol=1e-6)
