// @ts-check
// One head's pattern in three ways: a matrix, lines for the strongest edges, text tinted by a row;
// as tokens or as words.
import {fill, h, onWidth, redrawn, svg} from "../dom.js";
import {fixed, labelOf, number, percent, plural, token, tokenText} from "../format.js";
import {css, ink, isDark, level, onTheme, ramp} from "../ramp.js";

/**
 * @typedef {{label: string, kind: string, from: number[]}} Unit  one row or column: an element, or
 * the pieces of a word
 */
/**
 * @typedef {{queries: Unit[], keys: Unit[], values: Float32Array, bytes: Uint8Array | null, masked:
 * ((row: number, column: number) => boolean) | null, exact: boolean, name: string}} Shown  bytes:
 * of roots, where the values are not exact
 */

const MOST_EDGES = 1500;
const WEIGHTS = Float32Array.from({length: 256}, (_, byte) =>
  Number(((byte / 255) ** 2).toPrecision(2)),
);

/**
 * Weights of bytes of roots, which have two correct digits. @param {Uint8Array}
 * bytes
 */
export function weightsOf(bytes) {
  const values = new Float32Array(bytes.length);
  for (let i = 0; i < values.length; i++) values[i] = WEIGHTS[bytes[i]];
  return values;
}

/** Weights as bytes of their roots. @param {Float32Array} values */
export function rootsOf(values) {
  const bytes = new Uint8Array(values.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Math.round(255 * Math.sqrt(values[i]));
  return bytes;
}

/**
 * Elements as rows or columns; with `words`, the pieces of a word are one. @param {any[]} elements
 * @param {boolean} words @returns {Unit[]}
 */
export function units(elements, words) {
  /** @type {Unit[]} */
  const all = [];
  elements.forEach(({label, kind, word}, i) => {
    const last = all[all.length - 1];
    if (words && last && word !== null && elements[last.from[0]].word === word) {
      last.label += label;
      last.from.push(i);
    } else all.push({label, kind, from: [i]});
  });
  return all;
}

/**
 * A pattern of units: the sum over a word's keys, the mean over its queries. @param
 * {ArrayLike<number>} values @param {number} width @param {Unit[]} queries @param {Unit[]} keys
 */
export function merged(values, width, queries, keys) {
  const out = new Float32Array(queries.length * keys.length);
  queries.forEach((query, r) =>
    keys.forEach((key, c) => {
      let sum = 0;
      for (const i of query.from) for (const j of key.from) sum += values[i * width + j];
      out[r * keys.length + c] = sum / query.from.length;
    }),
  );
  return out;
}

/**
 * For each query the fewest keys that together have `share` of its weight, the strongest first.
 * @param {Shown} shown @param {number} share @returns {{edges: [number, number, number][], all:
 * number, mass: number}}  mass: of all weight, 0 to 1
 */
export function strongest({queries, keys, values, masked}, share) {
  const edges = [],
    S = keys.length;
  let all = 0,
    sum = 0,
    kept = 0;
  queries.forEach((_, r) => {
    const row = /** @type {[number, number, number][]} */ ([]);
    for (let c = 0; c < S; c++) {
      if (masked?.(r, c)) continue;
      all++;
      row.push([r, c, values[r * S + c]]);
    }
    row.sort((a, b) => b[2] - a[2]);
    const whole = row.reduce((x, edge) => x + edge[2], 0);
    sum += whole;
    for (let k = 0, part = 0; k < row.length && part < share * whole; part += row[k++][2])
      if (row[k][2] > 0) edges.push(row[k]);
  });
  edges.sort((a, b) => b[2] - a[2]);
  const drawn = edges.slice(0, MOST_EDGES);
  for (const edge of drawn) kept += edge[2];
  return {edges: drawn, all, mass: sum ? kept / sum : 0};
}

/** Options of a heatmap for a pattern. @param {Shown} shown */
export function matrixOptions(shown) {
  const {queries, keys, bytes, masked, name} = shown;
  return {rows: queries, columns: keys, values: bytes ? null : shown.values, bytes, masked, name};
}

/**
 * The strongest edges as lines from queries to keys.
 * @param {{shown: Shown, share: number, selected: number | null, onselect: (row: number, column:
 * number | null) => void}} options
 */
export function edges(options) {
  let o = options,
    found = strongest(o.shown, o.share),
    W = 640;
  const el = svg("svg.edges", {role: "group"});
  const column = (list, side, rowHeight) => {
    const every = Math.max(1, Math.ceil(15 / rowHeight)),
      left = side === "query";
    return list.map((unit, i) => {
      const mine = left && i === o.selected;
      if (i % every && !mine) return null;
      const text = tokenText(unit.label).slice(0, 16) || " ";
      return svg(
        "text",
        {
          class: `edge-label${mine ? " now" : ""}`,
          x: left ? W * 0.3 - 10 : W * 0.7 + 10,
          y: 30 + (i + 0.5) * rowHeight,
          "text-anchor": left ? "end" : "start",
          "dominant-baseline": "central",
          ...(left
            ? {
                role: "button",
                tabindex: 0,
                "aria-pressed": String(mine),
                "aria-label": `query ${unit.label}`,
                onclick: () => o.onselect(i, null),
                onkeydown: (event) => {
                  if (event.key === "Enter" || event.key === " ") {
                    event.preventDefault();
                    o.onselect(i, null);
                  }
                },
              }
            : {}),
        },
        text,
        !left && o.selected !== null && svg("tspan.edge-weight", {dx: 8}, weightOf(i)),
      );
    });
  };
  const weightOf = (c) => {
    const edge = found.edges.find(([r, k]) => r === o.selected && k === c);
    return edge ? fixed(edge[2]) : "";
  };
  function draw() {
    const {queries, keys} = o.shown,
      most = Math.max(queries.length, keys.length),
      rowHeight = Math.max(3, Math.min(28, 900 / most)),
      H = 40 + most * rowHeight;
    found = strongest(o.shown, o.share);
    const x0 = W * 0.3,
      x1 = W * 0.7,
      mid = (x0 + x1) / 2,
      y = (i) => 30 + (i + 0.5) * rowHeight;
    el.setAttribute("viewBox", `0 0 ${W} ${H}`);
    el.setAttribute("aria-label", `${o.shown.name}: the strongest edges`);
    redrawn(
      el,
      () =>
        fill(
          el,
          svg("text.edge-side", {x: x0 - 10, y: 12, "text-anchor": "end"}, "query asks"),
          svg("text.edge-side", {x: x1 + 10, y: 12}, "key answers"),
          [...found.edges]
            .reverse()
            .map(([r, c, w]) =>
              svg(
                "path",
                {
                  class: `edge${o.selected === null ? "" : r === o.selected ? " now" : " other"}`,
                  d: `M${x0} ${y(r)}C${mid} ${y(r)} ${mid} ${y(c)} ${x1} ${y(c)}`,
                  "stroke-width": (0.6 + 3.4 * w).toFixed(2),
                  "stroke-opacity": (o.selected === null || r === o.selected
                    ? 0.12 + 0.88 * Math.sqrt(w)
                    : 0.08
                  ).toFixed(3),
                },
                svg(
                  "title",
                  `${o.shown.queries[r].label} → ${o.shown.keys[c].label}: ${number(w)}`,
                ),
              ),
            ),
          column(queries, "query", rowHeight),
          column(keys, "key", rowHeight),
        ),
      "[role=button]",
    );
  }
  const off = onWidth(el, (width) => {
    W = Math.max(300, Math.min(760, width));
    draw();
  });
  draw();
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    /** A sentence on the drawn edges and the others. */
    said: () =>
      `${number(found.edges.length)} of ${plural(found.all, "edge")}, ` +
      `${percent(found.mass, 3)} of all weight. Nothing is drawn for the rest.`,
    destroy: off,
    table: () => ({
      columns: ["query", "key", "weight"],
      rows: found.edges.map(([r, c, w]) => [
        labelOf(o.shown.queries[r]),
        labelOf(o.shown.keys[c]),
        w,
      ]),
    }),
    summary: () => {
      const strongest = found.edges
        .slice(0, 3)
        .map(([r, c, w]) => `${o.shown.queries[r].label} to ${o.shown.keys[c].label} ${fixed(w)}`);
      const counts = `${number(found.edges.length)} of ${number(found.all)} edges`;
      return `${o.shown.name}: ${counts}, the strongest ${strongest.join(", ")}.`;
    },
  };
}

/**
 * Text, each token tinted by its weight from the selected query.
 * @param {{shown: Shown, separate: boolean, selected: number | null, how: any, onselect: (row:
 * number, column: number | null) => void}} options  separate: queries and keys are two sequences
 */
export function tinted(options) {
  let o = options;
  const el = h("div.tinted");
  function draw() {
    const {queries, keys, values, masked, exact} = o.shown,
      S = keys.length,
      row = o.selected ?? 0,
      table = ramp("attention", isDark());
    const piece = (unit, c) => {
      const hidden = masked?.(row, c),
        w = values[row * S + c],
        at = hidden ? 0 : level(w, o.how),
        asks = !o.separate && c === row;
      const props = {
        class: `tint${asks ? " asks" : ""}${hidden ? " masked" : ""}`,
        style: hidden ? {} : {background: css(table, at), color: ink(table, at)},
        title: hidden ? "masked" : `${exact ? "" : "≈ "}${number(w, exact ? 4 : 2)}`,
        "aria-label":
          `${unit.label}, ` +
          (hidden ? "masked" : `weight ${exact ? "" : "about "}${number(w, 3)}`) +
          (asks ? ", the query" : ""),
      };
      return o.separate
        ? h("span", {...props, role: "img"}, token(unit))
        : h(
            "button",
            {type: "button", ...props, "aria-pressed": asks, onclick: () => o.onselect(c, null)},
            token(unit),
          );
    };
    redrawn(el, () =>
      fill(
        el,
        o.separate &&
          h(
            "div.tinted-queries",
            {role: "group", "aria-label": "Queries"},
            h("span.soft", "The query"),
            queries.map((unit, r) =>
              h(
                "button",
                {
                  type: "button",
                  class: `tint plain${r === row ? " asks" : ""}`,
                  "aria-pressed": r === row,
                  onclick: () => o.onselect(r, null),
                },
                token(unit),
              ),
            ),
          ),
        h("div.tinted-text", keys.map(piece)),
      ),
    );
  }
  const off = onTheme(draw);
  draw();
  const rows = () =>
    o.shown.keys.map((unit, c) => [
      unit.label,
      o.shown.masked?.(o.selected ?? 0, c)
        ? "masked"
        : o.shown.values[(o.selected ?? 0) * o.shown.keys.length + c],
    ]);
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    destroy: off,
    table: () => ({
      columns: ["key", `weight of the query ${o.shown.queries[o.selected ?? 0].label}`],
      rows: rows(),
    }),
    summary: () => `${o.shown.name}: the row of ${o.shown.queries[o.selected ?? 0].label}.`,
    toSvg() {
      const table = ramp("attention", isDark()),
        {queries, keys, values, masked} = o.shown,
        row = o.selected ?? 0,
        parts = [];
      let x = 10,
        y = 40;
      keys.forEach((unit, c) => {
        const text = tokenText(unit.label),
          width = 10 + 9 * text.length,
          hidden = masked?.(row, c),
          at = level(values[row * keys.length + c], o.how);
        if (x + width > 700) [x, y] = [10, y + 34];
        parts.push(
          svg("rect", {
            x,
            y: y - 18,
            width,
            height: 26,
            fill: hidden ? "none" : css(table, at),
            stroke: !o.separate && c === row ? getComputedStyle(el).color : "none",
          }),
          svg(
            "text",
            {
              x: x + 5,
              y,
              "font-size": 15,
              "font-family": "monospace",
              fill: hidden ? getComputedStyle(el).color : ink(table, at),
            },
            text,
          ),
        );
        x += width + 2;
      });
      return svg(
        "svg",
        {viewBox: `0 0 710 ${y + 24}`},
        svg(
          "text",
          {
            x: 10,
            y: 14,
            "font-size": 13,
            "font-family": "sans-serif",
            fill: getComputedStyle(el).color,
          },
          `query: ${queries[row].label}`,
        ),
        parts,
      );
    },
  };
}
