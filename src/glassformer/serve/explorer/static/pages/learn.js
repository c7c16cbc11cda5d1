// @ts-check
// The ten lessons of the notes, and their table of contents. No model is needed: all numbers are
// computed in the browser.
//   export const lesson = {id, note, title, lead, render(el) -> cleanup, checks: [() => [name,
// value, expected, tolerance]]}
import {h} from "../dom.js";
import {link} from "../link.js";
import {checked, opening} from "../learn/article.js";
import {lesson as L1} from "../learn/L1.js";
import {lesson as L2} from "../learn/L2.js";
import {lesson as L3} from "../learn/L3.js";
import {lesson as L4} from "../learn/L4.js";
import {lesson as L5} from "../learn/L5.js";
import {lesson as L6} from "../learn/L6.js";
import {lesson as L7} from "../learn/L7.js";
import {lesson as L8} from "../learn/L8.js";
import {lesson as L9} from "../learn/L9.js";
import {lesson as L10} from "../learn/L10.js";

export const lessons = [L1, L2, L3, L4, L5, L6, L7, L8, L9, L10];

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const chosen = app.state.get().lesson,
    at = lessons.findIndex((lesson) => lesson.id === chosen),
    lesson = lessons[at];
  if (!lesson) {
    el.append(contents(app));
    return;
  }
  const article = h("article.lesson", {dataset: {lesson: lesson.id}});
  el.append(article);
  article.append(opening(lesson, at + 1));
  const body = h("div.lesson-body");
  article.append(body);
  const cleanup = lesson.render(body, app);
  article.append(checked(lesson), neighbours(at, app));
  return cleanup;
}

const go = (app, lesson, children, props = {}) =>
  link(app, {page: "learn", lesson: lesson.id}, children, {
    ...props,
    onfollow: () => {
      scrollTo(0, 0);
      document.getElementById("main")?.focus({preventScroll: true});
    },
  });

function contents(app) {
  return h(
    "div.contents",
    h(
      "header.contents-head",
      h("p.kicker", "Learn"),
      h("h1", "The Transformer, interactive"),
      h(
        "p.lead",
        "Ten pages that follow the five lecture notes. Each takes the note’s own numbers, " +
          "lets you move them, and says where a note and the mathematics part ways. " +
          "Everything is computed here, in double precision; no model and no network are needed.",
      ),
    ),
    h(
      "ol.contents-list",
      lessons.map((lesson, i) =>
        h(
          "li",
          go(app, lesson, [
            h("span.contents-number", {"aria-hidden": true}, String(i + 1)),
            h("span.contents-title", lesson.title),
            h("span.contents-lead", lesson.short),
            h("span.contents-note", lesson.note),
          ]),
        ),
      ),
    ),
  );
}

function neighbours(at, app) {
  const to = (lesson, name) =>
    lesson
      ? go(app, lesson, [h("span.kicker", name), h("span", lesson.title)], {
          class: `neighbour ${name.toLowerCase()}`,
        })
      : h("span");
  return h(
    "nav.neighbours",
    {"aria-label": "Lessons before and after"},
    to(lessons[at - 1], "Before"),
    to(lessons[at + 1], "Next"),
  );
}

export const page = {
  free: true,
  bare: true,
  about: "The notes, interactive.",
  notAbout: "",
  parts: lessons.map(({id, title}) => ({id, title})),
  render,
};
