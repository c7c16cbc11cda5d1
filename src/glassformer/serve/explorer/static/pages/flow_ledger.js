// @ts-check
// A logit as a sum of parts: every bar begins where the last one ended.
import {fill, h, svg, svgFont} from "../dom.js";
import {fixed, number} from "../format.js";

/** @typedef {{name: string, layer: number | null, head: number | null, value: number}} Entry */
/** @typedef {{label: string, value: number, kind: string, end?: boolean}} Step */

const FIRST = {elements: "embedding", positions: "position", token_types: "token type"};

/**
 * The ledger's entries in the order of the stream; the heads of a layer as one, or each by itself.
 * @param {Entry[]} entries @param {number} bias @param {boolean} each @returns {Step[]}
 */
export function stepsOf(entries, bias, each) {
  const steps = [],
    at = new Map();
  for (const {name, layer, head, value} of entries) {
    const attention = name === "head" || name === "cross",
      kind = attention
        ? name
        : name === "feedforward"
          ? "feedforward"
          : name === "edit"
            ? "edit"
            : "first";
    const place = layer === null ? "" : `layer ${layer} `;
    const label = attention
      ? each
        ? `${place}${name === "cross" ? "cross " : ""}head ${head}`
        : `${place}${name === "cross" ? "cross-attention" : "attention"}`
      : name === "feedforward"
        ? `${place}feed-forward`
        : name === "edit"
          ? `${place}edit${head === null ? "" : ` of head ${head}`}`
          : (FIRST[name] ?? name);
    const old = at.get(label);
    if (old) old.value += value;
    else {
      const step = {label, value, kind};
      at.set(label, step);
      steps.push(step);
    }
  }
  return [...steps, {label: "constants (biases)", value: bias, kind: "bias"}];
}

/**
 * The steps as bars that float from one running sum to the next, and their sum at the end.
 * @param {{steps: Step[], total: number, name: string}} options
 */
export function waterfall(options) {
  let o = options;
  const el = h("ol.waterfall", {"aria-label": o.name});
  function laid() {
    let sum = 0;
    const rows = o.steps.map((step) => ({...step, from: sum, to: (sum += step.value)}));
    const ends = rows.flatMap((row) => [row.from, row.to]),
      low = Math.min(0, ...ends),
      high = Math.max(0, ...ends, low + 1e-9);
    return {
      rows: [...rows, {label: "sum", value: o.total, kind: "sum", from: 0, to: o.total}],
      low,
      high,
    };
  }
  function draw() {
    const {rows, low, high} = laid(),
      at = (x) => (100 * (x - low)) / (high - low);
    el.style.setProperty("--zero", `${at(0)}%`);
    fill(
      el,
      rows.map(({label, value, kind, from, to}) =>
        h(
          "li",
          {class: `fall ${kind}`},
          h("span.bar-label", label),
          h(
            "span.fall-track",
            {"aria-hidden": true},
            h("span", {
              class: `fall-bar ${value < 0 ? "minus" : "plus"}`,
              style: {
                left: `${at(Math.min(from, to))}%`,
                width: `${(100 * Math.abs(to - from)) / (high - low)}%`,
              },
            }),
          ),
          h("span.bar-value", `${value > 0 && kind !== "sum" ? "+" : ""}${fixed(value, 3)}`),
          h("span.fall-sum.soft", kind === "sum" ? "" : fixed(to, 3)),
        ),
      ),
    );
  }
  draw();
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    table: () => ({
      columns: ["part", "writes", "sum so far"],
      rows: laid().rows.map(({label, value, to}) => [label, value, to]),
    }),
    summary() {
      const most = [...o.steps].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 4);
      return (
        `${o.name}: the largest parts are ` +
        `${most.map((step) => `${step.label} ${number(step.value)}`).join(", ")}; together ` +
        `${number(o.total)}.`
      );
    },
    toSvg() {
      const {rows, low, high} = laid(),
        x = (v) => 190 + (380 * (v - low)) / (high - low),
        row = 24,
        style = getComputedStyle(el);
      const font = svgFont(el),
        accent = style.getPropertyValue("accent-color");
      return svg(
        "svg",
        {viewBox: `0 0 660 ${row * rows.length + 12}`},
        svg("line", {
          x1: x(0),
          x2: x(0),
          y1: 4,
          y2: row * rows.length + 8,
          stroke: style.color,
          "stroke-opacity": 0.3,
        }),
        rows.map(({label, value, from, to}, i) => {
          const y = row * (i + 0.5) + 6;
          return [
            svg("text", {...font, x: 180, y, "text-anchor": "end"}, label),
            svg("text", {...font, x: 584, y}, fixed(value, 3)),
            svg("rect", {
              x: x(Math.min(from, to)),
              y: y - 8,
              width: Math.max(1, Math.abs(x(to) - x(from))),
              height: 16,
              stroke: accent,
              "stroke-width": 2,
              fill: value < 0 ? "none" : accent,
            }),
          ];
        }),
      );
    },
  };
}
