// @ts-check
// Lesson 7, Note D: a picture as a sequence of patches, and text and picture in one row.
import {fill, h, on} from "../dom.js";
import {number} from "../format.js";
import {bars, choice, figure, formula, reading, toggle} from "../marks.js";
import {p, section} from "./article.js";
import {noiseMatrix, times} from "./numbers.js";

const SIDE = 64;
/** A landscape by formula: the bytes red, green, blue at a pixel. @returns {number[]} */
function pixel(/** @type {number} */ row, /** @type {number} */ column) {
  const x = column / SIDE,
    y = row / SIDE,
    sun = Math.hypot(x - 0.76, y - 0.22),
    hill = 0.62 + 0.1 * Math.sin(5 * x + 0.6);
  if (x > 0.22 && x < 0.47 && y > 0.48 && y < 0.74)
    return y > 0.6 && x > 0.31 && x < 0.38 ? [92, 58, 40] : [196, 84, 62];
  if (y > 0.33 && y < 0.48 && Math.abs(x - 0.345) < (y - 0.33) * 1.1) return [128, 46, 44];
  if (y > hill) return [88 + Math.round(40 * (y - hill)), 142 - Math.round(60 * (y - hill)), 78];
  if (sun < 0.11) return [250, 206, 96];
  return [150 + Math.round(70 * y), 190 + Math.round(36 * y), 232];
}
const IMAGE = Array.from({length: SIDE}, (_, r) =>
  Array.from({length: SIDE}, (_, c) => pixel(r, c)),
);

const WORDS = ["A", "red", "house", "under", "the", "sun", ":"];
/** A black image of a side. @param {number} side */
const blank = (side) =>
  Array.from({length: side}, () => Array.from({length: side}, () => [0, 0, 0]));

/**
 * Patches row by row; each flattened as height, width, colour. @param {number[][][]} image @param
 * {number} size
 */
export function patches(image, size) {
  const across = image[0].length / size,
    down = image.length / size;
  return Array.from({length: down * across}, (_, n) => {
    const top = Math.floor(n / across) * size,
      left = (n % across) * size;
    return image.slice(top, top + size).flatMap((row) => row.slice(left, left + size).flat());
  });
}
/**
 * The picture that patches came from. @param {number[][]} flat @param {number} size @param {number}
 * side
 */
function assembled(flat, size, side) {
  const across = side / size;
  return Array.from({length: side}, (_, r) =>
    Array.from({length: side}, (_, c) => {
      const n = Math.floor(r / size) * across + Math.floor(c / size),
        from = ((r % size) * size + (c % size)) * 3;
      return flat[n].slice(from, from + 3);
    }),
  );
}

function painted(rows, columns, of, scale, label) {
  const canvas = h("canvas.pixels", {
    width: columns,
    height: rows,
    role: "img",
    "aria-label": label,
    style: {width: `${columns * scale}px`, height: `${rows * scale}px`},
  });
  const image = canvas.getContext("2d").createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++)
    image.data.set([...of(Math.floor(i / columns), i % columns), 255], 4 * i);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
const patchCanvas = (flat, size, scale, label) =>
  painted(
    size,
    size,
    (r, c) => flat.slice((r * size + c) * 3, (r * size + c) * 3 + 3),
    scale,
    label,
  );

function cutter() {
  let size = 16,
    at = 5;
  const sheet = h("div.sheet", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "grid of patches",
    }),
    picked = h("div.stack"),
    readings = h("div.readings"),
    live = h("p.sr", {"aria-live": "polite"});
  const pick = choice({
    label: "Patch",
    options: ["8", "16", "32"].map((value) => ({value, label: `${value} × ${value}`})),
    value: "16",
    onchange: (to) => ((size = Number(to)), (at = Math.min(at, (SIDE / size) ** 2 - 1)), draw()),
  });
  const embedded = bars({
    items: [],
    name: "The patch, embedded",
    high: 2,
    format: (x) => number(x, 3),
    valueName: "value",
  });
  const el = h("div.beside", h("div", sheet, live), picked);
  const frame = figure({
    title: "Cut, flatten, embed",
    controls: [pick.el],
    below: readings,
    name: "patches",
    picture: {
      el,
      table: () => ({
        columns: ["row", "column", "red", "green", "blue"],
        rows: Array.from({length: size * size}, (_, i) => [
          Math.floor(i / size),
          i % size,
          ...patches(IMAGE, size)[at].slice(3 * i, 3 * i + 3),
        ]),
      }),
      summary: () => `Patch ${at} of ${(SIDE / size) ** 2}, ${size} by ${size} pixels.`,
    },
    shows:
      "A patch is read row by row, three colours to a pixel, into one long vector; the " +
      "same matrix $W_{\\text{emb}}$ turns each patch into a vector of width $D$. Click a " +
      "patch, or use the arrow keys.",
    hides: "a learned matrix: this one is fixed noise, with $D = 6$ instead of hundreds.",
  });
  function select(to) {
    const across = SIDE / size;
    at = Math.max(0, Math.min(across * across - 1, to));
    live.textContent = `patch ${at}, row ${Math.floor(at / across)}, column ${at % across}`;
    draw();
  }
  on(sheet, "click", (event) => {
    const box = sheet.getBoundingClientRect(),
      across = SIDE / size;
    select(
      Math.floor(((event.clientY - box.top) / box.height) * across) * across +
        Math.floor(((event.clientX - box.left) / box.width) * across),
    );
  });
  on(sheet, "keydown", (event) => {
    const across = SIDE / size,
      by = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across}[event.key];
    if (!by) return;
    event.preventDefault();
    select(at + by);
  });
  function draw() {
    const flat = patches(IMAGE, size),
      across = SIDE / size,
      edge = 100 / across,
      x = flat[at].map((v) => v / 127.5 - 1);
    fill(
      sheet,
      painted(SIDE, SIDE, (r, c) => IMAGE[r][c], 5, "A house under a sun, 64 by 64 pixels"),
      h("div.sheet-grid", {style: {"background-size": `${edge}% ${edge}%`}}),
      h("div.sheet-now", {
        style: {
          width: `${edge}%`,
          height: `${edge}%`,
          left: `${(at % across) * edge}%`,
          top: `${Math.floor(at / across) * edge}%`,
        },
      }),
    );
    sheet.setAttribute("aria-label", `Picture in ${across} by ${across} patches`);
    const strip = painted(
      3,
      size * size,
      (channel, i) => [0, 1, 2].map((k) => (k === channel ? flat[at][3 * i + k] : 0)),
      1,
      `The patch as ${number(flat[at].length)} numbers`,
    );
    strip.style.setProperty("width", "100%");
    strip.style.setProperty("height", "36px");
    embedded.update({
      items: times([x], noiseMatrix(7, x.length, 6, 1 / Math.sqrt(x.length)))[0].map(
        (value, d) => ({label: `dimension ${d}`, value}),
      ),
    });
    fill(
      picked,
      h(
        "div.row",
        patchCanvas(flat[at], size, 96 / size, `Patch ${at}`),
        h("p.soft", `patch ${at}, ${size} × ${size} pixels`),
      ),
      h("p.sub", `flattened: ${number(flat[at].length)} numbers, red, green and blue`),
      strip,
      h("p.sub", "times the embedding matrix"),
      embedded.el,
    );
    fill(
      readings,
      reading("length of a patch", `${size} · ${size} · 3 = ${number(size * size * 3)}`),
      reading("patches", number(flat.length)),
      reading("the same for 224 × 224", number((224 / size) ** 2)),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

function together() {
  const row = h("ol.sequence", {"aria-label": "One sequence"}),
    readings = h("div.readings");
  let first = false;
  const order = toggle({label: "picture first", onchange: (on) => ((first = on), draw())});
  const pieces = () => {
    const text = WORDS.map((word) => ({kind: "text", label: word})),
      image = patches(IMAGE, 16).map((flat, n) => ({kind: "image", label: `patch ${n}`, flat}));
    return first ? [...image, ...text] : [...text, ...image];
  };
  const frame = figure({
    title: "Words and patches in one row",
    controls: [order.el],
    below: readings,
    name: "multimodal sequence",
    picture: {
      el: row,
      table: () => ({
        columns: ["place", "kind", "element"],
        rows: pieces().map((piece, i) => [i, piece.kind, piece.label]),
      }),
      summary: () => `${pieces().length} elements, ${WORDS.length} of text and 16 of the picture.`,
    },
    shows:
      "After embedding, a word and a patch are vectors of the same width. One Transformer " +
      "reads them as one sequence; every element may attend to every other.",
    hides:
      "how a model is told which is which: by the two tables that they are embedded with, " +
      "and by their positions.",
  });
  function draw() {
    fill(
      row,
      pieces().map((piece, i) =>
        h(
          "li",
          {class: `element ${piece.kind}`},
          piece.flat
            ? patchCanvas(piece.flat, 16, 2.5, piece.label)
            : h("span.chip-word", piece.label),
          h("span.soft", String(i)),
        ),
      ),
    );
    fill(
      readings,
      reading("length $T$", String(pieces().length)),
      reading("attention weights $T \\times T$", number(pieces().length ** 2)),
    );
    frame.refresh();
  }
  draw();
  return frame.el;
}

/** @param {HTMLElement} el */
function render(el) {
  el.append(
    section(
      "A picture is a sequence",
      p(
        "Cut a picture into squares and read them row by row, as one reads a page. What " +
          "were words are now patches; the rest of the Transformer stays as it is.",
      ),
      formula(
        "X = \\text{patches} \\cdot W_{\\text{emb}}, \\quad 16 \\cdot 16 \\cdot 3 = 768, " +
          "\\quad W_{\\text{emb}} \\in \\mathbf{R}^{768 \\times D}",
        "D",
      ),
      cutter(),
    ),
    section(
      "And so is a picture with its caption",
      p(
        "Nothing in attention asks what a vector came from. Text and picture can stand in " +
          "one row, in any order.",
      ),
      together(),
    ),
  );
}

export const lesson = {
  id: "patches",
  note: "Note D",
  title: "Pictures as sequences",
  short: "16 × 16 × 3 = 768, then like words.",
  lead:
    "Cut a picture into patches, flatten them, and put them in a row with words. The " +
    "Transformer does not mind.",
  render,
  checks: [
    () => ["length of a 16 × 16 patch", patches(IMAGE, 16)[0].length, 768, 0],
    () => ["patches of 64 × 64", patches(IMAGE, 16).length, 16, 0],
    () => ["patches of 224 × 224, as in ViT-B/16", patches(blank(224), 16).length, 196, 0],
    () => [
      "put together again: pixels that differ",
      assembled(patches(IMAGE, 16), 16, SIDE)
        .flat(2)
        .filter((v, i) => v !== IMAGE.flat(2)[i]).length,
      0,
      0,
    ],
    () => [
      "patch 5 begins at row 16, column 16: its red",
      patches(IMAGE, 16)[5][0],
      pixel(16, 16)[0],
      0,
    ],
    () => ["seven words and sixteen patches", WORDS.length + patches(IMAGE, 16).length, 23, 0],
  ],
};
