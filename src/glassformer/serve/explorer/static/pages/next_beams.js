// @ts-check
// A beam search: the candidates of every step, and which were kept, finished or dropped.
import {fill, h, svg} from "../dom.js";
import {fixed, percent} from "../format.js";
import {button, figure, slider} from "../marks.js";
import {superseded} from "../wire.js";
import {shown} from "./aimed.js";

const TOKENS = 24,
  WIDE = 124,
  ROW = 38,
  FADED = 3;

/**
 * @typedef {{id: number, label: string, p: number, total: number, score: number, parent: number |
 * null, kept: boolean, finished: boolean, live: boolean}} Candidate
 */

/**
 * The frame of a beam search, which runs on request. `begin()`: whether a translation starts anew.
 * @param {any} app @param {{begin: () => boolean, failed: (el: Element, error: any) => void}} how
 */
export function beamPicture(app, {begin, failed}) {
  let steps = /** @type {Candidate[][]} */ ([]),
    best = [],
    abort = /** @type {AbortController | null} */ (null);
  const drawing = svg("svg.beams", {role: "img", "aria-label": "Candidates of each step"}),
    texts = h("ol.beam-texts", {"aria-label": "Best texts"}),
    note = h("div");
  const width = slider({label: "beams", min: 1, max: 8, step: 1, value: 3, compact: true}),
    go = button("Search", () => (abort ? stop() : search()), {kind: "main"});
  const scroller = h(
    "div.beam-scroll",
    {tabindex: 0, role: "region", "aria-label": "The steps of the search, from left to right"},
    drawing,
  );
  const state = (one) =>
    one.finished ? "ended" : one.live ? "kept" : one.kept ? "given up" : "pruned";
  const frame = figure({
    title: "Beam search",
    name: "beam search",
    wide: true,
    controls: [width.el, go],
    below: [texts, note],
    picture: {
      el: h("div", scroller),
      table: () => ({
        columns: [
          "step",
          "token",
          "probability",
          "sum of log p",
          "score",
          "extends",
          "what became of it",
        ],
        rows: steps.flatMap((step, i) =>
          step.map((one) => [
            i + 1,
            shown(one.label),
            one.p,
            one.total,
            one.score,
            one.parent ?? "",
            state(one),
          ]),
        ),
      }),
      toSvg: () => drawing,
      summary: () =>
        best.length
          ? `Best: ${best[0].labels.join("")}, score ${fixed(best[0].score)}.`
          : "No search yet.",
    },
    shows:
      "Instead of one draw, the likeliest whole texts: at each step every kept beginning is " +
      `continued, and the best few are kept (up to ${TOKENS} tokens). Numbers are the score, ` +
      `$\\sum \\log p$ over length.`,
    hides:
      `most of what was pruned: of each step the ${FADED} best of those that fell out, grey. ` +
      "The likeliest text is not always the best one.",
  });

  function draw() {
    const placed = steps.map((step) => {
      const kept = step
        .map((one, i) => ({one, i}))
        .filter(({one}) => one.kept)
        .sort((a, b) => b.one.score - a.one.score);
      const out = step
        .map((one, i) => ({one, i}))
        .filter(({one}) => !one.kept)
        .sort((a, b) => b.one.score - a.one.score)
        .slice(0, FADED);
      return new Map([...kept, ...out].map(({one, i}, row) => [i, {one, row}]));
    });
    const rows = Math.max(1, ...placed.map((step) => step.size)),
      W = Math.max(1, steps.length) * WIDE + 16,
      H = rows * ROW + 12;
    drawing.setAttribute("viewBox", `0 0 ${W} ${H}`);
    drawing.style.setProperty("width", `${W}px`);
    drawing.style.setProperty("height", `${H}px`);
    const x = (step) => 8 + step * WIDE,
      y = (row) => 18 + row * ROW;
    fill(
      drawing,
      placed.map((step, s) =>
        [...step].map(([, {one, row}]) => {
          const from = s && one.parent !== null ? placed[s - 1].get(one.parent) : null;
          return svg(
            "g",
            {class: `beam ${one.finished ? "ended" : one.live ? "live" : "out"}`},
            from &&
              svg("path", {
                d:
                  `M${x(s) - 26} ${y(from.row) + 4} C${x(s) - 12} ${y(from.row) + 4} ` +
                  `${x(s) - 16} ${y(row) + 4} ${x(s) - 4} ${y(row) + 4}`,
                fill: "none",
              }),
            svg(
              "text",
              {x: x(s), y: y(row)},
              `${one.finished ? "■ " : ""}${clipped(shown(one.label))}`,
            ),
            svg(
              "text.beam-score",
              {x: x(s), y: y(row) + 15},
              `${fixed(one.score)}  ${percent(one.p, 2)}`,
            ),
          );
        }),
      ),
    );
    fill(
      texts,
      best.map((one) =>
        h(
          "li",
          h("bdi.beam-text", shown(one.labels.join(""))),
          h("span.soft", ` ${fixed(one.score, 3)}${one.finished ? "" : ", unfinished"}`),
        ),
      ),
    );
    scroller.hidden = !steps.length;
    frame.refresh();
  }
  async function search() {
    const mine = (abort = new AbortController());
    steps = [];
    best = [];
    fill(note);
    go.textContent = "Stop";
    try {
      await app.stream(
        "generate",
        {
          look: app.look(),
          beams: width.value,
          new_tokens: TOKENS,
          ...(begin() ? {begin: true} : {}),
        },
        (item) => {
          if (item.beams) steps[item.step] = item.beams;
          if (item.best) best = item.best;
          draw();
        },
        {signal: mine.signal},
      );
      app.announce(best.length ? `Best text: ${best[0].labels.join("")}` : "");
    } catch (error) {
      if (!superseded(error)) failed(note, error);
    }
    if (abort === mine) stop();
  }
  function stop() {
    abort?.abort();
    abort = null;
    go.textContent = "Search";
  }
  draw();
  return {
    el: frame.el,
    stop,
    /** Forgets the search of another input. */
    clear() {
      stop();
      steps = [];
      best = [];
      fill(note);
      draw();
    },
  };
}

function clipped(text) {
  return text.length > 11 ? `${text.slice(0, 10)}…` : text;
}
