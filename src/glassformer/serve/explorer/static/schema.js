// @ts-check
// The explorer's contract for the pages: defaults, page descriptions and requests, from
// schema.json, which Python reads too.
import schema from "./schema.json" with {type: "json"};

export {schema};
/** The selection without any choice; the address leaves these out. */
export const DEFAULTS = Object.freeze(
  Object.fromEntries(Object.entries(schema.state).map(([name, field]) => [name, field.default])),
);

/**
 * A page: its entry in schema.json, and `page` of its module.
 * `bare`: it writes its own heading. `inspect`: its part of the inspector. `parts`: its chapters,
 * chosen by the selection's `lesson`. `free`: it needs no model. `alone`: without the inspector.
 * @typedef {{id: string, title: string, needs: string[], python: string[], about: string,
 *   notAbout: string, render: (el: HTMLElement, app: any) => any,
 *   inspect?: (el: HTMLElement, app: any) => (() => void) | void, bare?: boolean, free?: boolean,
 *   alone?: boolean, parts?: {id: string, title: string}[]}} Page
 */

/**
 * Pages in the order of the schema. @param {Record<string, any>} modules  the `page` of each
 * module, by page id @returns {Page[]}
 */
export function described(modules) {
  return schema.pages
    .filter(({id}) => id in modules)
    .map((entry) => ({...entry, ...modules[entry.id]}));
}

/** The look of a selection, as requests have it. @param {any} s */
export function lookOf({input, edits, checkpoint}) {
  return {input, edits, checkpoint};
}

/**
 * The arguments of an op: fields of the selection of the same name, then those given.
 * @param {string} op @param {any} s @param {any} [given]
 */
export function request(op, s, given = {}) {
  const args = /** @type {any} */ (schema.arguments);
  const has = {...schema.controls, ...s, look: lookOf(s)};
  const own = /** @type {any} */ (schema.ops)[op].arguments.filter(
    (/** @type {string} */ name) => name in has && !(`${op}.${name}` in args),
  );
  return {
    ...Object.fromEntries(own.map((name) => [name, has[name] ?? args[name].default ?? null])),
    ...given,
  };
}
