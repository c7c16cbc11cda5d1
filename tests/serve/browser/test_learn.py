"""The lessons in a real browser: their numbers, and what a reader does with them."""

import math
import re

import pytest

LESSONS = [
    "context",
    "queries-and-keys",
    "self-attention",
    "causal-mask",
    "positions",
    "permutation",
    "patches",
    "meaning-and-temperature",
    "residual-and-mlp",
    "generation",
]
every_lesson = pytest.mark.parametrize("lesson", LESSONS)
RESULTS = """async (id) => {
  const {lessons} = await import("./pages/learn.js"), {results} = await import("./learn/article.js");
  return results(lessons.find((lesson) => lesson.id === id));
}"""


def figure(page, title):
    return page.locator("figure.figure", has=page.get_by_role("heading", name=title, exact=True))


def test_the_table_of_contents_has_all_ten(visit):
    page = visit.open()
    assert page.locator(".contents-list li").count() == 10
    links = page.locator(".contents-list a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
    assert [link.split("lesson=")[1] for link in links] == LESSONS
    page.locator(".contents-list a").nth(3).click()
    assert page.locator("h1").text_content() == "The causal mask"
    page.wait_for_url("**lesson=causal-mask")
    page.go_back()
    page.wait_for_selector(".contents-list")


@every_lesson
def test_values_are_those_of_the_note(visit, lesson):
    page = visit.open(lesson)
    rows = page.evaluate(RESULTS, lesson)
    assert len(rows) >= 4
    assert [row for row in rows if not abs(row[1] - row[2]) <= row[3]] == []
    assert all(row[4] for row in rows)
    said = page.locator(".checked summary").text_content()
    assert f"{len(rows)} of {len(rows)} values agree" in said


@every_lesson
def test_every_picture_says_what_it_does_not_show_and_has_a_table(visit, lesson):
    page = visit.open(lesson)
    figures = page.locator("figure.figure")
    assert figures.count() >= 1
    for i in range(figures.count()):
        each = figures.nth(i)
        assert "What it does not show" in each.locator("figcaption").text_content()
        each.get_by_role("button", name=re.compile("view as table")).click()
        assert each.locator(".figure-table tbody tr").count() >= 2
        label = each.get_attribute("aria-labelledby")
        assert page.locator(f"#{label}").text_content()


def test_scores_of_102_and_99_in_six_steps(visit):
    page = visit.open("self-attention")
    walk = figure(page, "One query, six steps")
    forward = walk.get_by_role("button", name="Step forward")
    for said, number in [
        ("2 of 6", "102"),
        ("3 of 6", "58.9"),
        ("4 of 6", "0.85"),
        ("5 of 6", "1.70"),
        ("6 of 6", "0.45"),
    ]:
        forward.click()
        assert said in walk.locator(".stepper-status").text_content()
        assert number in walk.locator("table").first.text_content()
    assert forward.is_disabled()
    page.get_by_role("radio", name="query 2").check(force=True)
    assert "100" in walk.locator("table").first.text_content()


def test_only_three_dimensions_give_the_slide_s_weights(visit):
    page = visit.open("self-attention")
    trap = page.locator(".trap")
    assert "0.59, 0.41" in trap.text_content()
    trap.get_by_role("radio", name="3", exact=True).check(force=True)
    assert "0.85, 0.15" in trap.text_content()
    assert trap.locator("output.good").count() == 1


def test_zeroing_after_softmax_breaks_the_rows(visit):
    page = visit.open("causal-mask")
    table = figure(page, "“the tallest building in NYC”")
    sums = lambda: [float(text.split()[0]) for text in table.locator(".margin-value").all_text_contents()]
    assert sums() == [1] * 5
    page.get_by_role("radio", name="0 after softmax").check(force=True)
    first = math.exp(1.2) / sum(math.exp(x) for x in (1.2, 0.4, 0.8, -0.3, 0.5))
    assert sums()[0] == pytest.approx(first, abs=5e-4)
    assert [total < 0.999 for total in sums()] == [True] * 4 + [False]
    page.get_by_role("radio", name="0 before softmax").check(force=True)
    assert sums() == [1] * 5
    assert table.locator("output.bad").count() == 1  # the rows are sound, and yet the future leaks in


def test_turning_queries_and_keys_together_changes_nothing(visit):
    page = visit.open("queries-and-keys")
    turn = figure(page, "Turn the queries, turn the keys")
    cells = lambda: page.evaluate("() => document.querySelector('.matrix-canvas').toDataURL()")
    before = cells()
    turn.get_by_role("slider", name="turn both").fill("77")
    assert cells() == before
    turn.get_by_role("slider", name="Q turn").fill("77")
    assert cells() != before


def test_words_move_by_keyboard_and_outputs_only_reorder(visit):
    page = visit.open("permutation")
    lab = figure(page, "Drag the words")
    first = lab.locator(".chip").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert lab.locator(".chip-word").all_text_contents() == ["prefers", "She", "cats", "to", "dogs"]
    assert page.evaluate("document.activeElement.textContent").startswith("She")
    assert "0.0e0" in lab.locator(".readings").text_content()
    lab.get_by_role("switch").check(force=True)
    assert "0.0e0" not in lab.locator(".readings").text_content()


def test_temperature_goes_from_certain_to_uniform(visit):
    page = visit.open("meaning-and-temperature")
    bars = figure(page, "Temperature")
    values = lambda: [float(text.split()[0]) for text in bars.locator(".bar-value").all_text_contents()]
    bars.get_by_role("button", name="cold, 0.01").click()
    assert values() == [1, 0, 0, 0, 0]
    bars.get_by_role("button", name="hot, 100").click()
    assert values() == pytest.approx([0.2] * 5, abs=0.005)


def test_the_exponent_as_printed_breaks_the_promise(visit):
    page = visit.open("positions")
    near = figure(page, "How alike two positions are")
    assert near.locator("output.good").count() == 1
    near.get_by_role("radio", name="raw index").check(force=True)
    assert "5.6" in near.locator("output.bad").text_content()


def test_a_patch_is_768_numbers_and_patches_are_picked_by_keyboard(visit):
    page = visit.open("patches")
    cut = figure(page, "Cut, flatten, embed")
    assert "16 · 16 · 3 = 768" in cut.text_content()
    cut.get_by_role("application").focus()
    page.keyboard.press("ArrowDown")
    assert "patch 9," in cut.text_content()


def test_a_text_is_drawn_word_by_word_and_a_seed_repeats_it(visit):
    page = visit.open("generation")
    writer = figure(page, "Predict, append, repeat")
    text = lambda: writer.locator(".written .chip-word").all_text_contents()

    def written():
        for _ in range(4):
            writer.get_by_role("button", name="Next word").click()
        return text()

    once = written()
    assert once[0] == "The"
    assert len(once) == 5
    writer.get_by_role("button", name="Again").click()
    assert written() == once


def test_the_last_word_decides_what_it_is_unless_read_left_to_right(visit):
    page = visit.open("generation")
    pair = figure(page, "It was too tired, it was too wide")
    assert "the chicken" in pair.locator(".readings").text_content()
    pair.get_by_role("radio", name="wide").check(force=True)
    assert "the road" in pair.locator(".readings").text_content()
    pair.get_by_role("switch").check(force=True)
    wide = pair.locator(".readings").text_content()
    pair.get_by_role("radio", name="tired").check(force=True)
    assert pair.locator(".readings").text_content() == wide
