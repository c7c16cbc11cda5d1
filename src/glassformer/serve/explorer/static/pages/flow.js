// @ts-check
// An answer along the residual stream: the ledger of a logit, the answers after each layer, effects
// and descriptions of heads.
import {fill, h} from "../dom.js";
import {aligned, alignedPercent, number, percent, token} from "../format.js";
import {bars, button, choice, figure, heatmap, legend, reading, toggle} from "../marks.js";
import {part, superseded} from "../wire.js";
import {
  AIM,
  aimControls,
  aimOf,
  firstChoice,
  outcomeName,
  positionStrip,
  round,
  shown,
} from "./aimed.js";
import {follow, headName, kindName, kindOf, kindTabs, LOOK} from "./attended.js";
import {stepsOf, waterfall} from "./flow_ledger.js";
import {wordGrid} from "./flow_lens.js";

const RANKED = 12;

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    room = h("div");
  let looked = /** @type {any} */ (null),
    aim = /** @type {any} */ (null);
  const line = positionStrip(app),
    outcome = aimControls(app);
  const asked = h("section.aimed", {"aria-label": "What is asked about"}, line.el, outcome.el);
  const first = ledgerPart(app),
    second = lensPart(app),
    third = effectsPart(app);
  el.append(asked, said, room);
  fill(room, first.el, second.el, third.el);

  const offs = [
    follow(app, [...LOOK, ...AIM], said, async (fresh) => {
      looked = await app.looked();
      if (!fresh()) return;
      if (looked.outcome.kind === "vectors")
        return void fill(
          el,
          h("p.prose", "This model answers with vectors; there is no logit to take apart."),
        );
      aim = aimOf(app.state.get(), looked);
      line.el.hidden = aim.whole;
      line.update({elements: looked.elements, selected: aim.position});
      outcome.show(looked);
      await Promise.all([
        first.show(looked, aim, fresh),
        second.show(looked, aim, fresh),
        third.show(looked, aim, fresh),
      ]);
    }),
  ];
  return () => {
    offs.forEach((off) => off());
    second.stop();
    third.stop();
  };
}

/** Contributions of all parts to the logit, and the check of their sum. */
function ledgerPart(app) {
  let found = /** @type {any} */ (null),
    each = Boolean(app.state.get().each);
  const picture = waterfall({steps: [], total: 0, name: "The logit as a sum"}),
    check = h("div.readings"),
    note = h("p.soft.ledger-note");
  const frame = figure({
    title: "The logit as a sum",
    name: "ledger",
    wide: true,
    picture,
    below: [check, note],
    controls: [
      toggle({
        label: "each head by itself",
        checked: each,
        onchange: (on) => {
          each = on;
          app.state.set({each: on || undefined}, {replace: true});
          draw();
        },
      }).el,
    ],
    shows:
      "The residual stream is a sum, so its projection on an outcome is one: what the " +
      "embedding, every attention and every feed-forward network wrote towards the logit, " +
      "in the order in which they did. Full bars speak for it, hollow ones against.",
    hides:
      "what would happen without a part. Norms are frozen at their values in this run, and " +
      "later layers read what earlier ones wrote: that is measured below, under *Effects of " +
      "heads*.",
  });
  function draw() {
    if (!found) return;
    const {entries, bias, total, logit, gap} = found,
      edited = entries.some(({name}) => name === "edit"),
      good = gap < 1e-5;
    picture.update({steps: stepsOf(entries, bias, each), total});
    fill(
      check,
      reading("sum of all parts", number(total, 6)),
      reading(found.against ? "the model’s difference" : "the model’s logit", number(logit, 6)),
      reading("gap, of all that was written", number(gap, 2), edited ? "" : good ? "good" : "bad"),
    );
    fill(
      note,
      found.note,
      edited &&
        " What an edit changed is a part of the sum, so the gap checks only what follows it.",
    );
    frame.refresh();
  }
  return {
    el: frame.el,
    async show(
      /** @type {any} */ looked,
      /** @type {any} */ aim,
      /** @type {() => boolean} */ fresh,
    ) {
      const {target, position, against} = aim;
      const {header} = await app.ask("ledger", {target, position, against}, {key: "ledger"});
      if (!fresh()) return;
      found = header;
      draw();
    },
  };
}

/** Answers after each layer (logit lens). */
function lensPart(app) {
  let found = /** @type {any} */ (null),
    by = "top",
    layer = -1,
    seen = /** @type {any} */ (null),
    aimed = /** @type {any} */ (null);
  const grid = wordGrid({
    rows: [],
    columns: [],
    words: [],
    p: [],
    name: "Answers after each layer",
    onselect: (row, column) => pick(row, column),
  });
  const cell = bars({
      items: [],
      name: "The likeliest here",
      high: 1,
      format: (x) => percent(x),
      valueName: "probability",
    }),
    title = h("p.sub"),
    said = h("p.soft");
  const colour = choice({
    label: "Colour",
    value: by,
    options: [
      {value: "top", label: "the likeliest"},
      {value: "target", label: "the outcome"},
    ],
    onchange: (to) => ((by = to), draw()),
  });
  const frame = figure({
    title: "The lens",
    name: "lens",
    wide: true,
    picture: grid,
    legend: legend({label: "probability", scale: "linear"}),
    controls: [colour.el],
    below: [said, title, cell.el],
    shows:
      "What the model would answer if it stopped after a layer: the stream there, through " +
      "the final norm and the head. Each cell has the likeliest outcome; choose one for " +
      "more.",
    hides:
      "what a middle layer knows in a language of its own. The head is that of the end, " +
      "and was never trained to read there.",
  });
  const whole = () => Boolean(aimed?.whole);
  function pick(row, column) {
    layer = row;
    if (!whole() && found.positions[column] !== aimed.position)
      app.state.set({position: found.positions[column], target: null}, {replace: true});
    else draw();
  }
  function draw() {
    if (!found) return;
    const {ids, p, target} = found.arrays,
      [L, T, k] = ids.shape,
      at = layer < 0 ? L - 1 : Math.min(layer, L - 1),
      label = (i) => found.labels[i] ?? String(i);
    const rows = found.layers.map((l) => (l === 0 ? "embedding" : `layer ${l - 1}`)),
      column = whole() ? 0 : found.positions.indexOf(aimed.position);
    const words = rows.map((_, r) =>
      whole()
        ? Array.from(part(ids, r, 0), label)
        : Array.from({length: T}, (_, t) => label(part(ids, r, t)[0])),
    );
    const chance = rows.map((_, r) =>
      whole()
        ? Array.from(part(p, r, 0))
        : Array.from({length: T}, (_, t) =>
            by === "target" ? part(target, r)[t] : part(p, r, t)[0],
          ),
    );
    const columns = whole()
      ? Array.from({length: k}, (_, i) => `${i + 1}.`)
      : found.positions.map((t) => seen.elements[t]);
    colour.el.hidden = whole();
    grid.update({
      rows,
      columns,
      words,
      p: chance,
      columnName: whole() ? "rank" : "position",
      now: {row: at, column: Math.max(0, column)},
    });
    const own = Array.from(part(ids, at, Math.max(0, column)), (id, i) => ({
      label: h(
        "span",
        token({label: label(id), kind: app.model.classes.length ? "word" : "token"}),
      ),
      value: part(p, at, Math.max(0, column))[i],
    }));
    fill(
      title,
      "after " +
        (at ? `layer ${at - 1}` : "the embedding") +
        (whole() ? "" : `, at “${shown(seen.elements[aimed.position].label)}”`),
    );
    cell.update({items: own, format: alignedPercent(own.map((one) => one.value))});
    fill(
      said,
      whole() || T === seen.elements.length
        ? ""
        : `${T} of ${seen.elements.length} positions, around the chosen one.`,
    );
    frame.refresh();
  }
  return {
    el: frame.el,
    stop: () => grid.destroy(),
    async show(
      /** @type {any} */ looked,
      /** @type {any} */ aim,
      /** @type {() => boolean} */ fresh,
    ) {
      const {positions, k} = firstChoice(app, app.state.get(), looked);
      const {header, arrays} = await app.call(
        "lens",
        {look: app.look(), k, positions, target: aim.target},
        {key: "lens"},
      );
      if (!fresh()) return;
      [found, seen, aimed] = [{...header, arrays}, looked, aim];
      draw();
    },
  };
}

/** Effect of each head, with its mean output everywhere, and its description. */
function effectsPart(app) {
  let abort = /** @type {AbortController | null} */ (null),
    asked = "",
    cells = new Float64Array(0),
    seen = /** @type {any} */ (null),
    aimed = /** @type {any} */ (null),
    names = /** @type {any} */ (null);
  const tabs = kindTabs(app),
    go = button("Measure", () => (abort ? stop() : measure()), {kind: "main"}),
    progress = h("output.soft"),
    note = h("div");
  const grid = heatmap({
    rows: [""],
    columns: [""],
    values: [0],
    kind: "signed",
    name: "Change without each head",
    rowName: "layer",
    columnName: "head",
    valueName: "change of the logit",
    most: 64,
    cellHeight: 40,
    onselect: (layer, head, {pinned}) =>
      app.state.set(pinned ? {layer, head, page: "head"} : {layer, head}, {replace: !pinned}),
  });
  const key = h("div"),
    ranked = bars({
      items: [],
      name: "Heads by what they do",
      format: (x) => number(x, 3),
      valueName: "change",
    });
  const measured = h(
    "div",
    {hidden: true},
    grid.el,
    h("p.sub", "strongest, with what they look like"),
    ranked.el,
  );
  const frame = figure({
    title: "Effects of heads",
    name: "effects of heads",
    wide: true,
    picture: {...grid, el: measured},
    controls: [tabs?.el, h("div.row", go, progress)],
    legend: key,
    below: note,
    shows:
      "How the outcome’s logit changes when one head says the same at every position, its " +
      "mean over them: minus (blue) means that the head spoke for the outcome. Beside it, " +
      "what the head’s attention looks like.",
    hides:
      "heads that stand in for each other: one of a pair may seem to do nothing. And what " +
      "heads do for other outcomes and inputs.",
  });
  function draw() {
    const kind = kindOf(app),
      high = round(
        Math.max(1e-9, ...Array.from(cells, (x) => (Number.isFinite(x) ? Math.abs(x) : 0))),
      );
    grid.update({
      rows: Array.from({length: kind.layers}, (_, i) => String(i)),
      columns: Array.from({length: kind.heads}, (_, i) => String(i)),
      values: cells,
      high,
      masked: (r, c) => !Number.isFinite(cells[r * kind.heads + c]),
      say: (r, c) =>
        `layer ${r} head ${c}, ` +
        (Number.isFinite(cells[r * kind.heads + c])
          ? `change ${number(cells[r * kind.heads + c], 3)}`
          : "not measured"),
    });
    fill(key, high > 1e-9 && legend({kind: "signed", high, label: "change of the logit"}));
    const order = Array.from(cells.keys())
      .filter((i) => Number.isFinite(cells[i]))
      .sort((a, b) => Math.abs(cells[b]) - Math.abs(cells[a]))
      .slice(0, RANKED);
    measured.hidden = !order.length;
    ranked.update({
      format: aligned(order.map((i) => cells[i])),
      items: order.map((i) => {
        const [layer, head] = [Math.floor(i / kind.heads), i % kind.heads];
        return {
          label: h("span", `layer ${layer} head ${head}`),
          value: cells[i],
          note: names ? headName(names.names, part(names.metrics, layer, head)) : "",
        };
      }),
      onselect: (i) =>
        app.state.set({
          page: "head",
          layer: Math.floor(order[i] / kind.heads),
          head: order[i] % kind.heads,
        }),
    });
    frame.refresh();
  }
  async function measure() {
    const {side, site, layers, heads} = kindOf(app),
      mine = (abort = new AbortController()),
      look = app.look();
    cells = new Float64Array(layers * heads).fill(NaN);
    go.textContent = "Stop";
    fill(note);
    let count = 0;
    try {
      const {header, arrays} = await app.ask("thumbnails", {}, {signal: mine.signal});
      names = {names: header.metrics.map((one) => one.name), metrics: arrays.metrics};
      await app.stream(
        "sweep",
        {look, target: aimed.target, position: aimed.position, against: aimed.against, side, site},
        ({row, column, change}) => {
          cells[row * heads + column] = change;
          progress.textContent = `${++count} of ${layers * heads} heads`;
          if (count % heads === 0) draw();
        },
        {signal: mine.signal},
      );
      fill(
        progress,
        `${layers * heads} heads, ${kindName(kindOf(app))}: ` +
          `${outcomeName(seen, app, aimed.target)}`,
      );
      app.announce("Measured");
    } catch (error) {
      if (!superseded(error)) app.failed(note, error);
    }
    if (abort === mine) {
      stop();
      draw();
    }
  }
  function stop() {
    abort?.abort();
    abort = null;
    go.textContent = "Measure";
  }
  const off = app.state.subscribe(
    (now, before) => (now.side !== before.side || now.site !== before.site) && reset(),
  );
  function reset() {
    stop();
    const {layers, heads} = kindOf(app);
    cells = new Float64Array(layers * heads).fill(NaN);
    fill(progress, "Not measured yet: it runs the model once for each head.");
    draw();
  }
  return {
    el: frame.el,
    stop() {
      stop();
      off();
      grid.destroy();
    },
    async show(/** @type {any} */ looked, /** @type {any} */ aim) {
      const question = JSON.stringify([app.look(), aim.position, aim.target, aim.against]);
      [seen, aimed] = [looked, aim];
      if (question === asked) return;
      asked = question;
      reset();
    },
  };
}

export const page = {
  about:
    "One answer along the residual stream: the contribution of each part, the layer at " +
    "which the answer appears, and the heads it depends on.",
  notAbout: "which words of the input it depends on. See the page *Explain*.",
  render,
};
