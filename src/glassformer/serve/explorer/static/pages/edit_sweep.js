// @ts-check
// The same edit at each place in turn: the change of the answer, cell by cell as it is computed.
import {fill, h} from "../dom.js";
import {number, percent, token} from "../format.js";
import {button, choice, figure, heatmap, legend, select} from "../marks.js";
import {superseded} from "../wire.js";
import {follow, kindOf, LOOK, sequences} from "./attended.js";
import {positionOf} from "./edit_outcome.js";

const word = (/** @type {string} */ label) => ({label, kind: "word"});

/** @param {any} app */
export function sweep(app) {
  const {state} = app,
    said = h("div"),
    progress = h("p.reading", {role: "status"}),
    legendRoom = h("div"),
    room = h("div");
  let running = /** @type {AbortController | null} */ (null),
    picture = /** @type {any} */ (null),
    frame = 0;
  const by = choice({
    label: "Layers by",
    value: "layer_position",
    options: [
      {value: "layer_position", label: "positions"},
      {value: "layer_head", label: "heads"},
    ],
    onchange: () => stop(true),
  });
  const kind = select({
    label: "becomes",
    value: "mean",
    options: [
      {value: "mean", label: "the mean over positions"},
      {value: "zero", label: "0"},
      {value: "patch", label: "its value in another input"},
    ],
    onchange: (to) => {
      other.hidden = to !== "patch";
      stop(true);
    },
  });
  const other = h("input.edit-source", {
    type: "text",
    hidden: true,
    "aria-label": "The other input",
    placeholder: "another input of as many tokens",
    spellcheck: false,
    autocomplete: "off",
  });
  const start = button("Run all", () => (running ? stop() : run()), {kind: "main"});
  const hint = h("p.soft", "One run of the model for each cell. It can be stopped at any time.");
  const el = h(
    "div",
    h(
      "p.prose",
      "The stream behind a layer at one position, or what one head says, is replaced, and " +
        "the model runs on. Where the answer changes, it was carried through that place.",
    ),
    h("div.figure-controls", by.el, kind.el, other, start),
    hint,
    progress,
    said,
    room,
  );

  function stop(empty = false) {
    running?.abort();
    running = null;
    start.textContent = "Run all";
    if (!empty) return;
    picture?.destroy();
    picture = null;
    fill(room);
    fill(progress);
    fill(said);
  }

  async function run() {
    stop(true);
    const mine = (running = new AbortController());
    start.textContent = "Stop";
    try {
      const looked = await app.looked(),
        s = state.get(),
        attention = kindOf(app),
        {queries} = sequences(looked, attention),
        heads = by.value === "layer_head";
      const at = positionOf(s, looked),
        row = looked.outcome.rows[looked.outcome.kind === "class" ? 0 : at],
        best = row?.top[0];
      if (!best) return void fill(progress, "This model chooses no answer that could change.");
      const columns = heads
          ? Array.from({length: attention.heads}, (_, i) => word(`head ${i}`))
          : queries,
        L = attention.layers,
        S = columns.length,
        values = new Float32Array(L * S);
      let done = 0,
        most = 1e-3;
      picture = heatmap({
        rows: Array.from({length: L}, (_, i) => word(`layer ${i}`)),
        columns,
        values,
        kind: "signed",
        high: most,
        rowName: "layer",
        columnName: heads ? "head" : "position",
        valueName: "change of the logit",
        name: "Change of the answer’s logit",
        most: 56,
        cellHeight: 34,
        onselect: (r, c) =>
          state.set(heads ? {layer: r, head: c} : {layer: r, query: c}, {replace: true}),
      });
      const framed = figure({
        title: "Effect of each place",
        name: "sweep",
        wide: true,
        picture,
        legend: legendRoom,
        shows:
          "The change of the answer’s logit when that one place is replaced. Below 0, the " +
          "answer was leaning on what stood there; above 0, it was held back by it.",
        hides:
          "what several places do together: two that say the same stand in for each other, " +
          "and each alone seems to matter little.",
      });
      fill(room, framed.el);
      const draw = () => {
        frame = 0;
        if (!picture || (running !== mine && running)) return;
        picture.update({values, high: most});
        fill(
          legendRoom,
          legend({kind: "signed", high: Number(most.toPrecision(2)), label: "change of the logit"}),
        );
        fill(
          progress,
          h(
            "span",
            `The answer ${looked.outcome.kind === "class" ? "" : "at "}`,
            looked.outcome.kind === "class" ? "" : token(looked.elements[at]),
            " is ",
            token({label: best.label, kind: looked.outcome.kind === "tokens" ? "token" : "word"}),
            ` (${percent(best.p)}); ${number(done)} of ${number(L * S)} places tried.`,
          ),
        );
      };
      draw();
      const source =
        kind.value === "patch"
          ? {source: {input: other.value, edits: [], checkpoint: s.checkpoint}}
          : {};
      await app.stream(
        "sweep",
        {
          look: app.look(),
          kind: kind.value,
          by: by.value,
          target: best.id,
          position: looked.outcome.kind === "class" ? -1 : at,
          side: attention.side,
          site: attention.site,
          ...source,
        },
        ({row: r, column: c, change}) => {
          values[r * S + c] = change;
          most = Math.max(most, Math.abs(change));
          done++;
          frame ||= requestAnimationFrame(draw);
        },
        {signal: mine.signal, key: "sweep"},
      );
      draw();
      framed.refresh();
    } catch (error) {
      if (!superseded(error)) app.failed(said, error);
      if (!superseded(error) && /** @type {any} */ (error).name !== "WireError") throw error;
    } finally {
      if (running === mine) {
        running = null;
        start.textContent = "Run all";
      }
    }
  }

  let first = true;
  const off = follow(app, [...LOOK, "side", "site", "position"], h("div"), () => {
    if (!first) stop(true); // what was swept is not what is looked at any more
    first = false;
  });
  return {
    el,
    off: () => {
      off();
      cancelAnimationFrame(frame);
      stop(true);
    },
  };
}
