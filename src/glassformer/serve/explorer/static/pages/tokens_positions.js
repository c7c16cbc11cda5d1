// @ts-check
// Position encodings of the model: added vectors, rotations of q and k, or a bias of the scores.
import {fill, h} from "../dom.js";
import {choice, figure, heatmap, legend, lines, slider} from "../marks.js";
import {schema} from "../schema.js";
import {round} from "./aimed.js";
import {follow, LOOK} from "./attended.js";

const ADDED = {
  learned: "learned in training, one vector for each place",
  sinusoidal: "sines and cosines of the place, slower from dimension to dimension",
  sinusoidal_printed: "sines and cosines as Note C prints them",
  sinusoidal_halves: "all sines, then all cosines",
  sinusoidal_2d: "sines and cosines, the row of the patch in one half and its column in the other",
};
const BIASED = {
  alibi:
    "ALiBi: each head takes off a fixed amount for each step of distance, the first heads most",
  relative: "a learned number for each head and each distance",
  buckets: "a learned number for each head and each range of distances",
};
const MOST = 1024,
  HIGH = 200;

/**
 * The angles of rotary positions, place · base^(−2k/width), for each pair k of numbers:
 * [places][width / 2]; a factor divides them, those of short wavelengths not, where two are given.
 * @param {number[]} places @param {number} width @param {number} base @param {number} factor
 * @param {[number, number] | null} wavelengths
 */
export function angles(places, width, base, factor = 1, wavelengths = null) {
  const each = Array.from({length: width / 2}, (_, k) => {
    const angle = base ** ((-2 * k) / width);
    if (!wavelengths) return angle / factor;
    const [short, long] = wavelengths.map((length) => 1 / length),
      share = (short - angle / (2 * Math.PI)) / (short - long),
      kept = 1 - Math.min(1, Math.max(0, share));
    return angle * (kept + (1 - kept) / factor);
  });
  return places.map((t) => each.map((angle) => t * angle));
}

/**
 * The same for patches in a grid: half of the pairs turn by the row, half by the column, both from
 * 1; other elements are not rotated. @param {any[]} elements @param {number} width @param {number}
 * base
 */
export function gridAngles(elements, width, base) {
  const [rows, columns] = ["row", "column"].map((name) =>
    angles(
      elements.map((one) => (one.row === null ? 0 : one[name] + 1)),
      width / 2,
      base,
    ),
  );
  return rows.map((row, t) => [...row, ...columns[t]]);
}

/**
 * Cosine similarity of two vectors. @param {ArrayLike<number>} a @param
 * {ArrayLike<number>} b
 */
function cosine(a, b) {
  let ab = 0,
    aa = 0,
    bb = 0;
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa && bb ? ab / Math.sqrt(aa * bb) : 0;
}

/** @param {any} app */
export function positions(app) {
  const {state, model} = app,
    {position, rotary_base: base, rotary_factor, rotary_wavelengths} = model.config,
    said = h("div"),
    key = h("div"),
    paired = model.architecture === "encoder_decoder";
  let stack = "",
    pointed = 0; // the row that is pointed at
  if (position === "none")
    return {
      el: h(
        "p.soft",
        "This model is told nothing of positions: it sees its elements as a set, unless " +
          "its mask says who came before.",
      ),
      off: () => {},
    };
  const grid = position === "rotary_2d",
    kind = position === "rotary" || grid ? "turn" : position in ADDED ? "added" : "bias";
  const which = paired
    ? choice({
        label: "Sequence",
        value: "",
        options: [
          {value: "", label: "target"},
          {value: "source", label: "source"},
        ],
        onchange: (to) => ((stack = to), again()),
      })
    : null;
  const layer =
    kind === "bias" && model.layers > 1
      ? slider({
          label: "layer",
          min: 0,
          max: model.layers - 1,
          step: 1,
          value: state.get().layer,
          compact: true,
          oninput: (x) => state.set({layer: Math.round(x)}, {replace: true}),
        })
      : null;
  const strip = heatmap({
    rows: [""],
    columns: [""],
    values: [0],
    kind: "signed",
    scale: "linear",
    name: "Positions",
    rowName: kind === "bias" ? "head" : "number",
    columnName: "place",
    valueName: kind === "turn" ? "cosine of the angle" : kind === "bias" ? "bias" : "value",
    digits: false,
    most: 40,
    cellHeight: 6,
    onselect: (row, column) => {
      pointed = row;
      if (kind !== "bias" && !stack) state.set({query: column}, {replace: true});
    },
  });
  const near = lines({
    series: [{name: "", x: [0, 1], y: [0, 0]}],
    name: "How alike places are",
    xName: "place",
    yName: "",
    height: 240,
    y: [-1, 1],
  });
  const texts = {
    turn: grid
      ? [
          "Where each stands: angles",
          "Rotary positions of a grid. In every head the first half of the pairs of " +
            "numbers of $q$ and $k$ is turned by the patch’s row, the other by its column, " +
            `in each the fastest pair first. The colour is the cosine of the angle: $\\cos(t ` +
            `\\cdot ${base}^{-2k/${model.d_head / 2}})$, $t$ from 1.`,
          "the stream, which is told no position: only queries and keys are turned, in " +
            "every layer, and a dot product then depends on how many rows and columns lie " +
            "between.",
        ]
      : [
          "Where each stands: angles",
          "Rotary positions. In every head each pair of numbers of $q$ and $k$ is turned " +
            "by an angle that grows with the place, the fastest pair in the first row, and " +
            `the slowest at the bottom. The colour is the cosine of the angle: $\\cos(t ` +
            `\\cdot ${base}^{-2k/${model.d_head}})$.`,
          "the stream, which is told no position: only queries and keys are turned, in " +
            "every layer, and a dot product then depends on the distance alone.",
        ],
    added: [
      "Where each stands: vectors",
      `A vector for each place is added to the element’s own: ${ADDED[position]}. One ` +
        "column is one vector.",
      "how much of it is left after the first layers, and whether a head reads it at all.",
    ],
    bias: [
      "Where each stands: a bias",
      `Nothing is added to the stream, but the scores are: ${BIASED[position]}. Each row ` +
        "is a head, each column a key; the query is the chosen token, or the last.",
      "the scores themselves, to which this is added before the softmax.",
    ],
  }[kind];
  const frame = figure({
    title: texts[0],
    name: "positions",
    wide: true,
    picture: strip,
    controls: which || layer ? [which?.el, layer?.el] : null,
    legend: key,
    shows: texts[1],
    hides: texts[2],
  });
  const second =
    kind === "bias"
      ? null
      : figure({
          title: "Similarity of positions",
          name: "places alike",
          picture: near,
          shows:
            kind === "turn"
              ? "What is left of the dot product of a query and an equal key when the key " +
                "stands elsewhere: the mean of the cosines over all pairs. It is 1 at the " +
                "same place and depends on the distance alone, a patch’s in rows and columns."
              : "The cosine between the vector of one place and that of every other. A model " +
                "that is to find neighbours needs them alike; one that is to find a place " +
                "needs it unlike all others.",
          hides: "the content: what an element says decides with it.",
        });
  const el = h("div", said, frame.el, second?.el);
  let turn = () => {};
  const again = () => turn();

  const draw = async (fresh) => {
    const looked = await app.looked(),
      source = stack === "source",
      list = source ? looked.source_elements : looked.elements,
      chosen = state.get().query,
      at = !source && chosen !== null && chosen < list.length ? chosen : list.length - 1;
    if (!list.length) return;
    const T = Math.min(MOST, list.length),
      columns = list.slice(0, T);
    let rows,
      vectors,
      names,
      high = 1,
      turned = /** @type {number[][]} */ ([]);
    if (kind === "turn") {
      turned = grid
        ? gridAngles(columns, model.d_head, base)
        : angles([...columns.keys()], model.d_head, base, rotary_factor, rotary_wavelengths);
      vectors = turned.map((row) => row.map(Math.cos));
      names = (k) => (grid ? (k < rows / 2 ? `row ${k}` : `column ${k - rows / 2}`) : `pair ${k}`);
      rows = model.d_head / 2;
    } else if (kind === "added") {
      const {header} = await app.call("points", {look: app.look()}),
        names_ = header.points.map((/** @type {any} */ one) => one.name),
        point =
          source && names_.includes("source_embed.positions")
            ? "source_embed.positions"
            : "embed.positions";
      const {values} = (await app.call("raw", {look: app.look(), point})).arrays;
      if (!fresh()) return;
      const [, D] = values.shape;
      vectors = columns.map((_, t) => values.data.subarray(t * D, (t + 1) * D));
      names = (d) => `dim ${d}`;
      rows = D;
      high = round(
        Math.max(
          1e-6,
          values.data.reduce((most, x) => Math.max(most, Math.abs(x)), 0),
        ),
      );
    } else {
      const side = source ? "encoder" : "",
        heads = Math.min(schema.limits.bias_heads, model.heads),
        found = await Promise.all(
          Array.from({length: heads}, (_, head) =>
            app.ask("step", {side, site: "self", head, query: at}),
          ),
        );
      const hidden = new Set(found[0].header.masked),
        biases = found.map(({arrays}) => arrays.bias?.data ?? new Float32Array(list.length));
      vectors = columns.map((_, t) => biases.map((bias) => (hidden.has(t) ? 0 : bias[t])));
      names = (head) => `head ${head}`;
      rows = heads;
      high = round(Math.max(1e-6, ...vectors.flat().map(Math.abs)));
      strip.update({masked: hidden.size ? (_, t) => hidden.has(t) : null});
    }
    if (!fresh()) return;
    const shown =
      rows > HIGH
        ? Array.from({length: HIGH}, (_, i) => Math.floor((i * rows) / HIGH))
        : [...Array(rows).keys()];
    strip.update({
      rows: shown.map((r) => ({label: names(r), kind: "word"})),
      columns,
      values: Float32Array.from(shown.flatMap((r) => columns.map((_, t) => vectors[t][r]))),
      high,
      cellHeight: kind === "bias" ? 22 : Math.max(1.5, Math.min(9, 220 / shown.length)),
      selected: {row: Math.min(pointed, shown.length - 1), column: Math.min(at, T - 1)},
    }); // set, so that coming by the Tab key selects nothing
    fill(
      key,
      legend({
        kind: "signed",
        high,
        label: kind === "turn" ? "cosine" : kind === "bias" ? "added to the score" : "value",
      }),
      rows > shown.length > 0 &&
        h("p.soft", `${shown.length} of ${rows} dimensions are drawn, evenly spread.`),
    );
    if (second) {
      const place = Math.min(at, T - 1),
        similar = Float32Array.from(vectors, (_, t) =>
          kind === "turn"
            ? turned[t].reduce((sum, angle, k) => sum + Math.cos(angle - turned[place][k]), 0) /
              rows
            : cosine(vectors[place], vectors[t]),
        );
      near.update({
        series: [{name: `place ${place}`, x: [...columns.keys()], y: similar, dots: [place]}],
        y: [Math.min(0, Math.floor(10 * Math.min(...similar)) / 10), 1],
        at: place,
      });
      second.el.hidden = T < 3;
      second.refresh();
    }
    frame.refresh();
  };
  const start = () =>
    follow(
      app,
      kind === "turn"
        ? ["input", "checkpoint", "query"]
        : [...LOOK, "query", ...(kind === "bias" ? ["layer"] : [])],
      said,
      draw,
    );
  let off = start();
  turn = () => {
    off();
    off = start();
  };
  return {
    el,
    off: () => {
      off();
      strip.destroy();
    },
  };
}
