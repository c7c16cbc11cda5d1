// @ts-check
// Shared by the pages about attention: the selected attention, its queries and keys, names of
// heads, redrawing after changes of the selection.
import {clear} from "../dom.js";
import {fixed} from "../format.js";
import {choice, slider} from "../marks.js";
import {same} from "../state.js";
import {superseded} from "../wire.js";

/**
 * @typedef {{side: string, site: string, stack: string, layers: number, heads: number}} Kind  an
 * attention of the model
 */

/** What a look depends on. */
export const LOOK = ["input", "edits", "checkpoint"];
/** What a head depends on. */
export const HEAD = [...LOOK, "side", "site", "layer", "head"];

/** The attention that is selected. @param {any} app @returns {Kind} */
export function kindOf(app) {
  const {side, site} = app.state.get();
  return (
    app.model.attentions.find((kind) => kind.side === side && kind.site === site) ??
    app.model.attentions[0]
  );
}

/** In full: "self-attention of the decoder". @param {Kind} kind */
export function kindName({site, stack}) {
  return site === "cross"
    ? "cross-attention, decoder to encoder"
    : `self-attention of the ${stack}`;
}

/**
 * Where an attention's points are: decoder.blocks.3.attention. @param {any} app @param {number}
 * [layer]
 */
export function placeOf(app, layer = app.state.get().layer) {
  const kind = kindOf(app);
  return `${kind.stack}.blocks.${layer}.${kind.site === "cross" ? "cross" : "attention"}`;
}

/** The elements of the queries and of the keys. @param {any} looked @param {Kind} kind */
export function sequences(looked, kind) {
  const source = looked.source_elements?.length ? looked.source_elements : looked.elements;
  const queries = kind.side === "encoder" ? source : looked.elements;
  return {queries, keys: kind.site === "cross" ? source : queries};
}

/** A choice between the model's attentions, where it has several. @param {any} app */
export function kindTabs(app) {
  const kinds = app.model.attentions,
    key = ({side, site}) => `${side}/${site}`;
  if (kinds.length < 2) return null;
  return choice({
    label: "Attention",
    value: key(kindOf(app)),
    options: kinds.map((kind) => ({
      value: key(kind),
      label: kind.site === "cross" ? "cross" : kind.side || "self",
    })),
    onchange: (to) => {
      const [side, site] = to.split("/");
      app.state.set({side, site, query: null, key: null});
    },
  });
}

/** Sliders of the selected layer and head. @param {any} app */
export function headDials(app) {
  const kind = kindOf(app);
  return [
    ["layer", kind.layers],
    ["head", kind.heads],
  ].map(([name, count]) =>
    slider({
      label: name,
      min: 0,
      max: Math.max(1, count - 1),
      step: 1,
      value: app.state.get()[name],
      compact: true,
      oninput: (x) => app.state.set({[name]: Math.min(count - 1, Math.round(x))}, {replace: true}),
    }),
  );
}

/**
 * Call `draw(fresh)` now and after each change of the named fields of the selection; `fresh()` is
 * false after a newer call began. Errors go to `said`. Returns a function that stops. @param {any}
 * app @param {string[]} names @param {Element} said @param {(fresh: () => boolean) => any} draw
 */
export function follow(app, names, said, draw) {
  let turn = 0;
  const go = async () => {
    const mine = ++turn,
      fresh = () => mine === turn;
    try {
      await draw(fresh);
      if (fresh()) clear(said);
    } catch (error) {
      if (superseded(error) || !fresh()) return;
      app.failed(said, error);
      if (/** @type {any} */ (error).name !== "WireError") throw error;
    }
  };
  const off = app.state.subscribe(
    (now, before) => names.some((name) => !same(now[name], before[name])) && go(),
  );
  go();
  return () => {
    turn++;
    off();
  };
}

/** Metrics that are shares of attention, and names of heads with a large share. */
export const SHARES = {
  induction: "induction",
  previous: "previous token",
  diagonal: "own token",
  first: "first token",
  repeated: "repeated token",
  special: "special tokens",
  punctuation: "punctuation",
};
const NAMED = 0.3;

/**
 * Description of a head with its number: "≈ previous token 0.94", "spread, 2.8
 * bits", "sharp, 0.4 bits". A description of this input, not of the head's purpose.
 * @param {string[]} names @param {ArrayLike<number>} values
 */
export function headName(names, values) {
  let best = "",
    most = NAMED;
  for (const name of Object.keys(SHARES)) {
    // the more specific first: it wins a tie
    const value = values[names.indexOf(name)];
    if (value > most + 1e-6) [best, most] = [name, value];
  }
  const bits = values[names.indexOf("entropy")];
  return best
    ? `≈ ${SHARES[best]} ${fixed(most)}`
    : `${bits < 1 ? "sharp" : "spread"}, ${fixed(bits, 1)} bits`;
}
