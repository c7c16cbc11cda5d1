// @ts-check
// Lesson 6, Notes A and D: shuffle the words, and attention shuffles with them.
import {fill, h} from "../dom.js";
import {number} from "../format.js";
import {button, figure, formula, heatmap, legend, reading, toggle} from "../marks.js";
import {beside, p, section} from "./article.js";
import {flat, furthest, noiseMatrix, sinusoid} from "./numbers.js";

const WORDS = ["She", "prefers", "cats", "to", "dogs"],
  D = 8;
const E = noiseMatrix(6, 5, D),
  [W_Q, W_K, W_V] = [61, 62, 63].map((seed) => noiseMatrix(seed, D, D, 1 / Math.sqrt(D)));

/**
 * Σ in order of size: then the rounding does not depend on the order of the words, and what is
 * equal is equal to the last bit. @param {number[]} x
 */
const sum = (x) => [...x].sort((a, b) => a - b).reduce((all, v) => all + v, 0);
const times = (a, b) => a.map((row) => b[0].map((_, j) => sum(row.map((x, k) => x * b[k][j]))));
const transposed = (a) => a[0].map((_, j) => a.map((row) => row[j]));

/**
 * One head over the words in this order; places: 0, 1, 2, … @param {number[]} order @param
 * {boolean} positions
 */
function head(order, positions) {
  const X = order.map((word, t) => E[word].map((x, j) => x + (positions ? sinusoid(t, D)[j] : 0)));
  const [Q, K, V] = [W_Q, W_K, W_V].map((w) => times(X, w));
  const P = times(Q, transposed(K)).map((row) => {
    const scaled = row.map((x) => x / Math.sqrt(D)),
      most = Math.max(...scaled),
      powers = scaled.map((x) => Math.exp(x - most)),
      all = sum(powers);
    return powers.map((x) => x / all);
  });
  return {P, Z: times(P, V)};
}

const PLAIN = [0, 1, 2, 3, 4],
  SWAPPED = [0, 1, 4, 3, 2];
/** max |Z_R − R Z| */
const apart = (order, positions) =>
  furthest(
    head(order, positions).Z,
    order.map((word) => head(PLAIN, positions).Z[word]),
  );

function lab() {
  let order = [...PLAIN],
    positions = false,
    held = /** @type {number | null} */ (null);
  const chips = h("ol.chips", {"aria-label": "The words, in order"}),
    live = h("p.sr", {"aria-live": "polite"}),
    readings = h("div.readings");
  const make = (name) =>
    heatmap({
      rows: WORDS,
      columns: WORDS,
      values: new Float64Array(25),
      name,
      most: 52,
      digits: true,
    });
  const before = make("Attention in the sentence’s order"),
    after = make("Attention in your order");
  const frame = figure({
    title: "Drag the words",
    picture: {
      ...after,
      el: h(
        "div.beside.tight",
        h("div", h("p.soft", "the sentence’s order"), before.el),
        h("div", h("p.soft", "your order"), after.el),
      ),
    },
    controls: h(
      "div.stack",
      chips,
      h(
        "div.row",
        button("She prefers dogs to cats", () => put([...SWAPPED]), {kind: "main"}),
        button("Reverse", () => put([...order].reverse())),
        button("As it was", () => put([...PLAIN])),
        toggle({label: "add positions", onchange: (on) => ((positions = on), draw())}).el,
      ),
      live,
    ),
    legend: legend(),
    below: readings,
    name: "permutation",
    shows:
      "The same head over the same words in two orders. Without positions each weight " +
      "moves with its words and keeps its value, and so does every output.",
    hides: "a trained head: vectors and matrices are fixed noise.",
  });
  function put(to, said = to.map((w) => WORDS[w]).join(" ")) {
    order = to;
    live.textContent = said;
    draw();
  }
  function move(from, to) {
    if (to < 0 || to >= order.length) return;
    const next = [...order];
    next.splice(to, 0, ...next.splice(from, 1));
    put(next);
    /** @type {any} */ (chips.children[to])?.firstChild.focus();
  }
  function draw() {
    fill(
      chips,
      order.map((word, t) =>
        h(
          "li",
          h(
            "button.chip",
            {
              type: "button",
              draggable: "true",
              "aria-label": `${WORDS[word]}, place ${t + 1} of 5; arrow keys move it`,
              ondragstart: (event) => (
                (held = t),
                event.dataTransfer?.setData("text/plain", WORDS[word])
              ),
              ondragover: (event) => event.preventDefault(),
              ondrop: (event) => (event.preventDefault(), held !== null && move(held, t)),
              onkeydown: (event) => {
                const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
                if (by) {
                  event.preventDefault();
                  move(t, t + by);
                }
              },
            },
            h("span.chip-word", WORDS[word]),
            h("span.chip-place", positions ? `+ p${t}` : ""),
          ),
        ),
      ),
    );
    const labels = order.map((word) => WORDS[word]),
      far = apart(order, positions);
    before.update({values: flat(head(PLAIN, positions).P)});
    after.update({rows: labels, columns: labels, values: flat(head(order, positions).P)});
    const moved = order.some((word, t) => word !== t);
    fill(
      readings,
      reading("$\\max |Z_R - R Z|$", far === 0 ? "0.0e0" : number(far, 3), far === 0 ? "" : "bad"),
      h(
        "p.soft",
        !moved
          ? "Move a word."
          : far === 0
            ? "Nothing but the order changed: the head cannot tell who is preferred."
            : "Now the order counts: the outputs themselves changed.",
      ),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

/** @param {HTMLElement} el */
function render(el) {
  el.append(
    section(
      "“She prefers cats to dogs”",
      p(
        "Read it backwards, or swap the animals: to attention it is the same set of words. " +
          "Let $R$ be the matrix that reorders rows; then attention of $RX$ is $R$ times " +
          "attention of $X$.",
      ),
      formula(
        "Z_R = \\softmax\\left(\\frac{R X W_Q W_K^\\top X^\\top " +
          "R^\\top}{\\sqrt{D_K}}\\right) R X W_V = R P X W_V = R Z",
        "D",
      ),
      lab(),
    ),
    section(
      "What positions do",
      p(
        "Add a vector that depends on the place, and the proof breaks at its first step: " +
          "the input is no longer $RX$. *Add positions* above and swap the animals again.",
      ),
      p(
        "Note C calls attention permutation *invariant*. Notes A and D have the exact " +
          "word: it is *equivariant*. The outputs are not the same for every order; they are " +
          "the same vectors, in the new order.",
      ),
    ),
  );
}

export const lesson = {
  id: "permutation",
  note: "Notes A, C, D",
  title: "Order is not seen",
  short: "Shuffle the words; the outputs shuffle along.",
  lead:
    "Drag the words into another order. Without positions, the outputs are the same vectors " +
    "to the last bit; with them, order begins to count.",
  render,
  checks: [
    () => ["$\\max |Z_R - RZ|$, animals swapped, no positions", apart(SWAPPED, false), 0, 0],
    () => ["the same for the reversed sentence", apart([4, 3, 2, 1, 0], false), 0, 0],
    () => [
      "with positions it is not 0 (1: more than 0.01)",
      Number(apart(SWAPPED, true) > 0.01),
      1,
      0,
    ],
    () => ["with positions and no word moved", apart(PLAIN, true), 0, 0],
  ],
};
