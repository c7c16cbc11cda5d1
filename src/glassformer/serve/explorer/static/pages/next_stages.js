// @ts-check
// The stages of sampling: one row for each outcome, one column of bars for each stage; and choices
// as a tree.
import {fill, h, redrawn, svg, svgFont} from "../dom.js";
import {alignedPercent, number, percent, token} from "../format.js";
import {shown} from "./aimed.js";

/** @typedef {{id: number, label: string, values: number[]}} Row */

/**
 * Bars of all stages in columns. An outcome that a stage removed is a gap.
 * @param {{rows: Row[], stages: string[], rest: number[], name: string, chosen?: number | null,
 * onselect?: ((id: number) => void) | null, fold?: boolean}} options
 *   fold: where there is little room, a stage that changes nothing is left out
 */
export function stagesPicture(options) {
  let o = options;
  const el = h("div.stages");
  const most = () => Math.max(1e-9, ...o.rows.flatMap((row) => row.values));
  let write = alignedPercent([1]);
  const idle = (i) =>
    Boolean(o.fold) &&
    i > 0 &&
    o.rows.every(({values}) => Math.abs(values[i] - values[i - 1]) < 1e-9);
  const bar = (value, i, high) =>
    h(
      "span",
      {class: `stage${value > 0 ? "" : " cut"}${idle(i) ? " idle" : ""}`, dataset: {stage: i}},
      h(
        "span.bar-track",
        {"aria-hidden": true},
        h("span.bar.plus", {style: {width: `${(100 * value) / high}%`}}),
      ),
      h("span.stage-value", value > 0 ? write(value) : "out"),
    );
  function draw() {
    const high = most(),
      active = o.stages.filter((_, i) => !idle(i)).length;
    write = alignedPercent([high]);
    el.style.setProperty("--stages", String(o.stages.length));
    el.style.setProperty("--active", String(active));
    el.classList.toggle("many", active > 2);
    redrawn(el, () =>
      fill(
        el,
        h(
          "div.stages-head",
          {"aria-hidden": true},
          h("span"),
          o.stages.map((name, i) => h("span", {class: idle(i) ? "idle" : ""}, name)),
        ),
        h(
          "ol.stages-rows",
          {"aria-label": o.name},
          o.rows.map(({id, label, values}) => {
            const parts = [
                h("span.bar-label", token({label, kind: "token"})),
                values.map((value, i) => bar(value, i, high)),
              ],
              now = id === o.chosen;
            const said =
              `${shown(label)}: ` +
              o.stages
                .map((name, i) => `${name} ${values[i] > 0 ? percent(values[i]) : "left out"}`)
                .join(", ");
            return h(
              "li",
              {class: now ? "now" : ""},
              o.onselect
                ? h(
                    "button.stage-row",
                    {
                      type: "button",
                      "aria-label": `Go on with ${said}`,
                      "aria-pressed": now,
                      onclick: () => o.onselect?.(id),
                    },
                    parts,
                  )
                : h("div.stage-row", parts),
            );
          }),
        ),
        o.rest.length > 0 &&
          h(
            "div.stage-row.stages-rest",
            h("span.bar-label.soft", "all others"),
            o.rest.map((value, i) =>
              h(
                "span",
                {class: `stage soft${idle(i) ? " idle" : ""}`},
                h("span"),
                h("span.stage-value", write(value)),
              ),
            ),
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
      columns: ["outcome", ...o.stages],
      rows: o.rows.map(({label, values}) => [shown(label), ...values]),
    }),
    summary: () =>
      `${o.name}: ${o.rows
        .slice(0, 5)
        .map(
          ({label, values}) =>
            `${shown(label)} ${percent(values[0])}, at last ${percent(values[values.length - 1])}`,
        )
        .join("; ")}.`,
    toSvg() {
      const style = getComputedStyle(el),
        row = 24,
        wide = 150,
        high = most(),
        font = svgFont(el);
      return svg(
        "svg",
        {viewBox: `0 0 ${160 + wide * o.stages.length} ${row * (o.rows.length + 1) + 10}`},
        o.stages.map((name, i) => svg("text", {...font, x: 160 + i * wide, y: 12}, name)),
        o.rows.map(({label, values}, r) => [
          svg("text", {...font, x: 148, y: row * (r + 1.5), "text-anchor": "end"}, shown(label)),
          values.map((value, i) => [
            svg("rect", {
              x: 160 + i * wide,
              y: row * (r + 1.5) - 7,
              width: (value / high) * (wide - 70),
              height: 14,
              fill: style.getPropertyValue("accent-color"),
            }),
            svg(
              "text",
              {...font, x: 166 + i * wide + (value / high) * (wide - 70), y: row * (r + 1.5)},
              value > 0 ? percent(value, 3) : "out",
            ),
          ]),
        ]),
      );
    },
  };
}

/**
 * A generated token and its successors.
 * @typedef {{id: number, label: string, p: number, after: number}} Alternative
 * @typedef {Alternative & {rank: number, entropy: number, end: boolean,
 *   alternatives: Alternative[], cross: number[][] | null, parent: Node | null,
 *   children: Node[]}} Node
 */

/** The beginning of a tree. @returns {Node} */
export function rootNode() {
  return {
    id: -1,
    label: "",
    p: 1,
    after: 1,
    rank: 0,
    entropy: 0,
    end: false,
    alternatives: [],
    cross: null,
    parent: null,
    children: [],
  };
}

/** The tokens from the beginning to a node. @param {Node} node @returns {Node[]} */
export function pathOf(node) {
  return node.parent ? [...pathOf(node.parent), node] : [];
}

/** A node's child of that id, made if there is none. @param {Node} parent @param {any} item */
export function grown(parent, {id, label, p, after, rank, entropy, end, alternatives, cross}) {
  const known = {label, p, after, rank, entropy, end, alternatives, cross: cross ?? null};
  const old = parent.children.find((child) => child.id === id);
  if (old) return Object.assign(old, known);
  const made = {id, ...known, parent, children: []};
  parent.children.push(made);
  return made;
}

/**
 * All generated text: it runs on, and the branches of different choices are below each other.
 * @param {{root: Node, now: Node, name: string, onselect: (node: Node) => void}} options
 */
export function treePicture(options) {
  let o = options;
  const el = h("div.tree", {role: "group", "aria-label": o.name});
  function chip(node, path) {
    const inPath = path.has(node),
      now = node === o.now;
    return h(
      "button",
      {
        type: "button",
        class: `tree-node${inPath ? " path" : ""}${now ? " now" : ""}`,
        "aria-current": now ? "true" : "false",
        onclick: () => o.onselect(node),
        "aria-label": `${shown(node.label)}, ${percent(node.p)}${now ? ", here" : ""}`,
        title:
          `p ${number(node.p)}, rank ${number(node.rank + 1)}, ${number(node.entropy, 3)} ` +
          "bits",
      },
      token({label: node.label, kind: node.end ? "special" : "token"}),
      h("span.tree-p", percent(node.p, 2)),
    );
  }
  function branch(/** @type {Node} */ from, path) {
    const chain = [];
    let at = from;
    for (;;) {
      if (at.parent) chain.push(chip(at, path));
      if (at.children.length !== 1) break;
      at = at.children[0];
    }
    return [
      h("div.tree-chain", chain),
      at.children.length
        ? h(
            "ol.tree-fork",
            at.children.map((child) => h("li", branch(child, path))),
          )
        : null,
    ];
  }
  function draw() {
    const held = el.contains(document.activeElement);
    fill(el, branch(o.root, new Set(pathOf(o.now))));
    if (held)
      /** @type {any} */ (
        el.querySelector(".tree-node.now") ?? el.querySelector(".tree-node")
      )?.focus();
  }
  /**
   * All nodes with their depth, branch by branch. @returns {{node: Node, depth: number,
   * row: number}[]}
   */
  function laid() {
    const found = [];
    let row = 0;
    const walk = (node, depth) => {
      if (node.parent) found.push({node, depth, row});
      node.children.forEach((child, i) => {
        if (i) row++;
        walk(child, depth + 1);
      });
    };
    walk(o.root, -1);
    return found;
  }
  draw();
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    table: () => ({
      columns: ["text so far", "token", "id", "probability", "when drawn", "rank", "entropy, bits"],
      rows: laid().map(({node}) => [
        pathOf(node)
          .map((one) => one.label)
          .join(""),
        shown(node.label),
        node.id,
        node.p,
        node.after,
        node.rank + 1,
        node.entropy,
      ]),
    }),
    summary: () =>
      `${o.name}: ${laid().length} tokens; the present text is ${
        pathOf(o.now)
          .map((one) => one.label)
          .join("") || "empty"
      }.`,
    toSvg() {
      const all = laid(),
        style = getComputedStyle(el),
        place = new Map(all.map((one) => [one.node, one])),
        x = (depth) => 10 + depth * 92,
        y = (row) => 22 + row * 46;
      const font = {"font-size": 13, "font-family": "monospace", fill: style.color};
      return svg(
        "svg",
        {
          viewBox:
            `0 0 ${x(Math.max(0, ...all.map((one) => one.depth)) + 1) + 20} ` +
            `${y(Math.max(0, ...all.map((one) => one.row))) + 34}`,
        },
        all.map(({node, depth, row}) => {
          const from = place.get(node.parent);
          return [
            from
              ? svg("path", {
                  d:
                    `M${x(from.depth) + 46} ${y(from.row) + 22} C${x(depth)} ` +
                    `${y(from.row) + 22} ${x(from.depth) + 46} ${y(row) + 22} ${x(depth)} ` +
                    `${y(row) + 22}`,
                  fill: "none",
                  stroke: style.color,
                  "stroke-opacity": 0.3,
                })
              : null,
            svg("text", {...font, x: x(depth), y: y(row)}, shown(node.label)),
            svg(
              "text",
              {...font, "font-size": 11, x: x(depth), y: y(row) + 15},
              percent(node.p, 2),
            ),
          ];
        }),
      );
    },
  };
}
