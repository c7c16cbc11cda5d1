// @ts-check
// Tokens taken in the hand: moved, left out, replaced, hidden. An input becomes a list of ids; what
// hides a token is an edit of the model.
import {same} from "../state.js";

/**
 * The list with the elements at `block`, which stand together, in front of the place `to`.
 * @template T @param {T[]} list @param {number[]} block @param {number} to @returns {T[]}
 */
export function moved(list, block, to) {
  const inside = new Set(block),
    stay = (from, end) => list.filter((_, i) => i >= from && i < end && !inside.has(i));
  return [...stay(0, to), ...block.map((i) => list[i]), ...stay(to, list.length)];
}

/**
 * The list without these places. @template T @param {T[]} list @param {number[]} block @returns
 * {T[]}
 */
export function without(list, block) {
  return list.filter((_, i) => !block.includes(i));
}

/**
 * The list with others in these places, which stand together. @template T @param {T[]} list @param
 * {number[]} block @param {T[]} by @returns {T[]}
 */
export function replaced(list, block, by) {
  return [...list.slice(0, block[0]), ...by, ...list.slice(block[block.length - 1] + 1)];
}

/**
 * Whether the tokens of a sequence can be moved: they are ids, and the model is given nothing but
 * them. @param {any} model @param {any[]} list
 */
export function movable(model, list) {
  // which text an id belongs to cannot be said in a list
  const kinds = (model.config.n_token_types ?? 0) > 1;
  return list.length > 0 && !kinds && list.every((one) => one.id !== null);
}

/**
 * An input with other ids in one of its sequences. @param {any} model @param {any} input @param {""
 * | "source"} which @param {number[]} ids
 */
export function inputOf(model, input, which, ids) {
  if (!model.capabilities.includes("pair")) return ids;
  const pair =
    Array.isArray(input) && input.length === 2 && input.some((part) => typeof part !== "number")
      ? input
      : [input, ""];
  return which === "source" ? [ids, pair[1]] : [pair[0], ids];
}

/**
 * The input whose look says what ids a text is. @param {any} model @param {"" | "source"} which
 * @param {string} text
 */
export function spelled(model, which, text) {
  if (!model.capabilities.includes("pair")) return text;
  return which === "source" ? [text, ""] : ["a", text];
}

/**
 * The edits that hide tokens from everybody: their columns of the scores are −∞ in every layer.
 * @param {any} model @param {"" | "source"} which @param {number[]} places
 */
function hiding(model, which, places) {
  const stack = model.attentions[0].stack,
    key = places.length === 1 ? places[0] : [...places].sort((a, b) => a - b),
    at = (/** @type {string} */ place) => ({edit: "Mask", point: `${place}.scores`, key});
  if (!places.length) return [];
  return which === "source"
    ? [at("encoder.blocks.*.attention"), at(`${stack}.blocks.*.cross`)]
    : [at(`${stack}.blocks.*.attention`)];
}

/**
 * Whether an edit is one that hides tokens of that sequence. @param {any} model @param {"" |
 * "source"} which @param {any} edit
 */
export function hides(model, which, edit) {
  const places = [edit.key].flat();
  return (
    edit.edit === "Mask" &&
    edit.query === undefined &&
    places.every((one) => typeof one === "number") &&
    hiding(model, which, places).some((one) => same(one, edit))
  );
}

/**
 * The places of the tokens that are hidden. @param {any} model @param {"" | "source"} which @param
 * {any[]} edits @returns {Set<number>}
 */
export function hidden(model, which, edits) {
  return new Set(edits.filter((edit) => hides(model, which, edit)).flatMap((edit) => edit.key));
}

/**
 * The edits with these places hidden, too, or no longer. @param {any} model @param {"" | "source"}
 * which @param {any[]} edits @param {number[]} block @param {boolean} on
 */
export function toggled(model, which, edits, block, on) {
  const places = hidden(model, which, edits);
  for (const one of block) on ? places.add(one) : places.delete(one);
  return [
    ...edits.filter((edit) => !hides(model, which, edit)),
    ...hiding(model, which, [...places]),
  ];
}

/**
 * The edits after the sequence has changed: what is hidden goes where its token went. `order[t]`:
 * where the token at t stood, −1: nowhere. @param {any} model @param {"" | "source"} which @param
 * {any[]} edits @param {number[]} order
 */
export function carried(model, which, edits, order) {
  const places = [...hidden(model, which, edits)]
    .map((one) => order.indexOf(one))
    .filter((one) => one >= 0);
  return [...edits.filter((edit) => !hides(model, which, edit)), ...hiding(model, which, places)];
}
