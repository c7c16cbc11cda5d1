// @ts-check
// The explorer in a frame of a notebook: requests go through a port to the kernel, and the
// selection is synchronized in both directions.
//   to the kernel     {id, ask: {op, ...}}   {id, lines: {op, ...}}   {id, cancel: true}   {select:
// {layer: 3}, gone: [], heard: 2}
//   from the kernel   {id, done, buffer}   {id, item}   {id, error, kind}   {select: {layer: 3},
// gone: []}   {theme: "dark"}
import {pages} from "./contents.js";
import {on} from "./dom.js";
import {mount} from "./shell.js";
import {DEFAULTS} from "./schema.js";
import {same} from "./state.js";
import {cancelled, makeWire, WireError} from "./wire.js";

const TOLD_EVERY = 60; // milliseconds: not one message for each cell of a hover

/** Questions over a port. @param {MessagePort} port @returns {import("./wire.js").Carrier} */
function overPort(port) {
  let count = 0;
  /** @type {Map<number, (said: any) => void>} */
  const waiting = new Map();
  on(port, "message", ({data}) => waiting.get(data.id)?.(data));

  /**
   * Sends a request; `heard` gets each answer, or {aborted} once. Returns a function that stops.
   */
  function asked(message, signal, heard) {
    const id = ++count,
      end = () => {
        waiting.delete(id);
        signal?.removeEventListener("abort", abort);
      };
    const abort = () => {
      end();
      port.postMessage({id, cancel: true});
      heard({aborted: true});
    };
    waiting.set(id, heard);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    else port.postMessage({id, ...message});
    return end;
  }

  async function* answers(message, signal) {
    const said = /** @type {any[]} */ ([]);
    let wake = () => {};
    const end = asked(message, signal, (one) => {
      said.push(one);
      wake();
    });
    try {
      for (;;) {
        while (!said.length) await new Promise((resolve) => (wake = () => resolve(null)));
        const one = said.shift();
        if (one.aborted) throw cancelled();
        if (one.error) throw new WireError(one.error, one.kind);
        yield one;
        if (one.done) return;
      }
    } finally {
      end();
    }
  }

  return {
    async ask(body, signal) {
      for await (const {buffer} of answers({ask: body}, signal)) return buffer;
      throw new WireError("The kernel did not answer; ask again.", "WireError");
    },
    async *lines(body, signal) {
      for await (const {item, done} of answers({lines: body}, signal))
        yield done ? {done: true} : item;
    },
  };
}

/**
 * The changes from a known selection to the present one. @param {any} now @param {any} known
 */
export function difference(now, known) {
  const select = Object.fromEntries(
    Object.entries(now).filter(([name, value]) => !same(value, known[name])),
  );
  return {select, gone: Object.keys(known).filter((name) => !(name in now))};
}

/**
 * Use the notebook's theme, unless the reader chose another (shell.js). @param {"light" |
 * "dark"} theme
 */
function themed(theme) {
  document.documentElement.dataset.host = theme;
  document.dispatchEvent(new Event("hostchange"));
}

/** @param {MessagePort} port @param {any} start @param {"light" | "dark"} theme */
async function begin(port, start, theme) {
  const early = /** @type {any[]} */ ([]);
  let known = {...DEFAULTS, ...start},
    timer = 0,
    count = 0,
    heard = (/** @type {any} */ said) => void early.push(said);
  on(port, "message", ({data}) => {
    if (data.theme) themed(data.theme);
    if (!data.select) return;
    count++; // tells the kernel whether both changed at the same time
    heard(data);
  });
  const wire = makeWire(overPort(port));
  port.start();
  themed(theme);
  const {state} = await mount(document.body, {pages, wire, bind: false, start});
  const tell = () => {
    timer = 0;
    const told = difference(state.get(), known);
    known = state.get();
    if (told.gone.length || Object.keys(told.select).length)
      port.postMessage({...told, heard: count});
  };
  state.subscribe(() => {
    timer ||= setTimeout(tell, TOLD_EVERY);
  });
  heard = ({select, gone}) => {
    known = {...known, ...select};
    for (const name of gone) delete known[name];
    state.set(
      {
        ...select,
        ...Object.fromEntries(gone.map((/** @type {string} */ name) => [name, undefined])),
      },
      {replace: true},
    );
  };
  early.forEach(heard);
  tell();
}

on(window, "message", ({data, source, ports}) => {
  if (source === parent && data?.glassformer === "start") begin(ports[0], data.start, data.theme);
});
parent.postMessage({glassformer: "ready"}, "*");
