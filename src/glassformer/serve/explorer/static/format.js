// @ts-check
// Numbers and tokens as text.
import {h} from "./dom.js";

const MINUS = "\u2212",
  THIN = "\u2009";

/**
 * A number with `digits` significant digits: 0.8497, 58.89, −1.203, 1 234 567, 2.1e−7. @param
 * {number | null} x
 */
export function number(x, digits = 4) {
  if (x === null || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return (x < 0 ? MINUS : "") + "∞";
  const size = Math.abs(x);
  if (x === 0) return "0";
  let text;
  if (Number.isInteger(x) && size < 1e15) text = grouped(String(size));
  else if (size >= 1e-4 && size < 1e6)
    text = grouped(size.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(size)))));
  else
    text = size
      .toExponential(Math.max(0, digits - 2))
      .replace("e-", `e${MINUS}`)
      .replace("e+", "e");
  return (x < 0 ? MINUS : "") + text;
}

/** Whether an element is a patch of an image or of a spectrogram. @param {any} element */
export function isPatch(element) {
  return element.row !== null;
}

/** A number with that many places after the point: 0.85. @param {number} x */
export function fixed(x, places = 2) {
  if (!Number.isFinite(x)) return number(x);
  const text = Math.abs(x).toFixed(places);
  return (x < 0 && Number(text) !== 0 ? MINUS : "") + text;
}

/** A share as percent: 84.97 %. @param {number} x */
export function percent(x, digits = 3) {
  const rounded = x === 0 || Math.abs(x) >= 1e-6 ? Number((100 * x).toPrecision(digits)) : 100 * x;
  return `${number(rounded, digits)}${THIN}%`;
}

/**
 * How the numbers of one column are written: with the places that the largest needs for so many
 * digits, so that their points stand below each other. @param {Iterable<number>} values
 */
export function aligned(values, digits = 3) {
  const most = Math.max(0, ...Array.from(values, Math.abs).filter(Number.isFinite)),
    places = most
      ? Math.max(0, Math.min(8, digits - 1 - Math.floor(Math.log10(most))))
      : digits - 1;
  return (/** @type {number} */ x) => (most && most < 1e-4 ? number(x, digits) : fixed(x, places));
}

/**
 * Shares of one column as percent, their points below each other. @param {Iterable<number>} values
 */
export function alignedPercent(values, digits = 4) {
  const write = aligned(
      Array.from(values, (x) => 100 * x),
      digits,
    ),
    least = write(0).replace(/0$/, "1"),
    zero = write(0);
  return (/** @type {number} */ x) =>
    `${x > 0 && write(100 * x) === zero && least !== zero ? `<${least}` : write(100 * x)}${THIN}%`;
}

/** A round number of an axis, without trailing zeros: 0.5, 0.01, −2. @param {number} x */
export function tick(x) {
  return String(Number(x.toPrecision(6))).replace("-", MINUS);
}

/** "1 token", "2 tokens". @param {number} count @param {string} one */
export function plural(count, one, many = one + "s") {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/**
 * A token's text with its whitespace drawn: · is a blank, ⏎ a new line, ⇥ a tab. @param {string}
 * label
 */
export function tokenText(label) {
  return label
    .replaceAll(" ", "·")
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replaceAll("\r", "␍");
}

/**
 * A token as an element: whitespace drawn, right-to-left text kept apart. @param {string | {label:
 * string, kind?: string}} element
 */
export function token(element) {
  const {label, kind = "token"} = typeof element === "string" ? {label: element} : element;
  return h("bdi", {class: `token ${kind}`}, kind === "token" ? tokenText(label) : label);
}

/** The label of an element, or the text itself. @param {string | {label: string}} element */
export function labelOf(element) {
  return typeof element === "string" ? element : element.label;
}

function grouped(text) {
  const [whole, rest] = text.split(".");
  const spaced = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, THIN) : whole;
  return rest === undefined ? spaced : `${spaced}.${rest}`;
}
