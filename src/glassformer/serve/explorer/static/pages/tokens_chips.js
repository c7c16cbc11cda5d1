// @ts-check
// Tokens as chips in a row: chosen by a click, dragged to another place, moved and left out by
// keys, replaced by typing.
import {h, on} from "../dom.js";
import {token} from "../format.js";

/** @typedef {any} Unit  see head_patterns.js */
/** @typedef {{which: "" | "source", unit: Unit} | null} Held  what is dragged */
/**
 * @typedef {object} Row
 * @property {"" | "source"} which @property {any[]} list @property {Unit[]} units @property
 * {string} name
 * @property {boolean} movable @property {Set<number>} hidden @property {(place: number) =>
 * string[]} tags  was and is, or is alone
 * @property {(unit: Unit) => {query: boolean, key: boolean}} chosen @property {number} editing  the
 * unit that is being replaced, −1: none
 */
/**
 * @typedef {object} Acts
 * @property {(which: "" | "source", place: number) => void} pick @property {(which: "" | "source",
 * unit: Unit, to: number) => void} move  in front of a place
 * @property {(which: "" | "source", unit: Unit) => void} leave @property {(which: "" | "source",
 * unit: Unit) => void} hide
 * @property {(which: "" | "source", at: number, focus?: number) => void} edit  −1: no more
 * @property {(which: "" | "source", unit: Unit, text: string) => void} replace
 * @property {(id: string | null) => void} light
 */

/** One sequence. @param {Row} row @param {Acts} act @param {{now: Held}} hand */
export function chipRow(row, act, hand) {
  const {which, list, units, movable} = row;
  return h(
    "ol.token-chips",
    {"aria-label": row.name},
    units.map((unit, u) => {
      const first = list[unit.from[0]],
        ids = unit.from.map((i) => list[i].id),
        last = unit.from[unit.from.length - 1],
        {query, key} = row.chosen(unit);
      if (u === row.editing) return h("li", field(unit, row, act));
      const tags = row.tags(unit.from[0]),
        out = unit.from.every((i) => row.hidden.has(i)),
        where = unit.from.length > 1 ? `${unit.from[0]} to ${last}` : String(unit.from[0]);
      const chip = h(
        "button",
        {
          type: "button",
          class:
            "token-chip " +
            first.kind +
            (query ? " is-query" : "") +
            (key ? " is-key" : "") +
            (out ? " is-hidden" : ""),
          draggable: movable ? "true" : "false",
          dataset: {id: ids.length === 1 ? String(ids[0] ?? "") : "", i: unit.from[0]},
          "aria-pressed": query || key,
          "aria-keyshortcuts": movable ? "Alt+ArrowLeft Alt+ArrowRight Delete Enter" : null,
          "aria-label":
            `${unit.label}, position ${where}, ` +
            first.kind +
            (ids[0] === null ? "" : `, id ${ids.join(" and ")}`) +
            (query ? ", the query" : "") +
            (key ? ", the key" : "") +
            (out ? ", hidden from attention" : ""),
          onclick: () => act.pick(which, unit.from[0]),
          ondblclick: () => movable && act.edit(which, u),
          onkeydown: (event) => keyed(event, u),
          onpointerenter: (event) => act.light(event.currentTarget.dataset.id),
          onpointerleave: () => act.light(null),
          onfocus: (event) => act.light(event.currentTarget.dataset.id),
          onblur: () => act.light(null),
          ondragstart: (event) => {
            hand.now = {which, unit};
            event.dataTransfer?.setData("text/plain", unit.label);
          },
          ondragend: () => (hand.now = null),
        },
        h("span.token-text", token(unit)),
        h(
          "span.token-id",
          ids[0] === null ? (ids.length > 1 ? String(ids.length) : "") : ids.join(" "),
        ),
        tags.length > 0 &&
          h(
            "span",
            {class: `token-tag${tags.length > 1 ? " changed" : ""}`},
            tags.length > 1 && [h("s", tags[0]), " "],
            tags[tags.length - 1],
          ),
        query ? h("b.token-role.q", {"aria-hidden": true}, "Q") : null,
        key ? h("b.token-role.k", {"aria-hidden": true}, "K") : null,
      );
      return landing(h("li", chip), (after) => (after ? last + 1 : unit.from[0]));
    }),
  );

  function keyed(event, u) {
    const unit = units[u],
      chips = [...event.currentTarget.closest("ol").querySelectorAll("button")],
      by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (by && event.altKey && movable) {
      const other = units[u + by];
      if (other)
        act.move(which, unit, by < 0 ? other.from[0] : other.from[other.from.length - 1] + 1);
    } else if (by && !event.altKey && !event.shiftKey && !event.ctrlKey && !event.metaKey)
      chips[chips.indexOf(event.currentTarget) + by]?.focus();
    else if (movable && (event.key === "Delete" || event.key === "Backspace"))
      (event.shiftKey ? act.hide : act.leave)(which, unit);
    else if (movable && event.key === "Enter") act.edit(which, u);
    else return;
    event.preventDefault();
  }

  /** A place that a token can be dropped before or behind. */
  function landing(li, placeOf) {
    const mark = (side) => {
      li.classList.toggle("drop-before", side === 0);
      li.classList.toggle("drop-after", side === 1);
    };
    const side = (event) => {
      const box = li.getBoundingClientRect();
      return Number(event.clientX > box.left + box.width / 2);
    };
    on(li, "dragover", (event) => {
      if (hand.now?.which !== which) return;
      event.preventDefault();
      mark(side(event));
    });
    on(li, "dragleave", () => mark(-1));
    on(li, "drop", (event) => {
      event.preventDefault();
      mark(-1);
      if (hand.now?.which === which) act.move(which, hand.now.unit, placeOf(side(event)));
      hand.now = null;
    });
    return li;
  }
}

/** What a token is replaced by. Enter takes it, Escape leaves all as it was. */
function field(unit, {which}, act) {
  let over = false;
  const end = (fn) => {
    if (over) return;
    over = true;
    fn();
  };
  return h("input.token-edit", {
    type: "text",
    value: unit.label,
    size: Math.max(4, unit.label.length + 2),
    spellcheck: false,
    autocomplete: "off",
    "aria-label":
      `Other text in place of ${unit.label.trim() || "this token"}; Enter takes it, Escape ` +
      "leaves it",
    onkeydown: (event) => {
      if (event.key === "Enter" && !event.isComposing)
        end(() => act.replace(which, unit, event.currentTarget.value));
      else if (event.key === "Escape") end(() => act.edit(which, -1, unit.from[0]));
      else return;
      event.preventDefault();
    },
    onblur: () => end(() => act.edit(which, -1)),
  });
}

/**
 * A button that does something with the chosen token, or with one that is dropped on it. @param
 * {HTMLElement} one @param {{now: Held}} hand @param {(held: NonNullable<Held>) => void} fn
 */
export function catching(one, hand, fn) {
  on(
    one,
    "dragover",
    (event) => hand.now && (event.preventDefault(), one.classList.add("catches")),
  );
  on(one, "dragleave", () => one.classList.remove("catches"));
  on(one, "drop", (event) => {
    event.preventDefault();
    one.classList.remove("catches");
    const held = hand.now;
    hand.now = null;
    if (held) fn(held);
  });
  return one;
}
