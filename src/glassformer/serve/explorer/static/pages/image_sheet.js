// @ts-check
// An image or a spectrogram on a canvas, with a grid of patches, colours, and a selected patch.
import {h, on, onWidth, svg} from "../dom.js";
import {isPatch, number} from "../format.js";
import {isDark, level, onTheme, ramp} from "../ramp.js";

/** Most pixels of the height of a spectrogram. */
const TALL = 220;

/**
 * @typedef {{pixels: {shape: number[], data: Uint8Array}, grid: [number, number], turned: boolean,
 * kind: string}} Shown  an answer of the op picture
 */

/**
 * An image. `values`, one for each patch row by row, colour it with `opacity`.
 * Arrow keys move, Enter pins.
 * @param {{shown: Shown, values?: ArrayLike<number> | null, colours?: "attention" | "signed",
 * scale?: string, high?: number, opacity?: number, selected?: number | null,
 *   bare?: boolean, grid?: boolean, smooth?: boolean, most?: number, name: string, valueName?:
 * string, label?: (patch: number) => string, onselect?: ((patch: number) => void) | null}} options
 *   bare: the values alone, without the image; smooth: colours run into each other; label: what a
 * patch is called
 */
export function sheet(options) {
  let o = {
      colours: /** @type {"attention" | "signed"} */ ("attention"),
      scale: "sqrt",
      high: 1,
      opacity: 0.75,
      grid: true,
      most: 380,
      valueName: "weight",
      ...options,
    },
    wide = 0;
  const canvas = h("canvas"),
    live = h("p.sr", {"aria-live": "polite"});
  const stack = h(
    "div.patches",
    {
      ...(o.onselect
        ? {tabindex: 0, role: "application", "aria-roledescription": "image in patches"}
        : {role: "img"}),
    },
    canvas,
  );
  const el = h("div.patches-room", stack, live);
  const across = () => (o.shown.turned ? o.shown.grid[0] : o.shown.grid[1]),
    down = () => (o.shown.turned ? o.shown.grid[1] : o.shown.grid[0]);
  /** Place of a patch on the screen: [across, down]. */
  const place = (patch) => {
    const columns = o.shown.grid[1],
      row = Math.floor(patch / columns),
      column = patch % columns;
    return o.shown.turned ? [row, columns - 1 - column] : [column, row];
  };
  const patchAt = (x, y) => {
    const [rows, columns] = o.shown.grid,
      [row, column] = o.shown.turned ? [x, columns - 1 - y] : [y, x];
    return (
      Math.max(0, Math.min(rows - 1, row)) * columns + Math.max(0, Math.min(columns - 1, column))
    );
  };
  const named = (patch) => {
    if (o.label) return o.label(patch);
    const columns = o.shown.grid[1],
      row = Math.floor(patch / columns),
      column = patch % columns;
    return o.shown.kind === "spectrogram"
      ? `frame ${row}${columns > 1 ? `, band ${column}` : ""}`
      : `patch ${row},${column}`;
  };
  const say = (patch) =>
    `${named(patch)}${o.values ? `, ${o.valueName} ${number(o.values[patch])}` : ""}`;

  function draw() {
    if (!wide) return;
    const [H, W] = o.shown.pixels.shape,
      fine = Math.min(2, devicePixelRatio || 1),
      w = wide,
      t = Math.max(40, Math.min(Math.round((wide * H) / W), o.shown.turned ? TALL : o.most)),
      context = canvas.getContext("2d");
    canvas.width = Math.round(w * fine);
    canvas.height = Math.round(t * fine);
    canvas.style.setProperty("width", `${w}px`);
    canvas.style.setProperty("height", `${t}px`);
    context.scale(fine, fine);
    const style = getComputedStyle(el);
    if (!o.bare) {
      context.imageSmoothingEnabled = false;
      context.drawImage(canvasOf(o.shown.pixels), 0, 0, w, t);
    }
    const cw = w / across(),
      ct = t / down(),
      count = across() * down();
    if (o.values) {
      const table = ramp(o.colours, isDark()),
        heat = h("canvas", {width: across(), height: down()}),
        image = new ImageData(across(), down());
      const pixels = new Uint32Array(image.data.buffer);
      for (let i = 0; i < count; i++) {
        const [x, y] = place(i);
        pixels[y * across() + x] =
          table[level(o.values[i], {kind: o.colours, scale: o.scale, high: o.high})];
      }
      heat.getContext("2d").putImageData(image, 0, 0);
      context.imageSmoothingEnabled = Boolean(o.smooth);
      context.globalAlpha = o.bare ? 1 : o.opacity;
      context.drawImage(heat, 0, 0, w, t);
      context.globalAlpha = 1;
    }
    if (o.grid && cw >= 5 && ct >= 5) {
      context.strokeStyle = style.backgroundColor;
      context.lineWidth = 1;
      context.beginPath();
      for (let x = 1; x < across(); x++) context.rect(Math.round(x * cw), 0, 0, t);
      for (let y = 1; y < down(); y++) context.rect(0, Math.round(y * ct), w, 0);
      context.stroke();
    }
    if (o.selected !== null && o.selected !== undefined && o.selected >= 0) {
      const [x, y] = place(o.selected);
      context.strokeStyle = style.backgroundColor;
      context.lineWidth = 6;
      context.strokeRect(x * cw, y * ct, cw, ct);
      context.strokeStyle = style.color;
      context.lineWidth = 2.5;
      context.strokeRect(x * cw, y * ct, cw, ct);
    }
    stack.setAttribute("aria-label", `${o.name}, ${down()} by ${across()} patches`);
    stack.dataset.patch = `${cw} ${ct}`;
  }
  function select(x, y) {
    const patch = patchAt(
      Math.max(0, Math.min(across() - 1, x)),
      Math.max(0, Math.min(down() - 1, y)),
    );
    o.onselect?.(patch);
    live.textContent = say(patch);
  }
  on(stack, "click", (event) => {
    if (!o.onselect) return;
    const box = canvas.getBoundingClientRect();
    select(
      Math.floor(((event.clientX - box.left) / box.width) * across()),
      Math.floor(((event.clientY - box.top) / box.height) * down()),
    );
  });
  on(stack, "keydown", (event) => {
    const moves = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
    if (!o.onselect || !(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey)
      return;
    const [x, y] = place(Math.max(0, o.selected ?? 0));
    select(x + moves[event.key][0], y + moves[event.key][1]);
    event.preventDefault();
  });
  const offs = [
    onWidth(el, (width) => {
      wide = Math.min(width, o.shown.turned ? 760 : o.most);
      draw();
    }),
    onTheme(() => draw()),
  ];
  return {
    el,
    canvas,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
    destroy: () => offs.forEach((off) => off()),
    table: () => ({
      columns: ["row", "column", o.valueName],
      rows: Array.from({length: o.shown.grid[0] * o.shown.grid[1]}, (_, i) => [
        String(Math.floor(i / o.shown.grid[1])),
        i % o.shown.grid[1],
        o.values ? o.values[i] : "",
      ]),
    }),
    summary() {
      if (!o.values) return `${o.name}: ${down()} by ${across()} patches.`;
      const order = Array.from({length: across() * down()}, (_, i) => i).sort(
        (a, b) =>
          Math.abs(/** @type {any} */ (o.values)[b]) - Math.abs(/** @type {any} */ (o.values)[a]),
      );
      return `${o.name}: strongest ${order.slice(0, 3).map(say).join("; ")}.`;
    },
  };
}

/**
 * Several sheets as one image. @param {{canvas: HTMLCanvasElement}[]}
 * sheets @param {number} [columns]
 */
export function sheetsSvg(sheets, columns = 3) {
  const side = Math.max(1, ...sheets.map((one) => one.canvas.width)),
    tall = Math.max(1, ...sheets.map((one) => one.canvas.height)),
    gap = 16;
  return svg(
    "svg",
    {
      viewBox:
        `0 0 ${Math.min(columns, sheets.length) * (side + gap)} ` +
        `${Math.ceil(sheets.length / columns) * (tall + gap)}`,
    },
    sheets.map(({canvas}, i) =>
      svg("image", {
        href: canvas.toDataURL(),
        x: (i % columns) * (side + gap),
        y: Math.floor(i / columns) * (tall + gap),
        width: canvas.width,
        height: canvas.height,
      }),
    ),
  );
}

/**
 * The elements of each image or audio of a sequence, by index. @param {any[]} elements
 * @returns {number[][]}
 */
export function partsOf(elements) {
  /** @type {number[][]} */
  const all = [];
  elements.forEach((one, i) => {
    if (!isPatch(one)) return;
    const last = all[all.length - 1],
      goes =
        last &&
        elements[last[0]].kind === one.kind &&
        last[last.length - 1] === i - 1 &&
        !(one.row === 0 && one.column === 0);
    if (goes) last.push(i);
    else all.push([i]);
  });
  return all;
}

/**
 * Pixels [H, W, C] as a canvas, one pixel each. @param {{shape: number[], data: Uint8Array}} pixels
 */
export function canvasOf({shape: [height, width, channels], data}) {
  const canvas = h("canvas.pixels", {width, height, "aria-hidden": true}),
    context = canvas.getContext("2d"),
    image = context.createImageData(width, height);
  for (let i = 0; i < height * width; i++) {
    for (let c = 0; c < 3; c++)
      image.data[4 * i + c] = data[i * channels + (channels === 1 ? 0 : c)];
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Answers of the op picture for each image or audio of a look. @param {any} app @param
 * {number} count @returns {Promise<Shown[]>}
 */
export async function picturesOf(app, count) {
  return Promise.all(
    Array.from({length: count}, async (_, part) => {
      const {header, arrays} = await app.call("picture", {look: app.look(), part});
      return {...header, pixels: arrays.pixels};
    }),
  );
}
