"""The lessons in a real browser: their numbers, and what a reader does with them."""

import math
import re

import numpy as np
import pytest

from serve.browser.seeing import figure, number, reading, table

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
RESULTS = """async (id) => {
  const {lessons} = await import("./pages/learn.js");
  const {results} = await import("./learn/article.js");
  return results(lessons.find((lesson) => lesson.id === id));
}"""


def softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_the_table_of_contents_has_all_ten(visit):
    page = visit.open()
    assert page.locator(".contents-list li").count() == 10
    links = page.locator(".contents-list a").evaluate_all(
        "links => links.map(a => a.getAttribute('href'))"
    )
    assert [link.split("lesson=")[1] for link in links] == LESSONS
    page.locator(".contents-list a").nth(3).click()
    assert page.locator("h1").text_content() == "The causal mask"
    page.wait_for_url("**lesson=causal-mask")
    page.go_back()
    page.wait_for_selector(".contents-list")


def test_values_are_those_of_the_note_and_every_picture_has_limits_and_a_table(visit):
    """Of all lessons on one page, which a reader walks through."""
    for lesson in LESSONS:
        page = visit.open(lesson)
        visit.settled()
        rows = page.evaluate(RESULTS, lesson)
        assert len(rows) >= 4, lesson
        assert [row for row in rows if not abs(row[1] - row[2]) <= row[3]] == [], lesson
        assert all(row[4] for row in rows), lesson
        said = page.locator(".checked summary").text_content()
        assert f"{len(rows)} of {len(rows)} values agree" in said, lesson
        figures = page.locator("figure.figure")
        assert figures.count() >= 1, lesson
        for i in range(figures.count()):
            each = figures.nth(i)
            assert "What it does not show" in each.locator("figcaption").text_content(), lesson
            each.get_by_role("button", name=re.compile("view as table")).click()
            assert each.locator(".figure-table tbody tr").count() >= 2, lesson
            label = each.get_attribute("aria-labelledby")
            assert page.locator(f"#{label}").text_content(), lesson


BANK = np.array([[0.1, 0.1], [2.4, 0.8], [2.8, 0.2], [0.1, 0.2], [0.1, 0.1], [1.5, 1.5]])
"""I deposited money at the bank, as the lesson has them: finance to the right, geography upward."""


def test_a_bank_becomes_what_its_sentence_makes_of_it(visit):
    page = visit.open("context")
    mix = figure(page, "Mix the words yourself")
    vector = lambda: [
        number(x)
        for x in mix.locator(".reading", has_text="new vector")
        .locator("output")
        .text_content()
        .split(", ")
    ]
    assert vector() == [1.5, 1.5]
    mix.get_by_role("button", name="Equal, 1/N").click()
    assert vector() == pytest.approx(BANK.mean(0), abs=0.005)
    mix.get_by_role("button", name="Let dot products choose").click()
    assert vector() == pytest.approx(softmax(BANK @ BANK[-1]) @ BANK, abs=0.005)
    assert reading(mix, "leans to finance") > 60
    mix.get_by_role("radio", name="We had a picnic").check(force=True)
    mix.get_by_role("button", name="Let dot products choose").click()
    assert reading(mix, "leans to finance") < 40
    mix.get_by_role("radio", name="I deposited money").check(force=True)
    mix.get_by_label("weight of money, number").fill("1")
    assert vector() == pytest.approx((BANK[-1] + BANK[2]) / 2, abs=0.005)
    mix.get_by_role("switch", name="weights sum to 1").uncheck(force=True)
    assert vector() == pytest.approx(BANK[-1] + BANK[2], abs=0.005)
    assert mix.locator("output.bad").text_content().startswith("2.00")


PLANE = np.array([[1, 1], [1.5, 0.2], [1.3, 0.4], [0.2, 1.5], [0.3, 1.2]])


def test_sliders_make_the_matrix_and_every_row_sums_to_one(visit):
    page = visit.open("queries-and-keys")
    for name, value in {"Q turn": "30", "Q scale": "2", "K turn": "-45", "K scale": "0.5"}.items():
        page.get_by_label(f"{name}, number").fill(value)
    turned = lambda degrees: np.array(
        [[np.cos(t := np.deg2rad(degrees)), -np.sin(t)], [np.sin(t), np.cos(t)]]
    )
    q, k = PLANE @ (2 * turned(30)).T, PLANE @ (0.5 * turned(-45)).T
    title = "Turn the queries, turn the keys"
    shown = [[number(cell) for cell in row[1:]] for row in table(page, title)]
    np.testing.assert_allclose(shown, softmax(q @ k.T / np.sqrt(2)), rtol=6e-4)
    assert figure(page, title).locator(".margin-value").all_text_contents() == ["1.000"] * 5


def test_the_five_vectors_are_the_note_s(visit):
    page = visit.open("positions")
    rows = page.locator(".plain-table tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    printed = [
        [0, 1, 0, 1],
        [-0.13, 0.99, 0.60, -0.80],
        [-0.26, 0.96, -0.96, 0.28],
        [-0.39, 0.92, 0.94, 0.35],
        [-0.51, 0.86, -0.54, -0.84],
    ]
    assert [[number(cell) for cell in row[2:]] for row in rows] == printed
    waves = np.sin(
        np.arange(100)[:, None] / 10000 ** (np.array([0, 8]) / 64)
    )  # dimensions 0 and 8, at positions 1 to 99
    changes = (waves[2:] * waves[1:-1] < 0).sum(0).tolist()
    assert (
        f"dimension 0 changes sign {changes[0]} times, dimension 8 does so {changes[1]} times"
        in page.locator(".trap").first.text_content()
    )


def test_an_analogy_leads_to_the_queen_and_one_weight_hands_a_value_over(visit):
    page = visit.open("meaning-and-temperature")
    analogy = figure(page, "king − man + woman")
    nearest = analogy.locator(".reading", has_text="nearest").locator("output")
    assert nearest.text_content() == "queen ✓"
    king = analogy.get_by_role("slider", name="king", exact=True)
    king.focus()
    for _ in range(8):
        page.keyboard.press("Shift+ArrowLeft")
    assert nearest.text_content() != "queen ✓"
    analogy.get_by_role("button", name="As it was").click()
    assert nearest.text_content() == "queen ✓"
    building = figure(page, "What building gets")
    assert building.locator("output.good").count() == 0
    building.get_by_role("button", name="Only tallest").click()
    assert building.locator("output.good").text_content() == "0 ✓"
    value, output = building.locator(".vec-numbers").all_text_contents()
    assert value == output


def test_a_neuron_fires_for_both_names_alone(visit):
    page = visit.open("residual-and-mlp")
    title = "Albert ∧ Einstein → physics"
    fired = lambda: {name: number(value) for name, value in table(page, title)[:4]}
    both = {"Albert Einstein": 1, "Albert Camus": 0, "Einstein Bagels": 0, "studies": 0}
    assert fired() == both
    detector = figure(page, title)
    detector.get_by_role("radio", name="none").check(force=True)
    detector.get_by_label("threshold, number").fill("0")
    assert fired() == {
        "Albert Einstein": 2,
        "Albert Camus": 1,
        "Einstein Bagels": 1,
        "studies": 0,
    }  # half content
    assert detector.locator("output.bad").count() == 1
    detector.get_by_role("radio", name="GELU").check(force=True)
    gelu = lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2
    assert fired() == pytest.approx(
        {
            name: gelu(value)
            for name, value in {
                "Albert Einstein": 2,
                "Albert Camus": 1,
                "Einstein Bagels": 1,
                "studies": 0,
            }.items()
        },
        rel=1e-3,
    )
    path = figure(page, "The path that stays open").locator(".readings output")
    lost, kept = (number(text) for text in path.all_text_contents())
    assert lost == pytest.approx(0.4**12, rel=0.02)  # two digits
    assert kept == pytest.approx(1.4**12, rel=1e-3)


def test_what_follows_too_was_counted(visit):
    page = visit.open("generation")
    writer = figure(page, "Predict, append, repeat")
    for word in ["robot", "was", "too"]:
        writer.get_by_role("button", name=re.compile(rf"^{word} ")).click()
    assert writer.locator(".written .chip-word").all_text_contents() == [
        "The",
        "robot",
        "was",
        "too",
    ]
    assert [[row[0], number(row[1])] for row in table(page, "Predict, append, repeat")] == [
        ["tired", pytest.approx(2 / 3, rel=1e-3)],
        ["wide", pytest.approx(1 / 3, rel=1e-3)],
    ]


def test_scores_of_102_and_99_in_six_steps(visit):
    page = visit.open("self-attention")
    walk = figure(page, "One query, six steps")
    forward = walk.get_by_role("button", name="Step forward")
    for said, digits in [
        ("2 of 6", "102"),
        ("3 of 6", "58.9"),
        ("4 of 6", "0.85"),
        ("5 of 6", "1.70"),
        ("6 of 6", "0.45"),
    ]:
        forward.click()
        assert said in walk.locator(".stepper-status").text_content()
        assert digits in walk.locator("table").first.text_content()
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
    sums = lambda: [
        float(text.split()[0]) for text in table.locator(".margin-value").all_text_contents()
    ]
    assert sums() == [1] * 5
    page.get_by_role("radio", name="0 after softmax").check(force=True)
    first = math.exp(1.2) / sum(math.exp(x) for x in (1.2, 0.4, 0.8, -0.3, 0.5))
    assert sums()[0] == pytest.approx(first, abs=5e-4)
    assert [total < 0.999 for total in sums()] == [True] * 4 + [False]
    page.get_by_role("radio", name="0 before softmax").check(force=True)
    assert sums() == [1] * 5
    assert (
        table.locator("output.bad").count() == 1
    )  # the rows are sound, and yet the future leaks in


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
    values = lambda: [
        float(text.split()[0]) for text in bars.locator(".bar-value").all_text_contents()
    ]
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
