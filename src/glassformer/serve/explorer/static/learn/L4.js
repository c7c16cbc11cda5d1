// @ts-check
// Lesson 4, Notes A, C, D, E: the causal mask, before softmax or after it.
import {fill, h} from "../dom.js";
import {fixed, number} from "../format.js";
import {bars, choice, figure, formula, heatmap, legend, reading} from "../marks.js";
import {p, section, trap} from "./article.js";
import {flat, furthest, softmax, times, total} from "./numbers.js";

const WORDS = ["the", "tallest", "building", "in", "NYC"];
// Scores q·k/√d_k: made up, with a large one from "building" to "tallest" as in the note.
const SCORES = [
  [1.2, 0.4, 0.8, -0.3, 0.5],
  [0.6, 1.0, 1.6, -0.2, 0.9],
  [0.1, 2.8, 0.7, 0.2, 1.1],
  [0.3, 0.2, 1.4, 0.6, 2.1],
  [0.5, 1.1, 1.8, 1.3, 0.9],
];
const VALUES = [
  [0.2, 0.1],
  [1.4, -0.3],
  [0.3, 1.2],
  [0.1, -0.2],
  [-0.9, 1.1],
];
const future = (i, j) => j > i;

const WAYS = {
  before: {
    label: "−∞ before softmax",
    weights: (s) => s.map((row, i) => softmax(row.map((x, j) => (future(i, j) ? -Infinity : x)))),
  },
  after: {
    label: "0 after softmax",
    weights: (s) => s.map((row, i) => softmax(row).map((x, j) => (future(i, j) ? 0 : x))),
  },
  zero: {
    label: "0 before softmax",
    weights: (s) => s.map((row, i) => softmax(row.map((x, j) => (future(i, j) ? 0 : x)))),
  },
  none: {label: "no mask", weights: (s) => s.map((row) => softmax(row))},
};
const SAID = {
  before:
    "Future scores are −∞, so their exponential is exactly 0 and each row is a softmax " +
    "over the past alone. Every row sums to 1.",
  after:
    "Each row was first divided by a sum that includes the future, then loses that part. " +
    "The rows no longer sum to 1: the first keeps the least.",
  zero:
    "A score of 0 is a score like any other: its exponential is 1. Every word sees the " +
    "future, a little.",
  none:
    "Every word sees every word. That is right for an encoder, and a leak for a model that " +
    "is to predict the next word.",
};

/** The sum up to i only, the second form of Note D. */
const untilNow = (s) =>
  s.map((row, i) => [...softmax(row.slice(0, i + 1)), ...row.slice(i + 1).map(() => 0)]);

/** Change of the first four outputs with the last word's score and value. */
function leak(way) {
  const changed = SCORES.map((row) => row.map((x, j) => (j === 4 ? x + 1.5 : x))),
    values = VALUES.map((v, j) => (j === 4 ? [0.8, -1.3] : v));
  return furthest(
    times(WAYS[way].weights(SCORES), VALUES).slice(0, 4),
    times(WAYS[way].weights(changed), values).slice(0, 4),
  );
}

function mask() {
  let way = "before";
  const hatched = () => (way === "before" ? future : null);
  const picture = heatmap({
    rows: WORDS,
    columns: WORDS,
    values: flat(WAYS.before.weights(SCORES)),
    name: "Attention of five words",
    masked: future,
    most: 72,
    marginName: "row sum",
    margin: () => "",
    say: (i, j) =>
      `a ${i + 1} ${j + 1}: query ${WORDS[i]}, key ${WORDS[j]}, ` +
      `${way === "before" && future(i, j) ? "masked" : number(WAYS[way].weights(SCORES)[i][j])}`,
  });
  const said = h("p.step-said", {"aria-live": "polite"}),
    readings = h("div.readings");
  const pick = choice({
    label: "The future is",
    options: Object.entries(WAYS).map(([value, {label}]) => ({value, label})),
    value: way,
    onchange: (to) => ((way = to), draw()),
  });
  const frame = figure({
    title: "“the tallest building in NYC”",
    controls: [pick.el],
    picture,
    legend: legend({masked: true}),
    below: [said, readings],
    name: "causal mask",
    shows:
      "Rows ask, columns answer. The cells above the diagonal, red in the note ($a_{12}$ " +
      "to $a_{45}$), look into the future. The column at the right is the sum of each row.",
    hides:
      "a trained head: these scores are made up, with a large one from *building* to *tallest*.",
  });
  function draw() {
    const weights = WAYS[way].weights(SCORES),
      sums = weights.map(total);
    picture.update({
      values: flat(weights),
      masked: hatched(),
      mark: (i, j) => (future(i, j) && way !== "before" ? "bad" : ""),
      margin: (i) => `${fixed(sums[i], 3)} ${Math.abs(sums[i] - 1) < 1e-9 ? "✓" : "✗"}`,
    });
    said.textContent = SAID[way];
    const moved = leak(way),
      sound = sums.every((sum) => Math.abs(sum - 1) < 1e-9);
    fill(
      readings,
      reading(
        "rows that sum to 1",
        `${sums.filter((sum) => Math.abs(sum - 1) < 1e-9).length} of 5`,
        sound ? "good" : "bad",
      ),
      reading(
        "how far the first four outputs move when the last word changes",
        moved === 0 ? "0" : number(moved, 3),
        moved === 0 ? "good" : "bad",
      ),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

function scale() {
  const d = 512,
    dk = 64,
    scores = [-12, 40, 8, 2, 14]; // a row of undivided scores, for keys 64 wide
  const picture = bars({
    items: [],
    name: "Weights of one row",
    high: 1,
    format: (x) => fixed(x, 3),
    valueName: "weight",
  });
  const draw = (by) =>
    picture.update({
      items: softmax(scores.map((s) => s / Math.sqrt(by))).map((value, j) => ({
        label: WORDS[j],
        value,
      })),
    });
  const pick = choice({
    label: "divided by",
    options: [
      {value: String(dk), label: "√64, the width of a key"},
      {value: String(d), label: "√512, the width of the model"},
    ],
    value: String(dk),
    onchange: (to) => draw(Number(to)),
  });
  draw(dk);
  return h("div.stack", pick.el, picture.el);
}

/** @param {HTMLElement} el */
function render(el) {
  el.append(
    section(
      "A word may not see what it is to predict",
      p(
        "Training predicts the word after *the*, after *tallest*, after *building*, all at " +
          "once. That is honest only if no position sees what comes after it. So the scores " +
          "of later keys are set to $-\\infty$ before softmax.",
      ),
      formula(
        "A = \\softmax\\left(\\frac{Q K^\\top}{\\sqrt{d_k}} + M\\right), \\quad M_{ij} = 0 " +
          "\\text{ for } j \\le i, \\quad -\\infty \\text{ otherwise}",
        "A, D",
      ),
      mask(),
    ),
    trap({
      title: "Zero is not minus infinity",
      printed:
        "Note C, in one sentence: “setting the attention scores to zero for future " +
        "tokens”; and one sentence later: to negative infinity.",
      so:
        "Minus infinity. $e^0 = 1$, so a score of zero leaves every future word with a share " +
        "of the row. Choose *0 before softmax* above and look at the outlined half; Note E " +
        "says why zeroing after softmax is wrong, too.",
    }),
    trap({
      title: "Which width is under the root",
      printed: "Note C divides by $\\sqrt{d}$, “where $d$ is the embedding dimension”.",
      so:
        "It is $\\sqrt{d_k}$, the width of a key in one head. With eight heads the two " +
        "differ by a factor of $\\sqrt{8}$, and the softmax is as much blunter.",
      control: scale(),
    }),
  );
}

export const lesson = {
  id: "causal-mask",
  note: "Notes A, C, D, E",
  title: "The causal mask",
  short: "Minus infinity before softmax, never zero after it.",
  lead:
    "The same five words and four ways to hide the future. Only one of them gives rows that " +
    "sum to 1 and outputs that do not change with what comes later.",
  render,
  checks: [
    () => [
      "row sums, −∞ before softmax: furthest from 1",
      Math.max(...WAYS.before.weights(SCORES).map((r) => Math.abs(total(r) - 1))),
      0,
      1e-15,
    ],
    () => [
      "rows that sum to 1 when zeroed after softmax (only the last)",
      WAYS.after.weights(SCORES).filter((r) => Math.abs(total(r) - 1) < 1e-9).length,
      1,
      0,
    ],
    () => [
      "masked cells $a_{12}$ to $a_{45}$",
      WAYS.before.weights(SCORES).flatMap((r, i) => r.filter((x, j) => future(i, j) && x === 0))
        .length,
      10,
      0,
    ],
    () => [
      "−∞ mask against the sum until $i$ alone (Note D)",
      furthest(WAYS.before.weights(SCORES), untilNow(SCORES)),
      0,
      0,
    ],
    () => ["first outputs when the last word changes, −∞", leak("before"), 0, 0],
    () => [
      "first row, zero instead of −∞: weight of *the*",
      WAYS.zero.weights(SCORES)[0][0],
      Math.exp(1.2) / (Math.exp(1.2) + 4),
      1e-12,
    ],
  ],
};
