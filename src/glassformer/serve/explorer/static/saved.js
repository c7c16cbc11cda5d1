// @ts-check
// The main module of a saved page: its selection, and the answers that it holds.
import {pages} from "./contents.js";
import {mount} from "./shell.js";
import {canonical} from "./state.js";
import {fromFile, makeWire} from "./wire.js";

const {state, answers} = /** @type {any} */ (globalThis).glassformerSaved;
const known = Object.entries(answers).map(([question, answer]) => [
  canonical(JSON.parse(question)),
  answer,
]);
const wire = makeWire(fromFile(Object.fromEntries(known)));
mount(document.body, {pages, wire, bind: false, start: state});
