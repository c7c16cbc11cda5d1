// @ts-check
// Images and spectrograms as the model gets them: pixels under a grid of patches that can be
// selected.
import {fill, h} from "../dom.js";
import {number} from "../format.js";
import {superseded} from "../wire.js";
import {canvasOf, sheet as drawing, partsOf} from "./image_sheet.js";

/** Up to this many patches, each is a button; more are one image. */
const BUTTONS = 400;

/**
 * The patches of a sequence in their grids; null: there are none.
 * @param {any} app @param {any[]} elements @param {{selected: number | null, onselect: (i: number)
 * => void}} how
 */
export function patches(app, elements, {selected, onselect}) {
  const all = partsOf(elements);
  if (!all.length) return null;
  let over = false;
  const offs = /** @type {(() => void)[]} */ ([]),
    selects = /** @type {((i: number | null) => void)[]} */ ([]);
  let out = /** @type {Set<number>} */ (new Set());
  const el = h(
    "div.patch-sheets",
    all.map((from, number_) => {
      const sheet = h("div.patch-sheet", h("p.soft", "…"));
      app
        .call("picture", {look: app.look(), part: number_})
        .then(({header, arrays}) => {
          if (over) return;
          const [rows, columns] = header.grid,
            [across, down] = header.turned ? [rows, columns] : [columns, rows],
            canvas = canvasOf(arrays.pixels),
            [height, width] = arrays.pixels.shape;
          const large =
            from.length > BUTTONS
              ? drawing({
                  shown: {...header, pixels: arrays.pixels},
                  name: "The patches: choose one",
                  selected: selected === null ? null : from.indexOf(selected),
                  label: (patch) => elements[from[patch]].label,
                  onselect: (patch) => onselect(from[patch]),
                })
              : null;
          if (large) {
            offs.push(large.destroy);
            selects.push((i) => large.update({selected: i === null ? null : from.indexOf(i)}));
          }
          const grid =
            large?.el ??
            h(
              "div.patch-grid",
              {style: {"--across": across, "--down": down, "--shape": `${width} / ${height}`}},
              canvas,
              h(
                "div.patch-cells",
                {role: "group", "aria-label": `${rows} by ${columns} patches`},
                from.map((i) => {
                  const {row, column} = elements[i],
                    place = header.turned
                      ? {"grid-column": row + 1, "grid-row": columns - column}
                      : {"grid-column": column + 1, "grid-row": row + 1};
                  return h("button", {
                    type: "button",
                    class: `patch${out.has(i) ? " is-hidden" : ""}`,
                    style: place,
                    "aria-pressed": i === selected,
                    dataset: {i},
                    title: `${elements[i].label}, position ${i}`,
                    "aria-label": `${elements[i].label}, position ${i}`,
                    onclick: () => onselect(i),
                  });
                }),
              ),
            );
          fill(
            sheet,
            grid,
            h(
              "p.soft",
              (header.turned ? "spectrogram, time to the right" : `${width} by ${height} pixels`) +
                ", " +
                `${number(rows)} by ${number(columns)} patches, positions ${from[0]} to ` +
                `${from[from.length - 1]}`,
            ),
          );
        })
        .catch((error) => superseded(error) || over || app.failed(sheet, error));
      return sheet;
    }),
  );
  /**
   * Update the selected and the hidden patches. @param {number | null} i @param {Set<number>}
   * hidden
   */
  const select = (i, hidden) => {
    [selected, out] = [i, hidden];
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (el.querySelectorAll(".patch"))) {
      one.setAttribute("aria-pressed", String(Number(one.dataset.i) === i));
      one.classList.toggle("is-hidden", out.has(Number(one.dataset.i)));
    }
    selects.forEach((fn) => fn(i));
  };
  return {
    el,
    select,
    off: () => {
      over = true;
      offs.forEach((off) => off());
    },
  };
}
