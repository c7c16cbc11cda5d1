// @ts-check
// A trained head in the plane of lesson 2: the two strongest directions in which its queries and
// keys meet.
//
//   S = Q (K − k̄)ᵀ = σ₁ u₁ v₁ᵀ + σ₂ u₂ v₂ᵀ + …      query i stands at √σ (u₁ᵢ, u₂ᵢ), key j at √σ
// (v₁ⱼ, v₂ⱼ):
// their dot product in the plane is the best that two dimensions can make of their score (Eckart
// and Young 1936).
// The mean key is taken off, since what it adds to a row is the same for all keys, and softmax does
// not see it.
import {fill, h} from "../dom.js";
import {labelOf, number, percent, token} from "../format.js";
import {figure, heatmap, legend, plane, reading, select, slider} from "../marks.js";
import {part} from "../wire.js";
import {follow, HEAD, kindName, kindOf, placeOf, sequences} from "../pages/attended.js";
import {strip} from "../pages/aimed.js";
import {noise, softmax, times, transposed, turned} from "./numbers.js";

const MOST = 256,
  NAMED = 8,
  ROUNDS = 600,
  SURE = 1e-13;

/**
 * The two largest singular values of Q Kᵀ, where each query and key stands in their plane, and the
 * share of all that the two hold.
 * @param {number[][]} q [T][d] @param {number[][]} k [S][d]
 */
export function strongestPlane(q, k) {
  const d = q[0].length,
    A = times(transposed(q), q),
    B = times(transposed(k), k); // Q Kᵀ y = σ² …: all in d dimensions
  const M = times(A, B),
    unit = (v) => {
      const size = Math.sqrt(dotB(v, v));
      return size > 0 ? v.map((x) => x / size) : v;
    };
  const dotB = (a, b) => times([a], times(B, transposed([b])))[0][0];
  // K w for an eigenvector w of QᵀQ KᵀK is a right singular vector; orthonormal in the product of
  // KᵀK.
  let w = [noise(1, d), noise(2, d)],
    last = [0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    const one = unit(transposed(times(M, transposed([w[0]])))[0]);
    let two = transposed(times(M, transposed([w[1]])))[0];
    const along = dotB(one, two);
    two = unit(two.map((x, i) => x - along * one[i]));
    w = [one, two];
    const now = w.map((v) =>
      Math.sqrt(
        Math.max(
          0,
          times(
            [times(B, transposed([v])).flat()],
            times(A, transposed([times(B, transposed([v])).flat()])),
          )[0][0],
        ),
      ),
    );
    const done = now.every((x, i) => Math.abs(x - last[i]) <= SURE * (now[0] || 1));
    last = now;
    if (done && round > 3) break;
  }
  const [s1, s2] = last,
    right = w.map((v) => times(k, transposed([v])).flat()),
    left = right.map((v, i) => {
      const u = times(q, times(transposed(k), transposed([v]))).flat();
      return u.map((x) => (last[i] > 0 ? x / last[i] : 0));
    });
  let all = 0; // ‖Q Kᵀ‖² = trace(QᵀQ KᵀK)
  for (let i = 0; i < d; i++) all += M[i][i];
  const place = (vectors) =>
    vectors[0].map((_, i) => [Math.sqrt(s1) * vectors[0][i], Math.sqrt(s2) * vectors[1][i]]);
  return {
    sigma: [s1, s2],
    share: all > 0 ? Math.min(1, (s1 * s1 + s2 * s2) / all) : 0,
    queries: place(left),
    keys: place(right),
  };
}

const rowsOf = (matrix) =>
  Array.from({length: matrix.shape[0]}, (_, i) => Array.from(part(matrix, i)));
const centred = (rows) => {
  const mean = rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);
  return rows.map((row) => row.map((x, i) => x - mean[i]));
};

/** @param {any} app @param {any} toy  the lesson's own plane, to stand beside */
export function trainedPlane(app, toy) {
  const {state, model} = app,
    said = h("div"),
    readings = h("div.readings"),
    room = h("div");
  const number_ = (name, count) =>
    select({
      label: name,
      value: String(state.get()[name]),
      options: Array.from({length: count}, (_, i) => ({value: String(i), label: String(i)})),
      onchange: (to) => state.set({[name]: Number(to)}, {replace: true}),
    });
  const kinds = model.attentions,
    layer = number_("layer", kindOf(app).layers),
    head = number_("head", kindOf(app).heads);
  const which =
    kinds.length > 1
      ? select({
          label: "attention",
          value: `${state.get().side}/${state.get().site}`,
          options: kinds.map((kind) => ({
            value: `${kind.side}/${kind.site}`,
            label: kindName(kind),
          })),
          onchange: (to) => {
            const [side, site] = to.split("/");
            state.set({side, site, query: null, key: null});
          },
        })
      : null;
  const turn = slider({
    label: "turn both",
    min: -180,
    max: 180,
    step: 1,
    value: 0,
    unit: "°",
    compact: true,
    oninput: () => draw(),
  });
  const view = plane({name: "Queries and keys of the head", size: 1, arrows: []}),
    asks = strip({
      elements: [],
      name: "Who asks",
      kind: "attention",
      onselect: (query) => state.set({query}, {replace: true}),
    });
  const maps = ["from the plane alone", "the head’s own"].map((name) =>
    heatmap({
      rows: [""],
      columns: [""],
      values: [0],
      name: `Attention ${name}`,
      most: 26,
      digits: false,
      onselect: (row) => found && state.set({query: row}, {replace: true}),
    }),
  );
  let found = /** @type {any} */ (null);
  const picture = {
    el: h(
      "div",
      h(
        "div.beside.planes",
        h("div", h("p.sub", "the lesson’s words"), toy),
        h("div", h("p.sub", "the head that you trained"), view.el),
      ),
      h("p.sub", "who asks"),
      asks.el,
      h(
        "div.beside.planes",
        maps.map((map, i) =>
          h(
            "div",
            h("p.sub", ["weights from the plane alone", "the head’s own weights"][i]),
            map.el,
          ),
        ),
      ),
    ),
    toSvg: () => view.el,
    summary: view.summary,
    table: () =>
      found
        ? {
            columns: ["element", "query across", "query up", "key across", "key up"],
            rows: Array.from(
              {length: Math.max(found.queries.length, found.keys.length)},
              (_, i) => [
                labelOf(found.queries[i] ?? found.keys[i]),
                ...(found.plane.queries[i] ?? ["", ""]),
                ...(found.plane.keys[i] ?? ["", ""]),
              ],
            ),
          }
        : {columns: [], rows: []},
  };
  const frame = figure({
    title: "The same plane, with a trained head",
    name: "trained head in the plane",
    wide: true,
    picture,
    legend: legend({masked: true}),
    below: readings,
    controls: [which?.el, layer.el, head.el, turn.el],
    shows:
      "The two strongest directions of this head’s scores on the present input (the " +
      "singular vectors of $Q K^\\top$; $q$ and $k$ as the scores are made of them, the " +
      "keys around their mean, which softmax does not see). A key that points where the " +
      "query points gets much, as in the lesson. *Turn both* turns all arrows and changes " +
      "no weight, here as there.",
    hides:
      "the other directions. The share says how much of $\\|Q K^\\top\\|^2$ these two " +
      "hold, and the two matrices how far they carry: where they differ, the head used " +
      "more than a plane. Other inputs have other strongest directions.",
  });
  room.append(said, frame.el);

  function draw() {
    if (!found) return;
    const {queries, keys, plane: where, own, mine, open, best} = found,
      chosen = state.get().query,
      at = chosen !== null && chosen < queries.length ? chosen : queries.length - 1,
      S = keys.length;
    const R = turned(turn.value),
      rotated = ([x, y]) => [R[0][0] * x + R[0][1] * y, R[1][0] * x + R[1][1] * y];
    const reach = (list) => Math.max(1e-12, ...list.map(([x, y]) => Math.hypot(x, y))),
      c = Math.sqrt(reach(where.keys) / reach(where.queries)); // c q · k / c is the same score
    const size = 1.12 * Math.max(reach(where.keys) / c, reach(where.queries) * c),
      order = [...Array(S).keys()]
        .filter((j) => open(at, j))
        .sort((a, b) => own[at * S + b] - own[at * S + a]),
      named = new Set(order.slice(0, NAMED));
    const name = (one) => token(one).textContent ?? "",
      [qx, qy] = rotated(where.queries[at]);
    view.update({
      size,
      arrows: [
        ...order
          .slice()
          .reverse()
          .map((j) => {
            const [x, y] = rotated(where.keys[j]);
            return {
              name: `key ${name(keys[j])} ${j}`,
              label: named.has(j) ? name(keys[j]) : "",
              role: named.has(j) ? "k" : "k faint",
              dot: !named.has(j),
              x: x / c,
              y: y / c,
            };
          }),
        {
          name: `query ${name(queries[at])}`,
          label: `${name(queries[at])} asks`,
          role: "q",
          x: qx * c,
          y: qy * c,
        },
      ],
    });
    asks.update({elements: queries, selected: at});
    maps.forEach((map, i) =>
      map.update({
        rows: queries,
        columns: keys,
        values: i ? own : mine,
        masked: found.closed ? (r, j) => !open(r, j) : null,
        selected: {row: at, column: order[0] ?? 0},
      }),
    );
    fill(
      readings,
      reading("share of $\\|Q K^\\top\\|^2$ in this plane", percent(where.share, 3)),
      reading("weight that the plane puts elsewhere, on average", percent(best.apart, 3)),
      reading(
        "queries whose first key is the same",
        `${number(best.same)} of ${number(queries.length)}`,
      ),
      found.bias
        ? h(
            "p.soft",
            "This model adds a bias of the distance to its scores, which the plane has not.",
          )
        : null,
    );
    frame.refresh();
  }

  const offs = [
    follow(app, HEAD, said, async (fresh) => {
      const looked = await app.looked(),
        kind = kindOf(app),
        {layer: l, head: n} = state.get(),
        {queries, keys} = sequences(looked, kind),
        place = placeOf(app, l);
      layer.set(String(l));
      head.set(String(n));
      frame.el.hidden = Math.max(queries.length, keys.length) > MOST || queries.length < 2;
      if (frame.el.hidden) {
        found = null;
        throw Object.assign(
          new Error(
            queries.length < 2
              ? "One element alone has no plane; write a longer input."
              : `The plane is computed for up to ${MOST} elements, and this input has ` +
                  `${Math.max(queries.length, keys.length)}; take a shorter one.`,
          ),
          {name: "WireError"},
        );
      }
      const look = app.look(),
        tensor = (name) =>
          app.call("raw", {look, point: `${place}.${name}`}).then(({arrays}) => arrays.values);
      const [q, k, pattern, {header, arrays}] = await Promise.all([
        tensor("q"),
        tensor("k"),
        tensor("pattern"),
        app.call("step", {look, side: kind.side, site: kind.site, layer: l, head: n, query: 0}),
      ]);
      if (!fresh()) return;
      const group = Math.floor(n / (q.shape[0] / k.shape[0])),
        Q = rowsOf({shape: q.shape.slice(1), data: part(q, n)}),
        K = centred(rowsOf({shape: k.shape.slice(1), data: part(k, group)})),
        own = part(pattern, n),
        S = keys.length;
      const where = strongestPlane(Q, K),
        open = (i, j) => own[i * S + j] > 0,
        mine = new Float32Array(own.length);
      let apart = 0,
        same = 0,
        closed = false;
      where.queries.forEach(([x, y], i) => {
        const row = softmax(
            where.keys.map(([u, v], j) =>
              open(i, j) ? header.scale * (x * u + y * v) : -Infinity,
            ),
          ),
          first = (list) => list.indexOf(Math.max(...list)),
          real = Array.from(own.subarray(i * S, (i + 1) * S));
        mine.set(row, i * S);
        apart += row.reduce((sum, p, j) => sum + Math.abs(p - real[j]), 0) / 2;
        same += Number(first(row) === first(real));
        closed ||= real.some((p) => p === 0);
      });
      found = {
        queries,
        keys,
        plane: where,
        own,
        mine,
        open,
        closed,
        bias: Boolean(arrays.bias),
        best: {apart: apart / queries.length, same},
      };
      draw();
    }),
    state.subscribe((now, before) => now.query !== before.query && draw()),
  ];
  return {
    el: room,
    off: () => {
      offs.forEach((off) => off());
      maps.forEach((map) => map.destroy());
    },
  };
}
