// @ts-check
// Where attention falls on an image or a spectrogram: a patch or a word asks, the patches answer;
// layer by layer; images and words apart.
import {fill, h} from "../dom.js";
import {fixed, isPatch, number, tick} from "../format.js";
import {choice, figure, heatmap, legend, reading, slider, toggle} from "../marks.js";
import {part} from "../wire.js";
import {round, shown, strip} from "./aimed.js";
import {HEAD, follow, headDials, kindOf, kindTabs, placeOf, sequences} from "./attended.js";
import {partsOf, picturesOf, sheet, sheetsSvg} from "./image_sheet.js";

const WHOLE = 1 << 22,
  ROWS = 48; // numbers of all patterns that are asked for at once; rows that are
const GROUPS = {
  ...{image: "image", audio: "audio", token: "words", special: "special"},
  ...{class: "class", register: "registers"},
};

/**
 * Who asks: the chosen element, else the class token, else where the answer is given. @param
 * {any[]} queries @param {number | null} chosen
 */
function asking(queries, chosen) {
  if (chosen !== null && chosen < queries.length) return chosen;
  const summary = queries.findIndex((one) => one.kind === "class");
  return summary >= 0 ? summary : queries.length - 1;
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    room = h("div.image-page"),
    tabs = kindTabs(app);
  let sheets = /** @type {any[]} */ ([]),
    small = /** @type {any[]} */ ([]),
    now = /** @type {any} */ (null);
  const opacity = () => state.get().opacity ?? 0.75,
    mean = () => Boolean(state.get().mean),
    smooth = () => Boolean(state.get().smooth);
  const ask = (query) => state.set({query, key: null}, {replace: true});
  const words = strip({
    elements: [],
    name: "Who asks, and what the others get",
    kind: "attention",
    onselect: ask,
  });
  const [layer, head] = headDials(app);
  const heads = choice({
    label: "Heads",
    value: mean() ? "mean" : "one",
    options: [
      {value: "one", label: "one head"},
      {value: "mean", label: "mean of all"},
    ],
    onchange: (to) => state.set({mean: to === "mean" || undefined}, {replace: true}),
  });
  const see = slider({
    label: "opacity",
    min: 0,
    max: 1,
    step: 0.05,
    value: opacity(),
    compact: true,
    oninput: (x) => state.set({opacity: x === 0.75 ? undefined : x}, {replace: true}),
  });
  const blur = toggle({
    label: "smooth (invents detail)",
    checked: smooth(),
    onchange: (on) => state.set({smooth: on || undefined}, {replace: true}),
  });
  const drawn = h("div"),
    readings = h("div.readings"),
    key = h("div"),
    limit = h("p.soft");
  const picture = {
    el: h("div.stack", words.el, drawn),
    toSvg: () => sheetsSvg(sheets.map((one) => one.sheet)),
    table: () => ({
      columns: ["element", "place", "weight"],
      rows: now ? now.keys.map((one, i) => [shown(one), i, now.weights[i]]) : [],
    }),
    summary() {
      if (!now) return "";
      const order = Array.from(now.weights.keys())
        .sort((a, b) => now.weights[b] - now.weights[a])
        .slice(0, 3);
      return (
        `${shown(now.queries[now.query])} asks; most goes to ` +
        `${order.map((i) => `${shown(now.keys[i])} ${number(now.weights[i], 3)}`).join(", ")}.`
      );
    },
  };
  const first = figure({
    title: "Attention of a patch",
    name: "image attention",
    wide: true,
    picture,
    controls: [tabs?.el, heads.el, layer.el, head.el, see.el, blur.el],
    legend: key,
    below: [readings, limit],
    shows:
      "Choose a patch of the image, or a word: it asks, and every patch is coloured by " +
      "the attention that it gets. At the left the image, in the middle the colours over " +
      "it, at the right the colours alone.",
    hides:
      "edges finer than a patch: the model sees no borders within one. A bright patch was " +
      "read; whether it mattered, the page *Explain* asks.",
  });
  const grid = h("div.image-layers"),
    layersKey = h("div");
  const second = figure({
    title: "Layer by layer",
    name: "image layers",
    wide: true,
    legend: layersKey,
    picture: {
      el: grid,
      toSvg: () => sheetsSvg(small, 4),
      table: () => ({
        columns: ["layer", "element", "weight"],
        rows: now
          ? now.layers.flatMap((weights, l) =>
              now.keys.map((one, i) => [String(l), shown(one), weights[i]]),
            )
          : [],
      }),
      summary: () => (now ? `${now.layers.length} layers.` : ""),
    },
    shows: "The same row of every layer: who asks stays, the layer changes.",
    hides:
      "where a patch’s content has gone meanwhile: in upper layers an element holds more " +
      "than its own place.",
  });
  const blocks = heatmap({
    rows: [""],
    columns: [""],
    values: [0],
    name: "Attention between kinds of elements",
    rowName: "asks",
    columnName: "gets",
    most: 84,
    cellHeight: 44,
  });
  const third = figure({
    title: "Images and words",
    name: "quadrants",
    picture: blocks,
    legend: legend(),
    shows:
      "How much of its attention a kind of element gives to each kind, a mean over its " +
      "queries. Each row sums to 1.",
    hides: "how many there are of each kind: many patches get much together, and little each.",
  });
  el.append(said, room);
  fill(room, first.el, second.el, third.el);

  const over = (weights, elements, fn) =>
    elements.reduce((sum, one, i) => sum + (fn(one) ? weights[i] : 0), 0);
  function stop() {
    [...sheets.map((one) => one.sheet), ...small].forEach((one) => one.destroy());
    sheets = [];
    small = [];
  }
  /** Sheets for each part: alone, coloured, the colours alone. */
  function build() {
    stop();
    const held = drawn.contains(document.activeElement);
    sheets = now.parts.flatMap((at, i) => {
      const base = {
          shown: now.pictures[i],
          scale: "linear",
          label: (patch) => shown(now.keys[at[patch]]),
        },
        name = now.parts.length > 1 ? `Image ${i + 1}` : "The image",
        selects = now.patchesAsk ? (patch) => ask(at[patch]) : null;
      return [
        {
          at,
          heat: false,
          sheet: sheet({...base, name: `${name}: choose a patch`, onselect: selects}),
        },
        {
          at,
          heat: true,
          sheet: sheet({...base, name: `${name} with its weights`, values: [], onselect: selects}),
        },
        {
          at,
          heat: true,
          sheet: sheet({
            ...base,
            name: `${name}: weights alone`,
            bare: true,
            values: [],
            onselect: selects,
          }),
        },
      ];
    });
    fill(
      drawn,
      now.parts.map((_, i) =>
        h(
          "div",
          {class: `image-row${now.pictures[i].turned ? " turned" : ""}`},
          sheets.slice(3 * i, 3 * i + 3).map((one) => one.sheet.el),
        ),
      ),
    );
    if (held) /** @type {any} */ (drawn.querySelector("[tabindex]"))?.focus();
    small = now.layers.flatMap(() =>
      now.parts.map((_, i) =>
        sheet({
          shown: now.pictures[i],
          scale: "linear",
          name: "Weights of a layer",
          values: [],
          grid: false,
          most: 190,
          opacity: 0.85,
        }),
      ),
    );
    fill(
      grid,
      now.layers.map((_, l) =>
        h(
          "div",
          h("p.sub", `layer ${l}`),
          small.slice(l * now.parts.length, (l + 1) * now.parts.length).map((one) => one.el),
        ),
      ),
    );
  }
  function draw() {
    const {keys, queries, query, weights, masked, parts} = now,
      patches = parts.flat(),
      high = round(Math.max(1e-6, ...patches.map((i) => weights[i])));
    for (const {at, heat, sheet: one} of sheets)
      one.update({
        selected: now.patchesAsk ? at.indexOf(query) : null,
        ...(heat
          ? {values: at.map((i) => weights[i]), high, opacity: opacity(), smooth: smooth()}
          : {}),
      });
    now.layers.forEach((row, l) => {
      const most = round(Math.max(1e-6, ...patches.map((i) => row[i])));
      parts.forEach((at, i) =>
        small[l * parts.length + i].update({
          values: at.map((k) => row[k]),
          high: most,
          smooth: smooth(),
          selected: now.patchesAsk ? at.indexOf(query) : null,
          name: `Layer ${l}`,
        }),
      );
    });
    const others = keys === queries && !keys.every(isPatch);
    const reach = round(
      Math.max(high, ...keys.map((_, i) => (patches.includes(i) ? 0 : weights[i]))),
    );
    words.el.hidden = !others && keys === queries;
    words.update({
      elements: queries,
      values: keys === queries ? weights : null,
      high: reach,
      selected: query,
    });
    fill(
      key,
      legend({scale: "linear", high}),
      others &&
        reach > high &&
        h("p.soft", `The colours of the other elements go up to ${tick(reach)}.`),
    );
    fill(
      layersKey,
      h("p.soft", "Each layer has a scale of its own, from 0 to its largest weight."),
    );
    const {layer: l, head: k} = state.get(),
      hidden = masked.filter((i) => patches.includes(i)).length;
    fill(
      readings,
      h(
        "p",
        h("bdi", `“${shown(queries[query])}”`),
        h("span.soft", ` asks, layer ${l}${mean() ? ", mean of all heads" : ` head ${k}`}`),
      ),
      Object.entries(GROUPS).map(([kind, name]) => {
        const there = keys.some((one) => one.kind === kind);
        return there
          ? reading(
              `on ${name}`,
              fixed(
                over(weights, keys, (one) => one.kind === kind),
                3,
              ),
            )
          : null;
      }),
      hidden ? reading("masked, not seen at all", `${hidden} patches`) : null,
    );
    first.refresh();
    second.refresh();
  }
  function quadrants(patterns) {
    const {queries, keys} = now,
      {layer: l, head: k} = state.get(),
      [H, T, S] = patterns[l].shape;
    const rows = Object.keys(GROUPS).filter((kind) => queries.some((one) => one.kind === kind)),
      columns = Object.keys(GROUPS).filter((kind) => keys.some((one) => one.kind === kind));
    third.el.hidden = rows.length < 2 && columns.length < 2;
    const values = rows.flatMap((from) =>
      columns.map((to) => {
        const asked = Array.from({length: T}, (_, i) => i).filter((i) => queries[i].kind === from),
          some = mean() ? Array.from({length: H}, (_, i) => i) : [k];
        return (
          asked.reduce(
            (sum, i) =>
              sum +
              some.reduce(
                (s, one) =>
                  s + over(part(patterns[l], one, i), keys.slice(0, S), (each) => each.kind === to),
                0,
              ) /
                some.length,
            0,
          ) / asked.length
        );
      }),
    );
    blocks.update({
      rows: rows.map((kind) => GROUPS[kind]),
      columns: columns.map((kind) => GROUPS[kind]),
      values,
      selected: null,
    });
    third.refresh();
  }

  let madeFor = "";
  const offs = [
    follow(app, [...HEAD, "query", "mean"], said, async (fresh) => {
      const looked = await app.looked(),
        kind = kindOf(app),
        {queries, keys} = sequences(looked, kind),
        parts = partsOf(keys);
      if (!fresh()) return;
      if (!parts.length) {
        room.hidden = true;
        return void fill(
          said,
          h(
            "p.problem",
            "There is no image or audio among the elements that are looked at here; " +
              "choose another attention, or an input with one.",
          ),
        );
      }
      room.hidden = false;
      const {layer: l, head: k} = state.get(),
        query = asking(queries, state.get().query),
        at = app.args("row", {query});
      const whole = kind.layers * kind.heads * queries.length * keys.length <= WHOLE,
        many = kind.layers * kind.heads > ROWS,
        every = Array.from({length: kind.layers}, (_, i) => i);
      const weightsOf = async (i, heads) => {
        // a row at a time where all patterns together are too much
        const rows = await Promise.all(
          heads.map((one) =>
            app
              .call("row", {...at, layer: i, head: one})
              .then((reply) => reply.arrays.weights.data),
          ),
        );
        return Float32Array.from(
          {length: keys.length},
          (_, s) => rows.reduce((sum, one) => sum + one[s], 0) / rows.length,
        );
      };
      const heads = mean() ? Array.from({length: kind.heads}, (_, i) => i) : [k],
        drawnLayers = whole || !mean() || !many ? every : [];
      const [pictures, row, ...found] = await Promise.all([
        picturesOf(app, parts.length),
        app.call("row", at, {key: "row"}),
        ...(whole
          ? every.map((i) =>
              app
                .call("raw", {look: app.look(), point: `${placeOf(app, i)}.pattern`})
                .then((reply) => reply.arrays.values),
            )
          : (drawnLayers.length ? drawnLayers : [l]).map((i) => weightsOf(i, heads))),
      ]);
      if (!fresh()) return;
      const rowOf = (pattern) => {
        const [H, , S] = pattern.shape;
        if (!mean()) return part(pattern, k, query);
        return Float32Array.from(
          {length: S},
          (_, s) =>
            Array.from({length: H}, (_, i) => part(pattern, i, query)[s]).reduce(
              (a, b) => a + b,
              0,
            ) / H,
        );
      };
      const rows = whole ? found.map(rowOf) : found;
      now = {
        queries,
        keys,
        query,
        parts,
        pictures,
        masked: row.header.masked,
        weights: mean() ? rows[drawnLayers.length ? l : 0] : row.arrays.weights.data,
        layers: drawnLayers.length ? rows : [],
        patchesAsk: keys === queries,
        whole,
      };
      second.el.hidden = !now.layers.length;
      const question = JSON.stringify([app.look(), kind.side, kind.site, now.layers.length]);
      if (question !== madeFor) build();
      madeFor = question;
      layer.set(l);
      head.set(k);
      tabs?.set(`${kind.side}/${kind.site}`);
      draw();
      third.el.hidden = true;
      if (whole) quadrants(found);
      fill(
        limit,
        whole
          ? null
          : `With ${number(keys.length)} elements a row is asked for at a time: images and ` +
              "words are not summed up " +
              "here" +
              (now.layers.length
                ? ""
                : ", and the layers are not drawn for the mean of all heads") +
              ".",
      );
    }),
    state.subscribe(
      (after, before) =>
        now && (after.opacity !== before.opacity || after.smooth !== before.smooth) && draw(),
    ),
  ];
  return () => {
    offs.forEach((off) => off());
    stop();
    blocks.destroy();
  };
}

export const page = {
  about: "Attention on the image itself, or on the spectrogram of audio.",
  notAbout:
    "what the patches mean to the model. An image with bright spots is convincing: " +
    "compare heads, layers and the page *Explain* first.",
  render,
};
