// @ts-check
// Lesson 10, Notes A, B, D: one word after the other, and what "it" refers to.
import {fill, h} from "../dom.js";
import {fixed, number} from "../format.js";
import {
  bars,
  button,
  choice,
  figure,
  formula,
  heatmap,
  legend,
  prose,
  reading,
  slider,
  toggle,
} from "../marks.js";
import {p, section} from "./article.js";
import {dot, flat, softmax, times, total} from "./numbers.js";

const TEXTS = [
  "To date the cleverest thinker was Issac",
  "A robot must obey the orders given it by human beings",
  "The chicken didn't cross the road because it was too tired",
  "The chicken didn't cross the road because it was too wide",
  "The tallest building in NYC is the tallest building",
  "I deposited money at the bank",
  "We had a picnic by the bank",
  "The robot was too tired to obey",
].map((text) => [...text.split(" "), "[end]"]);
const VOCABULARY = [...new Set(TEXTS.flat())];

/** How often each word of the vocabulary follows `word` in the texts. */
const follows = (word) =>
  VOCABULARY.map((next) =>
    TEXTS.reduce(
      (sum, text) =>
        sum + text.filter((w, i) => i > 0 && text[i - 1] === word && w === next).length,
      0,
    ),
  );
/** What comes next: softmax of log counts over τ; a word that never followed has probability 0. */
const distribution = (word, tau = 1) => {
  const counts = follows(word);
  return total(counts)
    ? softmax(
        counts.map((n) => Math.log(n)),
        tau,
      )
    : VOCABULARY.map((w) => Number(w === "[end]"));
};
/** Reproducible random number from 0 to 1 for a seed and a step. */
const share = (seed, step) => {
  let x = Math.imul(seed * 7919 + step * 104729 + 12345, 0x9e3779b1) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x85ebca6b) >>> 0;
  return ((x ^ (x >>> 13)) >>> 0) / 4294967296;
};
/** The first word whose summed probability passes the share. */
const drawn = (p, u) => {
  let sum = 0;
  const at = p.findIndex((x) => (sum += x) > u);
  return at < 0 ? p.length - 1 : at;
};

function writer() {
  let words = ["The"],
    tau = 1,
    seed = 1,
    chances = [1],
    timer = 0;
  const line = h("ol.written", {"aria-label": "The text so far"}),
    live = h("p.sr", {"aria-live": "polite"}),
    readings = h("div.readings");
  const picture = bars({
    items: [],
    name: "What comes next",
    high: 1,
    format: (x) => fixed(x, 3),
    valueName: "probability",
    onselect: (i) => append(shown[i]),
  });
  let shown = /** @type {number[]} */ ([]);
  const done = () => words[words.length - 1] === "[end]" || words.length > 24;
  const play = button(
    "Play",
    () =>
      timer
        ? pause()
        : ((timer = setInterval(() => (line.isConnected && !done() ? step() : pause()), 900)),
          (play.textContent = "Pause")),
    {kind: "quiet"},
  );
  const next = button("Next word", () => step(), {kind: "main"});
  const begin = choice({
    label: "Begin with",
    options: ["The", "To", "A", "We"].map((value) => ({value, label: value})),
    value: "The",
    onchange: (to) => start(to),
  });
  const heat = slider({
    label: prose("$\\tau$"),
    name: "temperature",
    min: 0.05,
    max: 3,
    step: 0.05,
    value: 1,
    oninput: (x) => ((tau = x), draw()),
  });
  const dice = slider({
    label: "seed",
    min: 1,
    max: 99,
    step: 1,
    value: 1,
    oninput: (x) => ((seed = x), start(words[0])),
  });
  const frame = figure({
    title: "Predict, append, repeat",
    controls: [begin.el, heat.el, dice.el],
    picture: {
      ...picture,
      el: h(
        "div",
        line,
        h(
          "div.row",
          next,
          play,
          button("Again", () => start(words[0]), {kind: "quiet"}),
        ),
        h("p.sub", "next, most likely first: choose one yourself, if you like"),
        picture.el,
        live,
      ),
    },
    below: readings,
    name: "one word after the other",
    shows:
      "Eight short texts from the notes are counted: which word follows which. The counts " +
      "give the distribution, a draw gives the word, the word becomes input.",
    hides:
      "a Transformer: this counter sees one word back, a Transformer the whole line. The " +
      "loop around them is the same.",
  });
  function pause() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  function start(word) {
    pause();
    words = [word];
    chances = [1];
    draw();
  }
  function step() {
    if (!done())
      append(drawn(distribution(words[words.length - 1], tau), share(seed, words.length)));
  }
  function append(/** @type {number} */ id) {
    if (done()) return;
    chances.push(distribution(words[words.length - 1], tau)[id]);
    words.push(VOCABULARY[id]);
    live.textContent = VOCABULARY[id];
    draw();
  }
  function draw() {
    const p = distribution(words[words.length - 1], tau);
    shown = done()
      ? []
      : p
          .map((_, i) => i)
          .filter((i) => p[i] > 0)
          .sort((a, b) => p[b] - p[a])
          .slice(0, 8);
    fill(
      line,
      words.map((word, i) =>
        h(
          "li",
          {class: i === words.length - 1 ? "new" : ""},
          h("span.chip-word", word),
          h("span.soft", i ? fixed(chances[i]) : ""),
        ),
      ),
    );
    picture.update({items: shown.map((i) => ({label: VOCABULARY[i], value: p[i]}))});
    next.disabled = done();
    const bits = -chances.reduce((sum, x) => sum + Math.log2(x), 0);
    fill(
      readings,
      reading(
        "probability of this text, given its first word",
        number(
          chances.reduce((a, b) => a * b, 1),
          3,
        ),
      ),
      reading("surprise", `${fixed(Math.abs(bits), 2)} bits`),
      done() && h("p.soft", "The end was drawn."),
    );
    frame.refresh();
  }
  draw();
  return {el: frame.el, stop: pause};
}

// Two made-up dimensions: how much of a creature, how much of a place.
const MEANING = {
  The: [0.1, 0.1],
  chicken: [3, 0.2],
  "didn't": [0.2, 0.2],
  cross: [0.3, 0.4],
  the: [0.1, 0.1],
  road: [0.2, 3],
  because: [0.1, 0.1],
  it: [1, 1],
  was: [0.1, 0.1],
  too: [0.2, 0.2],
  tired: [2.6, 0.1],
  wide: [0.1, 2.6],
};
const sentence = (last) => [
  "The",
  "chicken",
  "didn't",
  "cross",
  "the",
  "road",
  "because",
  "it",
  "was",
  "too",
  last,
];
const IT = 7,
  CHICKEN = 1,
  ROAD = 5;

/** Note B's simplified attention, x + Σ softmax(xᵢ·xⱼ) xⱼ, over and over; patterns by layer. */
function layersOf(last, causal, count = 2) {
  let X = sentence(last).map((word) => MEANING[word]);
  return Array.from({length: count}, () => {
    const P = X.map((x, i) => softmax(X.map((y, j) => (causal && j > i ? -Infinity : dot(x, y)))));
    X = times(P, X).map((z, i) => z.map((v, axis) => v + X[i][axis]));
    return P;
  });
}
/** How much more "it" attends to the chicken than to the road. */
const leaning = (last, causal, layer) =>
  layersOf(last, causal)[layer][IT][CHICKEN] - layersOf(last, causal)[layer][IT][ROAD];

function reference() {
  let last = "tired",
    causal = false,
    layer = 1;
  const labels = () => sentence(last),
    picture = heatmap({
      rows: labels(),
      columns: labels(),
      values: new Float64Array(121),
      name: "Attention",
      most: 44,
      selected: {row: IT, column: CHICKEN},
    }),
    readings = h("div.readings"),
    said = h("p.step-said", {"aria-live": "polite"});
  const frame = figure({
    title: "It was too tired, it was too wide",
    picture,
    legend: legend({masked: true}),
    below: [readings, said],
    name: "what it refers to",
    controls: [
      choice({
        label: "it was too",
        options: ["tired", "wide"].map((value) => ({value, label: value})),
        value: last,
        onchange: (to) => ((last = to), draw()),
      }).el,
      choice({
        label: "Layer",
        options: [
          {value: "0", label: "1"},
          {value: "1", label: "2"},
        ],
        value: "1",
        onchange: (to) => ((layer = Number(to)), draw()),
      }).el,
      toggle({label: "left to right only", onchange: (on) => ((causal = on), draw())}).el,
    ],
    shows:
      "Note B’s simplified attention: weights from plain dot products, with a residual, " +
      "twice. Look at the row of *it*.",
    hides:
      "a trained model. Two made-up dimensions, creature and place, stand in for hundreds; " +
      "the page *Compare* shows the pair in a model of yours.",
  });
  function draw() {
    const P = layersOf(last, causal)[layer],
      [c, r] = [P[IT][CHICKEN], P[IT][ROAD]];
    picture.update({
      rows: labels(),
      columns: labels(),
      values: flat(P),
      masked: causal ? (i, j) => j > i : null,
    });
    fill(
      readings,
      reading("*it* → *chicken*", fixed(c, 3)),
      reading("*it* → *road*", fixed(r, 3)),
      reading("leans to", Math.abs(c - r) < 0.01 ? "neither" : c > r ? "the chicken" : "the road"),
    );
    said.textContent = causal
      ? "Left to right, “it” cannot see how the sentence ends: the two sentences are the " +
        "same up to there, and so are its weights. A decoder must settle the matter later, " +
        "at “tired” or “wide”."
      : layer === 0
        ? "In the first layer “it” looks at the last word as well, and takes some of it in. " +
          "It has not yet decided between chicken and road."
        : `In the second layer “it” carries a little of “${last}”, and its dot products now ` +
          `prefer the ${c > r ? "chicken" : "road"}.`;
    frame.refresh();
  }
  draw();
  return frame.el;
}

/** @param {HTMLElement} el */
function render(el) {
  const writing = writer();
  el.append(
    section(
      "Predict, append, repeat",
      p(
        "A language model gives a distribution over the next token, no more. Text comes " +
          "from the loop: draw one, append it, ask again.",
      ),
      formula("x_{t+1} \\sim \\softmax(f(x_1, \\ldots, x_t))", "D"),
      writing.el,
    ),
    section(
      "What is “it”?",
      p(
        "*The chicken didn’t cross the road because it was too* … The last word decides " +
          "whether *it* is the chicken or the road. One vector per word cannot know; two " +
          "layers of attention can.",
      ),
      reference(),
    ),
  );
  return writing.stop;
}

export const lesson = {
  id: "generation",
  note: "Notes A, B, D",
  title: "One word after the other",
  short: "Predict, append, repeat.",
  lead:
    "The loop that turns a distribution into a text, and the sentence whose last word " +
    "decides what an earlier one means.",
  render,
  checks: [
    () => [
      "what follows *too*: tired 2 of 3 (“too tired” twice, “too wide” once)",
      distribution("too")[VOCABULARY.indexOf("tired")],
      2 / 3,
      1e-12,
    ],
    () => [
      "every distribution sums to 1: furthest",
      Math.max(...VOCABULARY.map((w) => Math.abs(total(distribution(w)) - 1))),
      0,
      1e-12,
    ],
    () => [
      "$\\tau \\to 0$ takes the most likely after *too*",
      distribution("too", 0.01)[VOCABULARY.indexOf("tired")],
      1,
      1e-12,
    ],
    () => [
      "left to right, *it* is the same in both sentences",
      Math.abs(layersOf("tired", true)[1][IT][CHICKEN] - layersOf("wide", true)[1][IT][CHICKEN]),
      0,
      0,
    ],
    () => [
      "both ways, second layer: *tired* leans to the chicken (1: yes)",
      Number(leaning("tired", false, 1) > 0.1),
      1,
      0,
    ],
    () => [
      "both ways, second layer: *wide* leans to the road (1: yes)",
      Number(leaning("wide", false, 1) < -0.1),
      1,
      0,
    ],
  ],
};
