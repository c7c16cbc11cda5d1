// @ts-check
// Training: its metrics, and answers and attention of one input under every stored checkpoint.
import {fill, h} from "../dom.js";
import {alignedPercent, number, percent} from "../format.js";
import {atlas, bars, figure, legend, lines, select, stepper} from "../marks.js";
import {part} from "../wire.js";
import {aimOf} from "./aimed.js";
import {follow, headName, kindName, kindOf, kindTabs} from "./attended.js";
import {squared} from "./attention.js";

const SIZE = 64,
  MOST = 12;
const TOGETHER = {loss: ["train_loss", "validation_loss"]};

/** At most so many of a list, its ends among them. @param {number[]} steps */
export function spread(steps, most = MOST) {
  if (steps.length <= most) return steps;
  return Array.from(
    {length: most},
    (_, i) => steps[Math.round((i * (steps.length - 1)) / (most - 1))],
  );
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {model, state} = app,
    kept = model.checkpoints,
    steps = spread(kept),
    last = kept[kept.length - 1];
  const at = () => state.get().checkpoint ?? last,
    choose = (step) => state.set({checkpoint: step === last ? null : step}, {replace: true});
  const offs = [],
    saidCurves = h("div"),
    curvesRoom = h("div");
  el.append(saidCurves, curvesRoom);
  offs.push(curves(curvesRoom, saidCurves, app, {at, choose, kept}));
  const scrub = h("section.section", h("h2", "The same input under each checkpoint"));
  el.append(scrub);
  if (kept.length < 2) {
    scrub.append(
      h(
        "p.prose",
        kept.length
          ? "This run kept one checkpoint, so there is nothing to go through. "
          : "This run kept no checkpoints. ",
        "Train with a larger ",
        h("code", "train.save.keep_last"),
        " to keep more of them.",
      ),
    );
    return () => offs.forEach((off) => off());
  }
  const walk = stepper({
    count: steps.length,
    value: Math.max(0, steps.indexOf(at())),
    names: steps.map((step) => `step ${number(step)}`),
    label: "Checkpoint",
    onchange: (i) => choose(steps[i]),
  });
  const left =
    steps.length < kept.length
      ? `${steps.length} of ${kept.length} checkpoints, evenly spread. `
      : "";
  scrub.append(
    h("p.prose", "The other pages follow: they show the checkpoint that is chosen here."),
    h("div.train-walk", walk.el),
  );

  const saidAnswers = h("div"),
    answers = bars({
      items: [],
      name: "The likeliest answer by checkpoint",
      high: 1,
      format: (x) => percent(x),
      valueName: "probability",
      onselect: (i) => choose(steps[i]),
    });
  const answered = figure({
    title: "Answers",
    name: "answers by checkpoint",
    picture: answers,
    shows:
      `${left}The likeliest answer of each checkpoint, with its probability, at the place ` +
      "that is selected. A row can be chosen.",
    hides: "the answers at other places, and whether an answer is right.",
  });
  const saidHeads = h("div"),
    headsRoom = h("div"),
    tabs = kindTabs(app);
  scrub.append(h("div.beside", h("div", saidAnswers, answered.el), h("div", saidHeads, headsRoom)));
  let picture = null,
    frame = null,
    metrics = [];

  offs.push(
    follow(
      app,
      ["input", "edits", "position", "checkpoint", "target"],
      saidAnswers,
      async (fresh) => {
        const items = [];
        for (const step of steps) {
          const {header} = await app.call("look", {look: looked(app, step, last)});
          if (!fresh()) return;
          const {position, whole} = aimOf(app.state.get(), header),
            row = whole ? header.outcome.rows[0] : header.outcome.rows[position],
            best = row?.top[0];
          items.push({
            label: `step ${number(step)}`,
            value: best?.p ?? 0,
            note: best?.label ?? "no answer",
          });
          answers.update({
            items,
            selected: steps.indexOf(at()),
            format: alignedPercent(items.map((one) => one.value)),
          });
        }
        answered.refresh();
      },
    ),
  );
  offs.push(
    follow(
      app,
      ["input", "edits", "side", "site", "layer", "head", "checkpoint"],
      saidHeads,
      async (fresh) => {
        const kind = kindOf(app),
          {layer, head} = state.get(),
          found = [];
        for (const step of steps) {
          found.push(
            await app.call("thumbnails", {
              look: looked(app, step, last),
              side: kind.side,
              site: kind.site,
              size: SIZE,
            }),
          );
          if (!fresh()) return;
        }
        const shown = Math.min(layer, kind.layers - 1),
          [, , rows, columns] = found[0].arrays.thumbnails.shape,
          bytes = new Uint8Array(steps.length * kind.heads * rows * columns);
        found.forEach(({arrays}, i) =>
          bytes.set(part(arrays.thumbnails, shown), i * kind.heads * rows * columns),
        );
        metrics = found.map(({header, arrays}) => ({
          names: header.metrics.map((one) => one.name),
          values: (h) => part(arrays.metrics, shown, h),
        }));
        const note = (row, column) => headName(metrics[row].names, metrics[row].values(column));
        const options = {
          rows: steps.length,
          columns: kind.heads,
          ...squared({shape: [steps.length, kind.heads, rows, columns], data: bytes}),
          rowName: "step",
          columnName: "head",
          rowNames: steps.map((step) => number(step)),
          name: `Layer ${shown} by checkpoint, ${kindName(kind)}`,
          selected: {row: Math.max(0, steps.indexOf(at())), column: Math.min(head, kind.heads - 1)},
          note,
          say: (row, column) => `step ${steps[row]}, head ${column}: ${note(row, column)}`,
          onselect: (row, column) => (
            choose(steps[row]),
            state.set({head: column}, {replace: true})
          ),
          onopen: () => state.set({page: "head"}),
        };
        if (picture) picture.update(options);
        else {
          picture = atlas(options);
          frame = figure({
            title: "Heads of a layer in training",
            name: "heads by checkpoint",
            picture,
            controls: tabs ? [tabs.el] : null,
            legend: legend({label: "weight"}),
            shows:
              `${left}The heads of the selected layer, one row for each checkpoint, in this ` +
              `input. \`{\` and \`}\` change the layer; Enter opens a head.`,
            hides: "what lies between two checkpoints, and other inputs.",
          });
          headsRoom.append(frame.el);
        }
        tabs?.set(`${kind.side}/${kind.site}`);
        frame.refresh();
      },
    ),
  );
  offs.push(
    state.subscribe(() => {
      const now = steps.indexOf(at());
      if (now >= 0 && now !== walk.value) walk.go(now);
    }),
  );
  return () => {
    walk.stop();
    picture?.destroy();
    offs.forEach((off) => off());
  };
}

/** The present input under a checkpoint. */
function looked(app, step, last) {
  return {...app.look(), checkpoint: step === last ? null : step};
}

/** The metrics as lines over the steps. */
function curves(room, said, app, {at, choose, kept}) {
  const {state} = app;
  let found = null,
    plot = null,
    frame = null,
    by = null,
    groups = {};
  const nearest = (x) =>
    kept.reduce((best, step) => (Math.abs(step - x) < Math.abs(best - x) ? step : best));
  const show = () => {
    if (!plot || !found) return;
    const name = state.get().curve ?? Object.keys(groups)[0],
      names = groups[name] ?? Object.values(groups)[0];
    const series = names.map((each) => {
      const {shape, data} = found[each],
        count = shape[0];
      return {
        name: each.replace(/_/g, " ").replace(/^(train|validation) loss$/, "$1"),
        x: Float32Array.from({length: count}, (_, i) => data[2 * i]),
        y: Float32Array.from({length: count}, (_, i) => data[2 * i + 1]),
        dots: count < 12 ? Array.from({length: count}, (_, i) => i) : [],
      };
    });
    plot.update({
      series,
      name: `Training: ${name.replace(/_/g, " ")}`,
      yName: name.replace(/_/g, " "),
      at: kept.length ? at() : null,
    });
    frame.refresh();
  };
  const off = follow(app, ["run"], said, async (fresh) => {
    const {arrays} = await app.call("curves", {});
    if (!fresh()) return;
    found = arrays;
    groups = Object.fromEntries(
      Object.entries(TOGETHER)
        .map(
          ([name, all]) =>
            /** @type {[string, string[]]} */ ([name, all.filter((each) => each in arrays)]),
        )
        .filter(([, all]) => all.length),
    );
    for (const name of Object.keys(arrays))
      if (!Object.values(TOGETHER).flat().includes(name)) groups[name] = [name];
    if (!Object.keys(groups).length)
      return void fill(
        room,
        h("p.prose", "This run wrote no measurements; a run that was imported has none."),
      );
    by = select({
      label: "Measured",
      value: state.get().curve ?? Object.keys(groups)[0],
      options: Object.keys(groups).map((name) => ({value: name, label: name.replace(/_/g, " ")})),
      onchange: (name) => state.set({curve: name === "loss" ? undefined : name}),
    });
    plot = lines({
      series: [{name: "", x: [0, 1], y: [0, 1]}],
      name: "Training",
      xName: "step",
      yName: "",
      onselect: kept.length ? (x) => choose(nearest(x)) : undefined,
    });
    frame = figure({
      title: "Metrics",
      name: "training curves",
      picture: plot,
      controls: [by.el],
      shows:
        "Whatever training wrote down, by its " +
        "steps." +
        (kept.length > 1
          ? " The dashed line is the checkpoint that all pages show; " +
            "a click chooses the nearest one."
          : ""),
      hides: "other runs, and what was not measured.",
    });
    fill(room, frame.el);
    show();
  });
  const follows = state.subscribe((now, before) => {
    if (now.checkpoint === before.checkpoint && now.curve === before.curve) return;
    if (by && now.curve !== before.curve) by.set(now.curve ?? Object.keys(groups)[0]);
    show();
  });
  return () => {
    off();
    follows();
  };
}

export const page = {
  about: "The training of the model: its metrics, and this input under each stored checkpoint.",
  notAbout: "why a loss fell. A curve is one run; another seed gives another curve.",
  render,
};
