// @ts-check
// The one selection that all pages share. It stands in the address, so a link restores what was on
// the screen.
//   #page=head&input=The chicken&layer=3&head=5

/** What is selected when nothing was said; the address leaves these out. */
export const DEFAULTS = Object.freeze({
  page: "",
  lesson: "",
  input: null,
  edits: [],
  checkpoint: null,
  side: "",
  site: "self",
  layer: 0,
  head: 0,
  query: null,
  key: null,
  position: -1,
  target: null,
  against: null,
  step: 0,
});

/** @typedef {Record<string, any>} Selection */

/**
 * A selection: get(), set(patch, {replace}), subscribe(fn(now, before)) -> off, toHash(), toJSON(),
 * toPython(run).
 * `replace` (a hover, a slider): the step is not one for the browser's Back.
 * `home`: what is selected where an address does not say, such as the first example.
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
      // one may stop another: a page that is left
      for (const fn of [...listeners]) if (listeners.has(fn)) fn(now, before, replace);
    },
    /** Puts a whole selection in place of the present one. */
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
    toPython: (/** @type {string} */ run) => toPython(now, run),
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
 * The selection in an address; what cannot be read is left out. @param {string} hash @returns
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
      // a damaged link opens with what can be read of it
    }
  }
  return found;
}

/** Lines of Python that lead to what is selected. @param {Selection} s @param {string} run */
export function toPython(s, run) {
  const edits = s.edits.length ? `, edits=[${s.edits.map(editPython).join(", ")}]` : "";
  const checkpoint = s.checkpoint === null ? "" : `, checkpoint=${python(s.checkpoint)}`;
  const place = [`layer=${s.layer}`, `head=${s.head}`];
  if (s.side) place.push(`side=${python(s.side)}`);
  if (s.site !== "self") place.push(`site=${python(s.site)}`);
  const cell = s.query === null ? "" : s.key === null ? `[${s.query}]` : `[${s.query}, ${s.key}]`;
  return [
    "import glassformer as gf",
    `run = gf.load(${python(run)}${checkpoint})`,
    `look = gf.look(run, ${inputPython(s.input ?? "")}${edits})`,
    `pattern = look.pattern(${place.join(", ")})`,
    `pattern${cell}`,
  ].join("\n");
}

/**
 * An input as `gf.look` takes it: pairs are tuples, pictures and recordings are files. @param {any}
 * input @returns {string}
 */
function inputPython(input) {
  if (Array.isArray(input)) {
    if (input.every((part) => typeof part === "number")) return python(input);
    const parts = input.map(partPython).join(", ");
    const ids = (part) =>
      Array.isArray(part) && part.length > 0 && part.every((one) => typeof one === "number");
    const pair =
      input.length === 2 &&
      (typeof input[1] === "string" || ids(input[1])) &&
      (typeof input[0] === "string" || Array.isArray(input[0]));
    return pair ? `(${parts})` : `[${parts}]`;
  }
  return input?.image || input?.audio ? python(fileName(input)) : partPython(input);
}

function partPython(part) {
  if (typeof part === "string" || typeof part === "number") return python(part);
  if (Array.isArray(part)) return `[${part.map(partPython).join(", ")}]`;
  if (part?.text !== undefined) return python(part.text);
  return part?.image
    ? `{"image": ${python(fileName(part))}}`
    : `{"audio": ${python(fileName(part))}}`;
}

function fileName({image, audio}) {
  const where = image ?? audio,
    stem = where.startsWith("example:") ? where.replace(":", "-") : image ? "picture" : "recording";
  return `${stem}.${image ? "png" : "wav"}`;
}

/**
 * Keeps selection and address equal; returns how to stop. @param {ReturnType<typeof makeState>}
 * state
 */
export function bindToAddress(state) {
  let push = false,
    timer = 0,
    seen = location.hash;
  state.restore(fromHash(seen));
  const write = () => {
    timer = 0;
    if (location.hash !== seen) return back(); // a link was followed meanwhile: it goes before
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
    if (location.hash === seen) return; // one step is told twice
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

function editPython({edit, point, ...rest}) {
  const source = (look) => {
    if (typeof look === "string") return look;
    const edits = look.edits?.length ? `, edits=[${look.edits.map(editPython).join(", ")}]` : "";
    return `gf.look(run, ${inputPython(look.input)}${edits})`;
  };
  const options = Object.entries(rest).map(
    ([name, value]) => `${name}=${name === "source" ? source(value) : python(value)}`,
  );
  return `gf.edits.${edit}(${[python(point), ...options].join(", ")})`;
}

/**
 * A plain value as Python writes it; JSON's slices "2:5" stay text. @param {any} value @returns
 * {string}
 */
export function python(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([k, v]) => `${python(k)}: ${python(v)}`)
      .join(", ")}}`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
