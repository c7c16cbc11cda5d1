"""Tokens, attention and one head in a real browser: what stands there is what the looks themselves
have."""

import re

import numpy as np
import pytest

from every import slow_but
from serve.asking import first, own_look
from serve.browser.seeing import number, settled, table


def look_of(explorer, edits=()):
    seen = own_look(explorer, first(explorer))
    return seen.edit(edits) if edits else seen


def test_the_atlas_is_walked_by_keys_and_enter_opens_the_head(opened):
    page = opened("lm", "page=attention")
    stack = page.locator(".atlas .matrix-stack")
    stack.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    said = page.locator(".atlas [aria-live]").text_content()
    assert re.match(
        r"layer 1 head 1: (≈ [a-z ]+ 0\.\d\d|(spread|sharp), \d\.\d bits), previous token ", said
    )
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Attention pattern")
    settled(page)  # the address is written a moment later
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


NAMES = (
    """async ([names, values]) => (await import("./pages/attended.js")).headName(names, values)"""
)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"previous": 0.94, "entropy": 0.3}, "≈ previous token 0.94"),
        ({"first": 0.8, "special": 0.8, "entropy": 0.3}, "≈ first token 0.80"),
        ({"previous": 0.29, "entropy": 2.84}, "spread, 2.8 bits"),
        ({"induction": float("nan"), "previous": 0.1, "entropy": 0.42}, "sharp, 0.4 bits"),
    ],
)
def test_a_head_is_named_with_the_number_that_says_how_much(modules, values, name):
    assert modules.evaluate(NAMES, [list(values), list(values.values())]) == name


def test_thumbnails_that_are_no_squares_are_stretched(modules):
    got = modules.evaluate(
        """async () => {
        const {squared} = await import("./pages/attention.js");
        const data = Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]);
        const {size, bytes} = squared({shape: [1, 1, 2, 4], data});
        return [size, Array.from(bytes)];
        }"""
    )
    assert got == [4, [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8]]


PLACES = [("lm", "", "self"), ("translate", "", "cross"), ("translate", "encoder", "self")]


@pytest.mark.parametrize(("family", "side", "site"), slow_but(PLACES, PLACES[1]))
def test_the_matrix_holds_the_models_own_weights(opened, explorer_of, family, side, site):
    page = opened(family, f"page=head&layer=1&head=1&side={side}&site={site}&query=1&key=0")
    look = look_of(explorer_of(family))
    names = page.locator(".inspector dd bdi").all_text_contents()
    queries, keys = look.sequences(side, site)
    assert names == [queries[1].label.replace(" ", "·"), keys[0].label.replace(" ", "·")]
    pattern = look.pattern(1, 1, side=side, site=site)
    rows = [row[1:] for row in table(page, "Attention pattern")]
    assert len(rows) == pattern.shape[0]
    for shown, own in zip(rows, pattern, strict=True):
        for cell, weight in zip(shown, own.tolist(), strict=True):
            assert (
                weight == 0
                if cell == "masked"
                else number(cell) == pytest.approx(weight, rel=6e-4, abs=1e-9)
            )


PATTERN = np.random.default_rng(3).dirichlet([0.3] * 7, 7).astype(np.float32)
PARTS = """async ([values, share, masked]) => {
  const {strongest} = await import("./pages/head_patterns.js");
  const units = Array.from({length: 7}, (_, i) => ({label: String(i), kind: "token", from: [i]}));
  const hidden = masked ? (r, c) => c > r : null;
  const shown = {queries: units, keys: units, values, masked: hidden, exact: true, name: ""};
  const got = strongest(shown, share);
  return [got.edges.map(([r, c]) => [r, c]), got.all, got.mass];
}"""


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_lines_are_the_fewest_that_cover_each_row(modules, share, masked):
    values = np.tril(PATTERN) if masked else PATTERN
    edges, count, mass = modules.evaluate(PARTS, [values.ravel().tolist(), share, masked])
    expected = set()
    for r, row in enumerate(values.astype(float)):
        seen = row[: r + 1] if masked else row
        order = np.argsort(-seen, kind="stable")
        before = np.cumsum(seen[order]) - seen[order]
        needed = order[(before < share * seen.sum()) & (seen[order] > 0)]
        expected |= {(r, int(c)) for c in needed}
    assert {tuple(edge) for edge in edges} == expected
    assert count == (28 if masked else 49)
    assert mass == pytest.approx(
        sum(float(values[edge]) for edge in expected) / values.sum(), rel=1e-5
    )


def test_words_sum_their_keys_and_average_their_queries(modules):
    words = [None, 0, 1, 1, 1, 2, None]
    got = modules.evaluate(
        """async ([values, words]) => {
        const {units, merged} = await import("./pages/head_patterns.js");
        const one = (word, i) => ({label: "abcdefg"[i], kind: "token", word});
        const all = units(words.map(one), true);
        return [all.map((u) => u.label), Array.from(merged(values, 7, all, all))];
        }""",
        [PATTERN.ravel().tolist(), words],
    )
    groups = [[0], [1], [2, 3, 4], [5], [6]]
    expected = np.array([[PATTERN[np.ix_(q, k)].sum(1).mean() for k in groups] for q in groups])
    assert got[0] == ["a", "b", "cde", "f", "g"]
    np.testing.assert_allclose(np.array(got[1]).reshape(5, 5), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "family", slow_but(["lm", "masked", "translate"], "lm")
)  # grouped keys, a bias of distance, post-norm
def test_the_inside_agrees_with_the_model_in_float64(opened, family):
    page = opened(family, "page=head&layer=1&head=1&query=2")
    page.wait_for_selector(".inside-verdict")
    assert "agrees with the model" in page.locator(".inside-verdict").text_content()
    off = [number(text) for text in page.locator("[data-check]").all_text_contents()]
    assert len(off) == 3
    assert max(off) < 1e-4


def test_a_step_that_is_wrong_is_found(modules):
    off = modules.evaluate("""async () => {
        const {again} = await import("./pages/head_steps.js"), t = (shape, data) => ({shape, data});
        const arrays = {
          q: t([2], [1, 2]), k: t([3, 2], [1, 0, 0, 1, 5, 5]), v: t([3, 2], [1, 0, 0, 1, 9, 9]),
          scores: t([3], [0.5, 1, 0]), weights: t([3], [0, 0, 0]), z: t([2], [0, 0])};
        return again({header: {scale: 0.5, masked: [2]}, arrays});
    }""")
    e = np.exp([0.5, 1.0])
    weights = [*(e / e.sum()), 0]
    assert off["weights"] == pytest.approx(weights, abs=1e-12)
    assert off["z"] == pytest.approx(weights[:2], abs=1e-12)
    assert off["off"] == pytest.approx(
        {"scores": 0, "weights": max(weights), "z": max(weights)}, abs=1e-12
    )


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


def test_tokens_are_those_of_the_look(opened, explorer_of):
    page = opened("tag", "page=tokens")
    look = look_of(explorer_of("tag"))
    page.wait_for_selector(".token-chip")
    ids = page.locator(".token-id").all_text_contents()
    assert ids == [str(element.id) for element in look.elements]
    drawn = page.locator(".token-text").all_text_contents()
    signs = str.maketrans({" ": "·", "\n": "⏎"})
    assert drawn == [
        e.label.translate(signs) if e.kind == "token" else e.label for e in look.elements
    ]
    tags = page.locator(".token-tag").all_text_contents()
    assert tags == [look.names[i] for i in look.logits.argmax(-1).tolist()]
    page.locator(".token-chip").nth(2).click()
    assert page.locator(".token-chip.is-query").count() == 1
    assert "query=2" in settled(page).url
    assert look.elements[2].label.encode().hex(" ") in page.locator(".token-detail").text_content()


def test_a_token_is_left_out(opened, explorer_of):
    page = opened("lm", "page=tokens&query=1")
    ids = [element.id for element in look_of(explorer_of("lm")).elements]
    page.wait_for_selector(".token-chip")
    page.get_by_role("button", name="Leave the token out").click()
    settled(page)
    assert page.locator(".token-id").all_text_contents() == [str(i) for i in ids[:1] + ids[2:]]


def test_patches_stand_in_their_grid(opened, explorer_of):
    page = opened("mixture", "page=tokens")
    look = look_of(explorer_of("mixture"))
    count = sum(element.kind in ("image", "audio") for element in look.elements)
    assert page.locator(".patch").count() == count
    page.locator(".patch").first.click()
    settled(page)
    assert page.locator(".patch[aria-pressed=true]").count() == 1
    place = next(i for i, element in enumerate(look.elements) if element.kind in ("image", "audio"))
    assert f"query={place}" in page.url
