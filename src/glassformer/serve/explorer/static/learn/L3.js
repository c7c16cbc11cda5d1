// @ts-check
// Lesson 3, Note D: self-attention step by step, with the lecture's scores 102 and 99.
import {fill, h} from "../dom.js";
import {fixed, number} from "../format.js";
import {bars, choice, figure, formula, lines, prose, reading, slider, stepper} from "../marks.js";
import {beside, p, section, trap, vec} from "./article.js";
import {attention, dot, noise, softmax, times, transposed} from "./numbers.js";

// The note gives only the scores; these small whole numbers lead to them.
const X = [
  [1, 0, 1, 0],
  [0, 1, 0, 1],
];
const W_Q = [
  [4, 2, 1],
  [2, 4, 1],
  [2, 3, 3],
  [3, 3, 2],
];
const W_K = [
  [5, 2, 4],
  [3, 1, 5],
  [3, 4, 2],
  [4, 4, 3],
];
const W_V = [
  [1, 0, 1],
  [0, 1, 0],
  [1, 0, 0],
  [0, 2, 1],
];
const Q = times(X, W_Q),
  K = times(X, W_K),
  V = times(X, W_V);
const [q1k1, q1k2] = K.map((k) => dot(Q[0], k));

/** The weights of the note's two scores for a width of keys. @param {number} width */
const weights = (width) => softmax([q1k1, q1k2].map((score) => score / Math.sqrt(width)));

const STEPS = [
  [
    "project",
    "Each input $x$ is multiplied by three learned matrices: it becomes a query (what it " +
      "asks), a key (what it answers) and a value (what it carries).",
  ],
  [
    "score",
    "The query meets every key. Their dot product is the score: how well this key answers " +
      "this query.",
  ],
  [
    "divide",
    "Scores grow with the number of dimensions they sum over, so they are divided by " +
      "$\\sqrt{D_K}$.",
  ],
  ["softmax", "Softmax turns the scores into weights: all positive, summing to 1."],
  ["weigh", "Each value is multiplied by its weight. What has little weight contributes little."],
  ["sum", "The sum is the output: a weighted average of values, chosen by the query."],
];

function walk() {
  let query = 0,
    at = 0;
  const holder = h("div.steps", {role: "region", "aria-label": "The computation", tabindex: 0}),
    said = h("p.step-said", {"aria-live": "polite"});
  function draw() {
    const {pattern, z} = attention(Q, K, V),
      scores = K.map((k) => dot(Q[query], k)),
      s = query + 1;
    const columns = [
      ["input", 0, (j) => vec(X[j])],
      ["query", 0, (j) => (j === query ? vec(Q[j], "q") : h("span.soft", "not asked"))],
      ["key", 0, (j) => vec(K[j], "k")],
      ["value", 0, (j) => vec(V[j], "v")],
      [
        prose(`score $q_${s} k_j^\\top$`),
        1,
        (j) =>
          h(
            "span",
            {title: Q[query].map((x, i) => `${x}·${K[j][i]}`).join(" + ")},
            number(scores[j]),
          ),
      ],
      [
        prose("$\\div \\sqrt{3}$".replace("\\div", "/")),
        2,
        (j) => fixed(scores[j] / Math.sqrt(3), 1),
      ],
      [prose(`weight $p_{${s},j}$`), 3, (j) => h("strong", fixed(pattern[query][j]))],
      [
        prose(`$p_{${s},j} v_j$`),
        4,
        (j) =>
          vec(
            V[j].map((v) => v * pattern[query][j]),
            "",
            2,
          ),
      ],
    ];
    const state = (step) => (step > at ? "later" : step === at ? "now" : "");
    const hide = (step) => ({class: state(step), "aria-hidden": step > at});
    fill(
      holder,
      h(
        "table",
        h("caption.sr", `Query ${s}, step ${at + 1} of 6`),
        h(
          "thead",
          h(
            "tr",
            h("th", {scope: "col"}, h("span.sr", "element")),
            columns.map(([name, step]) => h("th", {scope: "col", ...hide(step)}, name)),
          ),
        ),
        h(
          "tbody",
          [0, 1].map((j) =>
            h(
              "tr",
              h("th", {scope: "row"}, prose(`$x_${j + 1}$`)),
              columns.map(([, step, cell]) => h("td", hide(step), step > at ? "·" : cell(j))),
            ),
          ),
        ),
        h(
          "tfoot",
          h(
            "tr",
            h("th", {scope: "row"}, prose(`$z_${s}$`)),
            h("td", {colspan: 4, ...hide(5)}),
            h(
              "td",
              {class: `soft ${state(1)}`},
              at >= 1 ? Q[query].map((x, i) => `${x}·${K[0][i]}`).join(" + ") : "",
            ),
            h("td"),
            h("td", {class: `soft ${state(3)}`}, at >= 3 ? "sum 1" : ""),
            h("td", hide(5), at < 5 ? "·" : vec(z[query], "", 2)),
          ),
        ),
      ),
    );
    fill(said, prose(STEPS[at][1]));
  }
  const steps = stepper({
    count: 6,
    names: STEPS.map(([name]) => name),
    label: "Step",
    onchange: (to) => ((at = to), draw()),
  });
  const who = choice({
    label: "Who asks",
    options: [
      {value: "0", label: "query 1"},
      {value: "1", label: "query 2"},
    ],
    value: "0",
    onchange: (to) => ((query = Number(to)), draw()),
  });
  draw();
  const el = h("div", holder, said);
  return {
    figure: figure({
      title: "One query, six steps",
      controls: [who.el, steps.el],
      picture: {
        el,
        table: () => ({
          columns: ["element", "score", "divided by √3", "weight"],
          rows: K.map((k, j) => [
            `x${j + 1}`,
            dot(Q[query], k),
            dot(Q[query], k) / Math.sqrt(3),
            attention(Q, K, V).pattern[query][j],
          ]),
        }),
        summary: () => "Scores 102 and 99, divided by √3 58.9 and 57.2, weights 0.85 and 0.15.",
      },
      shows:
        "The lecture’s two scores, 102 and 99, from small whole numbers that lead to them; " +
        "every column follows from those to its left.",
      hides:
        "real projections, which have hundreds of dimensions, several heads, and numbers " +
        "that are not whole.",
      name: "one query six steps",
    }).el,
    stop: steps.stop,
  };
}

function play() {
  const scores = [102, 99];
  let width = 3;
  const picture = bars({
      items: [],
      name: "Weights",
      high: 1,
      format: (x) => fixed(x, 4),
      valueName: "weight",
    }),
    after = h("div.readings");
  const knobs = scores.map((start, i) =>
    slider({
      label: prose(`$q_1 k_${i + 1}$`),
      name: `score ${i + 1}`,
      min: 80,
      max: 120,
      step: 0.5,
      value: start,
      oninput: (x) => ((scores[i] = x), draw()),
    }),
  );
  const dk = choice({
    label: "D_K, the width of a key",
    options: ["1", "3", "16", "64"].map((value) => ({value, label: value})),
    value: "3",
    onchange: (to) => ((width = Number(to)), draw()),
  });
  const frame = figure({
    title: "Move the scores",
    controls: [
      h(
        "div.stack",
        knobs.map((knob) => knob.el),
      ),
      dk.el,
    ],
    picture,
    below: after,
    name: "two scores",
    shows:
      "softmax of two scores over $\\sqrt{D_K}$. Only their difference counts: move both " +
      "by as much and nothing changes.",
    hides: "where scores come from; that is the walk above.",
  });
  function draw() {
    const divided = scores.map((score) => score / Math.sqrt(width)),
      found = softmax(divided);
    picture.update({
      items: found.map((value, i) => ({label: `key ${i + 1}`, value, role: i ? "" : "", note: ""})),
    });
    fill(
      after,
      reading("divided", divided.map((x) => fixed(x, 3)).join("  and  ")),
      reading("difference", fixed(divided[0] - divided[1], 3)),
      reading("odds", `${number(found[0] / found[1], 3)} to 1`),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

function scaling() {
  const widths = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
    keys = 8;
  // The largest of 8 weights, averaged over 40 draws of a query and its keys.
  const largest = (d, scaled) =>
    Array.from({length: 40}, (_, seed) => {
      const numbers = noise(1000 + seed, d * (keys + 1)),
        q = numbers.slice(0, d);
      return Math.max(
        ...softmax(
          Array.from(
            {length: keys},
            (_, j) => dot(q, numbers.slice(d * (j + 1), d * (j + 2))) / (scaled ? Math.sqrt(d) : 1),
          ),
        ),
      );
    }).reduce((a, b) => a + b) / 40;
  const x = widths.map(Math.log2),
    picture = lines({
      name: "Largest of eight weights at random initialization",
      xName: "log₂ of the width of a key",
      yName: "largest weight",
      y: [0, 1],
      x: [0, 9],
      xTicks: x,
      series: [
        {name: "divided", x, y: widths.map((d) => largest(d, true))},
        {name: "not divided", x, y: widths.map((d) => largest(d, false))},
      ],
    });
  return figure({
    title: "Why divide at all",
    picture,
    name: "why divide",
    shows:
      "How much the strongest of eight random keys gets, averaged over 40 draws. " +
      "Undivided, wide keys end in a softmax that is nearly one-hot, whose gradient is " +
      "nearly 0.",
    hides: "a trained model, whose queries and keys are not random.",
  }).el;
}

/** @param {HTMLElement} el */
function render(el) {
  const walked = walk(),
    width = h("div.readings");
  const show = (to) => {
    const found = weights(to),
      good = Math.abs(found[0] - 0.85) < 0.005;
    fill(
      width,
      reading("$102/\\sqrt{D_K}$", fixed(102 / Math.sqrt(to), 2)),
      reading("$99/\\sqrt{D_K}$", fixed(99 / Math.sqrt(to), 2)),
      reading("weights", found.map((x) => fixed(x)).join(", "), good ? "good" : "bad"),
    );
  };
  const pick = choice({
    label: "D_K",
    options: ["1", "2", "3", "4", "8", "64"].map((value) => ({value, label: value})),
    value: "64",
    onchange: (to) => show(Number(to)),
  });
  show(64);
  el.append(
    section(
      "The whole of it in one line",
      p(
        "Every output is a weighted average of the values, and the weights depend on the " +
          "input itself. That is what *attention* means; the six steps below are all there " +
          "is to it.",
      ),
      formula(
        "Z = \\softmax\\left(\\frac{\\color{q}{Q} " +
          "\\color{k}{K}^\\top}{\\sqrt{D_K}}\\right) \\color{v}{V}",
        "D",
      ),
      walked.figure,
    ),
    section("What softmax makes of two scores", play()),
    trap({
      title: "The slide does not say how wide its keys are",
      printed:
        "102 and 99 are divided by $\\sqrt{D_K}$ and become 58.9 and 57.2, then .85 and " +
        ".15; no $D_K$ is given.",
      so:
        "Only $D_K = 3$ gives these numbers: $102/\\sqrt{3} = 58.890$, $99/\\sqrt{3} = " +
        "57.158$. With the usual 64 the same scores give .59 and .41.",
      control: pick.el,
      shown: width,
    }),
    section(
      "Why the scores are divided",
      p(
        "A dot product of two random vectors with $D_K$ dimensions has a standard " +
          "deviation of $\\sqrt{D_K}$. Dividing by it keeps the scores near 1, whatever the " +
          "width.",
      ),
      beside(scaling()),
    ),
  );
  return walked.stop;
}

export const lesson = {
  id: "self-attention",
  note: "Note D",
  title: "Self-attention, step by step",
  short: "102 and 99 become .85 and .15.",
  lead:
    "Two inputs, one query, six steps. Follow the numbers of the lecture from the input to " +
    "the output, then move them.",
  render,
  checks: [
    () => ["$q_1 k_1$", q1k1, 102, 0],
    () => ["$q_1 k_2$", q1k2, 99, 0],
    () => ["$102/\\sqrt{3}$", q1k1 / Math.sqrt(3), 58.89, 5e-4],
    () => ["$99/\\sqrt{3}$", q1k2 / Math.sqrt(3), 57.158, 5e-4],
    () => ["$p_{1,1}$", weights(3)[0], 0.84967, 5e-6],
    () => ["$p_{1,2}$", weights(3)[1], 0.15033, 5e-6],
    () => ["$p_{1,1}$ for $D_K = 64$, not the note’s .85", weights(64)[0], 0.592667, 5e-6],
    () => ["$z_1 = P V$, first number", attention(Q, K, V).z[0][0], 2 * weights(3)[0], 1e-12],
    () => ["$Q K^\\top$ from $X$: $q_2 k_1$", times(Q, transposed(K))[1][0], 100, 0],
  ],
};
