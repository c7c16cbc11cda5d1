// @ts-check
// Lesson 2, Note C: query and key as linear maps of the plane, and the attention matrix that
// follows.
import {fill, h, svg} from "../dom.js";
import {fixed, number} from "../format.js";
import {
  button,
  choice,
  figure,
  formula,
  heatmap,
  legend,
  plane,
  reading,
  slider,
} from "../marks.js";
import {p, section, trap} from "./article.js";
import {trainedPlane} from "./trained.js";
import {dot, flat, furthest, softmax, times, total, transposed, turned} from "./numbers.js";

const WORDS = ["bank", "money", "loan", "river", "shore"];
const X = [
  [1, 1],
  [1.5, 0.2],
  [1.3, 0.4],
  [0.2, 1.5],
  [0.3, 1.2],
];
const apply = (w, x) => w.map((row) => dot(row, x));
/** The attention of the plane: softmax of (W_Q x)·(W_K x)/√2. */
const pattern = (wq, wk) =>
  X.map((x) => softmax(X.map((y) => dot(apply(wq, x), apply(wk, y)) / Math.SQRT2)));
/** How far a 2×2 matrix is from every rotation times scale (Frobenius). @param {number[][]} m */
const beyond = ([[a, b], [c, d]]) => Math.sqrt(((a - d) ** 2 + (b + c) ** 2) / 2);

const MAPS = {
  same: [
    [1, 0],
    [0, 1],
  ],
  rotation: turned(45),
  shear: [
    [1, 1],
    [0, 1],
  ],
  reflection: [
    [1, 0],
    [0, -1],
  ],
  stretch: [
    [2, 0],
    [0, 0.5],
  ],
};

/** @param {(arrows: any[]) => void} also  what else shows the arrows of the plane */
function playground(also) {
  /** @type {Record<string, any>} */
  const sliders = {};
  const knob = {qTurn: 0, qScale: 1.5, kTurn: 0, kScale: 1.5, both: 0};
  const maps = () => [
    turned(knob.qTurn + knob.both, knob.qScale),
    turned(knob.kTurn + knob.both, knob.kScale),
  ];
  const picture = heatmap({
    rows: WORDS,
    columns: WORDS,
    values: new Float64Array(25),
    name: "Attention in the plane",
    most: 64,
    marginName: "row sum",
    margin: () => "",
  });
  const view = plane({name: "Queries and keys", size: 4, arrows: []}),
    readings = h("div.readings");
  const frame = figure({
    title: "Turn the queries, turn the keys",
    picture: {...picture, el: h("div.beside", view.el, picture.el)},
    legend: legend(),
    below: readings,
    name: "queries and keys in the plane",
    shows:
      "Rows ask, columns answer; each row sums to 1. The plane shows *bank* as a query and " +
      "every word as a key: a key that points where the query points gets the most.",
    hides: "learned maps: five words with made-up coordinates, and two dimensions instead of 64.",
    controls: h(
      "div.stack",
      h(
        "div.beside.tight",
        [
          ["qTurn", "Q turn", -180, 180, 1, "°"],
          ["qScale", "Q scale", 0, 3, 0.05, "×"],
          ["kTurn", "K turn", -180, 180, 1, "°"],
          ["kScale", "K scale", 0, 3, 0.05, "×"],
          ["both", "turn both", -180, 180, 1, "°"],
        ].map(([key, label, min, max, step, unit]) => {
          const it = slider({
            label,
            min,
            max,
            step,
            value: knob[key],
            unit,
            compact: true,
            oninput: (x) => ((knob[key] = x), draw(key === "both")),
          });
          sliders[key] = it;
          return it.el;
        }),
      ),
      h(
        "div.row",
        button("Opposites attract", () => set({qTurn: 0, kTurn: 180})),
        button("Start again", () => set({qTurn: 0, kTurn: 0, both: 0, qScale: 1.5, kScale: 1.5})),
      ),
    ),
  });
  function set(to) {
    Object.assign(knob, to);
    for (const [key, value] of Object.entries(to)) sliders[key].set(value);
    draw();
  }
  function draw(turning = false) {
    const [wq, wk] = maps(),
      weights = pattern(wq, wk),
      still = pattern(turned(knob.qTurn, knob.qScale), turned(knob.kTurn, knob.kScale)),
      m = times(transposed(wq), wk);
    picture.update({values: flat(weights), margin: (i) => fixed(total(weights[i]), 3)});
    const [qx, qy] = apply(wq, X[0]);
    const arrows = [
      ...X.map((x, j) => ({
        name: `key ${WORDS[j]}`,
        label: WORDS[j],
        role: "k",
        x: apply(wk, x)[0],
        y: apply(wk, x)[1],
      })),
      {name: "query bank", label: "bank asks", role: "q", x: qx, y: qy},
    ];
    view.update({arrows});
    also(arrows);
    fill(
      readings,
      reading(
        "$W_Q^\\top W_K$",
        `${m.map((row) => row.map((x) => fixed(x)).join(" ")).join(" / ")}`,
      ),
      reading(
        "what *turn both* changed",
        number(furthest(weights, still), 2),
        furthest(weights, still) < 1e-12 ? "good" : "bad",
      ),
    );
    if (turning) frame.refresh();
  }
  draw();
  frame.refresh();
  return frame.el;
}
function maps() {
  const picture = plane({name: "What a matrix makes of a square", size: 2.6, arrows: []}),
    entries = [1, 0, 0, 1],
    readings = h("div.stack");
  const knobs = ["a", "b", "c", "d"].map((name, i) =>
    slider({
      label: name,
      name: `number ${name}`,
      min: -2,
      max: 2,
      step: 0.05,
      value: entries[i],
      compact: true,
      oninput: (x) => ((entries[i] = x), draw()),
    }),
  );
  const pick = choice({
    label: "W_Q is",
    quiet: true,
    options: Object.keys(MAPS).map((value) => ({value, label: value})),
    value: "shear",
    onchange: set,
  });
  function set(name) {
    flat(MAPS[name]).forEach((x, i) => ((entries[i] = x), knobs[i].set(x)));
    draw();
  }
  function draw() {
    const m = [entries.slice(0, 2), entries.slice(2)],
      far = beyond(m),
      corners = [
        [1, 0],
        [1, 1],
        [0, 1],
        [0, 0],
      ].map((c) => apply(m, c));
    picture.update({
      arrows: [
        {name: "to the right", x: m[0][0], y: m[1][0], role: "q", label: ""},
        {name: "upward", x: m[0][1], y: m[1][1], role: "k", label: ""},
      ],
      under: (at) => [
        square(
          [
            [1, 0],
            [1, 1],
            [0, 1],
            [0, 0],
          ].map(([x, y]) => at(x, y)),
          "square before",
        ),
        square(
          corners.map(([x, y]) => at(x, y)),
          "square after",
        ),
      ],
    });
    fill(
      readings,
      reading("beyond every turn and scale", fixed(far, 3), far < 1e-9 ? "good" : "bad"),
      reading("determinant", fixed(entries[0] * entries[3] - entries[1] * entries[2])),
    );
  }
  const square = (points, name) =>
    svg("polygon", {points: points.map((point) => point.join(",")).join(" "), class: name});
  set("shear");
  return [
    h(
      "div.stack",
      pick.el,
      knobs.map((k) => k.el),
      readings,
    ),
    h("div.small-plane", picture.el),
  ];
}

/** @param {HTMLElement} el @param {any} [app] */
function render(el, app) {
  const [control, shown] = maps(),
    toy = plane({name: "Queries and keys of the lesson", size: 4, arrows: []}),
    trained = app?.model ? trainedPlane(app, toy.el) : null;
  el.append(
    section(
      "Listener and speaker",
      p(
        "Each word plays two parts. As a *query* it listens; as a *key* it speaks. Two " +
          "matrices turn one vector into both, and the dot product says who is heard.",
      ),
      formula(
        "w_{ij} = \\frac{\\exp(\\vec{q}_i \\cdot \\vec{k}_j / \\sqrt{d_k})}{\\sum_\\ell " +
          "\\exp(\\vec{q}_i \\cdot \\vec{k}_\\ell / \\sqrt{d_k})}, \\quad \\vec{q}_i = W_Q " +
          "\\vec{x}_i, \\quad \\vec{k}_j = W_K \\vec{x}_j",
        "C",
      ),
      playground((arrows) => toy.update({arrows})),
    ),
    section(
      "The handle that does nothing",
      p(
        "Move *turn both*. Every query and every key turns, and not one weight changes: " +
          "$(R q) \\cdot (R k) = q \\cdot k$. Attention never sees $W_Q$ and $W_K$ apart, " +
          "only the product $W_Q^\\top W_K$.",
      ),
    ),
    trained
      ? section(
          "A head that you trained",
          p(
            "The head of your model makes queries and keys of many numbers. Two directions " +
              "of them can be drawn: those in which its queries and keys meet most.",
          ),
          trained.el,
        )
      : "",
    trap({
      title: "Not every linear map is a turn and a scaling",
      printed: "Note C: “In 2d, the linear transformation is just a scaling and a rotation.”",
      so:
        "That is two numbers; a $2 \\times 2$ matrix has four. A shear, a reflection or an " +
        "uneven stretch is none of these. What always works is a turn, two scalings and " +
        "another turn.",
      control,
      shown,
    }),
  );
  return trained?.off;
}

const [WQ, WK] = [turned(30, 1.5), turned(-20, 1.2)],
  R = turned(77);
export const lesson = {
  id: "queries-and-keys",
  note: "Note C",
  title: "Queries and keys in the plane",
  short: "Turn both, and nothing changes.",
  lead:
    "Two matrices in two dimensions, and the attention they make. One handle changes " +
    "everything, another changes nothing at all.",
  render,
  checks: [
    () => [
      "row sums: furthest from 1",
      Math.max(...pattern(WQ, WK).map((r) => Math.abs(total(r) - 1))),
      0,
      1e-15,
    ],
    () => [
      "*turn both* by 77°: largest change of a weight",
      furthest(pattern(WQ, WK), pattern(times(R, WQ), times(R, WK))),
      0,
      1e-14,
    ],
    () => [
      "the scores are $x^\\top (W_Q^\\top W_K) x$",
      dot(apply(times(transposed(WQ), WK), X[1]), X[0]),
      dot(apply(WQ, X[0]), apply(WK, X[1])),
      1e-12,
    ],
    () => ["a rotation is within reach", beyond(turned(45, 2)), 0, 1e-12],
    () => ["a shear is not", beyond(MAPS.shear), Math.SQRT1_2, 1e-12],
    () => ["a reflection is not", beyond(MAPS.reflection), Math.SQRT2, 1e-12],
  ],
};
