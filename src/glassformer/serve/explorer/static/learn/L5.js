// @ts-check
// Lesson 5, Notes A, C, E: positions as waves, and what their dot products say.
import {fill, h} from "../dom.js";
import {fixed, number} from "../format.js";
import {choice, figure, formula, heatmap, legend, lines, reading, slider, table} from "../marks.js";
import {p, section, trap} from "./article.js";
import {dot, flat, sinusoid} from "./numbers.js";

const T = 100,
  D = 64,
  PLACES = Array.from({length: T}, (_, t) => t);
const KINDS = {
  paired: {label: "sinusoid", of: (t, d) => sinusoid(t, d)},
  printed: {label: "sinusoid, as printed in C", of: (t, d) => sinusoid(t, d, false)},
  binary: {label: "binary", of: (t) => Array.from({length: 7}, (_, i) => (t >> (6 - i)) & 1)},
  index: {label: "index, β = 0.1", of: (t, d) => Array.from({length: d}, () => 0.1 * (t + 1))},
};
const matrixOf = (kind, d = D) => PLACES.map((t) => KINDS[kind].of(t, d));
const similarity = (kind) => {
  const P = matrixOf(kind);
  return P.map((a) => P.map((b) => dot(a, b)));
};

const LOW = 5; // no two of these positions have a smaller product

/** Along each diagonal of the similarity: largest minus smallest; the widest of them. */
export function spread(/** @type {string} */ kind) {
  const S = similarity(kind);
  return Math.max(
    ...PLACES.map((gap) => {
      const along = PLACES.slice(gap).map((t) => S[t][t - gap]);
      return Math.max(...along) - Math.min(...along);
    }),
  );
}
/** How often a dimension changes sign over the first 100 positions. */
const crossings = (j) =>
  PLACES.filter((t) => t > 1 && sinusoid(t, D)[j] * sinusoid(t - 1, D)[j] < 0).length;

function map() {
  let kind = "paired";
  const labels = (n, every) => Array.from({length: n}, (_, i) => (i % every ? "" : String(i)));
  const picture = heatmap({
    rows: labels(T, 10),
    columns: labels(D, 8),
    values: flat(matrixOf(kind)),
    kind: "signed",
    high: 1,
    name: "Positions",
    rowName: "position",
    columnName: "dimension",
    valueName: "value",
    cellHeight: 4,
    most: 14,
    say: (t, j) => `position ${t}, dimension ${j}, value ${number(KINDS[kind].of(t, D)[j])}`,
  });
  const key = h("div"),
    pick = choice({
      label: "Position as",
      options: Object.entries(KINDS).map(([value, {label}]) => ({value, label})),
      value: kind,
      onchange: (to) => ((kind = to), draw()),
    });
  const said = h("p.step-said", {"aria-live": "polite"});
  const frame = figure({
    title: "The first 100 positions",
    controls: [pick.el],
    picture,
    legend: key,
    below: said,
    name: "positions",
    shows:
      "Each row is the vector of one position. Read a column downward: the left ones wave " +
      "fast, the right ones hardly move in 100 positions.",
    hides:
      "the token vectors that these are added to, and learned positions, which have no such order.",
  });
  const SAID = {
    paired:
      "Two neighbouring dimensions share a frequency, one as sine and one as cosine. All " +
      "values lie between −1 and 1, for any length.",
    printed:
      "With 2i/d at the raw index, sine and cosine never share a frequency, and the right " +
      "half is all but constant.",
    binary: "Seven bits count to 127. Bounded, but it jumps: from 63 to 64 every bit changes.",
    index:
      "One number that grows with the position. It has no bound: what stands at position 5 " +
      "000 was never seen in training.",
  };
  function draw() {
    const P = matrixOf(kind),
      high = Math.max(...flat(P).map(Math.abs));
    picture.update({
      values: flat(P),
      columns: labels(P[0].length, kind === "binary" ? 1 : 8),
      high,
      most: kind === "binary" ? 40 : 14,
    });
    fill(key, legend({kind: "signed", high}));
    said.textContent = SAID[kind];
    frame.refresh();
  }
  draw();
  return frame.el;
}

/** One dimension along the positions: choose it, and count its turns. */
function wave() {
  const line = lines({
      name: "One dimension of 64",
      series: [],
      xName: "position",
      yName: "value",
      y: [-1, 1],
      height: 220,
    }),
    said = h("div.readings");
  const draw = (/** @type {number} */ j) => {
    line.update({series: [{name: `j = ${j}`, x: PLACES, y: PLACES.map((t) => sinusoid(t, D)[j])}]});
    fill(
      said,
      reading("sign changes in 100 positions", String(crossings(j))),
      reading(
        "positions to a full turn",
        number(2 * Math.PI * 10000 ** ((2 * Math.floor(j / 2)) / D), 3),
      ),
    );
  };
  const knob = slider({label: "dimension", min: 0, max: 63, step: 1, value: 8, oninput: draw});
  draw(8);
  return h("div.stack.trap-wide", knob.el, line.el, said);
}

function closeness() {
  let kind = "paired",
    at = 50;
  const labels = PLACES.map((t) => (t % 10 ? "" : String(t))),
    readings = h("div.readings");
  const picture = heatmap({
    rows: labels,
    columns: labels,
    values: flat(similarity(kind)),
    scale: "linear",
    low: LOW,
    high: 35,
    name: "Similarity of positions",
    rowName: "position",
    columnName: "position",
    valueName: "dot product",
    cellHeight: 4,
    most: 4,
    say: (s, t) => `positions ${s} and ${t}, dot product ${number(similarity(kind)[s][t])}`,
    onselect: (s) => ((at = s), draw(), slide.set(s)),
  });
  const line = lines({
    name: "Similarity to one position",
    series: [],
    xName: "position",
    yName: "dot product",
    y: [LOW, 35],
    height: 280,
  });
  const pick = choice({
    label: "Exponent",
    options: [
      {value: "paired", label: "paired, k = ⌊j/2⌋ (A, E)"},
      {value: "printed", label: "raw index (C, as printed)"},
    ],
    value: kind,
    onchange: (to) => ((kind = to), draw(true)),
  });
  const slide = slider({
    label: "position",
    min: 0,
    max: 99,
    step: 1,
    value: at,
    oninput: (x) => ((at = x), draw()),
  });
  const frame = figure({
    title: "How alike two positions are",
    controls: [pick.el, slide.el],
    picture,
    legend: legend({scale: "linear", low: LOW, high: 35, label: "dot product"}),
    name: "similarity of positions",
    below: [line.el, readings],
    shows:
      "The dot product of every two positions. Where it depends on their distance alone, " +
      "every diagonal has one colour, and the curve below keeps its shape while you move " +
      "the position.",
    hides:
      "what attention makes of it: queries and keys see positions only through learned matrices.",
  });
  function draw(all = false) {
    const S = similarity(kind);
    if (all) picture.update({values: flat(S)});
    line.update({series: [{name: `to ${at}`, x: PLACES, y: S[at], dots: [at]}]});
    if (!all && readings.childNodes.length) return;
    const norms = PLACES.map((t) => S[t][t]),
      wide = spread(kind);
    fill(
      readings,
      reading("widest spread along a diagonal", number(wide, 2), wide < 1e-9 ? "good" : "bad"),
      reading(
        "squared length of a position",
        Math.max(...norms) - Math.min(...norms) < 1e-9
          ? fixed(norms[0], 1)
          : `${fixed(Math.min(...norms), 1)} to ${fixed(Math.max(...norms), 1)}`,
      ),
    );
    frame.refresh();
  }
  draw(true);
  return frame.el;
}

const AT = [0, 25, 50, 75, 100],
  TOKENS = ["The", "tallest", "building", "in", "NYC"];
/** Note E's printed values, two places. */
const PRINTED = [
  [0, 1, 0, 1],
  [-0.13, 0.99, 0.6, -0.8],
  [-0.26, 0.96, -0.96, 0.28],
  [-0.39, 0.92, 0.94, 0.35],
  [-0.51, 0.86, -0.54, -0.84],
];

function waves() {
  const x = Array.from({length: 401}, (_, i) => i / 4);
  const series = (shown) =>
    [0, 1, 2, 3].map((j) => ({
      name: `j = ${j}`,
      x,
      y: x.map((t) => sinusoid(t, 8)[j]),
      dots: AT.map((t) => 4 * t),
      faded: shown !== "all" && !shown.includes(String(j)),
    }));
  const picture = lines({
    name: "Four dimensions of eight",
    xName: "position",
    yName: "value",
    y: [-1, 1],
    height: 320,
    series: series("23"),
  });
  const pick = choice({
    label: "Dimensions",
    options: [
      {value: "01", label: "0 and 1"},
      {value: "23", label: "2 and 3"},
      {value: "all", label: "all four"},
    ],
    value: "23",
    onchange: (to) => picture.update({series: series(to)}),
  });
  return [
    figure({
      title: "The note’s four curves",
      controls: [pick.el],
      picture,
      name: "four curves",
      shows:
        "The first four of eight dimensions, with Note E’s five words at positions 0, 25, " +
        "50, 75 and 100. Dimensions 2 and 3 are ten times slower than 0 and 1.",
      hides:
        "the words’ real places 0 to 4: the note spreads them out so that the curves can be seen.",
    }).el,
    h(
      "div.plain-table",
      table({
        caption: "The five position vectors",
        columns: ["token", "position", "j = 0", "j = 1", "j = 2", "j = 3"],
        rows: TOKENS.map((word, i) => [
          word,
          AT[i],
          ...sinusoid(AT[i], 8)
            .slice(0, 4)
            .map((v) => fixed(v)),
        ]),
      }),
    ),
  ];
}

/** @param {HTMLElement} el */
function render(el) {
  el.append(
    section(
      "A clock with many hands",
      p(
        "Attention does not know what stands where. So each position gets a vector of its " +
          "own, which is added to the token’s. The sinusoid is a binary counter made smooth: " +
          "fast hands on the left, slow ones on the right.",
      ),
      formula(
        "p_{i,2k} = \\sin\\left(\\frac{i}{10000^{2k/d}}\\right), \\quad p_{i,2k+1} = " +
          "\\cos\\left(\\frac{i}{10000^{2k/d}}\\right)",
        "A, E",
      ),
      map(),
    ),
    trap({
      title: "Frequency falls with the dimension",
      printed: "Note C: the pattern has “frequency increasing as the dimension index increases”.",
      so:
        `It decreases. Over the first 100 positions dimension 0 changes sign ${crossings(0)} ` +
        `times, dimension 8 does so ${crossings(8)} times, dimension 32 never.`,
      control: wave(),
    }),
    section(
      "Near is alike",
      p(
        "The dot product of two positions is $\\sum_k \\cos(\\omega_k (s - t))$: the place " +
          "cancels, the distance stays.",
      ),
      closeness(),
    ),
    trap({
      title: "The raw index breaks the promise",
      printed:
        "Note C prints the exponent $2i/d$ for the raw dimension $i$, and promises a dot " +
        "product that depends on distance alone.",
      so:
        "That needs sine and cosine of the *same* frequency side by side: $k = \\lfloor j/2 " +
        "\\rfloor$. With the raw index the products along one diagonal differ by 5.6. Switch " +
        "the exponent above.",
    }),
    section("The note’s own five vectors", waves()),
  );
}

const norms = () => PLACES.map((t) => dot(sinusoid(t, D, false), sinusoid(t, D, false)));
export const lesson = {
  id: "positions",
  note: "Notes A, C, E",
  title: "Positions as waves",
  short: "Near is alike, wherever you stand.",
  lead:
    "One hundred positions, sixty-four dimensions. See why the sinusoid says how far apart " +
    "two words are, and what one letter in the exponent can break.",
  render,
  checks: [
    ...AT.flatMap((t, i) =>
      PRINTED[i].map(
        (value, j) =>
          /** @type {any} */ (() => [`$p_${i}$, $j = ${j}$`, sinusoid(t, 8)[j], value, 0.005]),
      ),
    ),
    () => ["spread along a diagonal, paired", spread("paired"), 0, 1e-12],
    () => ["spread along a diagonal, as printed in C", spread("printed"), 5.6, 0.05],
    () => ["as printed: smallest squared length", Math.min(...norms()), 29.7, 0.05],
    () => ["as printed: largest squared length", Math.max(...norms()), 34.9, 0.05],
    () => [
      "dot products of two positions: smallest above 5 (1: yes)",
      Number(Math.min(...["paired", "printed"].flatMap((kind) => flat(similarity(kind)))) > LOW),
      1,
      0,
    ],
    () => [
      "sign changes of dimension 0: $\\lfloor 99/\\pi \\rfloor$",
      crossings(0),
      Math.floor(99 / Math.PI),
      0,
    ],
    () => ["sign changes of dimension 8", crossings(8), 9, 0],
    () => ["sign changes of dimension 32", crossings(32), 0, 0],
  ],
};
