// @ts-check
// The next token: the distribution from the model to the sample, step-by-step generation, and the
// alternatives.
import {fill, h} from "../dom.js";
import {fixed, isPatch, number, percent} from "../format.js";
import {button, figure, heatmap, legend, reading, slider, toggle} from "../marks.js";
import {superseded} from "../wire.js";
import {shown} from "./aimed.js";
import {follow, LOOK} from "./attended.js";
import {beamPicture} from "./next_beams.js";
import {grown, pathOf, rootNode, stagesPicture, treePicture} from "./next_stages.js";

const ROWS = 20,
  ALTERNATIVES = 20,
  WRITE = 12;
const STAGES = ["model", "÷ τ", "top-k", "top-p"];

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    room = h("div"),
    note = h("div"),
    {max_length: most} = app.model;
  el.append(said, room);
  let root = rootNode(),
    now = root,
    looked = /** @type {any} */ (null),
    abort = /** @type {AbortController | null} */ (null),
    gone = false;
  const value = (name) => state.get()[name],
    tau = () => value("temperature") ?? 1,
    seed = () => value("seed") ?? 0;
  const sampling = () => ({
    temperature: tau(),
    top_k: value("top_k") ?? null,
    top_p: value("top_p") ?? null,
  });
  const begin = () => app.has("pair") && (value("begin") ?? true),
    asked = () => ({
      look: app.look(),
      ...sampling(),
      seed: seed(),
      alternatives: ALTERNATIVES,
      ...(begin() ? {begin: true} : {}),
    });
  const outcomes = () => app.model.config.vocab_size ?? 50;

  const heat = slider({
    label: "temperature τ",
    name: "temperature",
    min: 0,
    max: 3,
    step: 0.01,
    value: tau(),
    oninput: (x) => state.set({temperature: x === 1 ? undefined : x}, {replace: true}),
  });
  const topK = slider({
    label: "top-k",
    name: "top-k, 0 is all",
    min: 0,
    max: Math.min(100, outcomes()),
    step: 1,
    value: value("top_k") ?? 0,
    oninput: (x) => state.set({top_k: Math.round(x) || undefined}, {replace: true}),
  });
  const topP = slider({
    label: "top-p",
    name: "top-p",
    min: 0.01,
    max: 1,
    step: 0.01,
    value: value("top_p") ?? 1,
    oninput: (x) => state.set({top_p: x === 1 ? undefined : x}, {replace: true}),
  });
  const readings = h("div.readings"),
    cuts = h("div.readings");
  const distribution = stagesPicture({
    rows: [],
    stages: STAGES,
    rest: STAGES.map(() => 0),
    name: "The likeliest outcomes",
    fold: true,
    onselect: (id) => write([...path(), id], 1),
  });
  const first = figure({
    title: "The next token",
    name: "next token",
    wide: true,
    picture: distribution,
    controls: [heat.el, topK.el, topP.el],
    below: cuts,
    shows:
      "The likeliest tokens after the text so far, from the model’s own probability to " +
      "that of the draw: divided by the temperature before the softmax, then cut to the " +
      "$k$ likeliest, then to the fewest that reach $p$. All bars have one scale. Choose a " +
      "row and the text goes on with it. Temperature 0 takes the likeliest.",
    hides:
      "the rest of the vocabulary, which is one line at the end; and why these are likely. " +
      "See *Flow* and *Explain*.",
  });

  const tree = treePicture({
    root,
    now,
    name: "What was written",
    onselect: (node) => (stop(), (now = node), here()),
  });
  const dice = slider({
    label: "seed",
    min: 0,
    max: 99,
    step: 1,
    value: seed(),
    compact: true,
    oninput: (x) => state.set({seed: Math.round(x) || undefined}, {replace: true}),
  });
  const step = button("Next token", () => write(path(), 1), {kind: "main"}),
    run = button(`Write ${WRITE}`, () => (abort ? stop() : write(path(), WRITE)));
  const back = button("Back", () => now.parent && ((now = now.parent), here()), {
      name: "One token back",
    }),
    again = button("Begin again", () => ((root = now = rootNode()), here()), {kind: "quiet"});
  const whole = app.has("pair")
    ? toggle({
        label: "from the beginning",
        checked: begin(),
        onchange: (on) => state.set({begin: on ? undefined : false}),
      })
    : null;
  const context = h("p.tree-context.soft");
  const second = figure({
    title: "Step-by-step generation",
    name: "text tree",
    wide: true,
    controls: [h("div.row", step, run, back, again), dice.el, whole?.el],
    picture: {...tree, el: h("div", context, tree.el, note)},
    below: readings,
    shows:
      "Every token that was written, with the model’s probability of it. Choose another in " +
      "the list above, or step back and draw with another seed: both texts stay, and the " +
      "tree shows where they part.",
    hides:
      "all that might have been written and was not. One sample says little about a distribution.",
  });

  const alignment = heatmap({
    rows: [""],
    columns: [""],
    values: [0],
    name: "Cross-attention of each token",
    rowName: "written",
    columnName: "source",
    most: 40,
    cellHeight: 30,
  });
  const third =
    app.model.architecture === "encoder_decoder"
      ? figure({
          title: "Cross-attention of each token",
          name: "alignment",
          wide: true,
          picture: alignment,
          legend: legend(),
          shows:
            "The attention to the source when each token was chosen, a mean over all " +
            "layers and heads: 002’s fuzzy dictionary. Each row sums to 1.",
          hides:
            "that single heads differ; see *Attention*, cross. A weight says what was " +
            "read, not that it decided the choice.",
        })
      : null;
  const beams = beamPicture(app, {begin, failed: app.failed});
  fill(room, first.el, second.el, third?.el, beams.el);

  const path = () => pathOf(now).map((node) => node.id);

  /**
   * Goes on: these ids first, then so many more tokens. @param {number[]} ids @param {number} count
   */
  async function write(ids, count) {
    stop();
    if (now.end && ids.length === path().length) return;
    let tip = root;
    const mine = (abort = new AbortController()),
      chosen = ids.length > path().length,
      all = ids.length + (chosen ? count - 1 : count),
      from = root;
    fill(note);
    busy(count > 1);
    try {
      await app.stream(
        "generate",
        {...asked(), new_tokens: Math.max(1, all), given: ids},
        (item) => {
          if (gone || root !== from || item.step === undefined) return;
          for (tip = item.step <= ids.length ? root : tip; pathOf(tip).length < item.step;)
            tip = tip.children.find((child) => child.id === ids[pathOf(tip).length]) ?? tip;
          now = tip = grown(tip, item);
          here();
        },
        {signal: mine.signal},
      );
    } catch (error) {
      if (!superseded(error) && !gone) app.failed(note, error);
    }
    if (abort === mine) abort = null;
    if (!gone) busy(false);
  }
  function stop() {
    abort?.abort();
    abort = null;
  }
  function busy(on) {
    run.textContent = on ? "Stop" : `Write ${WRITE}`;
  }

  /** The look that is continued, if there is one: ids are continued as they are. */
  function ahead() {
    if (!path().length) return app.look();
    const idsAlone = !["pair", "parts", "draws"].some(app.has);
    if (!idsAlone || looked.elements.length + path().length > most) return null;
    return {...app.look(), input: [...looked.elements.map((one) => one.id), ...path()]};
  }

  async function stages() {
    const node = now,
      there = ahead();
    try {
      if (there && !node.end) {
        const position = begin() ? 0 : -1;
        const {header, arrays} = await app.ask("next", {look: there, position}, {key: "next"});
        if (gone || node !== now) return;
        const names = ["before", "tempered", "top_k", "top_p"],
          ids = Array.from(arrays.ids.data);
        distribution.update({
          stages: STAGES,
          rest: names.map((name) => header.rest[name] + sumOf(arrays[name].data, ROWS)),
          chosen: null,
          rows: ids
            .slice(0, ROWS)
            .map((id, i) => ({
              id,
              label: header.labels[id],
              values: names.map((name) => arrays[name].data[i]),
            })),
        });
        fill(
          cuts,
          reading(
            "can still be drawn",
            `${number(header.possible.top_p)} of ${number(header.outcomes)}`,
          ),
          header.possible.top_k < header.outcomes &&
            reading("after top-k", number(header.possible.top_k)),
        );
      } else if (!node.end) {
        let next = /** @type {any} */ (null);
        await app.stream(
          "generate",
          {...asked(), new_tokens: path().length + 1, given: path()},
          (item) => (next = item),
          {key: "next"},
        );
        if (gone || node !== now || !next) return;
        const names = ["model", "as drawn"];
        distribution.update({
          stages: names,
          chosen: null,
          rest: [
            1 - next.alternatives.reduce((s, one) => s + one.p, 0),
            1 - next.alternatives.reduce((s, one) => s + one.after, 0),
          ].map((x) => Math.max(0, x)),
          rows: next.alternatives.map(({id, label, p, after}) => ({id, label, values: [p, after]})),
        });
        fill(cuts, reading("entropy", `${fixed(next.entropy)} bits`));
      } else {
        distribution.update({rows: []});
        fill(cuts, h("p.soft", "The text has ended here. Step back to choose another way."));
      }
      first.refresh();
    } catch (error) {
      if (!superseded(error) && !gone) app.failed(cuts, error);
    }
  }

  function here() {
    const nodes = pathOf(now),
      bits = nodes.reduce((sum, node) => sum - Math.log2(node.p), 0);
    tree.update({root, now});
    fill(
      readings,
      nodes.length > 0 && [
        reading("tokens", number(nodes.length)),
        reading("probability of all of them", number(2 ** -bits, 3)),
        reading("surprise", `${fixed(bits, 1)} bits, ${fixed(bits / nodes.length, 2)} a token`),
      ],
    );
    step.disabled = run.disabled = now.end;
    back.disabled = again.disabled = !now.parent;
    if (third) {
      const crossed = nodes.filter((node) => node.cross);
      third.el.hidden = !crossed.length;
      if (crossed.length && looked) {
        const rows = crossed.map((node) =>
          node.cross[/** @type {number[][]} */ 0].map(
            (_, s) =>
              /** @type {number[][]} */ (node.cross).reduce((sum, layer) => sum + layer[s], 0) /
              /** @type {number[][]} */ (node.cross).length,
          ),
        );
        alignment.update({
          rows: crossed.map((node) => ({label: node.label, kind: "token"})),
          columns: looked.source_elements.slice(0, rows[0].length),
          values: rows.flat(),
          selected: null,
        });
        third.refresh();
      }
    }
    second.refresh();
    app.announce(now.parent ? `${shown(now.label)}, ${percent(now.p)}` : "");
    stages();
  }

  const offs = [
    follow(app, [...LOOK, "begin"], said, async (fresh) => {
      const header = await app.looked();
      if (!fresh()) return;
      stop();
      looked = header;
      root = now = rootNode();
      const read = begin() ? header.source_elements : header.elements,
        tokens = read.filter((one) => one.kind === "token"),
        whole =
          // of whole words, without their blanks
          tokens.some((one) => one.label.length > 1) && !tokens.some((one) => /\s/.test(one.label));
      const text = read
        .map((one) => (isPatch(one) ? "▦" : one.label))
        .join(whole ? " " : "")
        .replace(/▦[▦ ]*/g, "▦ ");
      fill(
        context,
        h("bdi", text.length > 400 ? `… ${text.slice(-400)}` : text),
        h("span", {"aria-hidden": true}, begin() ? " →" : " …"),
      );
      beams.clear();
      here();
    }),
    state.subscribe((after, before) => {
      if (!["temperature", "top_k", "top_p"].some((name) => after[name] !== before[name])) return;
      heat.set(tau());
      topK.set(value("top_k") ?? 0);
      topP.set(value("top_p") ?? 1);
      stages();
    }),
  ];
  return () => {
    gone = true;
    stop();
    beams.stop();
    offs.forEach((off) => off());
    alignment.destroy();
  };
}

function sumOf(values, from) {
  let sum = 0;
  for (let i = from; i < values.length; i++) sum += values[i];
  return sum;
}

export const page = {
  about:
    "A language model gives a distribution over the next token. This page shows it, the " +
    "effect of sampling on it, and the texts that result.",
  notAbout: "why a token is likely. See the pages *Flow* and *Explain*.",
  render,
};
