// @ts-check
// Probabilities in pairs: before as an outline, after as a filled bar, and their difference in
// points of a percent.
import {fill, h, svg, svgFont} from "../dom.js";
import {fixed, tick} from "../format.js";

/** Ends of the axis; the smallest that fits all bars is used. */
const ENDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

/**
 * @typedef {{label: Node, text: string, before: number | null, after: number}} Pair  before null:
 * there is only one
 */

const points = (x) => (Math.abs(x) < 5e-5 && x ? "<0.01" : fixed(100 * x, 2)),
  signed = (x) => (Math.abs(x) < 5e-5 ? "±0.00" : `${x > 0 ? "+" : ""}${fixed(100 * x, 2)}`);

/** @param {{items: Pair[], name: string}} options */
export function pairs(options) {
  let o = options;
  const el = h("div.pairs-picture", {role: "list"});
  const several = () => o.items.some((item) => item.before !== null);
  function draw() {
    const two = several(),
      most = Math.max(0, ...o.items.flatMap(({before, after}) => [before ?? 0, after])),
      high = ENDS.find((end) => end >= most) ?? 1,
      width = (x) => `${100 * Math.min(1, Math.max(0, x / high))}%`;
    el.setAttribute("aria-label", o.name);
    fill(
      el,
      h(
        "div",
        {class: `pair-row pair-head${two ? "" : " single"}`, "aria-hidden": true},
        h("span"),
        h("span.pair-scale", h("span", "0"), h("span", tick(100 * high))),
        two ? [h("span", "before"), h("span", "after"), h("span", "Δ %")] : h("span", "percent"),
      ),
      o.items.map(({label, text, before, after}) =>
        h(
          "div",
          {
            class: `pair-row${two ? "" : " single"}`,
            role: "listitem",
            "aria-label":
              `${text}: ` +
              (before === null ? "" : `before ${points(before)} percent, after `) +
              `${points(after)} ` +
              `percent${before === null ? "" : `, change ${signed(after - before)}`}`,
          },
          h("span.bar-label", label),
          h(
            "span.pair-track",
            {"aria-hidden": true},
            before === null ? null : h("span.pair-bar.before", {style: {width: width(before)}}),
            h("span.pair-bar.after", {style: {width: width(after)}}),
          ),
          before === null
            ? h("span.num", points(after))
            : [
                h("span.num.soft", points(before)),
                h("span.num", points(after)),
                h("span.num.pair-change", signed(after - before)),
              ],
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
    table: () =>
      several()
        ? {
            columns: ["answer", "before", "after", "change"],
            rows: o.items.map(({text, before, after}) => [
              text,
              before ?? 0,
              after,
              after - (before ?? 0),
            ]),
          }
        : {columns: ["answer", "probability"], rows: o.items.map(({text, after}) => [text, after])},
    summary: () =>
      `${o.name}: ${o.items
        .slice(0, 8)
        .map(
          ({text, before, after}) =>
            `${text} ${before === null ? "" : `${points(before)} to `}${points(after)} percent`,
        )
        .join(", ")}.`,
    toSvg() {
      const style = getComputedStyle(el),
        accent = style.getPropertyValue("accent-color"),
        font = svgFont(el, 14),
        row = 30;
      return svg(
        "svg",
        {viewBox: `0 0 660 ${row * o.items.length + 10}`},
        o.items.map(({text, before, after}, i) => {
          const y = row * (i + 0.5) + 5;
          return [
            svg("text", {...font, x: 140, y, "text-anchor": "end"}, text),
            before === null
              ? null
              : svg("rect", {
                  x: 150,
                  y: y - 10,
                  width: 300 * before,
                  height: 8,
                  fill: "none",
                  stroke: accent,
                }),
            svg("rect", {
              x: 150,
              y: before === null ? y - 6 : y + 1,
              width: 300 * after,
              height: before === null ? 12 : 8,
              fill: accent,
            }),
            svg(
              "text",
              {...font, x: 465, y},
              before === null
                ? points(after)
                : `${points(before)} → ${points(after)}  (${signed(after - before)})`,
            ),
          ];
        }),
      );
    },
  };
}
