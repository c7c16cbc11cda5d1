// @ts-check
// Two looks at one model: which elements correspond, how the answer, a head and all heads' metrics
// differ, B - A.
import {fill, h} from "../dom.js";
import {fixed, labelOf, number} from "../format.js";
import {bars, button, figure, heatmap, legend, reading, select} from "../marks.js";
import {part} from "../wire.js";
import {PAIR, changesOfB, otherLook, round, shown} from "./aimed.js";
import {LOOK, SHARES, follow, headDials, kindOf, kindTabs, sequences} from "./attended.js";
import {pairLine, scatter} from "./compare_marks.js";
import {stagesPicture} from "./next_stages.js";

const TITLES = {entropy: "entropy (bits)", distance: "mean distance", ...SHARES},
  RANKED = 10;

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state, model} = app,
    said = h("div"),
    room = h("div"),
    wrote = (input) => (typeof input === "string" ? input : JSON.stringify(input));
  const plain =
    !["pair", "parts", "draws"].some(app.has) &&
    typeof model.examples[0] === "string" &&
    model.max_length > 64; // the pair is that long in characters
  const asB = () => changesOfB(app, state.get()),
    other = () => otherLook(app, state.get());
  const field = h("input.compare-b", {
    type: "text",
    "aria-label": "Input of B",
    value: wrote(other().input),
    spellcheck: false,
    autocomplete: "off",
  });
  const read = () => {
    try {
      return /^[[{]/.test(field.value.trim()) ? JSON.parse(field.value) : field.value;
    } catch {
      return field.value;
    }
  };
  const put = (change) => state.set({b: {...asB(), ...change}, pair: undefined});
  const steps = model.checkpoints ?? [],
    own = h("bdi.compare-a");
  const examples = select({
    label: "examples",
    value: "",
    options: [
      {value: "", label: "choose"},
      ...model.examples.map((one, i) => ({value: String(i), label: wrote(one).slice(0, 48)})),
    ],
    onchange: (i) => i && put({input: model.examples[Number(i)]}),
  });
  const edits = select({
    label: "edits of B",
    value: "edits" in asB() ? "none" : "same",
    options: [
      {value: "same", label: "as A"},
      {value: "none", label: "none"},
    ],
    onchange: (to) => {
      const {edits: _, ...rest} = asB();
      state.set({b: to === "none" ? {...rest, edits: []} : rest});
    },
  });
  const moment =
    steps.length > 1
      ? select({
          label: "step of B",
          value: String(asB().checkpoint ?? ""),
          options: [
            {value: "", label: "as A"},
            ...steps.map((step) => ({value: String(step), label: number(step)})),
          ],
          onchange: (to) => {
            const {checkpoint: _, ...rest} = asB();
            state.set({b: to ? {...rest, checkpoint: Number(to)} : rest});
          },
        })
      : null;
  const form = h(
    "form.compare-form",
    {onsubmit: (event) => (event.preventDefault(), put({input: read()}))},
    h("div.compare-row", h("span.compare-name", "A"), own),
    h(
      "div.compare-row",
      h("span.compare-name", "B"),
      field,
      h("button.button.main", {type: "submit"}, "Compare"),
    ),
    h(
      "div.row.aim",
      examples.el,
      edits.el,
      moment?.el,
      plain
        ? button(
            "Note B’s pair: tired, wide",
            () => state.set({input: PAIR[0], edits: [], b: {input: PAIR[1]}, pair: undefined}),
            {kind: "quiet"},
          )
        : null,
      button(
        "Swap",
        () =>
          state.set({
            input: other().input,
            edits: other().edits,
            checkpoint: other().checkpoint,
            b: app.look(),
            pair: undefined,
          }),
        {kind: "quiet"},
      ),
    ),
  );
  el.append(form, said, room);

  let found = /** @type {any} */ (null),
    a = /** @type {any} */ (null),
    b = /** @type {any} */ (null);
  const line = pairLine({
    columns: [],
    name: "Corresponding elements",
    onselect: (pair) => state.set({pair}, {replace: true}),
  });
  const first = figure({
    title: "Corresponding elements",
    name: "alignment",
    wide: true,
    picture: line,
    shows:
      "The elements of A above those of B. Where as many were exchanged for as many, they " +
      "stand for each other and are marked; a gap has no partner. Choose a pair: the " +
      "answer below is the one there.",
    hides: "meaning. The alignment goes by labels and order only.",
  });
  const answers = stagesPicture({
      rows: [],
      stages: ["A", "B"],
      rest: [],
      name: "Outcomes that changed most",
    }),
    far = h("div.readings");
  const second = figure({
    title: "Change of the answer",
    name: "changes",
    picture: answers,
    below: far,
    shows: "The outcomes whose probability changed most, with it in A and in B.",
    hides: "all others, which changed less. The divergence counts them too.",
  });
  const tabs = kindTabs(app),
    [layer, head] = headDials(app);
  const options = {
    rows: [""],
    columns: [""],
    values: [0],
    most: 30,
    digits: false,
    onselect: (row, column) => point(row, column),
  };
  const maps = [
    heatmap({...options, name: "A"}),
    heatmap({...options, name: "B"}),
    heatmap({...options, name: "B minus A", most: 44, kind: "signed", valueName: "difference"}),
  ];
  const keys = h("div.compare-keys");
  const third = figure({
    title: "One head: A, B, and B − A",
    name: "patterns",
    wide: true,
    controls: [tabs?.el, layer.el, head.el],
    legend: keys,
    picture: {
      el: h(
        "div.compare-maps",
        maps.map((map, i) => h("div", h("p.sub", ["A", "B", "B − A"][i]), map.el)),
      ),
      canvas: maps[2].canvas,
      toSvg: () => maps[2].toSvg(),
      summary: () => maps[2].summary(),
      table: () => {
        const {rows, columns, A, B} = found.drawn;
        return {
          columns: ["query", "key", "A", "B", "B − A"],
          rows: rows.flatMap((row, r) =>
            columns.map((column, c) => [
              shown(row),
              shown(column),
              A[r * columns.length + c],
              B[r * columns.length + c],
              B[r * columns.length + c] - A[r * columns.length + c],
            ]),
          ),
        };
      },
    },
    shows:
      "The weights between elements that both have. Orange: more in B; blue: less. Moving " +
      "in one moves in all three.",
    hides: "what went to elements without a partner: rows need not sum to 1 here.",
  });
  const metric = select({
    label: "Metric",
    value: state.get().metric ?? "entropy",
    options: Object.entries(TITLES).map(([value, label]) => ({value, label})),
    onchange: (to) => state.set({metric: to}, {replace: true}),
  });
  const dots = scatter({
      points: [],
      name: "Heads in A and B",
      onselect: ({layer, head}) => state.set({layer, head}, {replace: true}),
    }),
    ranked = bars({
      items: [],
      name: "Heads that changed most",
      format: (x) => number(x, 3),
      valueName: "B − A",
    });
  const fourth = figure({
    title: "All heads",
    name: "metrics",
    wide: true,
    controls: [metric.el],
    picture: {
      ...dots,
      el: h("div.beside", dots.el, h("div", h("p.sub", "changed most, B − A"), ranked.el)),
      toSvg: () => dots.el,
    },
    shows:
      "Each head is a dot: the metric in A to the right, in B upwards. On the diagonal " +
      "nothing changed; the chosen head is ringed.",
    hides: "what a head attends to. Two different patterns may have one metric.",
  });
  fill(room, first.el, second.el, third.el, fourth.el);

  let pointing = false;
  function point(row, column) {
    if (pointing) return;
    pointing = true;
    maps.forEach((map) => map.update({selected: {row, column}}));
    pointing = false;
  }
  const sides = (list, pairs, otherList) =>
    pairs.map(([i, j]) =>
      labelOf(list[i]) === labelOf(otherList[j])
        ? list[i]
        : {label: `${list[i].label.trim()} / ${otherList[j].label.trim()}`, kind: "word"},
    );

  function heads() {
    const {layer: l, head: k} = state.get(),
      name = state.get().metric ?? "entropy",
      index = found.header.metrics.findIndex((one) => one.name === name),
      {layers, heads} = kindOf(app);
    const points = Array.from({length: layers * heads}, (_, i) => ({
      layer: Math.floor(i / heads),
      head: i % heads,
      x: part(found.arrays.metrics_a, Math.floor(i / heads), i % heads)[index],
      y: part(found.arrays.metrics_b, Math.floor(i / heads), i % heads)[index],
    })).filter(({x, y}) => Number.isFinite(x) && Number.isFinite(y));
    dots.update({points, now: {layer: l, head: k}, valueName: TITLES[name]});
    const top = [...points]
      .sort((p, q) => Math.abs(q.y - q.x) - Math.abs(p.y - p.x))
      .slice(0, RANKED);
    ranked.update({
      items: top.map((p) => ({
        label: h("span", `layer ${p.layer} head ${p.head}`),
        value: p.y - p.x,
      })),
      selected: top.findIndex((p) => p.layer === l && p.head === k),
      onselect: (i) => state.set({layer: top[i].layer, head: top[i].head}, {replace: true}),
    });
    fourth.refresh();
  }
  function draw(mask) {
    const {header, arrays} = found,
      of = [sequences(a, kindOf(app)), sequences(b, kindOf(app))];
    const rows = sides(of[0].queries, header.queries, of[1].queries),
      columns = sides(of[0].keys, header.keys, of[1].keys),
      A = arrays.pattern_a.data,
      B = arrays.pattern_b.data;
    const D = Float32Array.from(A, (x, i) => B[i] - x),
      high = round(Math.max(1e-3, ...Array.from(D, Math.abs))),
      masked = mask === "causal" ? (r, c) => header.keys[c][0] > header.queries[r][0] : null;
    found.drawn = {rows, columns, A, B};
    maps.forEach((map, i) =>
      map.update({
        rows,
        columns,
        values: [A, B, D][i],
        masked,
        ...(i === 2 ? {high} : {}),
        selected: null,
      }),
    );
    fill(keys, legend({masked: Boolean(masked)}), legend({kind: "signed", high, label: "B − A"}));
    const pairs = header.alignment.filter(([i, j]) => i !== null && j !== null),
      at = found.at ?? pairs.length - 1;
    let count = -1;
    line.update({
      now: at,
      columns: header.alignment.map(([i, j]) => ({
        a: i === null ? null : a.elements[i],
        b: j === null ? null : b.elements[j],
        pair: i !== null && j !== null ? ++count : null,
      })),
    });
    const changes = header.changes ?? [];
    answers.update({
      rows: changes.map(({id, label, a: before, b: after}) => ({
        id,
        label,
        values: [before, after],
      })),
    });
    const where =
      a.outcome.kind === "class" || !pairs[at] ? "" : `at “${shown(a.elements[pairs[at][0]])}”`;
    fill(
      far,
      where ? h("p.soft", where) : null,
      header.kl === undefined
        ? h("p.soft", "No elements correspond, so no answers can be held against each other.")
        : reading("divergence, A from B", `${fixed(header.kl, 3)} bits`),
    );
    layer.set(state.get().layer);
    head.set(state.get().head);
    for (const frame of [first, second, third]) frame.refresh();
    heads();
  }

  const offs = [
    follow(app, [...LOOK, "b", "side", "site", "layer", "head", "pair"], said, async (fresh) => {
      fill(own, wrote(app.look().input ?? ""));
      if (document.activeElement !== field) field.value = wrote(other().input);
      const {side, site} = kindOf(app),
        {layer, head, pair} = state.get(),
        looks = {a: app.look(), b: other()};
      const [
        one,
        two,
        first,
        {
          header: {mask},
        },
      ] = await Promise.all([
        app.call("look", {look: looks.a}),
        app.call("look", {look: looks.b}),
        app.call(
          "compare",
          {...looks, side, site, layer, head, ...(pair === undefined ? {} : {number: pair})},
          {key: "compare"},
        ),
        app.call("head", {look: looks.a, side, site, layer, head}),
      ]);
      let {header, arrays} = first,
        at = pair;
      if (pair === undefined && one.header.outcome.kind === "tags") {
        // tags have an answer at each position: choose one where the two differ
        const partners = header.alignment.filter(([i, j]) => i !== null && j !== null),
          exchanged = partners.findIndex(
            ([i, j]) => one.header.elements[i].label !== two.header.elements[j].label,
          );
        if (exchanged >= 0)
          ({header, arrays} = await app.call(
            "compare",
            {...looks, side, site, layer, head, number: (at = exchanged)},
            {key: "compare"},
          ));
      }
      if (!fresh()) return;
      [a, b, found] = [one.header, two.header, {header, arrays, at}];
      draw(mask);
    }),
    state.subscribe((now, before) => now.metric !== before.metric && found && heads()),
  ];
  return () => {
    offs.forEach((off) => off());
    maps.forEach((map) => map.destroy());
  };
}

export const page = {
  about:
    "Two inputs, two training steps, or one input with and without edits: what is equal, " +
    "what moved, and how the answer changes. A is the input above.",
  notAbout: "the cause of the change. For that, patch values of one into the other, under *Edit*.",
  render,
};
