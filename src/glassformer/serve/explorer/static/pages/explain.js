// @ts-check
// Attribution of an answer: a score for every element of the input by one of five methods, and a
// check by removing elements.
import {fill, h} from "../dom.js";
import {aligned, fixed, number, percent, tick} from "../format.js";
import {bars, button, choice, figure, legend, lines, reading, select} from "../marks.js";
import {superseded} from "../wire.js";
import {schema} from "../schema.js";
import {AIM, aimControls, aimOf, outcomeName, positionStrip, round, shown, strip} from "./aimed.js";
import {follow, LOOK} from "./attended.js";
import {partsOf, picturesOf, sheet} from "./image_sheet.js";

const RANKED = 14;
const METHODS = {
  occlusion: [
    "occlusion",
    "Each element is replaced by the baseline in turn, and the model run again. Effects that " +
      "two elements have only together are not measured.",
  ],
  gradient_attention: [
    "attention × gradient",
    "Attention through all layers, weighted by the gradient of the logit.",
  ],
  integrated_gradients: [
    "integrated gradients",
    "Gradients summed on the line from the baseline to this input. The scores add up to the " +
      "change of the logit whatever the model does, so completeness does not make them right. " +
      "From zero, a norm puts most of the change on the first elements.",
  ],
  gradient_x_input: [
    "gradient × input",
    "The gradient of the logit by each element, times the element minus the baseline. With " +
      "norms the logit hardly depends on an element’s length, so from zero the scores are noise.",
  ],
  rollout: [
    "attention rollout",
    "Attention multiplied through all layers, with the residual. It does not know the " +
      "outcome, and never sees a minus.",
  ],
};
const SIGNED = ["gradient_x_input", "integrated_gradients", "occlusion"];
/** A share of the logit below which scores are called small; the colours reach it at least. */
const SMALL = 0.05;

/** Baselines: the values of an absent element. @param {any} app @param {any} looked */
function baselines(app, looked) {
  const named = [
    ["zero", "zero vector"],
    ["mean", "mean of the input"],
    ...Object.entries(app.model.specials).map(([name, id]) => [String(id), `token ${name}`]),
    ...(looked?.elements ?? [])
      .filter((one) => one.id !== null)
      .map((one) => [String(one.id), `token ${shown(one)}`]),
  ];
  return [...new Map(named.reverse())].reverse().map(([value, label]) => ({value, label}));
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    room = h("div");
  let looked = /** @type {any} */ (null),
    aim = /** @type {any} */ (null),
    found = /** @type {any} */ (null),
    pictures = /** @type {any[]} */ ([]),
    curves = /** @type {any} */ (null),
    busy = false;
  let sheets = /** @type {ReturnType<typeof sheet>[]} */ ([]);
  const method = () => state.get().method ?? schema.arguments.method.default,
    translates = () => Boolean(looked?.source_elements?.length);
  const line = positionStrip(app),
    outcome = aimControls(app);
  const by = select({
    label: "Method",
    value: method(),
    options: Object.entries(METHODS).map(([value, [label]]) => ({value, label})),
    onchange: (to) => state.set({method: to === schema.arguments.method.default ? undefined : to}),
  });
  const baseline = h("div");
  const meaning = h("p.soft.explain-method");
  el.append(
    h(
      "section.aimed",
      {"aria-label": "What is asked about"},
      h("p.sub", "Position and outcome of the answer"),
      line.el,
      h("div.row.aim", outcome.el, by.el, baseline),
      meaning,
    ),
    said,
    room,
  );

  const text = strip({elements: [], name: "Scores of the elements"}),
    source = strip({elements: [], name: "Scores of the source"}),
    drawn = h("div.explain-sheets");
  const ranked = bars({
      items: [],
      name: "Strongest elements",
      format: (x) => number(x, 3),
      valueName: "score",
    }),
    key = h("div"),
    check = h("div.readings");
  const sourceRoom = h("div", h("p.sub", "the source"), source.el),
    own = h("p.sub", "what was written so far");
  const all = () => [
    ...(found?.source
      ? looked.source_elements.map((one, i) => ({one, value: found.source[i], where: "source"}))
      : []),
    ...looked.elements.map((one, i) => ({one, value: found.scores[i], where: "input"})),
  ];
  const picture = {
    el: h(
      "div.stack",
      drawn,
      sourceRoom,
      h("div", own, text.el),
      h("div", h("p.sub", "strongest"), ranked.el),
    ),
    table: () => ({
      columns: ["element", "where", "place", "score"],
      rows: found
        ? all().map(({one, value, where}, i) => [
            shown(one),
            where,
            where === "source" ? i : i - (found.source?.length ?? 0),
            value,
          ])
        : [],
    }),
    summary: () => (found ? `Scores of ${all().length} elements. ${ranked.summary()}` : ""),
    toSvg: () => ranked.toSvg(),
  };
  const first = figure({
    title: "Attribution",
    name: "attribution",
    wide: true,
    picture,
    legend: key,
    below: check,
    shows:
      "Every element of the input, tinted by its score: orange speaks for the outcome, " +
      "blue against. Methods that only follow attention have one colour, since they know " +
      "no minus.",
    hides:
      "the truth: five methods, five answers. Try them beside each other, and see below " +
      "whether taking the high-scored away does more than taking any.",
  });

  const graph = lines({
    series: [],
    name: "Taking elements away and putting them in",
    xName: "share of the elements",
    yName: "probability of the outcome",
    x: [0, 1],
    y: [0, 1],
  });
  const measure = button("Measure", () => curve(), {kind: "main"}),
    judged = h("div.readings"),
    note = h("div");
  const which = choice({
    label: "Curves",
    value: "deletion",
    options: [
      {value: "deletion", label: "take away"},
      {value: "insertion", label: "put in"},
    ],
    onchange: () => drawCurves(),
  });
  const second = figure({
    title: "Faithfulness",
    name: "faithfulness",
    picture: {
      ...graph,
      el: h("div.curve-room", graph.el),
      toSvg: () => /** @type {any} */ (graph.el),
    },
    controls: [which.el, measure],
    below: [judged, note],
    shows:
      "Elements are taken away (or put into an empty input) in the order of their scores, " +
      "highest first, and the probability of the outcome is measured. Faint: the same in " +
      "random orders. A faithful order falls early, and rises early.",
    hides:
      "that an input with holes is none the model has learned from: some of the fall is " +
      "surprise, which is why random orders stand beside it.",
  });
  fill(room, first.el, second.el);

  function drawCurves() {
    graph.el.style.setProperty("visibility", curves ? "visible" : "hidden");
    /** @type {HTMLElement} */ (graph.el.parentElement).classList.toggle("empty", !curves);
    if (curves) {
      const kind = which.value,
        x = curves.shares.data,
        random = curves[`random_${kind}`],
        [orders, points] = random.shape;
      const mean = Float32Array.from(
        {length: points},
        (_, i) =>
          Array.from({length: orders}, (_, r) => random.data[r * points + i]).reduce(
            (a, b) => a + b,
            0,
          ) / orders,
      );
      graph.update({
        series: [
          {name: "by score", x, y: curves[kind].data},
          {name: "random, mean", x, y: mean},
          ...Array.from({length: orders}, (_, r) => ({
            name: "",
            x,
            y: random.data.subarray(r * points, (r + 1) * points),
            faded: true,
          })),
        ],
      });
      const gain = curves.gain[kind],
        better = gain > 0;
      fill(
        judged,
        reading(
          kind === "deletion" ? "smaller area than random by" : "larger area than random by",
          fixed(gain, 3),
          better ? "good" : "bad",
        ),
        h(
          "p.soft",
          better
            ? "This order says more than chance."
            : "This order is no better than chance here.",
        ),
      );
    } else
      fill(
        judged,
        h("p.soft", "Runs the model some 350 times; on a long text that takes a while."),
      );
    second.refresh();
  }
  async function curve() {
    if (busy) return;
    busy = measure.disabled = true;
    measure.textContent = "Measuring …";
    fill(note);
    try {
      const {header, arrays} = await app.ask(
        "attribute",
        {...question(), faithfulness: true},
        {key: "curves"},
      );
      curves = {...arrays, gain: header.gain};
      app.announce("Measured");
    } catch (error) {
      if (!superseded(error)) app.failed(note, error);
    }
    busy = measure.disabled = false;
    measure.textContent = "Measure";
    drawCurves();
  }
  /** The elements that may hold images and audio. */
  const given = () => (translates() ? looked.source_elements : looked.elements);
  const question = () => ({target: aim.target, position: aim.position, against: aim.against});

  function draw() {
    const signed = SIGNED.includes(method()),
      kind = signed ? "signed" : "attention",
      values = found.scores,
      both = [...values, ...(found.source ?? [])];
    const largest = Math.max(...both.map(Math.abs)),
      logit = Math.abs(found.header.logit),
      floor = signed ? SMALL * logit : 0,
      high = round(Math.max(1e-9, largest, floor));
    const parts = partsOf(given()),
      scores = found.source ?? values,
      readable = looked.elements.some((one) => one.kind === "token" || one.kind === "special");
    sheets.forEach((one) => one.destroy());
    const most = Math.max(0, ...parts.flat().map((at) => Math.abs(scores[at]))),
      faint = most > floor && most < high / 4,
      reach = faint ? round(most) : high;
    sheets = parts.map((part, i) =>
      sheet({
        shown: pictures[i],
        values: part.map((at) => scores[at]),
        colours: kind,
        scale: "linear",
        high: reach,
        opacity: 0.7,
        label: (patch) => shown(given()[part[patch]]),
        name: `Scores of image ${i + 1}`,
        valueName: "score",
      }),
    );
    const raws = parts.map((_, i) =>
      sheet({shown: pictures[i], name: "The image alone", grid: false}),
    );
    fill(
      drawn,
      sheets.map((one, i) => [raws[i].el, one.el]),
      faint
        ? h(
            "p.soft.explain-scale",
            `The image has a scale of its own, up to ${tick(reach)}: its scores are ` +
              "small beside those of the other elements.",
          )
        : null,
    );
    sheets.push(...raws);
    text.el.hidden = own.hidden = !readable;
    own.hidden ||= !translates();
    sourceRoom.hidden = !found.source;
    text.update({
      elements: looked.elements,
      values,
      kind,
      high,
      selected: aim.whole ? null : aim.position,
    });
    if (found.source)
      source.update({elements: looked.source_elements, values: found.source, kind, high});
    const top = all()
      .filter(({value}) => value !== 0)
      .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
      .slice(0, RANKED);
    ranked.update({
      items: top.map(({one, value}) => ({label: h("span", shown(one)), value})),
      format: aligned(top.map((one) => one.value)),
    });
    fill(
      key,
      high > 1e-9 &&
        legend({kind, scale: "linear", high, label: signed ? "score, in logits" : "score"}),
    );
    const {gap, change, steps} = found.header,
      sum = both.reduce((a, b) => a + b, 0);
    fill(
      check,
      signed && reading("largest score, of the logit", largest ? percent(largest / logit, 2) : "0"),
      reading("sum of the scores", number(sum)),
      change === null ? null : reading("change of the logit from the baseline", number(change)),
      gap === null
        ? null
        : [
            reading("completeness gap", `${number(100 * gap, 2)} %`, gap < 0.05 ? "" : "bad"),
            steps === null ? null : reading("gradients", number(steps)),
          ],
      signed &&
        largest < SMALL * logit &&
        h(
          "p.explain-small",
          {role: "note"},
          `No score reaches ${percent(SMALL)} of the logit, ${number(found.header.logit, 3)}: ` +
            "the order of such scores says little. The colours go up to that share.",
        ),
    );
    const name = outcomeName(looked, app, aim.target),
      other =
        aim.against === null ? "" : ` instead of “${shown(outcomeName(looked, app, aim.against))}”`;
    first.el
      .querySelector(".figure-title")
      ?.replaceChildren(`Attribution of “${shown(name)}”${other}`);
    first.refresh();
  }

  const offs = [
    follow(app, [...LOOK, ...AIM, "method", "baseline"], said, async (fresh) => {
      by.set(method());
      fill(meaning, METHODS[method()][1]);
      looked = await app.looked();
      if (!fresh()) return;
      const to = String(state.get().baseline ?? "zero");
      fill(
        baseline,
        SIGNED.includes(method()) &&
          select({
            label: "Baseline",
            value: to,
            options: baselines(app, looked),
            onchange: (one) =>
              state.set({
                baseline: one === "zero" ? undefined : /^\d+$/.test(one) ? Number(one) : one,
              }),
          }).el,
      );
      if (looked.outcome.kind === "vectors")
        return void fill(
          el,
          h("p.prose", "This model answers with vectors; there is no outcome to explain."),
        );
      aim = aimOf(app.state.get(), looked);
      line.el.hidden = aim.whole;
      line.el.previousElementSibling.hidden = aim.whole;
      line.update({elements: looked.elements, selected: aim.position});
      outcome.show(looked);
      const shownParts = await picturesOf(app, partsOf(given()).length),
        {header, arrays} = await app.ask("attribute", question(), {key: "attribute"});
      if (!fresh()) return;
      pictures = shownParts;
      found = {header, scores: arrays.scores.data, source: arrays.source?.data ?? null};
      curves = null;
      draw();
      drawCurves();
    }),
  ];
  return () => {
    offs.forEach((off) => off());
    sheets.forEach((one) => one.destroy());
  };
}

export const page = {
  about: "Which elements of the input support an answer, or one answer instead of another.",
  notAbout:
    "the reasoning of a model. A score summarizes a non-linear function in one number for " +
    "each element; each method does so differently.",
  render,
};
