// @ts-check
// The frame of every chart: title, what it shows and does not show, table, export.
import {fill, h, save, svg, unique} from "./dom.js";
import {button, table} from "./controls.js";
import {css, isDark, level, onTheme, ramp, TICKS} from "./ramp.js";
import {prose} from "./mathml.js";
import {number, tick} from "./format.js";

/** @typedef {{columns: any[], rows: any[][]}} Table */
/**
 * @typedef {{el: Element, table?: () => Table, toSvg?: () => SVGElement, canvas?:
 * HTMLCanvasElement, summary?: () => string}} Picture
 */

/**
 * A framed chart. Call `refresh()` after a change, to update its summary and table.
 * @param {{title: string, picture: Picture, shows: string, hides: string, name?: string, legend?:
 * Node | null, controls?: any, below?: any, wide?: boolean}} options
 */
export function figure({
  title,
  picture,
  shows,
  hides,
  name = title,
  legend = null,
  controls = null,
  below = null,
  wide = false,
}) {
  const id = unique("figure"),
    summary = h("p.sr", {id: `${id}-summary`});
  const twin = h("div.figure-table", {hidden: true});
  const file = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
  const asTable = button(
    "Table",
    () => {
      twin.hidden = !twin.hidden;
      refresh();
    },
    {kind: "quiet", name: `${title}: view as table`, pressed: false},
  );
  const canDraw = Boolean(picture.toSvg || picture.canvas || picture.el instanceof SVGElement);
  const tools = h(
    "div.figure-tools",
    picture.table && asTable,
    picture.table &&
      button(
        "CSV",
        () => save(`${file}.csv`, new Blob([csv(picture.table())], {type: "text/csv"})),
        {kind: "quiet", name: `${title}: save as CSV`},
      ),
    canDraw &&
      button(
        "SVG",
        () => save(`${file}.svg`, new Blob([svgText(picture)], {type: "image/svg+xml"})),
        {kind: "quiet", name: `${title}: save as SVG`},
      ),
    canDraw &&
      button("PNG", () => png(picture).then((blob) => save(`${file}.png`, blob)), {
        kind: "quiet",
        name: `${title}: save as PNG`,
      }),
  );
  const el = h(
    "figure",
    {
      class: `figure${wide ? " wide" : ""}`,
      "aria-labelledby": id,
      "aria-describedby": `${id}-summary`,
    },
    h("div.figure-head", h("h3.figure-title", {id}, title), tools),
    controls && h("div.figure-controls", controls),
    h("div.figure-picture", picture.el),
    legend && h("div.figure-legend", legend),
    below,
    twin,
    summary,
    h(
      "figcaption",
      h("p", prose(shows)),
      h("p.hides", h("span.hides-mark", "What it does not show"), " ", prose(hides)),
    ),
  );
  function refresh() {
    summary.textContent = picture.summary?.() ?? "";
    asTable.setAttribute("aria-pressed", String(!twin.hidden));
    if (!twin.hidden && picture.table)
      fill(twin, table({caption: `${title}, as a table`, ...picture.table()}));
  }
  refresh();
  return {el, refresh};
}

/**
 * Legend of the colours of a chart. @param {{kind?: "attention" | "signed", scale?: string, low?:
 * number, high?: number, masked?: boolean, label?: string}} [how]
 */
export function legend({
  kind = "attention",
  scale = "sqrt",
  low = 0,
  high = 1,
  masked = false,
  label = kind === "signed" ? "value" : "weight",
} = {}) {
  const strip = h("canvas.legend-strip", {width: 256, height: 1, "aria-hidden": true});
  const draw = () => {
    const context = strip.getContext("2d"),
      image = context.createImageData(256, 1);
    new Uint32Array(image.data.buffer).set(ramp(kind, isDark()));
    context.putImageData(image, 0, 0);
  };
  draw();
  const off = onTheme(() => (strip.isConnected ? draw() : off()));
  const place = (at) => level(at, {kind, scale, low, high}) / 255,
    ticks = spaced(kind === "signed" ? [-high, 0, high] : ticksOf(scale, low, high), place);
  return h(
    "div.legend",
    {
      "aria-label": `Colours: ${label} from ${number(ticks[0])} to ${number(ticks.at(-1))}`,
      role: "img",
    },
    h("span.legend-label", label),
    h(
      "div.legend-scale",
      strip,
      ticks.map((at) =>
        h(
          "span.legend-tick",
          {style: {left: `${100 * place(at)}%`}},
          tick(at).replace(/^(−?)0\./, "$1."),
        ),
      ),
    ),
    masked && [h("span.legend-mask"), h("span", "masked: not seen at all")],
  );
}

function ticksOf(scale, low, high) {
  if (scale === "log")
    return [...[1e-4, 0.001, 0.01, 0.1].filter((at) => at > low && at < high), high];
  if (low !== 0 || high !== 1) return [low, (low + high) / 2, high];
  return scale === "sqrt" ? TICKS : [0, 0.25, 0.5, 0.75, 1];
}

/**
 * The numbers whose labels do not overlap, the last among them. @param {number[]} all
 * @param {(at: number) => number} place  of 0 to 1
 */
function spaced(all, place) {
  return all.reduceRight(
    (kept, at) => (kept.length && place(kept[0]) - place(at) < 0.07 ? kept : [at, ...kept]),
    /** @type {number[]} */ ([]),
  );
}

/** A table as CSV. @param {Table} table */
export function csv({columns, rows}) {
  const cell = (value) => {
    const text = String(value instanceof Node ? value.textContent : (value ?? ""));
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

const KEPT = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "font-style",
  "text-anchor",
  "dominant-baseline",
  "fill-opacity",
  "stroke-opacity",
];

/** A chart as an SVG file without a style sheet. @param {Picture} picture */
function svgText(picture) {
  const source =
    picture.toSvg?.() ??
    (picture.el instanceof SVGElement
      ? picture.el
      : imaged(/** @type {HTMLCanvasElement} */ (picture.canvas)));
  const copy = /** @type {SVGElement} */ (source.cloneNode(true));
  if (source.isConnected) {
    const from = [source, ...source.querySelectorAll("*")],
      to = [copy, ...copy.querySelectorAll("*")];
    from.forEach((el, i) => {
      const style = getComputedStyle(el);
      for (const rule of KEPT) to[i].setAttribute(rule, style.getPropertyValue(rule));
    });
  }
  const [, , width, height] = (copy.getAttribute("viewBox") ?? "0 0 0 0")
    .split(/[ ,]+/)
    .map(Number);
  if (width) copy.setAttribute("width", String(width));
  if (height) copy.setAttribute("height", String(height));
  copy.removeAttribute("class");
  const back = svg("rect", {
    width: "100%",
    height: "100%",
    fill: getComputedStyle(document.body).backgroundColor,
  });
  copy.prepend(back);
  return new XMLSerializer().serializeToString(copy);
}

/**
 * A chart as PNG at twice the resolution of the screen. @param {Picture} picture @returns
 * {Promise<Blob>}
 */
export async function png(picture) {
  const image = new Image(),
    url = URL.createObjectURL(new Blob([svgText(picture)], {type: "image/svg+xml"}));
  image.src = url;
  await image.decode();
  const canvas = h("canvas", {width: 2 * image.width, height: 2 * image.height});
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("The browser made no image."))),
      "image/png",
    ),
  );
}

function imaged(canvas) {
  return svg(
    "svg",
    {viewBox: `0 0 ${canvas.width} ${canvas.height}`},
    svg("image", {href: canvas.toDataURL(), width: canvas.width, height: canvas.height}),
  );
}

/** The colour of a number in a chart. @param {number} value @param {any} [how] */
export function colour(value, how = {}) {
  return css(ramp(how.kind ?? "attention", isDark()), level(value, how));
}
