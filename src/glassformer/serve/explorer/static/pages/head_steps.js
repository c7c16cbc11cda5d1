// @ts-check
// Computation of one head for one query, from the stream to the head's contribution to it, in the
// model's numbers, checked in double precision.
import {fill, h, redrawn, svg} from "../dom.js";
import {labelOf, number, token} from "../format.js";
import {link} from "../link.js";
import {bars, choice, figure, legend, prose, stepper} from "../marks.js";
import {isDark, level, onTheme, ramp} from "../ramp.js";
import {part} from "../wire.js";
import {acts} from "./edit_list.js";
import {follow, HEAD, kindOf, placeOf, sequences} from "./attended.js";

const KEYS = 10,
  DIMS = 12,
  LAST = 9,
  CLOSE = 1e-4;

/**
 * The head recomputed in double precision: scores from q, k, scale and bias, weights from scores, z
 * from weights and v.
 * @param {{header: any, arrays: Record<string, any>}} reply
 */
export function again({header, arrays}) {
  const [S, d] = arrays.k.shape,
    q = arrays.q.data,
    k = arrays.k.data,
    v = arrays.v.data,
    masked = new Set(header.masked);
  const dots = Array.from({length: S}, (_, j) => {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += q[i] * k[j * d + i];
    return sum;
  });
  const scaled = dots.map((x) => x * header.scale),
    scores = scaled.map((x, j) => (masked.has(j) ? -Infinity : x + (arrays.bias?.data[j] ?? 0)));
  const most = Math.max(...scores),
    powers = scores.map((x) => (most === -Infinity ? 0 : Math.exp(x - most))),
    sum = powers.reduce((a, b) => a + b, 0);
  const weights = powers.map((x) => (sum ? x / sum : 0)),
    z = Array.from({length: arrays.v.shape[1]}, (_, i) =>
      weights.reduce((all, p, j) => all + p * v[j * arrays.v.shape[1] + i], 0),
    );
  const far = (mine, theirs, skip) =>
    mine.reduce(
      (worst, x, i) => (skip?.has(i) ? worst : Math.max(worst, Math.abs(x - theirs[i]))),
      0,
    );
  return {
    dots,
    scaled,
    scores,
    powers,
    sum,
    weights,
    z,
    off: {
      scores: far(scores, arrays.scores.data, masked),
      weights: far(weights, arrays.weights.data),
      z: far(z, arrays.z.data),
    },
  };
}

const size = (vector) => Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));

/** A vector as a strip of colours, with its length and its first numbers. */
function strip(name, vector, role = "") {
  const canvas = h("canvas.strip", {width: vector.length, height: 1}),
    high = Math.max(...vector.map(Math.abs)) || 1;
  const draw = () => {
    const context = canvas.getContext("2d"),
      image = context.createImageData(vector.length, 1),
      colours = ramp("signed", isDark());
    new Uint32Array(image.data.buffer).set(
      Array.from(vector, (x) => colours[level(x, {kind: "signed", high})]),
    );
    context.putImageData(image, 0, 0);
  };
  draw();
  const off = onTheme(() => (canvas.isConnected ? draw() : off()));
  return h(
    "div",
    {class: `strip-row ${role}`},
    role ? h("b.vec-role", role) : h("span"),
    h("span.strip-name", prose(name)),
    h(
      "span.strip-picture",
      {
        role: "img",
        "aria-label":
          `${vector.length} numbers from ${number(Math.min(...vector), 3)} to ` +
          `${number(Math.max(...vector), 3)}`,
      },
      canvas,
    ),
    h(
      "span.strip-said",
      `${vector.length} numbers, length ${number(size(vector), 4)}: `,
      h("span.strip-numbers", Array.from(vector.slice(0, 3), (x) => number(x, 3)).join("  "), " …"),
    ),
  );
}

/** @param {any} app */
export function steps(app) {
  const {state} = app,
    said = h("div"),
    body = h("div.inside"),
    words = h("p.step-said", {"aria-live": "polite"}),
    checked = h("div.inside-check");
  let got = /** @type {any} */ (null),
    at = LAST,
    sort = "weight";

  const STEPS = () => {
    const {header} = got,
      square = Math.abs(header.scale - 1 / Math.sqrt(header.d_head)) < 1e-6;
    return [
      ["the stream", "The query’s vector $x$ as it comes down the stream to this layer."],
      [
        header.norm || "no norm",
        header.norm
          ? `${header.norm} brings it to a fixed size before it is read.`
          : "This model normalizes behind the block: the head reads $x$ as it is.",
      ],
      [
        "query",
        `$W_Q$ makes of it the query $\\color{q}{q}$, ${header.d_head} numbers: what this ` +
          `element asks${header.rotary ? ". It is turned by its position" : ""}.`,
      ],
      [
        "keys and values",
        `Every element has a key $\\color{k}{k}$, what it answers to, and a value ` +
          `$\\color{v}{v}$, what it would ` +
          `say${header.rotary ? "; keys are turned by their positions, too" : ""}.`,
      ],
      ["dot products", "The query meets the key, number by number; the products are added up."],
      [
        square ? "divided" : "scaled",
        square
          ? `Divided by $\\sqrt{d_k} = \\sqrt{${header.d_head}}$, so that scores do not grow ` +
            "with the " +
            `width${got.arrays.bias ? ", and the bias of the distance is added" : ""}.`
          : `Multiplied by ${number(header.scale, 4)}, this model’s own ` +
            `scale${got.arrays.bias ? ", and the bias of the distance is added" : ""}.`,
      ],
      [
        "mask",
        header.masked.length
          ? `${header.masked.length} of ${got.arrays.k.shape[0]} keys may not be seen: their ` +
            "score is −∞."
          : "Nothing is masked: this query may see every key.",
      ],
      [
        "softmax",
        "$e$ to the power of each score, divided by their sum: weights that are positive " +
          "and sum to 1.",
      ],
      [
        "weighed sum",
        "Every value is multiplied by its weight, and added up: $z = \\sum_j p_j v_j$.",
      ],
      [
        "output",
        "$W_O$ brings $z$ back to the width of the stream: this is all that the head adds to it.",
      ],
    ];
  };
  const walk = stepper({
    count: LAST + 1,
    value: LAST,
    label: "Step",
    onchange: (to) => {
      at = to;
      draw();
    },
  });
  const by = choice({
    label: "Keys in order of",
    quiet: false,
    value: sort,
    options: [
      {value: "weight", label: "weight"},
      {value: "place", label: "place"},
    ],
    onchange: (to) => {
      sort = to;
      draw();
    },
  });
  const products = bars({
      items: [],
      name: "Products, dimension by dimension",
      valueName: "product",
      format: (x) => number(x, 4),
    }),
    productsNote = h("p.soft.bars-note");
  const picture = {
    el: h("div", body, words),
    table: () =>
      got
        ? {
            columns: [
              "key",
              "q·k",
              "scaled",
              ...(got.arrays.bias ? ["bias"] : []),
              "score",
              "exp(score − max)",
              "weight",
            ],
            rows: got.keys.map((one, j) => [
              labelOf(one),
              got.mine.dots[j],
              got.mine.scaled[j],
              ...(got.arrays.bias ? [got.arrays.bias.data[j]] : []),
              number(got.mine.scores[j]),
              got.mine.powers[j],
              got.arrays.weights.data[j],
            ]),
          }
        : {columns: [], rows: []},
    toSvg() {
      const {columns, rows} = picture.table(),
        font = {"font-size": 13, "font-family": "sans-serif", fill: getComputedStyle(body).color},
        shown = rows.slice(0, 40);
      const line = (cells, y, more = {}) =>
        cells.map((cell, i) =>
          svg(
            "text",
            {...font, ...more, x: i ? 150 + 95 * i : 140, y, "text-anchor": "end"},
            typeof cell === "number" ? number(cell) : cell,
          ),
        );
      return svg(
        "svg",
        {viewBox: `0 0 ${170 + 95 * (columns.length - 1)} ${50 + 22 * shown.length}`},
        line(columns, 24, {"font-weight": 600}),
        shown.map((row, r) => line(row, 50 + 22 * r)),
      );
    },
    summary: () =>
      got
        ? `Query ${labelOf(got.queries[got.header.query])}: step ${at + 1} of 10, ` +
          `${STEPS()[at][0]}.`
        : "",
  };
  const frame = figure({
    title: "One query, ten steps",
    name: "one query ten steps",
    wide: true,
    picture,
    controls: [walk.el, by.el],
    legend: legend({kind: "signed", label: "of a strip’s largest number"}),
    below: checked,
    shows:
      "The numbers that the model itself used for this query. What follows from $q$, $k$ " +
      "and $v$ is computed here again in double precision, and the largest difference is " +
      "printed.",
    hides:
      "the matrices $W_Q$, $W_K$, $W_V$ and $W_O$: their results are the model’s, and are " +
      "not computed again here.",
  });
  const productFrame = figure({
    title: "One dot product",
    name: "one dot product",
    picture: products,
    below: productsNote,
    shows:
      "The products $q_i k_i$ of the selected query and key, the largest first: which " +
      "dimensions bring the two together, and which hold them apart.",
    hides:
      "what a dimension means. Only $W_Q^\\top W_K$ matters: turn both alike, and every " +
      "product changes while the sum stays.",
  });

  function draw() {
    if (!got) return;
    const {header, arrays, mine, keys, queries} = got,
      names = STEPS(),
      chosen = state.get().key ?? -1;
    const order = [...keys.keys()].sort((a, b) =>
      sort === "weight" ? mine.weights[b] - mine.weights[a] || a - b : a - b,
    );
    let list = order.slice(0, KEYS);
    if (chosen >= 0 && chosen < keys.length && !list.includes(chosen))
      list = [...list.slice(0, KEYS - 1), chosen];
    const rest = order.filter((j) => !list.includes(j)),
      later = (step) => ({
        class: `${step > at ? "later" : step === at ? "now" : ""} num`,
        "aria-hidden": step > at,
      });
    const hidden = new Set(header.masked),
      vector = (j) => part(arrays.v, j);
    const columns = [
      ["k", 3, (j) => number(size(part(arrays.k, j)), 3)],
      ["q · k", 4, (j) => number(mine.dots[j], 4)],
      [
        arrays.bias ? "scaled + bias" : "scaled",
        5,
        (j) => number(mine.scaled[j] + (arrays.bias?.data[j] ?? 0), 4),
      ],
      ["score", 6, (j) => (hidden.has(j) ? "−∞" : number(arrays.scores.data[j], 4))],
      ["exp", 7, (j) => number(mine.powers[j], 4)],
      ["weight p", 7, (j) => h("strong", number(arrays.weights.data[j], 4))],
      ["length of p v", 8, (j) => number(size(vector(j)) * arrays.weights.data[j], 4)],
    ];
    const strips = [
      strip("$x$", arrays.x.data),
      at >= 1 ? strip(header.norm ? `${header.norm}$(x)$` : "$x$", arrays.norm.data) : null,
      at >= 2 ? strip("$q$", arrays.q.data, "q") : null,
    ];
    const rows = list.map((j) =>
      h(
        "tr",
        {class: j === chosen ? "chosen" : ""},
        h(
          "th",
          {scope: "row"},
          h(
            "button.key-button",
            {
              type: "button",
              "aria-pressed": j === chosen,
              onclick: () => state.set({key: j}, {replace: true}),
            },
            token(keys[j]),
            h("span.soft", ` ${j}`),
          ),
        ),
        columns.map(([, step, cell]) => h("td", later(step), step > at ? "·" : cell(j))),
      ),
    );
    const added = (step, values) => (step > at ? "·" : number(values, 4));
    redrawn(body, () =>
      fill(
        body,
        h("div.strips", strips),
        h(
          "div.steps",
          {role: "region", tabindex: 0, "aria-label": "Key by key"},
          h(
            "table",
            h("caption.sr", `Query ${labelOf(queries[header.query])}, step ${at + 1} of 10`),
            h(
              "thead",
              h(
                "tr",
                h("th", {scope: "col"}, "key"),
                columns.map(([name, step]) =>
                  h("th", {scope: "col", ...later(step)}, name === "k" ? "length of k" : name),
                ),
              ),
            ),
            h("tbody", rows),
            h(
              "tfoot",
              rest.length > 0 &&
                h(
                  "tr.soft",
                  h("th", {scope: "row"}, `${number(rest.length)} other keys`),
                  columns.map(([, step], i) =>
                    h(
                      "td",
                      later(step),
                      i === 4
                        ? added(
                            7,
                            rest.reduce((sum, j) => sum + mine.powers[j], 0),
                          )
                        : i === 5
                          ? added(
                              7,
                              rest.reduce((sum, j) => sum + arrays.weights.data[j], 0),
                            )
                          : "",
                    ),
                  ),
                ),
              h(
                "tr",
                h("th", {scope: "row"}, "sum"),
                columns.map(([, step], i) =>
                  h(
                    "td",
                    later(step),
                    i === 4
                      ? added(7, mine.sum)
                      : i === 5
                        ? added(
                            7,
                            arrays.weights.data.reduce((a, b) => a + b, 0),
                          )
                        : "",
                  ),
                ),
              ),
            ),
          ),
        ),
        h(
          "div.strips",
          at >= 8 && strip("$z$", arrays.z.data, "v"),
          at >= 9 && strip("$z W_O$", arrays.out.data),
          at >= 9 &&
            h(
              "p.soft",
              `The stream has length ${number(size(arrays.x.data), 4)} here; the head ` +
                `adds ${number(size(arrays.out.data), 4)}.`,
            ),
        ),
      ),
    );
    fill(words, h("strong", names[at][0]), ". ", prose(names[at][1]));
    drawCheck();
    drawProducts();
    frame.refresh();
  }

  function drawCheck() {
    const {off} = got.mine,
      edited = state.get().edits.filter((edit) => acts(edit, placeOf(app), state.get().head)),
      good = Math.max(...Object.values(off)) < CLOSE;
    const said = good
      ? ["good", "✓ agrees with the model within the precision of float32"]
      : edited.length
        ? ["", "an edit acts inside this head: the difference is its work"]
        : ["bad", "✗ differs from the model"];
    fill(
      checked,
      h(
        "p",
        {class: `inside-verdict ${said[0]}`},
        h("strong", "Computed again in float64: "),
        said[1],
      ),
      h(
        "div.readings",
        Object.entries(off).map(([name, value]) =>
          h(
            "p.reading",
            h("span", `largest |Δ| of ${name}`),
            h("output.value", {dataset: {check: name}}, number(value, 3)),
          ),
        ),
      ),
    );
  }

  function drawProducts() {
    const {arrays, header, keys, queries, mine} = got,
      key = state.get().key ?? mine.weights.indexOf(Math.max(...mine.weights)),
      k = part(arrays.k, key),
      q = arrays.q.data;
    const all = Array.from(q, (x, i) => ({i, value: x * k[i]})).sort(
        (a, b) => Math.abs(b.value) - Math.abs(a.value),
      ),
      top = all.slice(0, DIMS),
      rest = all.slice(DIMS);
    const items = top.map(({i, value}) => ({
      label: `dimension ${i}`,
      value,
      note: `${number(q[i], 3)} · ${number(k[i], 3)}`,
    }));
    if (rest.length)
      items.push({
        label: `${rest.length} others`,
        value: rest.reduce((sum, one) => sum + one.value, 0),
        note: "together",
      });
    products.update({items, name: "Products, dimension by dimension"});
    fill(
      productsNote,
      "Query ",
      token(queries[header.query]),
      ", key ",
      token(keys[key]),
      `: they sum to ${number(mine.dots[key], 5)}, scaled ${number(mine.scaled[key], 5)}.`,
    );
    productFrame.refresh();
  }

  const hint = h("p.soft"),
    lesson = h(
      "p.soft",
      "The same with small whole numbers: ",
      link(app, {page: "learn", lesson: "self-attention"}, "the lecture’s example, 102 and 99"),
      "; in two dimensions: ",
      link(
        app,
        {page: "learn", lesson: "queries-and-keys"},
        "this head’s queries and keys in the plane",
      ),
      ".",
    );
  const off = follow(app, [...HEAD, "query"], said, async (fresh) => {
    const looked = await app.looked(),
      {queries, keys} = sequences(looked, kindOf(app)),
      chosen = state.get().query,
      query = Math.min(chosen ?? queries.length - 1, queries.length - 1);
    const reply = await app.ask("step", {query}, {key: "step"});
    if (!fresh()) return;
    got = {...reply, mine: again(reply), queries, keys};
    fill(
      hint,
      "The query is ",
      token(queries[query]),
      h("span", ` ${query}`),
      chosen === null ? "; pick another in the matrix above." : ".",
    );
    draw();
  });
  const offKey = state.subscribe((now, before) => now.key !== before.key && draw());
  return {
    el: h("div", hint, said, frame.el, productFrame.el, lesson),
    off: () => {
      off();
      offKey();
      walk.stop();
    },
  };
}
