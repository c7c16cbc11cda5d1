"""Next token, flow, explain, compare and pictures in a real browser: what stands there is what the
looks have."""

import numpy as np
import pytest
import torch

from glassformer.inspect.attribution import attribute
from glassformer.inspect.ledger import ledger
from glassformer.inspect.lens import lens
from serve.asking import first, own_look, untrained
from serve.browser.seeing import number, reading, table
from serve.test_server import served

SHOWN = {"rtol": 2e-3, "atol": 1e-7}
"""Three significant digits or more."""


def test_stages_are_softmax_over_temperature_then_cut(visiting_model, explorer_of):
    explorer = explorer_of("lm")
    logits = own_look(explorer, first(explorer)).logits[-1].double().detach().numpy()
    with visiting_model("lm") as visit:
        visit.turn_to("next")
        visit.page.get_by_label("temperature, number").fill("0.5")
        visit.page.get_by_label("top-k, 0 is all, number").fill("3")
        page = visit.settled()
        rows = table(page, "The next token")
    softmax = lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    order = np.argsort(-logits, kind="stable")[:20]
    before, tempered = softmax(logits), softmax(logits / 0.5)
    cut = np.where(np.isin(np.arange(len(logits)), order[:3]), tempered, 0)
    expected = np.stack([before, tempered, cut / cut.sum(), cut / cut.sum()], axis=-1)[order]
    np.testing.assert_allclose(
        [[number(cell) for cell in row[1:]] for row in rows], expected, **SHOWN
    )


def test_another_choice_is_another_branch_and_both_stay(visiting_model, explorer_of):
    explorer = explorer_of("lm")
    seen = explorer.run.look("the cat")
    ids = [element.id for element in seen.elements]
    with visiting_model("lm") as visit:
        page = visit.turn_to("next&input=the+cat")
        page.locator("button.stage-row").nth(0).click()
        visit.settled()
        page.locator("button.stage-row").nth(1).click()
        visit.settled()
        page.get_by_role("button", name="One token back").click()
        visit.settled()
        page.locator("button.stage-row").nth(2).click()
        visit.settled()
        rows = table(page, "Step-by-step generation")
        assert page.locator(".tree-fork > li").count() == 2
        assert page.locator(".tree-node.path").count() == 2
    assert len(rows) == 3
    one, two, three = (int(number(row[2])) for row in rows)
    assert one == int(seen.logits[-1].argmax())
    with torch.no_grad():
        after = explorer.run.look([*ids, one]).logits[-1]
    assert [two, three] == after.topk(3).indices[1:].tolist()
    np.testing.assert_allclose(
        [number(row[3]) for row in rows[1:]], after.softmax(-1)[[two, three]], **SHOWN
    )


def test_a_translation_tells_what_each_token_was_read_from(visiting_model):
    with visiting_model("translate") as visit:
        page = visit.turn_to("next")
        page.get_by_role("button", name="Write 12").click()
        page.wait_for_selector(".tree-node")
        visit.settled()
        rows = table(page, "Cross-attention of each token")
        written = page.locator(".tree-node.path").count()
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_selector(".beam-texts li")
    assert len(rows) == written
    np.testing.assert_allclose(
        [sum(number(cell) for cell in row[1:]) for row in rows], 1, atol=2e-3
    )


@pytest.mark.parametrize("family", ["lm", pytest.param("classify", marks=pytest.mark.slow)])
def test_the_ledger_adds_up_to_the_models_logit(visiting_model, explorer_of, family):
    explorer = explorer_of(family)
    seen = own_look(explorer, first(explorer))
    logits = seen.logits.reshape(-1, seen.logits.shape[-1])[-1]
    found = ledger(seen, int(logits.argmax()))
    with visiting_model(family) as visit:
        page = visit.turn_to("flow")
        page.get_by_text("each head by itself").click()
        rows = table(page, "The logit as a sum")
        total, gap = (
            reading(page, "sum of all parts"),
            page.locator(".reading.good", has_text="gap").count(),
        )
    assert gap == 1
    assert total == pytest.approx(float(logits.max()), rel=1e-5)
    assert len(rows) == len(found.entries) + 2  # the constants, and the sum
    np.testing.assert_allclose(
        [number(row[1]) for row in rows[:-2]],
        [entry.value for entry in found.entries],
        rtol=6e-4,
        atol=1e-6,
    )


def test_the_lens_ends_with_the_models_own_answers(visiting_model, explorer_of):
    explorer = explorer_of("tag")
    seen = own_look(explorer, first(explorer))
    with visiting_model("tag") as visit:
        page = visit.turn_to("flow")
        cells = page.locator(".word-grid tbody tr").evaluate_all(
            "rows => rows.map(r => [...r.querySelectorAll('td')].map(c => c.textContent))"
        )
        page.locator(".word-grid td").nth(1).click()
        visit.settled()
        assert "position=1" in page.url
    assert cells == [[seen.names[i] for i in row] for row in lens(seen, 1).ids[..., 0].tolist()]
    assert cells[-1] == [seen.names[i] for i in seen.logits.argmax(-1).tolist()]


def test_scores_and_the_gap_are_the_methods_own(visiting_model, explorer_of):
    explorer = explorer_of("classify")
    seen = own_look(explorer, first(explorer))
    best, other = seen.logits.argsort(descending=True)[:2].tolist()
    found = attribute(seen, "integrated_gradients", best, against=other)
    with visiting_model("classify") as visit:
        visit.turn_to("explain")
        visit.page.get_by_label("Method").select_option("integrated_gradients")
        visit.page.get_by_label("instead of").select_option(str(other))
        page = visit.settled()
        title = page.locator("figure.figure h3").first.text_content()
        rows = table(page, title)
        gap, change = reading(page, "completeness gap"), reading(page, "change of the logit")
        page.get_by_role("button", name="Measure").click()
        page.wait_for_selector(".curve-room .series.s2", state="attached")
        visit.settled()
        curve = table(page, "Faithfulness")
    np.testing.assert_allclose([number(row[3]) for row in rows], found.scores, rtol=2e-3, atol=1e-6)
    assert gap == pytest.approx(100 * found.gap, rel=0.1, abs=1e-3)
    assert change == pytest.approx(found.change, rel=1e-3)
    assert number(curve[0][1]) == pytest.approx(
        float(seen.probabilities()[best]), rel=1e-3
    )  # nothing taken away yet


def test_the_image_of_a_source_has_the_scores_of_the_source(visiting_at, tmp_path):
    explorer = untrained(tmp_path, architecture="encoder_decoder")
    with (
        served(explorer) as server,
        visiting_at(server.address.partition("?")[0]) as visit,
    ):
        visit.page.goto(server.address)  # the cookie
        page = visit.turn_to("explain")
        names = page.locator(".explain-sheets .patches").evaluate_all(
            "all => all.map((one) => one.ariaLabel)"
        )
        kinds = [row[0].split()[0] for row in table(page, page.locator("h3").first.text_content())]
    assert {name.partition(",")[0] for name in names} == {
        "The image alone",
        "Scores of image 1",
        "Scores of image 2",
    }
    assert kinds.count("patch") == kinds.count("frame") == 4


def test_the_difference_is_b_minus_a(visiting_model, explorer_of):
    explorer = explorer_of("lm")
    texts = ["the cat sat", "the cat ran"]
    looks = [explorer.run.look(text) for text in texts]
    with visiting_model("lm") as visit:
        page = visit.turn_to(f'compare&input={texts[0]}&layer=1&head=1&b={{"input":"{texts[1]}"}}')
        visit.settled()
        rows = table(page, "One head: A, B, and B − A")
        pairs = table(page, "Corresponding elements")
    a, b = (look.pattern(1, 1) for look in looks)
    assert len(rows) == sum(row[2] != "only in A" and row[2] != "only in B" for row in pairs) ** 2
    values = np.array([[number(cell) for cell in row[2:]] for row in rows])
    np.testing.assert_allclose(values[:, 2], values[:, 1] - values[:, 0], atol=2e-4)
    if len(a) == len(b):
        np.testing.assert_allclose(values[:, 0].reshape(len(a), -1), a, **SHOWN)
        np.testing.assert_allclose(values[:, 1].reshape(len(b), -1), b, **SHOWN)
    assert np.abs(values[:, 2]).max() > 0


LONG = """async ([columns, differs]) => {
  const {pairLine} = await import("./pages/compare_marks.js"), chosen = [];
  const label = (i) => (i === differs ? "other" : `a${i}`);
  const one = (i) => ({a: {label: `a${i}`}, b: {label: label(i)}, pair: i});
  const line = pairLine({
    columns: Array.from({length: columns}, (_, i) => one(i)),
    now: columns - 1,
    name: "Corresponding elements",
    onselect: (pair) => chosen.push(pair),
  });
  document.body.append(line.el);
  const said = (el) =>
    el.classList.contains("pairs-column") ? "|" : el.textContent.replace(/\\D+/g, "");
  const says = () => [...line.el.children].map(said);
  const folded = says();
  line.el.querySelector("[aria-label*='show all']")?.click();
  return [folded.join(" "), says().length, line.table().rows.length, chosen];
}"""


def test_long_stretches_that_are_the_same_are_folded_until_asked_for(visit):
    page = visit.open()
    beside = " ".join("|" * 7)
    # three on each side of what differs, and before the chosen last
    folded = f"97 {beside} 92 {' '.join('|' * 4)}"
    assert page.evaluate(LONG, [200, 100]) == [folded, 200, 200, []]
    assert page.evaluate(LONG, [64, 10]) == [" ".join("|" * 64), 64, 64, []]


@pytest.mark.parametrize("family", [pytest.param("image", marks=pytest.mark.slow), "mixture"])
def test_a_patch_asks_and_the_patches_have_the_models_weights(visiting_model, explorer_of, family):
    explorer = explorer_of(family)
    seen = own_look(explorer, first(explorer))
    patches = [i for i, element in enumerate(seen.elements) if element.kind == "image"]
    with visiting_model(family) as visit:
        page = visit.turn_to("image")
        sheet = page.locator(".patches[role=application]").first
        sheet.focus()
        page.keyboard.press("ArrowLeft")
        visit.settled()
        chosen = int(page.url.partition("query=")[2].partition("&")[0])
        box = sheet.bounding_box()
        page.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] - 3)
        visit.settled()
        rows = table(page, "Attention of a patch")
        assert f"query={patches[-1]}" in page.url
    assert chosen in patches
    np.testing.assert_allclose(
        [number(row[2]) for row in rows], seen.pattern(0, 0)[patches[-1]], **SHOWN
    )
