// @ts-check
// Lesson 1, Note C: mix a word with its neighbours by hand, and contextual meaning appears.
import {fill, h} from "../dom.js";
import {fixed} from "../format.js";
import {button, choice, figure, formula, plane, reading, slider, toggle} from "../marks.js";
import {p, section} from "./article.js";
import {dot, softmax, total} from "./numbers.js";

// Two made-up dimensions: finance to the right, geography upward; "bank" is between.
const SENTENCES = {
  money: [
    ["I", 0.1, 0.1],
    ["deposited", 2.4, 0.8],
    ["money", 2.8, 0.2],
    ["at", 0.1, 0.2],
    ["the", 0.1, 0.1],
    ["bank", 1.5, 1.5],
  ],
  picnic: [
    ["We", 0.1, 0.2],
    ["had", 0.2, 0.1],
    ["a", 0.1, 0.1],
    ["picnic", 0.2, 2.7],
    ["by", 0.1, 0.4],
    ["the", 0.1, 0.1],
    ["bank", 1.5, 1.5],
  ],
};
const xy = (words) => words.map(([, x, y]) => [x, y]);

/** Softmax of the dot products with the last word. @param {number[][]} vectors */
const chosen = (vectors) => softmax(vectors.map((v) => dot(vectors[vectors.length - 1], v)));
/** Σ wᵢ vᵢ @param {number[][]} vectors @param {number[]} w */
const mixed = (vectors, w) => [0, 1].map((axis) => total(vectors.map((v, i) => w[i] * v[axis])));

function mixer() {
  let name = "money",
    words = SENTENCES.money,
    w = [0, 0, 0, 0, 0, 1],
    unit = true;
  const knobs = h("div.stack.mixer"),
    readings = h("div.readings");
  const picture = plane({
    name: "Words in two dimensions",
    size: 3.2,
    arrows: [],
    xName: ["", "finance"],
    yName: ["", "geography"],
  });
  let sliders = /** @type {any[]} */ ([]);
  const used = () => (unit && total(w) > 0 ? w.map((x) => x / total(w)) : w);
  function rebuild() {
    words = SENTENCES[name];
    w = words.map((_, i) => (i === words.length - 1 ? 1 : 0));
    sliders = words.map(([word], i) =>
      slider({
        label: word,
        name: `weight of ${word}`,
        min: 0,
        max: 1,
        step: 0.01,
        value: w[i],
        compact: true,
        oninput: (x) => ((w[i] = x), draw()),
      }),
    );
    fill(
      knobs,
      sliders.map((s) => s.el),
    );
    draw();
  }
  function give(to) {
    w = to;
    w.forEach((x, i) => sliders[i].set(x));
    draw();
  }
  function draw() {
    const weights = used(),
      made = mixed(xy(words), weights),
      last = words.length - 1;
    picture.update({
      arrows: [
        ...words.map(([word, x, y], i) => ({
          name: word,
          x,
          y,
          dot: i !== last,
          role: weights[i] > 0.005 ? "" : "faint",
          label: Math.hypot(x, y) < 0.5 && i !== 1 ? "" : word,
        })),
        {name: "bank, new", x: made[0], y: made[1], role: "main"},
      ],
    });
    const share = made[0] + made[1] === 0 ? 0 : made[0] / (made[0] + made[1]),
      sum = total(weights);
    fill(
      readings,
      reading("$\\sum w_i$", fixed(sum, 2), Math.abs(sum - 1) < 1e-9 ? "good" : "bad"),
      reading("new vector", `${fixed(made[0])}, ${fixed(made[1])}`),
      reading("leans to finance", `${Math.round(100 * share)} %`),
    );
    frame?.refresh();
  }
  const buttons = h(
    "div.row",
    button("Equal, 1/N", () => give(words.map(() => 1 / words.length))),
    button("Let dot products choose", () => give(chosen(xy(words))), {kind: "main"}),
    button("bank alone", () => give(words.map((_, i) => (i === words.length - 1 ? 1 : 0)))),
  );
  const sentence = choice({
    label: "Sentence",
    options: [
      {value: "money", label: "I deposited money at the bank"},
      {value: "picnic", label: "We had a picnic by the bank"},
    ],
    value: name,
    onchange: (to) => ((name = to), rebuild()),
  });
  const norm = toggle({
    label: "weights sum to 1",
    checked: true,
    onchange: (on) => ((unit = on), draw()),
  });
  const el = h("div.beside", picture.el, h("div.stack", knobs, buttons, norm.el, readings));
  /** @type {any} */
  let frame = null;
  rebuild();
  frame = figure({
    title: "Mix the words yourself",
    controls: [sentence.el],
    picture: {...picture, el},
    name: "contextual bank",
    shows:
      "Each word is a dot, *bank* starts between finance and geography. The heavy arrow is " +
      "the sum of all words, each times its weight.",
    hides:
      "learned vectors: these two dimensions and their numbers are made up, and real ones " +
      "have no such names.",
  });
  return frame.el;
}

/** @param {HTMLElement} el */
function render(el) {
  el.append(
    section(
      "One vector per word is not enough",
      p(
        "*bank* is one row of a table, whether money lies in it or a picnic beside it. Mix " +
          "it with its neighbours, and it becomes what this sentence makes of it.",
      ),
      formula("\\vec{v}_{\\text{bank (new)}} = \\sum_{i=1}^{N} w_i \\vec{v}_i", "C"),
      mixer(),
    ),
    section(
      "Who chooses the weights?",
      p(
        "Equal weights give *at* and *the* the same say as *money*: the average of a bag " +
          "of words. Dot products do better by themselves: words that point the same way as " +
          "*bank* get more. That is already attention, in its simplest form; what is missing " +
          "are the three matrices of the next page.",
      ),
      p(
        "Weights that do not sum to 1 also stretch the vector. Switch *weights sum to 1* " +
          "off and pull two of them up: the arrow leaves the region between the words.",
      ),
    ),
  );
}

const V = xy(SENTENCES.money),
  P = xy(SENTENCES.picnic);
export const lesson = {
  id: "context",
  note: "Note C",
  title: "What a bank is",
  short: "Mix a word with its neighbours by hand.",
  lead:
    "A static vector says the same of every *bank*. Weigh the neighbours by hand, then let " +
    "dot products choose, and watch the word lean towards money or towards the river.",
  render,
  checks: [
    () => [
      "equal weights, finance: 7/6",
      mixed(
        V,
        V.map(() => 1 / 6),
      )[0],
      7 / 6,
      1e-12,
    ],
    () => [
      "equal weights, geography: 2.9/6",
      mixed(
        V,
        V.map(() => 1 / 6),
      )[1],
      2.9 / 6,
      1e-12,
    ],
    () => ["chosen weights sum to 1", total(chosen(V)), 1, 1e-12],
    () => [
      "odds of *money* to *the* by dot products: $e^{4.5 - 0.3}$",
      chosen(V)[2] / chosen(V)[4],
      Math.exp(4.2),
      1e-9,
    ],
    () => [
      "*bank* with money leans to finance (1: yes)",
      Number(mixed(V, chosen(V))[0] > mixed(V, chosen(V))[1]),
      1,
      0,
    ],
    () => [
      "*bank* with a picnic leans to geography (1: yes)",
      Number(mixed(P, chosen(P))[1] > mixed(P, chosen(P))[0]),
      1,
      0,
    ],
  ],
};
