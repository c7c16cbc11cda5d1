// @ts-check
// What lessons are written with: opening, sections, paragraphs, corrections, and the line that says
// that the numbers were checked.
import {h} from "../dom.js";
import {fixed, number} from "../format.js";
import {prose} from "../marks.js";

/** @typedef {() => [string, number, number, number]} Check  name, value, expected, tolerance */
/**
 * @typedef {{id: string, note: string, title: string, short: string, lead: string, render: (el:
 * HTMLElement, app?: any) => (() => void) | void, checks: Check[]}} Lesson
 */

/** The head of a lesson. @param {Lesson} lesson @param {number} place */
export function opening(lesson, place) {
  return h(
    "header",
    {class: "opening"},
    h("p", {class: "kicker"}, `Learn ${place}`, h("span", {class: "kicker-note"}, lesson.note)),
    h("h1", null, lesson.title),
    h("p", {class: "lead"}, prose(lesson.lead)),
  );
}

/** A part of a lesson. @param {string} title @param {...any} children */
export function section(title, ...children) {
  return h("section", {class: "section"}, h("h2", null, title), children);
}

/** A paragraph: $formulas$, *emphasis*, `code`. @param {string} text */
export function p(text) {
  return h("p", {class: "prose"}, prose(text));
}

/**
 * Where a note and the mathematics part ways: what is printed, what is so, and the switch between
 * them.
 * @param {{title: string, printed: string, so: string, control?: any, shown?: any}} options
 */
export function trap({title, printed, so, control = null, shown = null}) {
  return h(
    "aside",
    {class: "trap", "aria-label": `Correction: ${title}`},
    h("h3", null, h("span", {class: "trap-mark", "aria-hidden": true}, "≠"), title),
    h(
      "dl",
      {class: "trap-pair"},
      h("dt", null, "printed"),
      h("dd", null, prose(printed)),
      h("dt", null, "so it is"),
      h("dd", null, prose(so)),
    ),
    control || shown ? h("div", {class: "trap-try"}, control, shown) : null,
  );
}

/** Pictures side by side. @param {...any} children */
export function beside(...children) {
  return h("div", {class: "beside"}, children);
}

/**
 * Results of a lesson's checks: [name, value, expected, tolerance, whether it holds]. @param
 * {Lesson} lesson
 */
export function results(lesson) {
  return lesson.checks.map((check) => {
    const [name, value, expected, tolerance] = check();
    return /** @type {const} */ ([
      name,
      value,
      expected,
      tolerance,
      Math.abs(value - expected) <= tolerance,
    ]);
  });
}

/**
 * The line that says that this lesson's numbers were computed again and compared. @param {Lesson}
 * lesson
 */
export function checked(lesson) {
  const found = results(lesson),
    good = found.filter((row) => row[4]).length,
    all = good === found.length;
  return h(
    "details",
    {class: `checked ${all ? "good" : "bad"}`},
    h(
      "summary",
      null,
      h("span", {class: "checked-mark", "aria-hidden": true}, all ? "✓" : "✗"),
      `Checked in this browser: ${good} of ${found.length} values agree with the note`,
    ),
    h(
      "div",
      {class: "table-wrap", role: "region", tabindex: 0, "aria-label": "Checked values"},
      h(
        "table",
        null,
        h("caption", {class: "sr"}, "Checked values"),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["value", "computed", "expected", "within"].map((name, i) =>
              h("th", {scope: "col", class: i ? "num" : ""}, name),
            ),
            h("th", {scope: "col"}, "holds"),
          ),
        ),
        h(
          "tbody",
          null,
          found.map(([name, value, expected, tolerance, holds]) =>
            h(
              "tr",
              null,
              h("th", {scope: "row"}, prose(name)),
              [value, expected, tolerance].map((x) => h("td", {class: "num"}, number(x, 6))),
              h("td", null, holds ? "✓ yes" : "✗ no"),
            ),
          ),
        ),
      ),
    ),
  );
}

/**
 * A vector in a line of text, with its role's letter: q, k, v or none. @param {number[]} values
 * @param {string} [role]
 */
export function vec(values, role = "", places = 0) {
  return h(
    "span",
    {class: `vec ${role}`},
    role && "qkv".includes(role) ? h("b", {class: "vec-role"}, role) : null,
    h(
      "span",
      {class: "vec-numbers"},
      values.map((x) => h("span", null, places ? fixed(x, places) : number(x))),
    ),
  );
}

/**
 * A number that is looked at: its name and its value, marked when it is not as it should be. @param
 * {string} name @param {any} value @param {"" | "good" | "bad"} [how]
 */
export function reading(name, value, how = "") {
  return h(
    "p",
    {class: `reading ${how}`},
    h("span", null, prose(name)),
    h(
      "output",
      {class: `value ${how}`},
      value,
      how ? h("span", {"aria-hidden": true}, how === "good" ? " ✓" : " ✗") : null,
    ),
  );
}
