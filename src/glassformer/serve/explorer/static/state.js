// @ts-check
// The selection, shared by all pages. The address holds it, so a link restores the screen.
//   #page=head&input=The chicken&layer=3&head=5

import {DEFAULTS} from "./schema.js";

/** @typedef {Record<string, any>} Selection */

/**
 * A selection: get(), set(patch, {replace}), subscribe(fn(now, before)) -> off, toHash(), toJSON().
 * `replace` (a hover, a slider): no new entry in the browser's history.
 * `home`: values for what an address leaves out, such as the first example.
 * @param {Selection} [start] @param {Selection} [home]
 */
export function makeState(start = {}, home = {}) {
  let now = {...DEFAULTS, ...home, ...start};
  /** @type {Set<(now: Selection, before: Selection, replace: boolean) => void>} */
  const listeners = new Set();
  const state = {
    get: () => now,
    set(/** @type {Selection} */ patch, {replace = false} = {}) {
      const before = now,
        next = {...now};
      for (const [name, value] of Object.entries(patch)) {
        if (value === undefined) delete next[name];
        else next[name] = value;
      }
      if (same(next, before)) return;
      now = next;
      // a listener may remove another, such as that of the last page
      for (const fn of [...listeners]) if (listeners.has(fn)) fn(now, before, replace);
    },
    /** Replace the whole selection. */
    restore(/** @type {Selection} */ values, {replace = true} = {}) {
      const gone = Object.fromEntries(
        Object.keys(now)
          .filter((name) => !(name in DEFAULTS))
          .map((name) => [name, undefined]),
      );
      state.set({...gone, ...DEFAULTS, ...home, ...values}, {replace});
    },
    subscribe(/** @type {(now: Selection, before: Selection, replace: boolean) => void} */ fn) {
      listeners.add(fn);
      return () => listeners.delete(fn);
    },
    toHash: () => toHash(now),
    toJSON: () => ({...now}),
  };
  return state;
}

/** Whether two plain values are equal. @param {any} a @param {any} b */
export function same(a, b) {
  return a === b || canonical(a) === canonical(b);
}

/**
 * A value as JSON with its keys in order: equal values give equal text. @param {any} value @returns
 * {string}
 */
export function canonical(value) {
  return JSON.stringify(value, (_, part) =>
    part && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/** @param {Selection} selection */
export function toHash(selection) {
  const parts = Object.entries(selection)
    .filter(
      ([name, value]) => value !== undefined && !(name in DEFAULTS && same(value, DEFAULTS[name])),
    )
    .map(([name, value]) => `${escaped(name)}=${escaped(written(value))}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

/**
 * The selection in an address; unreadable fields are left out. @param {string} hash @returns
 * {Selection}
 */
export function fromHash(hash) {
  /** @type {Selection} */
  const found = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [name, ...rest] = part.split("=");
    if (!name || !rest.length) continue;
    try {
      found[decodeURIComponent(name)] = read(
        decodeURIComponent(rest.join("=").replaceAll("+", " ")),
      );
    } catch {
      // of a damaged link, the readable fields are used
    }
  }
  return found;
}

/**
 * Keep selection and address equal; returns a function that stops. @param {ReturnType<typeof
 * makeState>} state
 */
export function bindToAddress(state) {
  let push = false,
    timer = 0,
    seen = location.hash;
  state.restore(fromHash(seen));
  const write = () => {
    timer = 0;
    if (location.hash !== seen) return back(); // a link was followed meanwhile, which has priority
    const hash = state.toHash();
    if (hash !== (location.hash === "#" ? "" : location.hash)) {
      const url = hash || location.pathname + location.search;
      if (push) history.pushState(null, "", url);
      else history.replaceState(null, "", url);
      seen = location.hash;
    }
    push = false;
  };
  const off = state.subscribe((now, before, replace) => {
    push ||= !replace;
    if (!timer) timer = setTimeout(write, 120); // browsers refuse hundreds of addresses a second
  });
  const back = () => {
    if (location.hash === seen) return; // both events fire for one step
    seen = location.hash;
    push = false;
    if (location.hash !== state.toHash()) state.restore(fromHash(location.hash));
  };
  addEventListener("popstate", back);
  addEventListener("hashchange", back);
  return () => {
    off();
    clearTimeout(timer);
    removeEventListener("popstate", back);
    removeEventListener("hashchange", back);
  };
}

const PLAIN = /^(null|true|false|-?\d+(\.\d+)?(e[+-]?\d+)?|[[{"].*)$/s;

function written(value) {
  return typeof value === "string" && !PLAIN.test(value) ? value : JSON.stringify(value);
}

function read(text) {
  return PLAIN.test(text) ? JSON.parse(text) : text;
}

function escaped(text) {
  return encodeURIComponent(text)
    .replaceAll("%20", "+")
    .replace(/%(2C|3A|2F|5B|5D|22|7B|7D|3F)/g, decodeURIComponent);
}
