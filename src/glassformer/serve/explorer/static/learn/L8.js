// @ts-check
// Lesson 8, Note E: directions that mean something, temperature, and a building that looks at
// "tallest".
import {fill, h} from "../dom.js";
import {fixed, number} from "../format.js";
import {bars, button, figure, formula, plane, prose, reading, slider} from "../marks.js";
import {p, section, vec} from "./article.js";
import {softmax, times, total} from "./numbers.js";

// Made up so that one direction is royalty and the other gender.
const WORDS = {
  king: [2, 1.5],
  queen: [2.05, -1.45],
  man: [0.3, 1.5],
  woman: [0.35, -1.5],
  prince: [1.5, 1.35],
  palace: [2.5, 0.1],
  apple: [-1.6, 0.1],
  street: [-1.2, -0.5],
};
/**
 * a − b + c @param {string} a @param {string} b @param {string} c @param {Record<string, number[]>}
 * [words]
 */
const analogy = (a, b, c, words = WORDS) => words[a].map((x, i) => x - words[b][i] + words[c][i]);
/** Words by their distance from a point, nearest first; the three of the question do not count. */
const nearest = (point, without, words = WORDS) =>
  Object.entries(words)
    .filter(([word]) => !without.includes(word))
    .map(
      ([word, at]) =>
        /** @type {[string, number]} */ ([word, Math.hypot(at[0] - point[0], at[1] - point[1])]),
    )
    .sort((a, b) => a[1] - b[1]);

function analogies() {
  const words = structuredClone(WORDS),
    readings = h("div.readings");
  const picture = plane({
    name: "Words in two dimensions",
    size: 3,
    arrows: [],
    xName: ["", "royal"],
    yName: ["female", "male"],
  });
  const frame = figure({
    title: "king − man + woman",
    controls: [button("As it was", () => (Object.assign(words, structuredClone(WORDS)), draw()))],
    picture,
    below: readings,
    name: "analogy",
    shows:
      "Take the step from *man* to *king* and make it from *woman*. *king*, *man* and " +
      "*woman* can be moved: drag them, or use the arrow keys.",
    hides:
      "learned vectors, in which the step is only nearly the same, and the three words of " +
      "the question must be left out of the answers. Static vectors also have one *right* " +
      "for all its meanings.",
  });
  function draw() {
    const made = analogy("king", "man", "woman", words),
      found = nearest(made, ["king", "man", "woman"], words);
    picture.update({
      arrows: [
        ...Object.entries(words).map(([name, [x, y]]) => ({
          name,
          x,
          y,
          dot: true,
          ...(["king", "man", "woman"].includes(name)
            ? {onmove: (u, v) => ((words[name] = [u, v]), draw()), role: "q"}
            : {}),
        })),
        {name: "king − man + woman", label: "", x: made[0], y: made[1], role: "main"},
      ],
    });
    fill(
      readings,
      reading("king − man + woman", `${fixed(made[0])}, ${fixed(made[1])}`),
      reading("nearest", h("em", found[0][0]), found[0][0] === "queen" ? "good" : "bad"),
      reading("at a distance of", fixed(found[0][1], 3)),
      reading("next", `${found[1][0]}, ${fixed(found[1][1], 2)}`),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

const LOGITS = [2, 1.5, 0.5, 0, -1],
  NEXT = ["Tower", "building", "is", "and", "banana"];

function temperature() {
  const picture = bars({
      items: [],
      name: "Probabilities",
      high: 1,
      format: (x) => fixed(x, 4),
      valueName: "probability",
    }),
    readings = h("div.readings");
  let power = 0;
  const tau = slider({
    label: prose("$\\log_{10} \\tau$"),
    name: "log10 of the temperature",
    min: -2,
    max: 2,
    step: 0.01,
    value: 0,
    oninput: (x) => ((power = x), draw()),
  });
  const frame = figure({
    title: "Temperature",
    controls: [
      tau.el,
      h(
        "div.row",
        [
          ["cold, 0.01", -2],
          ["1", 0],
          ["hot, 100", 2],
        ].map(([label, to]) => button(label, () => ((power = Number(to)), tau.set(power), draw()))),
      ),
    ],
    picture,
    below: readings,
    name: "temperature",
    shows:
      "softmax of five fixed scores over $\\tau$. Cold: all on the largest. Hot: all " +
      "alike. The order never changes.",
    hides:
      "a model’s choice among tens of thousands of tokens; the explorer’s page *Next* " +
      "shows that one.",
  });
  function draw() {
    const t = 10 ** power,
      found = softmax(LOGITS, t),
      bits = -total(found.map((x) => (x > 0 ? x * Math.log2(x) : 0)));
    picture.update({
      items: found.map((value, i) => ({
        label: NEXT[i],
        value,
        note: `score ${fixed(LOGITS[i], 1)}`,
      })),
    });
    fill(
      readings,
      reading("$\\tau$", number(t, 3)),
      reading("entropy", `${fixed(Math.abs(bits), 3)} of ${fixed(Math.log2(5), 3)} bits`),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

const SENTENCE = ["the", "tallest", "building", "in", "NYC"],
  V = [
    [0.2, 0.1, -0.4],
    [1.4, -0.3, 0.8],
    [0.3, 1.2, 0.1],
    [0.1, -0.2, 0.5],
    [-0.9, 1.1, 0.6],
  ];

function attends() {
  let raw = [0.1, 0.6, 0.2, 0.05, 0.05];
  const out = h("div.stack"),
    knobs = SENTENCE.map((word, j) =>
      slider({
        label: word,
        name: `weight of ${word}`,
        min: 0,
        max: 1,
        step: 0.01,
        value: raw[j],
        compact: true,
        oninput: (x) => ((raw[j] = x), draw()),
      }),
    );
  const set = (to) => {
    raw = to;
    to.forEach((x, j) => knobs[j].set(x));
    draw();
  };
  const weights = () => (total(raw) > 0 ? raw.map((x) => x / total(raw)) : [0, 0, 1, 0, 0]);
  const picture = bars({
    items: [],
    name: "Weights of building",
    high: 1,
    format: (x) => fixed(x),
    valueName: "weight",
  });
  const frame = figure({
    title: "What building gets",
    controls: [
      h(
        "div.stack",
        knobs.map((k) => k.el),
      ),
      h(
        "div.stack",
        button("Only tallest: a₃,₂ = 1", () => set([0, 1, 0, 0, 0]), {kind: "main"}),
        button("All alike", () => set([0.2, 0.2, 0.2, 0.2, 0.2])),
      ),
    ],
    picture: {...picture, el: h("div.beside", picture.el, out)},
    name: "building attends to tallest",
    shows:
      "The row of *building* in the attention matrix, scaled to sum to 1, and the output " +
      "it makes of five value vectors.",
    hides: "how the weights arise; here you are the query.",
  });
  function draw() {
    const w = weights(),
      o = times([w], V)[0],
      same = Math.max(...o.map((x, i) => Math.abs(x - V[1][i])));
    picture.update({items: SENTENCE.map((label, j) => ({label, value: w[j]}))});
    fill(
      out,
      h("p", prose("$v_2$"), " ", vec(V[1], "v", 2)),
      h("p", prose("$o_3$"), " ", vec(o, "", 2)),
      reading("$\\max |o_3 - v_2|$", same === 0 ? "0" : fixed(same, 3), same === 0 ? "good" : ""),
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
      "Directions mean something",
      p(
        "In a good embedding, some steps carry meaning: from *man* to *king* is one " +
          "towards royalty, wherever it begins.",
      ),
      formula(
        "\\mathbf{e}_{\\text{king}} - \\mathbf{e}_{\\text{man}} + " +
          "\\mathbf{e}_{\\text{woman}} \\approx \\mathbf{e}_{\\text{queen}}",
        "E",
      ),
      analogies(),
    ),
    section(
      "Cold and hot",
      p("Softmax turns scores into shares. The temperature $\\tau$ says how much a lead counts."),
      formula("p_i = \\frac{\\exp(x_i / \\tau)}{\\sum_n \\exp(x_n / \\tau)}", "E"),
      temperature(),
      p(
        "The largest score is subtracted before the exponential. It changes nothing in the " +
          "result, and keeps $\\tau = 0.01$ from overflowing.",
      ),
    ),
    section(
      "“Is there an adjective directly before me?”",
      p(
        "If *building* asks that, and only *tallest* answers, its row of weights is 1 in " +
          "one place. The output is then that one value vector, whole.",
      ),
      formula(
        "\\mathbf{o}_3 = \\sum_j a_{3,j} \\mathbf{v}_j, \\quad a_{3,2} = 1 \\to " +
          "\\mathbf{o}_3 = \\mathbf{v}_2",
        "E",
      ),
      attends(),
    ),
  );
}

export const lesson = {
  id: "meaning-and-temperature",
  note: "Note E",
  title: "Meaning, temperature, attention",
  short: "From king to queen, from cold to hot.",
  lead:
    "Three small machines of Note E: a step that carries meaning, a knob between certainty " +
    "and chance, and one word that takes over another’s value.",
  render,
  checks: [
    () => [
      "king − man + woman: nearest is queen (1: yes)",
      Number(nearest(analogy("king", "man", "woman"), ["king", "man", "woman"])[0][0] === "queen"),
      1,
      0,
    ],
    () => [
      "$\\tau = 10^6$: uniform, furthest from 1/5",
      Math.max(...softmax(LOGITS, 1e6).map((x) => Math.abs(x - 0.2))),
      0,
      1e-6,
    ],
    () => ["$\\tau = 0.01$: all on the largest", softmax(LOGITS, 0.01)[0], 1, 1e-12],
    () => [
      "scores of 1000 do not overflow",
      softmax([1000, 999])[0],
      1 / (1 + Math.exp(-1)),
      1e-15,
    ],
    () => [
      "$a_{3,2} = 1$: largest $|o_3 - v_2|$",
      Math.max(...times([[0, 1, 0, 0, 0]], V)[0].map((x, i) => Math.abs(x - V[1][i]))),
      0,
      0,
    ],
    () => [
      "$\\tau = 1$: odds of the first two, $e^{1/2}$",
      softmax(LOGITS)[0] / softmax(LOGITS)[1],
      Math.exp(0.5),
      1e-12,
    ],
  ],
};
