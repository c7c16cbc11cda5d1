// @ts-check
// A matrix of numbers as cells: heatmap for one, atlas for many small ones. Drawn on canvas, used
// by mouse, touch and keyboard.
import {fill, h, on, onWidth, svg} from "./dom.js";
import {labelOf, number, token} from "./format.js";
import {css, ink, isDark, level, onTheme, ramp} from "./ramp.js";

/** @typedef {string | {label: string, kind?: string}} Label */
/**
 * @typedef {object} MatrixOptions
 * @property {Label[]} rows @property {Label[]} columns
 * @property {ArrayLike<number>} [values]  row by row; or
 * @property {Uint8Array} [bytes]  colours' steps 0..255 that are drawn as they are (value =
 * (byte/255)²)
 * @property {"attention" | "signed"} [kind] @property {string} [scale]  sqrt, linear or log
 * @property {number} [low] @property {number} [high]
 * @property {((row: number, column: number) => boolean) | null} [masked]  hatched: not seen at all,
 * which is not 0
 * @property {string} [name]  its accessible name @property {string} [rowName] @property {string}
 * [columnName] @property {string} [valueName]
 * @property {boolean} [digits]  numbers in the cells where there is room @property {number}
 * [places]
 * @property {number} [most]  the largest side of a cell, px @property {number} [cellHeight]
 * @property {{row: number, column: number} | null} [selected]
 * @property {(row: number, column: number, how: {pinned: boolean}) => void} [onselect]
 * @property {(row: number, column: number) => string} [say]  a cell in words
 * @property {((row: number) => string) | null} [margin]  text at the end of each row, such as its
 * sum @property {string} [marginName]
 * @property {((row: number, column: number) => string) | null} [mark]  a class of cells to outline:
 * "good", "bad" or ""
 */

const HATCH = 6;

/**
 * A matrix with labels, crosshair, read-out, keyboard and table.
 * Arrows move, Shift+Left/Right goes to the row's largest, Shift+Up/Down to the column's, Home and
 * End to the ends, Enter pins.
 * @param {MatrixOptions} options
 */
export function heatmap(options) {
  let o = {
    kind: "attention",
    scale: "sqrt",
    low: 0,
    high: 1,
    masked: null,
    name: "Matrix",
    rowName: "query",
    columnName: "key",
    valueName: "weight",
    digits: true,
    places: 2,
    most: 56,
    selected: null,
    margin: null,
    marginName: "sum",
    mark: null,
    ...options,
  };
  let at = o.selected,
    hover = null,
    wide = 1,
    tall = 1,
    strongest = /** @type {number[] | null} */ (null);
  const canvas = h("canvas.matrix-canvas"),
    cross = h("div.matrix-cross", {"aria-hidden": true});
  const stack = h(
    "div.matrix-stack",
    {tabindex: 0, role: "application", "aria-roledescription": "matrix"},
    canvas,
    cross,
  );
  const rowLabels = h("div.matrix-rows", {"aria-hidden": true}),
    columnLabels = h("div.matrix-columns", {"aria-hidden": true});
  const margin = h("div.matrix-margin"),
    corner = h("div.matrix-corner", {"aria-hidden": true});
  const readout = h("p.readout"),
    live = h("p.sr", {"aria-live": "polite"});
  const grid = h("div.matrix-grid", corner, columnLabels, h("div"), rowLabels, stack, margin);
  const el = h("div.matrix", grid, readout, live);

  const T = () => o.rows.length,
    S = () => o.columns.length;
  const hidden = (r, c) => Boolean(o.masked?.(r, c));
  const valueAt = (i) => (o.values ? o.values[i] : ((o.bytes?.[i] ?? 0) / 255) ** 2),
    stepAt = (i) => (o.bytes ? o.bytes[i] : level(valueAt(i), o));
  const value = (r, c) => valueAt(r * S() + c),
    stepOf = (r, c) => stepAt(r * S() + c);
  const say = (r, c) =>
    o.say?.(r, c) ??
    `${o.rowName} ${labelOf(o.rows[r])}, ${o.columnName} ${labelOf(o.columns[c])}, ` +
      (hidden(r, c)
        ? "masked"
        : `${o.valueName} ${o.bytes ? "about " : ""}${number(value(r, c), o.bytes ? 2 : 4)}`);

  function measure(width) {
    const longest = Math.max(...o.rows.map((row) => labelOf(row).length), 3),
      named = Math.max(o.rowName.length, o.columnName.length);
    const left = Math.min(150, Math.max(14 + 8.5 * longest, 34 + 7 * named)),
      right = o.margin ? 84 : 0;
    const room = Math.max(60, width - left - right - 6);
    wide = Math.min(o.most, room / S());
    if (wide > 3) wide = Math.floor(wide);
    tall = o.cellHeight ?? wide;
    grid.style.setProperty(
      "grid-template-columns",
      `${left}px ${Math.round(wide * S())}px ${right ? `${right}px` : "0"}`,
    );
  }

  function draw() {
    if (!el.isConnected && !wide) return;
    const fine = Math.min(2, devicePixelRatio || 1),
      w = Math.max(1, Math.round(wide * S())),
      t = Math.max(1, Math.round(tall * T()));
    canvas.width = Math.round(w * fine);
    canvas.height = Math.round(t * fine);
    canvas.style.setProperty("width", `${w}px`);
    canvas.style.setProperty("height", `${t}px`);
    const context = canvas.getContext("2d"),
      table = ramp(o.kind, isDark());
    const small = h("canvas", {width: S(), height: T()}),
      smallContext = small.getContext("2d"),
      image = smallContext.createImageData(S(), T());
    const pixels = new Uint32Array(image.data.buffer),
      [rows, columns] = [T(), S()],
      {bytes, masked} = o; // there may be a million cells
    for (let r = 0, i = 0; r < rows; r++)
      for (let c = 0; c < columns; c++, i++)
        pixels[i] = masked?.(r, c) ? 0 : table[bytes ? bytes[i] : stepAt(i)];
    smallContext.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = wide * fine < 1; // otherwise cells would be left out
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    context.scale(fine, fine);
    if (o.masked) hatch(context, w, t);
    const style = getComputedStyle(el);
    if (wide >= 12 && tall >= 12) lines(context, style.getPropertyValue("background-color"), w, t);
    if (o.mark) marks(context, style);
    if (o.digits && wide >= 38 && tall >= 20) digits(context, table, style.fontFamily);
    labels();
    point();
    stack.setAttribute("aria-label", `${o.name}, ${T()} by ${S()}`);
    stack.dataset.cell = `${wide} ${tall}`;
  }

  /** Behind the cells: it is seen where none is drawn. */
  function hatch(context, w, t) {
    const pattern = h("canvas", {width: HATCH, height: HATCH}),
      p = pattern.getContext("2d");
    p.strokeStyle = isDark() ? "#ffffff3d" : "#0000002e";
    p.lineWidth = 1;
    for (const shift of [-HATCH, 0, HATCH]) {
      p.moveTo(shift, HATCH);
      p.lineTo(shift + HATCH, 0);
    }
    p.stroke();
    context.fillStyle = context.createPattern(pattern, "repeat");
    context.globalCompositeOperation = "destination-over";
    context.fillRect(0, 0, w, t);
    context.globalCompositeOperation = "source-over";
  }

  function lines(context, paper, w, t) {
    context.fillStyle = paper;
    for (let c = 1; c < S(); c++) context.fillRect(Math.round(c * wide) - 0.5, 0, 1, t);
    for (let r = 1; r < T(); r++) context.fillRect(0, Math.round(r * tall) - 0.5, w, 1);
  }

  function marks(context, style) {
    for (let r = 0; r < T(); r++) {
      for (let c = 0; c < S(); c++) {
        const kind = o.mark?.(r, c);
        if (!kind) continue;
        context.strokeStyle =
          style.getPropertyValue(kind === "bad" ? "--mark-bad" : "--mark-good") || style.color;
        context.lineWidth = 2;
        context.strokeRect(c * wide + 2, r * tall + 2, wide - 4, tall - 4);
      }
    }
  }

  function digits(context, table, family) {
    context.font = `${wide >= 46 ? 14 : 13}px ${family}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let r = 0; r < T(); r++) {
      for (let c = 0; c < S(); c++) {
        if (hidden(r, c)) continue;
        const x = value(r, c),
          text =
            x === 0
              ? "0"
              : Number.isFinite(x)
                ? x
                    .toFixed(o.places)
                    .replace(/^(-?)0\./, "$1.")
                    .replace("-", "−")
                : number(x);
        context.fillStyle = ink(table, stepOf(r, c));
        context.fillText(text, (c + 0.5) * wide, (r + 0.5) * tall + 0.5);
      }
    }
  }

  function labels() {
    const everyRow = Math.max(1, Math.ceil((o.rows.some((row) => !labelOf(row)) ? 1 : 18) / tall)),
      flat = Math.max(...o.columns.map((c) => labelOf(c).length)) * 8.2 + 6 <= wide;
    const everyColumn = Math.max(
      1,
      Math.ceil((o.columns.some((column) => !labelOf(column)) ? 1 : flat ? 14 : 18) / wide),
    );
    columnLabels.classList.toggle("upright", !flat);
    const most = Math.max(...o.columns.map((column) => labelOf(column).length));
    columnLabels.style.setProperty(
      "height",
      flat ? "1.7rem" : `${Math.min(6.2, 1 + 0.56 * most)}rem`,
    );
    fill(
      rowLabels,
      o.rows.map(
        (row, r) =>
          r % everyRow === 0 &&
          h("span", {style: {top: `${(r + 0.5) * tall}px`}, dataset: {i: r}}, token(row)),
      ),
    );
    fill(
      columnLabels,
      o.columns.map(
        (column, c) =>
          c % everyColumn === 0 &&
          h("span", {style: {left: `${(c + 0.5) * wide}px`}, dataset: {i: c}}, token(column)),
      ),
    );
    rowLabels.style.setProperty("height", `${tall * T()}px`);
    fill(corner, h("span", `${o.rowName} ↓`), h("span", `${o.columnName} →`));
    fill(
      margin,
      o.margin && [
        h("span.margin-name", o.marginName),
        o.rows.map(
          (_, r) =>
            r % everyRow === 0 &&
            h("span.margin-value", {style: {top: `${(r + 0.5) * tall}px`}}, o.margin(r)),
        ),
      ],
    );
  }

  function point() {
    const shown = hover ?? at;
    for (const [holder, index] of [
      [rowLabels, shown?.row],
      [columnLabels, shown?.column],
    ]) {
      for (const span of holder.children)
        span.classList.toggle("now", Number(span.dataset.i) === index);
    }
    cross.hidden = !shown;
    if (shown) {
      for (const [name, px] of Object.entries({
        "--x": shown.column * wide,
        "--y": shown.row * tall,
        "--w": wide,
        "--h": tall,
      }))
        cross.style.setProperty(name, `${px}px`);
      fill(
        readout,
        h(
          "span.readout-cell",
          token(o.rows[shown.row]),
          h("span.readout-to", " → "),
          token(o.columns[shown.column]),
        ),
        h(
          "output",
          hidden(shown.row, shown.column)
            ? "masked"
            : `${o.bytes ? "≈ " : ""}${number(value(shown.row, shown.column), o.bytes ? 2 : 4)}`,
        ),
      );
    } else {
      fill(readout, h("span.readout-hint", "Point at a cell, or use the arrow keys."));
    }
  }

  function select(row, column, pinned = false) {
    at = {row: Math.max(0, Math.min(T() - 1, row)), column: Math.max(0, Math.min(S() - 1, column))};
    hover = null;
    point();
    live.textContent = say(at.row, at.column);
    o.onselect?.(at.row, at.column, {pinned});
  }

  /** The cell of the largest number between two rows and two columns. */
  function largest(top = 0, bottom = T(), left = 0, right = S()) {
    const columns = S(),
      numbers = o.values ?? o.bytes ?? []; // bytes stand in the order of what they mean
    let best = top * columns + left,
      most = -1;
    for (let r = top; r < bottom; r++) {
      for (let c = left, i = r * columns + left; c < right; c++, i++) {
        const size = Math.abs(numbers[i]);
        if (size > most && !hidden(r, c)) [best, most] = [i, size];
      }
    }
    return [Math.floor(best / columns), best % columns];
  }

  const cellAt = (event) => {
    const box = canvas.getBoundingClientRect();
    return {
      row: Math.max(0, Math.min(T() - 1, Math.floor((event.clientY - box.top) / tall))),
      column: Math.max(0, Math.min(S() - 1, Math.floor((event.clientX - box.left) / wide))),
    };
  };
  on(stack, "pointermove", (event) => {
    hover = cellAt(event);
    point();
  });
  on(stack, "pointerleave", () => {
    hover = null;
    point();
  });
  on(stack, "click", (event) => {
    const cell = cellAt(event);
    select(cell.row, cell.column, true);
  });
  on(stack, "focus", () => at ?? select(0, 0));
  on(stack, "keydown", (event) => {
    const {row, column} = at ?? {row: 0, column: 0};
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves && event.shiftKey) {
      const sideways = moves[event.key][0] === 0,
        best = sideways ? largest(row, row + 1) : largest(0, T(), column, column + 1);
      select(best[0], best[1]);
    } else if (event.key in moves) select(row + moves[event.key][0], column + moves[event.key][1]);
    else if (event.key === "Home") select(row, 0);
    else if (event.key === "End") select(row, S() - 1);
    else if (event.key === "Enter" || event.key === " ") select(row, column, true);
    else return;
    event.preventDefault();
  });
  const offs = [
    onWidth(el, (width) => {
      measure(width);
      draw();
    }),
    onTheme(() => draw()),
  ];

  return {
    el,
    canvas,
    /** Other numbers, labels or a selection: only what changes needs to be given. */
    update(/** @type {Partial<MatrixOptions>} */ patch) {
      o = {...o, ...patch};
      if ("selected" in patch) at = patch.selected ?? null;
      if (at && (at.row >= T() || at.column >= S())) at = null;
      if (Object.keys(patch).every((name) => name === "selected")) return point();
      strongest = null;
      if (patch.rows || patch.columns || "margin" in patch || !wide) measure(el.clientWidth);
      draw();
    },
    select,
    /** The value of a cell. */
    value,
    destroy: () => offs.forEach((off) => off()),
    summary() {
      if (!T() || !S()) return "";
      strongest ??= largest();
      return (
        `${o.name}: ${T()} rows by ${S()} columns. Strongest: ` +
        `${say(strongest[0], strongest[1])}.`
      );
    },
    table() {
      return {
        columns: [`${o.rowName} \\ ${o.columnName}`, ...o.columns.map(labelOf)],
        rows: o.rows.map((row, r) => [
          labelOf(row),
          ...o.columns.map((_, c) => (hidden(r, c) ? "masked" : value(r, c))),
        ]),
      };
    },
    /** Vector cells and labels up to 64 by 64; above, the cells are one embedded picture. */
    toSvg() {
      const side = Math.max(4, Math.min(40, 640 / S())),
        left = 130,
        top = 100,
        table = ramp(o.kind, isDark());
      const ground = getComputedStyle(el).color,
        cells = [];
      if (T() * S() <= 4096) {
        for (let r = 0; r < T(); r++) {
          for (let c = 0; c < S(); c++) {
            const box = {x: left + c * side, y: top + r * side, width: side - 1, height: side - 1};
            cells.push(
              svg(
                "rect",
                hidden(r, c)
                  ? {
                      ...box,
                      fill: "none",
                      stroke: ground,
                      "stroke-opacity": 0.25,
                      "stroke-dasharray": "2 2",
                    }
                  : {...box, fill: css(table, stepOf(r, c))},
              ),
            );
          }
        }
      } else
        cells.push(
          svg("image", {
            href: canvas.toDataURL(),
            x: left,
            y: top,
            width: side * S(),
            height: side * T(),
            preserveAspectRatio: "none",
          }),
        );
      const every = Math.max(1, Math.ceil(12 / side)),
        font = {
          "font-size": Math.min(13, Math.max(8, side)),
          "font-family": "monospace",
          fill: ground,
        };
      const text = [
        ...o.rows.map(
          (row, r) =>
            r % every === 0 &&
            svg(
              "text",
              {
                ...font,
                x: left - 6,
                y: top + (r + 0.5) * side,
                "text-anchor": "end",
                "dominant-baseline": "central",
              },
              labelOf(row),
            ),
        ),
        ...o.columns.map(
          (column, c) =>
            c % every === 0 &&
            svg(
              "text",
              {...font, transform: `translate(${left + (c + 0.5) * side} ${top - 6}) rotate(-60)`},
              labelOf(column),
            ),
        ),
      ];
      return svg(
        "svg",
        {viewBox: `0 0 ${left + S() * side + 40} ${top + T() * side + 10}`},
        cells,
        text,
      );
    },
  };
}

/**
 * Many small matrices, layers by heads: arrows move, Enter opens.
 * @param {{rows: number, columns: number, size: number, bytes: Uint8Array, name: string, rowName?:
 * string, columnName?: string, rowNames?: string[], selected?: {row: number, column: number},
 *   dimmed?: (row: number, column: number) => boolean, say?: (row: number, column: number) =>
 * string, note?: (row: number, column: number) => string,
 *   onselect?: (row: number, column: number) => void, onopen?: (row: number, column: number) =>
 * void}} options  bytes: √-steps, [rows, columns, size, size]
 */
export function atlas(options) {
  let o = {rowName: "layer", columnName: "head", ...options},
    at = o.selected ?? {row: 0, column: 0},
    side = 64;
  const gap = 8,
    canvas = h("canvas.atlas-canvas"),
    cross = h("div.atlas-cross", {"aria-hidden": true});
  const stack = h(
    "div.matrix-stack",
    {tabindex: 0, role: "application", "aria-roledescription": "grid of matrices"},
    canvas,
    cross,
  );
  const rowLabels = h("div.atlas-rows", {"aria-hidden": true}),
    columnLabels = h("div.atlas-columns", {"aria-hidden": true});
  const live = h("p.sr", {"aria-live": "polite"}),
    readout = h("p.readout");
  const el = h(
    "div.atlas",
    h("div.atlas-grid", h("div"), columnLabels, rowLabels, stack),
    readout,
    live,
  );
  const say = (r, c) => o.say?.(r, c) ?? `${o.rowName} ${r}, ${o.columnName} ${c}`;

  function draw() {
    const step = side + gap,
      w = o.columns * step - gap,
      t = o.rows * step - gap,
      fine = Math.min(2, devicePixelRatio || 1);
    canvas.width = w * fine;
    canvas.height = t * fine;
    canvas.style.setProperty("width", `${w}px`);
    canvas.style.setProperty("height", `${t}px`);
    const context = canvas.getContext("2d"),
      table = ramp("attention", isDark()),
      thumb = h("canvas", {width: o.size, height: o.size});
    const small = thumb.getContext("2d"),
      image = small.createImageData(o.size, o.size),
      pixels = new Uint32Array(image.data.buffer);
    context.imageSmoothingEnabled = side < o.size;
    context.scale(fine, fine);
    for (let r = 0; r < o.rows; r++) {
      for (let c = 0; c < o.columns; c++) {
        const from = (r * o.columns + c) * o.size * o.size;
        for (let i = 0; i < pixels.length; i++) pixels[i] = table[o.bytes[from + i]];
        small.putImageData(image, 0, 0);
        context.globalAlpha = o.dimmed?.(r, c) ? 0.2 : 1;
        context.drawImage(thumb, c * step, r * step, side, side);
      }
    }
    fill(
      rowLabels,
      Array.from({length: o.rows}, (_, r) =>
        h("span", {style: {top: `${r * step + side / 2}px`}}, o.rowNames?.[r] ?? String(r)),
      ),
    );
    const longest = Math.max(0, ...(o.rowNames ?? []).map((name) => name.length));
    el.style.setProperty("--row-names", `${Math.max(2, 1.2 + 0.55 * longest)}rem`);
    fill(
      columnLabels,
      Array.from({length: o.columns}, (_, c) =>
        h("span", {style: {left: `${c * step + side / 2}px`}}, String(c)),
      ),
    );
    stack.setAttribute(
      "aria-label",
      `${o.name}, ${o.rows} ${o.rowName}s by ${o.columns} ${o.columnName}s`,
    );
    point();
  }

  function point() {
    for (const [name, px] of Object.entries({
      "--x": at.column * (side + gap),
      "--y": at.row * (side + gap),
      "--w": side,
      "--h": side,
    }))
      cross.style.setProperty(name, `${px}px`);
    fill(
      readout,
      h(
        "span.readout-cell",
        `${o.rowName} ${o.rowNames?.[at.row] ?? at.row}, ${o.columnName} ${at.column}`,
      ),
      h("output", o.note?.(at.row, at.column) ?? ""),
    );
  }

  function select(row, column) {
    at = {
      row: Math.max(0, Math.min(o.rows - 1, row)),
      column: Math.max(0, Math.min(o.columns - 1, column)),
    };
    point();
    live.textContent = say(at.row, at.column);
    o.onselect?.(at.row, at.column);
  }

  on(stack, "click", (event) => {
    const box = canvas.getBoundingClientRect(),
      step = side + gap;
    const row = Math.floor((event.clientY - box.top) / step),
      column = Math.floor((event.clientX - box.left) / step);
    const again = row === at.row && column === at.column;
    select(row, column);
    if (again || event.detail > 1) o.onopen?.(at.row, at.column);
  });
  on(stack, "keydown", (event) => {
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) select(at.row + moves[event.key][0], at.column + moves[event.key][1]);
    else if (event.key === "Home") select(at.row, 0);
    else if (event.key === "End") select(at.row, o.columns - 1);
    else if (event.key === "Enter") o.onopen?.(at.row, at.column);
    else return;
    event.preventDefault();
  });
  const offs = [
    onWidth(el, (width) => {
      // few heads are shown larger
      const most = Math.max(96, Math.min(176, Math.floor(800 / Math.max(o.rows, o.columns))));
      side = Math.max(
        16,
        Math.min(
          most,
          Math.floor(
            (width - 40 - 8 * Math.max(0, ...(o.rowNames ?? []).map((name) => name.length))) /
              o.columns,
          ) - gap,
        ),
      );
      draw();
    }),
    onTheme(() => draw()),
  ];
  return {
    el,
    canvas,
    select,
    update(/** @type {any} */ patch) {
      o = {...o, ...patch};
      if (patch.selected) at = patch.selected;
      if (Object.keys(patch).every((name) => name === "selected")) point();
      else draw();
    },
    destroy: () => offs.forEach((off) => off()),
    summary: () => `${o.name}: ${o.rows} ${o.rowName}s of ${o.columns} ${o.columnName}s.`,
    table: () => ({
      columns: [o.rowName, o.columnName, "note"],
      rows: Array.from({length: o.rows * o.columns}, (_, i) => {
        const row = Math.floor(i / o.columns),
          column = i % o.columns;
        return [o.rowNames?.[row] ?? row, column, o.note?.(row, column) ?? ""];
      }),
    }),
  };
}
