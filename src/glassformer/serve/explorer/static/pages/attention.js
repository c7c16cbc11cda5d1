// @ts-check
// All heads: thumbnails of layers by heads, with metrics, ranked and filtered by one of them.
import {fill, h, painted} from "../dom.js";
import {fixed, number} from "../format.js";
import {link} from "../link.js";
import {atlas, bars, figure, legend, select, slider} from "../marks.js";
import {part} from "../wire.js";
import {follow, headName, kindName, kindOf, kindTabs, LOOK, SHARES} from "./attended.js";

const RANKED = 16;
const TITLES = {entropy: "entropy (bits)", distance: "mean distance", ...SHARES};

/**
 * √-bytes [L, H, R, C] as squares of the longer side, which is what an atlas draws. @param {{shape:
 * number[], data: Uint8Array}} thumbnails
 */
export function squared({shape: [layers, heads, rows, columns], data}) {
  const size = Math.max(rows, columns);
  if (rows === columns) return {size, bytes: data};
  const bytes = new Uint8Array(layers * heads * size * size);
  for (let n = 0, i = 0; n < layers * heads; n++) {
    for (let r = 0; r < size; r++) {
      for (let c = 0; c < size; c++)
        bytes[i++] =
          data[
            (n * rows + Math.floor((r * rows) / size)) * columns + Math.floor((c * columns) / size)
          ];
    }
  }
  return {size, bytes};
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    room = h("div"),
    tabs = kindTabs(app);
  let found = null,
    picture = null,
    ranked = null,
    frames = [];
  const metric = () => state.get().metric ?? "previous",
    least = () => state.get().least ?? 0;
  const value = (layer, head, name = metric()) =>
    part(found.arrays.metrics, layer, head)[found.names.indexOf(name)];
  const named = (layer, head) => headName(found.names, part(found.arrays.metrics, layer, head));
  const open = (layer, head) => state.set({page: "head", layer, head});
  const pick = (layer, head) => state.set({layer, head}, {replace: true});
  const dimmed = (layer, head) => least() > 0 && !(value(layer, head) >= least());
  const say = (layer, head) =>
    `layer ${layer} head ${head}: ${named(layer, head)}, ${TITLES[metric()]} ` +
    `${number(value(layer, head), 3)}${dimmed(layer, head) ? ", below the filter" : ""}`;

  const by = select({
    label: "Rank by",
    value: metric(),
    options: Object.entries(TITLES).map(([name, label]) => ({value: name, label})),
    onchange: (name) =>
      state.set({metric: name === "previous" ? undefined : name, least: undefined}),
  });
  const filterRoom = h("div");
  let filter = /** @type {any} */ (null),
    filterFor = "";
  const meaning = h("p.attention-meaning.soft"),
    count = h("p.reading", {role: "status"});
  el.append(said, room);

  function build(options) {
    picture?.destroy();
    picture = atlas(options);
    ranked = bars({items: [], name: "Heads by the metric", format: (x) => fixed(x, 3)});
    const overview = figure({
      title: "All heads",
      name: "heads",
      wide: true,
      picture,
      controls: [tabs?.el, by.el, filterRoom],
      legend: legend({label: "weight"}),
      below: h("div.attention-below", meaning, count),
      shows:
        "Every head’s pattern: rows are queries, from the first element down; columns are " +
        "keys. A pixel is the *largest* weight of the queries and keys it stands for, so a " +
        "single bright one is not averaged away. Arrow keys move, Enter opens a head.",
      hides:
        "exact weights, which a head’s own page has; what is masked looks like 0 here; and " +
        "what a head is good for. A name such as “≈ previous token 0.94” says where " +
        "attention went in this input, and nothing else.",
    });
    const list = figure({
      title: "Ranked",
      name: "heads ranked",
      picture: ranked,
      shows: "The heads with the most of the chosen metric, a mean over all queries but the first.",
      hides: "other inputs: the same head may look elsewhere in another text.",
    });
    frames = [overview, list];
    fill(
      room,
      h(
        "div",
        {class: options.columns <= 6 ? "beside attention-beside" : ""},
        overview.el,
        list.el,
      ),
    );
  }

  function rank() {
    const {layer, head} = state.get(),
      name = metric(),
      {layers, heads} = kindOf(app);
    const all = Array.from({length: layers * heads}, (_, i) => ({
      layer: Math.floor(i / heads),
      head: i % heads,
      value: value(Math.floor(i / heads), i % heads),
    }));
    const there = all.filter((one) => Number.isFinite(one.value)).sort((a, b) => b.value - a.value),
      top = there.slice(0, RANKED);
    ranked.update({
      items: top.map((one) => ({
        label: h("span", `layer ${one.layer} head ${one.head}`),
        value: one.value,
        faded: dimmed(one.layer, one.head),
      })),
      name: `Heads by ${TITLES[name]}`,
      valueName: TITLES[name],
      high: name in SHARES ? 1 : undefined,
      selected: top.findIndex((one) => one.layer === layer && one.head === head),
      onselect: (i) => open(top[i].layer, top[i].head),
    });
    const most = Math.max(...there.map((one) => one.value), 0),
      shown = there.filter((one) => !dimmed(one.layer, one.head)).length;
    limit(name in SHARES ? 1 : Math.max(1, Math.ceil(most)));
    fill(
      meaning,
      h("strong", TITLES[name]),
      ". ",
      found.header.metrics[found.names.indexOf(name)].definition,
      there.length ? "" : " It is not defined for this attention and input.",
    );
    fill(
      count,
      least() > 0
        ? `${shown} of ${all.length} heads have at least ${number(least(), 3)}; the others ` +
            "are faded."
        : `${all.length} ` +
            `heads${there.length > RANKED ? `; the ${RANKED} first are ranked below` : ""}.`,
    );
  }

  function limit(max) {
    if (filterFor !== `${metric()} ${max}`) {
      filterFor = `${metric()} ${max}`;
      filter = slider({
        label: "Show from",
        name: "show heads from",
        min: 0,
        max,
        step: max / 100,
        value: least(),
        oninput: (x) => state.set({least: x || undefined}, {replace: true}),
      });
      fill(filterRoom, filter.el);
    }
    filter.set(least());
  }

  function show(anew = {}) {
    if (!picture) return;
    const {layer, head} = state.get();
    picture.update({...anew, selected: {row: layer, column: head}});
    rank();
    frames.forEach((frame) => frame.refresh());
    painted()
      .then(() => app.looked())
      .then(() => app.ask("head", {}, {key: "chosen head"}))
      .catch(() => {}); // it is the likeliest to be opened
  }

  const offs = [
    follow(app, [...LOOK, "side", "site"], said, async (fresh) => {
      await app.looked(); // the pass itself first: the header says how long it took
      const kind = kindOf(app),
        {header, arrays} = await app.ask("thumbnails", {}, {key: "thumbnails"});
      if (!fresh()) return;
      found = {header, arrays, names: header.metrics.map((one) => one.name)};
      const {layer, head} = state.get();
      const options = {
        rows: kind.layers,
        columns: kind.heads,
        ...squared(arrays.thumbnails),
        name: `Attention patterns, ${kindName(kind)}`,
        selected: {row: layer, column: head},
        dimmed,
        say,
        note: named,
        onselect: pick,
        onopen: open,
      };
      if (picture) picture.update(options);
      else build(options);
      tabs?.set(`${kind.side}/${kind.site}`);
      show();
    }),
    state.subscribe((now, before) => {
      const other = (...names) => names.some((name) => now[name] !== before[name]);
      if (other("metric", "least")) {
        by.set(metric());
        show({dimmed});
      } else if (other("layer", "head")) show();
    }),
  ];
  return () => {
    offs.forEach((off) => off());
    picture?.destroy();
  };
}

/** All metrics of the selected head. @param {HTMLElement} el @param {any} app */
function inspect(el, app) {
  const said = h("div"),
    body = h("div");
  el.append(said, body);
  return follow(app, [...LOOK, "side", "site", "layer", "head"], said, async (fresh) => {
    await app.looked();
    const {layer, head} = app.state.get();
    // the same request as that of the page, sent once
    const {header, arrays} = await app.ask("thumbnails");
    if (!fresh()) return;
    const values = part(arrays.metrics, layer, head),
      names = header.metrics.map((one) => one.name);
    fill(
      body,
      h("h2", `Layer ${layer} head ${head}`),
      h("p.attention-name", headName(names, values)),
      h(
        "dl.metric-list",
        header.metrics.map(({name, definition}, i) => [
          h("dt", {title: definition}, TITLES[name] ?? name),
          h("dd", Number.isNaN(values[i]) ? "not here" : fixed(values[i], 3)),
        ]),
      ),
      h("p", link(app, {page: "head"}, "Open this head")),
    );
  });
}

export const page = {
  about:
    "The attention of every head of every layer for the input above: one small image " +
    "each, layers downwards, heads to the right.",
  notAbout:
    "that a head matters. Attention shows what was read, not its effect; on the head’s " +
    "page you can change it and see.",
  render,
  inspect,
};
