// @ts-check
// One head: its pattern as matrix, lines or text; the selected row and the weight of each key, in
// digits; edits of it; its computation, step by step.
import {schema} from "../schema.js";
import {fill, h, painted} from "../dom.js";
import {fixed, number, percent, token} from "../format.js";
import {bars, choice, figure, heatmap, legend, slider, toggle} from "../marks.js";
import {part} from "../wire.js";
import {
  follow,
  HEAD,
  headName,
  kindName,
  kindOf,
  kindTabs,
  placeOf,
  sequences,
} from "./attended.js";
import {outcome} from "./edit_outcome.js";
import {touch} from "./edit_touch.js";
import {edges, matrixOptions, merged, rootsOf, tinted, units, weightsOf} from "./head_patterns.js";
import {steps} from "./head_steps.js";

const TOP = 10,
  // bars; rows from which there is a zoom
  CROWDED = 40;

/** The pattern of the selected head, exact where it is small. @param {any} app */
async function patternOf(app) {
  const ask = app.args("head"),
    kind = kindOf(app),
    looked = await app.looked(),
    {queries, keys} = sequences(looked, kind);
  const {header, arrays} = await app.call("head", ask, {key: "head"});
  const exact = kind.heads * queries.length * keys.length <= schema.limits.exact,
    bytes = exact ? null : arrays.pattern.data;
  let values = bytes
    ? null
    : part(
        (
          await app.call(
            "raw",
            {look: ask.look, point: `${placeOf(app, ask.layer)}.pattern`},
            {key: "head raw"},
          )
        ).arrays.values,
        ask.head,
      );
  const table = arrays.masked?.data,
    masked =
      header.mask === "causal"
        ? (i, j) => j > i
        : table
          ? (i, j) => table[i * keys.length + j] === 1
          : null;
  // a million numbers: computed on first use
  const weights = () => (values ??= weightsOf(bytes));
  return {
    queries,
    keys,
    get values() {
      return weights();
    },
    bytes,
    exact,
    masked,
    mass: arrays.mass.data,
    entropy: arrays.entropy.data,
    max: header.max,
  };
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  app
    .looked()
    .then(() => app.ask("head"))
    // sent before anything is built; an error is handled by the second request
    .catch(() => {});
  const {state} = app,
    said = h("div"),
    heading = h("div.head-name"),
    tabs = kindTabs(app);
  const room = h("div"),
    offs = /** @type {(() => void)[]} */ ([]);
  let found = /** @type {any} */ (null),
    shown = /** @type {any} */ (null),
    views = /** @type {Record<string, any>} */ ({}),
    frame = /** @type {any} */ (null);
  const view = () => state.get().view ?? "matrix",
    scale = () => state.get().scale ?? "sqrt",
    share = () => state.get().share ?? 0.8,
    words = () => Boolean(state.get().words);
  const high = () => (state.get().domain === "own" ? found.max : 1),
    how = () => ({scale: scale(), low: 0, high: high() || 1});
  const keep = (name, value, none) =>
    state.set({[name]: value === none ? undefined : value}, {replace: true});
  const rowOf = (list, i) =>
    i === null || i === undefined ? -1 : list.findIndex((unit) => unit.from.includes(i));
  const pick = (row, column) =>
    state.set(
      {
        query: shown.queries[row].from[0],
        ...(column === null ? {} : {key: shown.keys[column].from[0]}),
      },
      {replace: true},
    );

  const mode = choice({
    label: "As",
    value: view(),
    options: [
      ["matrix", "matrix"],
      ["lines", "lines"],
      ["text", "text"],
    ].map(([value, label]) => ({value, label})),
    onchange: (to) => keep("view", to, "matrix"),
  });
  const scales = choice({
    label: "Scale of colour",
    value: scale(),
    options: [
      ["sqrt", "√"],
      ["linear", "linear"],
      ["log", "log"],
    ].map(([value, label]) => ({value, label})),
    onchange: (to) => keep("scale", to, "sqrt"),
  });
  const domain = choice({
    label: "Full colour at",
    value: state.get().domain ?? "one",
    options: [
      {value: "one", label: "1"},
      {value: "own", label: "this head’s largest"},
    ],
    onchange: (to) => keep("domain", to, "one"),
  });
  const asWords = toggle({
    label: "Words",
    checked: words(),
    onchange: (on) => keep("words", on, false),
  });
  const cover = slider({
    label: "Weight covered",
    name: "share of weight covered",
    min: 0.05,
    max: 1,
    step: 0.05,
    value: share(),
    oninput: (x) => keep("share", x, 0.8),
  });
  const zoom = choice({
    label: "Zoom",
    value: "1",
    options: ["1", "2", "4"].map((value) => ({value, label: `${value}×`})),
    onchange: (to) => {
      scroller.style.setProperty("--zoom", to);
      scroller.classList.toggle("zoomed", to !== "1");
    },
  });
  const scroller = h("div.head-scroll"),
    stage = h("div.head-stage"),
    notes = h("div.head-notes"),
    legendRoom = h("div");
  const picture = {
    el: stage,
    table: () => views[view()]?.table() ?? {columns: [], rows: []},
    toSvg: () => views[view()]?.toSvg?.() ?? views[view()]?.el,
    summary: () => views[view()]?.summary() ?? "",
  };
  const rowBars = bars({items: [], name: "The selected row", high: 1}),
    massBars = bars({items: [], name: "Weight of each key"});

  function compose() {
    const all = found,
      {queries, keys, bytes, exact, masked} = all,
      rows = units(queries, words()),
      columns = units(keys, words());
    const several = rows.length < queries.length || columns.length < keys.length,
      {layer, head} = state.get();
    const own = {
      queries: rows,
      keys: columns,
      bytes,
      exact,
      masked,
      name: `Attention, layer ${layer} head ${head}`,
    };
    shown = several
      ? {...own, ...joined(rows, columns)}
      : {
          ...own,
          get values() {
            return all.values;
          },
        };
    asWords.el.hidden =
      !several &&
      units(queries, true).length === queries.length &&
      units(keys, true).length === keys.length;
  }

  /** The selected cell of the drawing. */
  function cell() {
    const {query, key} = state.get(),
      row = rowOf(shown.queries, query);
    return row < 0 ? null : {row, column: Math.max(0, rowOf(shown.keys, key))};
  }

  /** Update the selection without drawing a matrix again. */
  function mark() {
    if (!found || view() !== "matrix") return draw();
    views.matrix.update({selected: cell()});
    drawMass();
  }

  /** The pattern of words. */
  function joined(rows, columns) {
    const {keys, values, exact, masked} = found,
      sums = merged(values, keys.length, rows, columns);
    const open = (r, c) => rows[r].from.some((i) => columns[c].from.some((j) => !masked(i, j)));
    return {
      values: sums,
      bytes: exact ? null : rootsOf(sums),
      masked: masked && ((r, c) => !open(r, c)),
    };
  }

  function draw() {
    if (!found) return;
    compose();
    const selected = cell(),
      row = selected?.row ?? -1,
      now = view();
    // the bytes are for that scale only
    const drawn = scale() === "sqrt" && high() === 1 ? shown : {...shown, bytes: null};
    const inMatrix = {
      ...matrixOptions(drawn),
      ...how(),
      selected,
      margin: (r) => `${fixed(entropyOf(r), 1)} bits`,
      marginName: "entropy",
      places: 2,
    };
    if (now === "matrix") {
      if (views.matrix) views.matrix.update(inMatrix);
      else views.matrix = heatmap({...inMatrix, onselect: (r, c) => pick(r, c)});
      fill(scroller, h("div.head-zoom", views.matrix.el));
    } else if (now === "lines") {
      const given = {shown, share: share(), selected: row < 0 ? null : row, onselect: pick};
      if (views.lines) views.lines.update(given);
      else views.lines = edges(given);
    } else {
      const given = {
        shown,
        separate: found.queries !== found.keys,
        selected: row < 0 ? null : row,
        how: how(),
        onselect: pick,
      };
      if (views.text) views.text.update(given);
      else views.text = tinted(given);
    }
    if (stage.dataset.now !== now || !stage.firstChild) {
      stage.dataset.now = now;
      fill(stage, now === "matrix" ? scroller : views[now].el);
      frame?.refresh();
    }
    cover.el.hidden = now !== "lines";
    zoom.el.hidden = now !== "matrix" || shown.keys.length < CROWDED;
    scales.el.hidden = domain.el.hidden = now === "lines";
    const own = state.get().domain === "own";
    fill(
      legendRoom,
      now === "lines"
        ? null
        : legend({
            scale: scale(),
            high: high() || 1,
            masked: Boolean(found.masked),
            label: "weight",
          }),
    );
    fill(
      notes,
      now === "lines" && h("p.reading", views.lines.said()),
      own &&
        found.max < 0.995 &&
        now !== "lines" &&
        h(
          "p.flag",
          `Colours are this head’s own: full colour is ${number(found.max, 3)}, not 1. ` +
            "Do not compare them with another head’s.",
        ),
      !found.exact &&
        now === "matrix" &&
        h(
          "p.soft",
          "Colours and “≈” digits are rounded to one part in 255 of a root; the row " +
            "below is exact.",
        ),
      words() && h("p.soft", "Words: the sum over a word’s keys, the mean over its queries."),
      now === "text" &&
        row < 0 &&
        h(
          "p.soft",
          `Tinted by the row of ${shown.queries[0].label.trim() || "the first element"}; ` +
            "choose a token to see its row.",
        ),
    );
    drawMass();
    frame?.refresh();
  }

  const entropyOf = (r) =>
    shown.queries[r].from.reduce((sum, i) => sum + found.entropy[i], 0) /
    shown.queries[r].from.length;

  function drawMass() {
    const order = [...found.keys.keys()].sort((a, b) => found.mass[b] - found.mass[a]),
      top = order.slice(0, TOP);
    const rest = order.slice(TOP).reduce((sum, j) => sum + found.mass[j], 0);
    massBars.update({
      items: top.map((j) => ({label: token(found.keys[j]), value: found.mass[j], role: "k"})),
      valueName: "weight from all queries",
      format: (x) => fixed(x, 3),
      selected: top.indexOf(state.get().key),
      onselect: (i) => state.set({key: top[i]}, {replace: true}),
    });
    fill(
      massNote,
      order.length > TOP
        ? `${number(order.length - TOP)} other keys get ${number(rest, 3)} of ` +
            `${number(found.queries.length)} together.`
        : `The bars sum to ${number(found.queries.length)}, one for each query.`,
    );
    massFrame.refresh();
  }

  const rowNote = h("p.soft.bars-note"),
    massNote = h("p.soft.bars-note");

  async function drawRow(fresh) {
    const {query} = state.get();
    if (query === null) {
      rowBars.update({items: []});
      fill(rowNote, "Pick a cell or a token: its query’s row stands here in exact digits.");
      rowFrame.refresh();
      return;
    }
    const looked = await app.looked(),
      {queries, keys} = sequences(looked, kindOf(app));
    if (query >= queries.length) return void state.set({query: null, key: null}, {replace: true});
    const {header, arrays} = await later.call("row", app.args("row", {query}), {key: "row"});
    if (!fresh()) return;
    const {weights, scores} = {weights: arrays.weights.data, scores: arrays.scores.data},
      hidden = new Set(header.masked);
    const order = [...keys.keys()]
        .filter((j) => !hidden.has(j))
        .sort((a, b) => weights[b] - weights[a]),
      top = order.slice(0, TOP),
      rest = order.slice(TOP).reduce((sum, j) => sum + weights[j], 0);
    rowBars.update({
      items: top.map((j) => ({
        label: token(keys[j]),
        value: weights[j],
        note: `score ${number(scores[j], 3)}`,
        role: "k",
      })),
      high: Math.max(...top.map((j) => weights[j])) > 0.5 ? 1 : undefined,
      valueName: "weight",
      selected: top.indexOf(state.get().key),
      onselect: (i) => state.set({key: top[i]}, {replace: true}),
      format: (x) => number(x, 4),
      name: "The selected row",
    });
    fill(
      rowNote,
      "The query is ",
      token(queries[query]),
      ". ",
      order.length > TOP
        ? `${number(order.length - TOP)} other keys have ${percent(rest, 3)} together. `
        : "",
      hidden.size ? `${number(hidden.size)} keys are masked.` : "",
    );
    rowFrame.refresh();
  }

  frame = figure({
    title: "Attention pattern",
    name: "pattern",
    wide: true,
    picture,
    controls: [tabs?.el, mode.el, scales.el, domain.el, asWords.el, cover.el, zoom.el],
    legend: legendRoom,
    below: notes,
    shows:
      "Every query’s weights over the keys, which sum to 1: as rows of a matrix, as lines " +
      "from query to key, or as the tint of the text. In the matrix arrow keys move and " +
      "Shift with an arrow goes to the largest; `[` `]` change the head, `{` `}` the layer.",
    hides:
      "what the keys’ *values* say: a large weight on a value near 0 carries nothing. And " +
      "a weight is what was read here, not what the answer rests on; the handles below " +
      "tell more.",
  });
  const rowFrame = figure({
    title: "The selected row",
    name: "row",
    picture: rowBars,
    below: rowNote,
    shows:
      "The largest weights of one query, exactly as the model has them, and the scores " +
      "that they come from.",
    hides: "the keys beyond the first ten, whose weight is added up.",
  });
  const massFrame = figure({
    title: "Weight of each key",
    name: "column mass",
    picture: massBars,
    below: massNote,
    shows: "The weight of each key summed over all queries: 1 is an even share.",
    hides:
      "from whom it comes; a first token that gets most of everything is often a place to " +
      "look at when there is nothing to see.",
  });
  async function drawPattern(fresh) {
    const got = await patternOf(app);
    if (!fresh()) return;
    found = got;
    const kind = kindOf(app);
    tabs?.set(`${kind.side}/${kind.site}`);
    draw();
  }

  async function drawName(fresh) {
    const {layer, head} = state.get();
    const {header, arrays} = await later.call("thumbnails", app.args("thumbnails"), {key: "name"});
    if (fresh())
      fill(
        heading,
        h(
          "p.head-title",
          h("strong", `Layer ${layer} head ${head}`),
          app.model.attentions.length < 2 ? null : h("span", kindName(kindOf(app))),
          h(
            "span.soft",
            headName(
              header.metrics.map((one) => one.name),
              part(arrays.metrics, layer, head),
            ),
          ),
        ),
      );
  }

  // The pattern first: all other parts are requested and built after it was painted.
  let pictured = Promise.resolve(),
    left = false;
  const later = {...app, call: (...asked) => pictured.then(() => app.call(...asked))};
  fill(room, h("section.head-part", frame.el));
  el.append(heading, said, room);
  offs.push(
    follow(app, HEAD, said, (fresh) => {
      const drawn = drawPattern(fresh);
      pictured = drawn.then(painted, () => {});
      return drawn;
    }),
    follow(app, HEAD, said, drawName),
    state.subscribe((now, before) => {
      const other = (...names) => names.some((name) => now[name] !== before[name]);
      if (other("view", "scale", "domain", "words", "share")) draw();
      else if (other("query", "key")) mark();
    }),
  );
  pictured.then(() => {
    if (left) return;
    const handles = touch(later),
      result = outcome(later),
      inside = steps(later);
    room.append(
      h(
        "section.section",
        h("h2", "Touch it"),
        h(
          "p.prose",
          "Every handle is an edit of the running model: it acts inside the head, before " +
            "the output projection, and the other pages show the edited run until you let go.",
        ),
        h("div.touching", handles.el, result.el),
      ),
      h("section.section", h("h2", "In digits"), h("div.beside.digits", rowFrame.el, massFrame.el)),
      h("section.section", h("h2", "Inside, step by step"), inside.el),
    );
    offs.push(
      follow(app, [...HEAD, "query", "key"], said, drawRow),
      handles.off,
      result.off,
      inside.off,
    );
  });
  return () => {
    left = true;
    offs.forEach((off) => off());
    for (const one of Object.values(views)) one.destroy();
  };
}

export const page = {
  about:
    "One head in full: its attention in digits, the computation of them, and the effect " +
    "of your changes.",
  notAbout:
    "why it was learned, and whether the model needs it: silence it below, and compare " +
    "the answers.",
  render,
};
