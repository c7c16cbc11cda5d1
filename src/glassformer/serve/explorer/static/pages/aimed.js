// @ts-check
// Shared by the pages about one answer: its position, its outcome, the elements as a line to select
// from.
import {fill, h, on} from "../dom.js";
import {isPatch, number, percent, token} from "../format.js";
import {css, ink, isDark, level, ramp} from "../ramp.js";
import {select} from "../marks.js";
import {lookOf, schema} from "../schema.js";
import {same} from "../state.js";

/**
 * @typedef {{label: string, id: number | null, kind: string, word?: number | null, row?: number |
 * null, column?: number | null}} Element
 */

/** Fields that an answer depends on, beside the look. */
export const AIM = ["position", "target", "against"];

/**
 * Position and outcome: the selected ones, or the likeliest outcome at an informative position.
 * Positions below -1 count from the end. @param {any} s @param {any} looked
 */
export function aimOf({position, target, against}, looked) {
  const rows = looked.outcome.rows,
    count = looked.elements.length,
    whole = looked.outcome.kind === "class",
    there = position !== -1 && position >= -count && position < count;
  const at = whole ? -1 : there ? (position + count) % count : telling(looked);
  const row = whole ? rows[0] : rows[at],
    chosen = target ?? row?.top[0]?.id ?? 0;
  return {
    position: at,
    target: chosen,
    against: against === chosen ? null : against,
    whole,
    top: row?.top ?? [],
  };
}

/**
 * An informative position: what is masked, the last word that has a tag, the end
 * of a text. @param {any} looked
 */
export function telling({elements, outcome}) {
  const masked = elements.findIndex((one) => one.kind === "special" && /mask/i.test(one.label));
  if (masked >= 0) return masked;
  if (outcome.kind !== "tags") return elements.length - 1;
  const words = elements.flatMap((one, i) =>
    one.kind === "token" && /\p{L}{3}/u.test(one.label) ? [i] : [],
  );
  return words[words.length - 1] ?? elements.length - 1;
}

/**
 * First requests of the page *Flow*: an outcome, the positions around it, the number of outcomes.
 * @param {any} app @param {any} s @param {any} looked
 */
export function firstChoice(app, s, looked) {
  const {window: most, outcomes} = schema.limits;
  const aim = aimOf(s, looked);
  const count = looked.elements.length;
  const begin = Math.max(0, Math.min(count - most, aim.position - most / 2));
  return {
    aim,
    positions: aim.whole ? null : Array.from({length: Math.min(most, count)}, (_, i) => begin + i),
    k: Math.min(outcomes, app.model.classes.length || outcomes),
  };
}

/** Two sentences that differ in one word, for the page *Compare*. */
export const PAIR = [
  "The chicken didn't cross the road because it was too tired.",
  "The chicken didn't cross the road because it was too wide.",
];

/**
 * The changes of A that make B, on the page *Compare*: the chosen ones, else without its edits,
 * else the other sentence of the pair, or another example. @param {any} app @param {any} s
 */
export function changesOfB(app, {b, input, edits}) {
  if (b) return b;
  if (edits.length) return {input, edits: []};
  const another = app.model.examples.find((one) => !same(one, input)) ?? input;
  return {input: input === PAIR[0] ? PAIR[1] : another};
}

/** The look B of the page *Compare*. @param {any} app @param {any} s */
export function otherLook(app, s) {
  return {...lookOf(s), ...changesOfB(app, s)};
}

/** The elements of which one is the position of the answer. @param {any} app */
export function positionStrip(app) {
  return strip({
    elements: [],
    name: "Position of the answer",
    onselect: (position) => app.state.set({position, target: null}),
  });
}

/**
 * Two choices: the outcome, and another to compare it with. Call `show(looked)` after the look or
 * the position changed.
 * @param {any} app
 */
export function aimControls(app) {
  const box = h("div.aim.row");
  let turn = 0;
  return {
    el: box,
    async show(/** @type {any} */ looked) {
      const aim = aimOf(app.state.get(), looked),
        mine = ++turn;
      let options = aim.top;
      if (app.model.classes.length)
        options = app.model.classes.map((label, id) => ({
          id,
          label,
          p: aim.top.find((one) => one.id === id)?.p,
        }));
      else {
        try {
          const {header, arrays} = await app.call("next", {
            look: app.look(),
            position: aim.position,
          });
          options = Array.from(arrays.ids.data, (id, i) => ({
            id,
            label: header.labels[id],
            p: arrays.before.data[i],
          }));
        } catch {
          // a multi-label model has a likeliest outcome too
        }
      }
      if (mine !== turn) return;
      for (const id of [aim.target, aim.against])
        if (id !== null && !options.some((one) => one.id === id))
          options = [...options, {id, label: `outcome ${id}`}];
      const listed = options.map(({id, label, p}) => ({
        value: String(id),
        label: `${shown(label)}${p === undefined ? "" : `  ${percent(p, 2)}`}`,
      }));
      fill(
        box,
        select({
          label: "Outcome",
          value: String(aim.target),
          options: listed,
          onchange: (to) => app.state.set({target: Number(to)}),
        }).el,
        select({
          label: "instead of",
          value: aim.against === null ? "" : String(aim.against),
          options: [
            {value: "", label: "nothing: its own logit"},
            ...listed.filter((one) => one.value !== String(aim.target)),
          ],
          onchange: (to) => app.state.set({against: to === "" ? null : Number(to)}),
        }).el,
      );
    },
  };
}

/**
 * A token's text that can stand in a list: whitespace drawn; that of a patch as it is. @param
 * {string | {label: string, kind?: string}} one @returns {string}
 */
export function shown(one) {
  return token(one).textContent ?? "";
}

/** The next larger number of two digits, for the end of a scale. @param {number} x */
export function round(x) {
  const unit = 10 ** (Math.floor(Math.log10(x)) - 1);
  return Number((Math.ceil(x / unit - 1e-9) * unit).toPrecision(3));
}

/** What an outcome is called. @param {any} looked @param {any} app @param {number} id */
export function outcomeName(looked, app, id) {
  return (
    app.model.classes[id] ??
    looked.outcome.rows.flatMap((row) => row.top).find((one) => one.id === id)?.label ??
    `outcome ${id}`
  );
}

/**
 * The elements in a line, each tinted by a number and, with `onselect`, selectable by mouse, or
 * arrow keys and Enter. Adjacent patches are one piece.
 * @param {{elements: Element[], name: string, values?: ArrayLike<number> | null, kind?: "attention"
 * | "signed", high?: number, selected?: number | null,
 *   onselect?: (index: number) => void}} options
 */
export function strip(options) {
  let o = {kind: /** @type {"attention" | "signed"} */ ("signed"), ...options};
  const el = h("div.element-line", {role: o.onselect ? "listbox" : "list", "aria-label": o.name});
  function draw() {
    const held = el.contains(document.activeElement),
      table = ramp(o.kind, isDark()),
      values = o.values ?? null;
    const high = o.high ?? Math.max(1e-12, ...Array.from(values ?? [], Math.abs)),
      parts = [];
    for (let i = 0; i < o.elements.length; i++) {
      const one = o.elements[i],
        patch = isPatch(one);
      if (patch) {
        const first = i;
        while (i + 1 < o.elements.length && o.elements[i + 1].kind === one.kind) i++;
        parts.push(
          h(
            "span.line-patches",
            {role: o.onselect ? "presentation" : "listitem"},
            `${i - first + 1} patches of ${one.kind}`,
          ),
        );
        continue;
      }
      const step = values ? level(values[i], {kind: o.kind, scale: "linear", high}) : null,
        now = i === o.selected;
      const tint =
        step === null || !Number.isFinite(values?.[i])
          ? {}
          : {background: css(table, step), color: ink(table, step)};
      const title = values ? `${shown(one)}: ${number(values[i])}` : `element ${i}`;
      parts.push(
        h(
          "span",
          {
            class: `line-element${now ? " now" : ""}`,
            style: tint,
            title,
            dataset: {i},
            role: o.onselect ? "option" : "listitem",
            ...(o.onselect
              ? {"aria-selected": now, tabindex: now || (o.selected === null && i === 0) ? 0 : -1}
              : {}),
            "aria-label": values ? title : null,
          },
          token(one),
        ),
      );
    }
    fill(el, parts);
    if (o.onselect && !el.querySelector("[tabindex='0']"))
      /** @type {any} */ (el.querySelector(".line-element"))?.setAttribute("tabindex", "0");
    if (held) /** @type {any} */ (el.querySelector("[tabindex='0']"))?.focus();
  }
  on(el, "click", (event) => {
    const at = event.target.closest?.("[data-i]");
    if (at) o.onselect?.(Number(at.dataset.i));
  });
  on(el, "keydown", (event) => {
    const all = [...el.querySelectorAll("[data-i]")],
      at = all.indexOf(/** @type {any} */ (event.target.closest?.("[data-i]")));
    const to = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    if (!o.onselect || at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ")
      o.onselect(Number(/** @type {any} */ (all[at]).dataset.i));
    else if (to !== undefined)
      /** @type {any} */ (all[Math.max(0, Math.min(all.length - 1, to))]).focus();
    else return;
    event.preventDefault();
  });
  draw();
  return {
    el,
    update(/** @type {Partial<typeof options>} */ patch) {
      o = {...o, ...patch};
      draw();
    },
  };
}
