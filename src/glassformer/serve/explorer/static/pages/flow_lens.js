// @ts-check
// Answers after each layer as a grid of words: rows are layers, columns are positions; mouse and
// arrow keys move in it.
import {fill, h, on, svg} from "../dom.js";
import {labelOf, percent, token} from "../format.js";
import {css, ink, isDark, level, onTheme, ramp} from "../ramp.js";
import {shown} from "./aimed.js";

/** @typedef {string | {label: string, kind?: string}} Label */

/**
 * A grid of words, coloured by their probabilities.
 * @param {{rows: string[], columns: Label[], words: string[][], p: number[][], name: string,
 * columnName?: string, now?: {row: number, column: number} | null,
 *   onselect?: (row: number, column: number) => void}} options
 */
export function wordGrid(options) {
  let o = {columnName: "position", ...options};
  const head = h("thead"),
    body = h("tbody"),
    table = h("table.word-grid", {role: "grid", "aria-label": o.name}, head, body);
  const el = h("div.word-scroll", table);
  function draw() {
    const held = el.contains(document.activeElement),
      colours = ramp("attention", isDark()),
      now = o.now ?? {row: 0, column: 0};
    fill(
      head,
      h(
        "tr",
        h("th", {scope: "col"}, "after"),
        o.columns.map((column, c) =>
          h("th", {scope: "col", class: c === o.now?.column ? "now" : ""}, token(column)),
        ),
      ),
    );
    fill(
      body,
      o.rows.map((row, r) =>
        h(
          "tr",
          h("th", {scope: "row"}, row),
          o.columns.map((column, c) => {
            const step = level(o.p[r][c], {scale: "linear"}),
              here = r === now.row && c === now.column;
            return h(
              "td",
              {
                role: "gridcell",
                dataset: {r, c},
                tabindex: here ? 0 : -1,
                class: here && o.now ? "now" : "",
                "aria-selected": here,
                style: {background: css(colours, step), color: ink(colours, step)},
                title:
                  `${row}, ${o.columnName} ${labelOf(column)}: ${shown(o.words[r][c])} ` +
                  `${percent(o.p[r][c])}`,
              },
              h("bdi.token", shown(o.words[r][c])),
            );
          }),
        ),
      ),
    );
    const here = /** @type {any} */ (el.querySelector("[tabindex='0']"));
    if (held) here?.focus({preventScroll: true});
    if (here)
      el.scrollLeft = Math.max(
        Math.min(el.scrollLeft, here.offsetLeft - 120),
        here.offsetLeft + here.offsetWidth - el.clientWidth + 4,
      );
  }
  on(table, "click", (event) => {
    const cell = event.target.closest("[data-r]");
    if (cell) o.onselect?.(Number(cell.dataset.r), Number(cell.dataset.c));
  });
  on(table, "keydown", (event) => {
    const cell = event.target.closest?.("[data-r]"),
      moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    if (!cell || !(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const limit = (x, count) => Math.max(0, Math.min(count - 1, x));
    o.onselect?.(
      limit(Number(cell.dataset.r) + moves[event.key][0], o.rows.length),
      limit(Number(cell.dataset.c) + moves[event.key][1], o.columns.length),
    );
  });
  draw();
  const off = onTheme(draw);
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    destroy: off,
    table: () => ({
      columns: ["after", ...o.columns.map((column) => shown(labelOf(column)))],
      rows: o.rows.map((row, r) => [
        row,
        ...o.columns.map((_, c) => `${shown(o.words[r][c])} ${o.p[r][c].toPrecision(4)}`),
      ]),
    }),
    summary: () =>
      `${o.name}: ${o.rows.length} rows by ${o.columns.length} columns. Last row: ${o.columns
        .slice(-6)
        .map((_, i, {length}) =>
          shown(o.words[o.rows.length - 1]?.[o.columns.length - length + i] ?? ""),
        )
        .join(", ")}.`,
    toSvg() {
      const wide = 78,
        row = 26,
        left = 110,
        colours = ramp("attention", isDark()),
        ground = getComputedStyle(el).color,
        font = {"font-size": 12, "font-family": "monospace", "dominant-baseline": "central"};
      const short = (text) => (text.length > 9 ? `${text.slice(0, 8)}…` : text);
      return svg(
        "svg",
        {viewBox: `0 0 ${left + wide * o.columns.length + 8} ${row * (o.rows.length + 1) + 8}`},
        o.columns.map((column, c) =>
          svg(
            "text",
            {...font, fill: ground, x: left + (c + 0.5) * wide, y: 14, "text-anchor": "middle"},
            short(shown(labelOf(column))),
          ),
        ),
        o.rows.map((name, r) => [
          svg(
            "text",
            {...font, fill: ground, x: left - 8, y: row * (r + 1.5), "text-anchor": "end"},
            name,
          ),
          o.columns.map((_, c) => {
            const step = level(o.p[r][c], {scale: "linear"});
            return [
              svg("rect", {
                x: left + c * wide,
                y: row * (r + 1),
                width: wide - 2,
                height: row - 2,
                fill: css(colours, step),
              }),
              svg(
                "text",
                {
                  ...font,
                  fill: ink(colours, step),
                  x: left + (c + 0.5) * wide - 1,
                  y: row * (r + 1.5) - 1,
                  "text-anchor": "middle",
                },
                short(shown(o.words[r][c])),
              ),
            ];
          }),
        ]),
      );
    },
  };
}
