// @ts-check
// Two sequences above each other, and heads as dots.
import {fill, h, on, redrawn, svg} from "../dom.js";
import {number, plural, tick, token} from "../format.js";
import {button} from "../controls.js";
import {ticks} from "../plots.js";
import {shown} from "./aimed.js";

/** @typedef {{label: string, kind?: string}} Element */

const MANY = 64,
  BESIDE = 3; // columns from which equal ones are folded; those left beside what differs

/**
 * Columns of an element of A above one of B; those that correspond can be chosen.
 * @param {{columns: {a: Element | null, b: Element | null, pair: number | null}[], now?: number,
 * name: string, onselect: (pair: number) => void}} options
 */
export function pairLine(options) {
  let o = options,
    unfolded = false;
  const el = h("div.pairs-line", {role: "group", "aria-label": o.name});
  const cell = (one) =>
    h("span.pairs-cell", one ? token(one) : h("span.pairs-gap", {"aria-label": "nothing"}));
  const states = ({a, b}) =>
    !a ? "only in B" : !b ? "only in A" : a.label === b.label ? "same" : "exchanged";
  function drawn(column) {
    const state = states(column),
      parts = [
        cell(column.a),
        h("span.pairs-mark", {"aria-hidden": true}, state === "same" ? "" : "≠"),
        cell(column.b),
      ],
      now = column.pair === o.now;
    const said =
      `${column.a ? shown(column.a) : "nothing"}, ${column.b ? shown(column.b) : "nothing"}: ` +
      `${state}`;
    return column.pair === null
      ? h("span.pairs-column.other", {title: said}, parts)
      : h(
          "button",
          {
            type: "button",
            class: `pairs-column ${state === "same" ? "" : "other"}${now ? " now" : ""}`,
            "aria-pressed": now,
            "aria-label": said,
            onclick: () => o.onselect(/** @type {number} */ (column.pair)),
          },
          parts,
        );
  }
  function draw() {
    const all = unfolded || o.columns.length <= MANY,
      telling = o.columns.map((column) => states(column) !== "same" || column.pair === o.now);
    const parts = [];
    let folded = 0;
    const fold = () => {
      const count = folded;
      folded = 0;
      if (count)
        parts.push(
          button(
            `… ${number(count)} the same …`,
            () => {
              unfolded = true;
              draw();
            },
            {kind: "quiet", name: `${plural(count, "element")} the same: show all`},
          ),
        );
    };
    o.columns.forEach((column, i) => {
      if (!all && !telling.slice(Math.max(0, i - BESIDE), i + BESIDE + 1).some(Boolean))
        return void folded++;
      fold();
      parts.push(drawn(column));
    });
    fold();
    redrawn(el, () => fill(el, parts));
  }
  on(el, "keydown", (event) => {
    const all = [...el.querySelectorAll("button")],
      to = all.indexOf(event.target) + {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (all[to]) (all[to].focus(), event.preventDefault());
  });
  draw();
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      if (patch.columns && patch.columns.length !== o.columns.length) unfolded = false;
      o = {...o, ...patch};
      draw();
    },
    table: () => ({
      columns: ["A", "B", "what"],
      rows: o.columns.map((column) => [
        column.a ? shown(column.a) : "",
        column.b ? shown(column.b) : "",
        states(column),
      ]),
    }),
    summary: () => {
      const name = (one) => (one ? shown(one) : "nothing");
      const different = o.columns.filter((column) => states(column) !== "same");
      const pairs = different
        .slice(0, 8)
        .map((column) => `${name(column.a)} and ${name(column.b)}`);
      const same = o.columns.length - different.length;
      return (
        `${o.name}: ${same} of ${o.columns.length} are the same; ` +
        `different: ${pairs.join(", ") || "none"}.`
      );
    },
    toSvg() {
      const ink = getComputedStyle(el).color,
        font = {"font-size": 13, "font-family": "monospace", fill: ink, "text-anchor": "middle"};
      let x = 10;
      const parts = o.columns.map((column) => {
        const texts = [column.a ? shown(column.a) : "–", column.b ? shown(column.b) : "–"],
          wide = 8 * Math.max(...texts.map((text) => text.length)) + 14,
          at = x + wide / 2;
        x += wide;
        return [
          svg("text", {...font, x: at, y: 20}, texts[0]),
          svg("text", {...font, x: at, y: 54}, texts[1]),
          states(column) === "same" ? null : svg("text", {...font, x: at, y: 37}, "≠"),
        ];
      });
      return svg("svg", {viewBox: `0 0 ${x + 10} 66`}, parts);
    },
  };
}

/**
 * Heads as dots, A to the right and B upwards, with the diagonal on which nothing changed.
 * @param {{points: {layer: number, head: number, x: number, y: number}[], name: string, now?:
 * {layer: number, head: number} | null, valueName?: string,
 *   onselect: (point: {layer: number, head: number}) => void}} options
 */
export function scatter(options) {
  let o = {now: /** @type {any} */ (null), valueName: "value", ...options};
  const W = 420,
    L = 52,
    top = 16,
    low = 46,
    el = svg("svg.lines.scatter", {role: "img", viewBox: `0 0 ${W} ${W}`});
  function draw() {
    const all = o.points.flatMap((p) => [p.x, p.y]),
      least = Math.min(0, ...all),
      most = Math.max(1e-6, ...all) * 1.04;
    const px = (x) => L + ((W - L - 14) * (x - least)) / (most - least),
      py = (y) => W - low - ((W - low - top) * (y - least)) / (most - least);
    el.setAttribute("aria-label", `${o.name}: ${o.valueName}`);
    fill(
      el,
      ticks(least, most, 4).map((x) => [
        svg("line.grid", {x1: L, x2: W - 14, y1: py(x), y2: py(x)}),
        svg(
          "text.tick",
          {x: L - 8, y: py(x), "text-anchor": "end", "dominant-baseline": "central"},
          tick(x),
        ),
        svg("text.tick", {x: px(x), y: W - low + 20, "text-anchor": "middle"}, tick(x)),
      ]),
      svg("line.axis", {
        x1: px(least),
        y1: py(least),
        x2: px(most),
        y2: py(most),
        "stroke-dasharray": "4 4",
      }),
      svg(
        "text.axis-name",
        {x: (L + W) / 2, y: W - 6, "text-anchor": "middle"},
        `${o.valueName}, in A`,
      ),
      svg("text.axis-name", {x: 4, y: 12}, "in B"),
      o.points.map((p) => {
        const now = p.layer === o.now?.layer && p.head === o.now?.head;
        return svg(
          "g",
          {class: `scatter-dot${now ? " now" : ""}`, onclick: () => o.onselect(p)},
          svg("title", `layer ${p.layer} head ${p.head}: ${number(p.x, 3)}, ${number(p.y, 3)}`),
          now && svg("circle.ring", {cx: px(p.x), cy: py(p.y), r: 10}),
          svg("circle.dot", {cx: px(p.x), cy: py(p.y), r: 4.5}),
          svg("circle.reach", {cx: px(p.x), cy: py(p.y), r: 12}),
        );
      }),
    );
  }
  draw();
  return {
    el,
    update(/** @type {any} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    table: () => ({
      columns: ["layer", "head", "A", "B", "B − A"],
      rows: o.points.map((p) => [String(p.layer), p.head, p.x, p.y, p.y - p.x]),
    }),
    summary: () => `${o.name}, ${o.valueName}: ${o.points.length} heads.`,
  };
}
