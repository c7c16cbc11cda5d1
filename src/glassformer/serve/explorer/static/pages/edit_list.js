// @ts-check
// Edits as plain values of glassformer.inspect.edits: made from a selection, listed in order,
// described in words. An edit that is switched off is kept on a shelf with its index: {at, edit}.
import {number} from "../format.js";
import {canonical, same} from "../state.js";

/** @typedef {Record<string, any> & {edit: string, point: string}} Edit */
/** @typedef {{at: number, edit: Edit}[]} Shelf */

/** The edits of a head by purpose. `place`: decoder.blocks.3.attention */
export const zero = (/** @type {string} */ place, /** @type {number} */ head) => ({
  edit: "Zero",
  point: `${place}.z`,
  head,
});
export const mean = (/** @type {string} */ place, /** @type {number} */ head) => ({
  edit: "Mean",
  point: `${place}.z`,
  head,
});
export const scale = (/** @type {string} */ place, /** @type {number} */ head, by = 1) => ({
  edit: "Scale",
  point: `${place}.z`,
  head,
  by,
});
export const temperature = (/** @type {string} */ place, /** @type {number} */ head, tau = 1) => ({
  edit: "Temperature",
  point: `${place}.scores`,
  head,
  tau,
});
export const cut = (place, head, query, key) => ({
  edit: "Mask",
  point: `${place}.scores`,
  head,
  query,
  key,
});
export const weight = (place, head, query, key, to = 0) => ({
  edit: "Set",
  point: `${place}.pattern`,
  head,
  query,
  key,
  to,
  renormalise: true,
});
export const patch = (place, head, source) => ({edit: "Patch", point: `${place}.z`, head, source});
export const freeze = (place, head, source) => ({
  edit: "Freeze",
  point: `${place}.pattern`,
  head,
  source,
});

const VALUES = new Set(["to", "by", "tau", "source", "renormalise", "vector", "seed", "order"]);

/**
 * Kind and place of an edit, without its amount: equal ones replace each other. @param
 * {Edit} edit
 */
export function placed(edit) {
  return canonical(Object.fromEntries(Object.entries(edit).filter(([name]) => !VALUES.has(name))));
}

/** The edit of the same kind and place in a list. @param {Edit[]} edits @param {Edit} edit */
export function found(edits, edit) {
  return edits.find((one) => placed(one) === placed(edit)) ?? null;
}

/**
 * The list with an edit in place of the one of its kind and place, otherwise at the end. @param
 * {Edit[]} edits @param {Edit} edit
 */
export function put(edits, edit) {
  return found(edits, edit)
    ? edits.map((one) => (placed(one) === placed(edit) ? edit : one))
    : [...edits, edit];
}

/** The list without an edit of that kind and place. @param {Edit[]} edits @param {Edit} edit */
export function without(edits, edit) {
  return edits.filter((one) => placed(one) !== placed(edit));
}

/**
 * All edits in their order, those switched off among them. @param {Edit[]} edits @param {Shelf}
 * [shelf]
 */
export function ordered(edits, shelf = []) {
  const all = edits.map((edit) => ({edit, on: true}));
  for (const {at, edit} of [...shelf].sort((a, b) => a.at - b.at))
    all.splice(Math.min(at, all.length), 0, {edit, on: false});
  return all;
}

/** The same in the form of the selection. @param {{edit: Edit, on: boolean}[]} all */
export function split(all) {
  const shelf = all.flatMap(({edit, on}, at) => (on ? [] : [{at, edit}]));
  return {
    edits: all.filter((one) => one.on).map((one) => one.edit),
    shelf: shelf.length ? shelf : undefined,
  };
}

const WHAT = {attention: "self-attention", cross: "cross-attention"};

/**
 * Where an edit acts: "layer 2 head 3", "layer 1 resid_post". `alone`: the model has one stack
 * only. @param {Edit} edit
 */
function whereOf({point, head}, alone = false) {
  const at = /^(\w+)\.blocks\.(\d+|\*)\.(?:(attention|cross)\.)?(\w+)$/.exec(point);
  if (!at) return point;
  const [, stack, layer, site, kind] = at;
  const which =
    head === undefined
      ? site
        ? `all heads of ${WHAT[site]}`
        : kind
      : `head ${head}${site === "cross" ? " (cross)" : ""}`;
  return `${alone ? "" : `${stack} `}${layer === "*" ? "every layer," : `layer ${layer}`} ${which}`;
}

/**
 * What an edit does. `query` and `key` name elements by their index. @param {Edit} edit
 * @param {{query?: (i: number) => string, key?: (i: number) => string, alone?: boolean}} [names]
 */
export function inWords(edit, {query = String, key = String, alone = false} = {}) {
  const where = whereOf(edit, alone),
    edge = edit.query === undefined ? "" : `${query(edit.query)} → ${key(edit.key)}`;
  const keys = (one) =>
    one === undefined
      ? "anything"
      : !Array.isArray(one)
        ? key(one)
        : one.length > 4
          ? `${one.length} elements`
          : one.map(key).join(", ");
  const words = {
    Zero: () => `${where} says nothing: its output is 0, which no model met in training`,
    Mean: () => `${where} says the same everywhere: the mean over all positions`,
    Resample: () => `${where} says what it would at another position`,
    Scale: () => `${where} speaks ${number(edit.by, 3)} times as loudly`,
    Temperature: () =>
      `${where} at temperature ${number(edit.tau, 3)}: it looks ` +
      `${edit.tau < 1 ? "more sharply" : "more evenly"}`,
    Mask: () =>
      edit.query === undefined
        ? `${where}: nobody may read ` + `${keys(edit.key)}, ` + "and the rest of each row grows"
        : `${where}: the edge ${edge} is cut before the softmax, and the rest of the row grows`,
    Set: () =>
      `${where}: the weight ${edge} is ` +
      (typeof edit.to === "number" ? number(edit.to, 3) : "set") +
      (edit.renormalise ? ", and the rest of the row makes room" : ""),
    Patch: () => `${where} says what it says in another input`,
    Freeze: () => `${where} looks as it did in another input`,
    Add: () => `something is added at ${where}`,
    Permute: () => `${where}: the positions in another order`,
  };
  return (words[edit.edit] ?? (() => `${edit.edit} at ${where}`))();
}

/**
 * Whether an edit acts inside this head. @param {Edit} edit @param {string} place @param {number}
 * head
 */
export function acts(edit, place, head) {
  const pattern = edit.point
      .split("*")
      .map((piece) => piece.replace(/[.\\^$+?()[\]{}|]/g, "\\$&"))
      .join(".*"),
    begin = new RegExp(`^${pattern}$`);
  const kinds = ["q", "k", "v", "scores", "pattern", "z"];
  return (
    kinds.some((kind) => begin.test(`${place}.${kind}`)) &&
    (edit.head === undefined ||
      same(edit.head, head) ||
      (Array.isArray(edit.head) && edit.head.includes(head)) ||
      typeof edit.head === "string")
  );
}
