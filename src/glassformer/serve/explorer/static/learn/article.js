// @ts-check
// Parts of lessons: opening, sections, paragraphs, corrections, and the report of the checks.
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
    "header.opening",
    h("p.kicker", `Learn ${place}`, h("span.kicker-note", lesson.note)),
    h("h1", lesson.title),
    h("p.lead", prose(lesson.lead)),
  );
}

/** A part of a lesson. @param {string} title @param {...any} children */
export function section(title, ...children) {
  return h("section.section", h("h2", title), children);
}

/** A paragraph: $formulas$, *emphasis*, `code`. @param {string} text */
export function p(text) {
  return h("p.prose", prose(text));
}

/**
 * An error in a note: the printed version, the correct one, and the switch between them.
 * @param {{title: string, printed: string, so: string, control?: any, shown?: any}} options
 */
export function trap({title, printed, so, control = null, shown = null}) {
  return h(
    "aside.trap",
    {"aria-label": `Correction: ${title}`},
    h("h3", h("span.trap-mark", {"aria-hidden": true}, "≠"), title),
    h(
      "dl.trap-pair",
      h("dt", "printed"),
      h("dd", prose(printed)),
      h("dt", "so it is"),
      h("dd", prose(so)),
    ),
    (control || shown) && h("div.trap-try", control, shown),
  );
}

/** Pictures side by side. @param {...any} children */
export function beside(...children) {
  return h("div.beside", children);
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
      h("span.checked-mark", {"aria-hidden": true}, all ? "✓" : "✗"),
      `Checked in this browser: ${good} of ${found.length} values agree with the note`,
    ),
    h(
      "div.table-wrap",
      {role: "region", tabindex: 0, "aria-label": "Checked values"},
      h(
        "table",
        h("caption.sr", "Checked values"),
        h(
          "thead",
          h(
            "tr",
            ["value", "computed", "expected", "within"].map((name, i) =>
              h("th", {scope: "col", class: i ? "num" : ""}, name),
            ),
            h("th", {scope: "col"}, "holds"),
          ),
        ),
        h(
          "tbody",
          found.map(([name, value, expected, tolerance, holds]) =>
            h(
              "tr",
              h("th", {scope: "row"}, prose(name)),
              [value, expected, tolerance].map((x) => h("td.num", number(x, 6))),
              h("td", holds ? "✓ yes" : "✗ no"),
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
    role && "qkv".includes(role) && h("b.vec-role", role),
    h(
      "span.vec-numbers",
      values.map((x) => h("span", places ? fixed(x, places) : number(x))),
    ),
  );
}
