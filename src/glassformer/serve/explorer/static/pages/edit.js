// @ts-check
// The edits of the running model, in order, on and off; new ones from the selection; the answer
// before, after, and the difference.
import {clear, fill, h} from "../dom.js";
import {labelOf, number, tokenText} from "../format.js";
import {button, figure, heatmap, legend, select, toggle} from "../marks.js";
import {follow, kindOf, kindTabs, placeOf, sequences} from "./attended.js";
import {freeze, inWords, ordered, patch, placed, put, split} from "./edit_list.js";
import {outcome} from "./edit_outcome.js";
import {sweep} from "./edit_sweep.js";
import {touch} from "./edit_touch.js";

const LARGEST = 256,
  STILL = 1e-7;
const KINDS = {Zero: "0", Mean: "the mean over positions", Resample: "another position’s value"};

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    list = h("ol.edit-list"),
    empty = h(
      "p.soft.edit-empty",
      "Nothing is changed: this is the model as it is. Take hold of a handle below.",
    );
  const all = () => ordered(state.get().edits, state.get().shelf),
    keep = (/** @type {any[]} */ next) => state.set(split(next));
  const alone = !app.model.attentions.some(({side}) => side);
  let names = /** @type {any} */ ({alone});

  function drawList() {
    const entries = all(),
      held = list.contains(document.activeElement)
        ? /** @type {any} */ (document.activeElement)?.dataset?.act
        : null;
    empty.hidden = entries.length > 0;
    const place = (i, to) => () => {
      const next = [...entries];
      next.splice(to, 0, ...next.splice(i, 1));
      keep(next);
    };
    const act = (label, name, fn, i, off = false) => {
      const one = button(label, fn, {kind: "quiet", name: `${name}: edit ${i + 1}`});
      one.disabled = off;
      one.dataset.act = `${name} ${i}`;
      return one;
    };
    fill(
      list,
      entries.map(({edit, on}, i) => {
        const control = toggle({
          label: h("span", h("strong", edit.edit), " ", inWords(edit, names)),
          checked: on,
          onchange: (to) => keep(entries.map((one, j) => (j === i ? {...one, on: to} : one))),
        });
        return h(
          "li",
          {class: on ? "" : "edit-off", dataset: {edit: placed(edit)}},
          h("span.edit-number", {"aria-hidden": true}, String(i + 1)),
          control.el,
          h(
            "div.edit-tools",
            act("Earlier", "Earlier", place(i, i - 1), i, i === 0),
            act("Later", "Later", place(i, i + 1), i, i === entries.length - 1),
            act("Remove", "Remove", () => keep(entries.filter((_, j) => j !== i)), i),
          ),
          h(
            "details.edit-json",
            h("summary", "as JSON"),
            h("pre.code", {tabindex: 0}, JSON.stringify(edit, null, 1)),
          ),
        );
      }),
    );
    if (held) /** @type {any} */ (list.querySelector(`[data-act="${held}"]`))?.focus();
  }

  const change = signedPattern(app),
    handles = touch(app),
    result = outcome(app, {onchanged: change.show, wide: true}),
    more = others(app),
    everywhere = sweep(app),
    tabs = kindTabs(app);
  el.append(
    h("section.edit-part", h("h2", "In order"), empty, list, said),
    h(
      "section.section",
      h("h2", "From the selection"),
      tabs && h("div.edit-tabs", tabs.el),
      h("div.touching", h("div", handles.el, more.el), result.el),
    ),
    h("section.section", change.el),
    h("section.section", h("h2", "The same edit everywhere"), everywhere.el),
  );
  drawList();
  const offs = [
    state.subscribe(
      (now, before) => (now.edits !== before.edits || now.shelf !== before.shelf) && drawList(),
    ),
    follow(app, ["input", "checkpoint", "side", "site"], said, async (fresh) => {
      // names of the input, which edits do not change
      const header = (await app.call("look", {look: {...app.look(), edits: []}})).header;
      if (!fresh()) return;
      const {queries, keys} = sequences(header, kindOf(app)),
        name = (elements) => (i) => (elements[i] ? tokenText(labelOf(elements[i])) : String(i));
      names = {query: name(queries), key: name(keys), alone};
      const kind = kindOf(app);
      tabs?.set(`${kind.side}/${kind.site}`);
      drawList();
    }),
    handles.off,
    result.off,
    more.off,
    change.off,
    everywhere.off,
  ];
  return () => offs.forEach((off) => off());
}

/** Edits of whole points, and values of another input. */
function others(app) {
  const {state} = app,
    said = h("div"),
    where = h("div"),
    tried = async (edit) => {
      // an edit with an error is reported and not added
      const edits = put(state.get().edits, edit);
      try {
        await app.call("look", {look: {...app.look(), edits}}, {key: "tried"});
        clear(said);
        state.set({edits});
      } catch (error) {
        app.failed(said, error);
      }
    };
  let point = /** @type {any} */ (null);
  const how = select({
    label: "becomes",
    value: "Mean",
    options: Object.entries(KINDS).map(([value, label]) => ({value, label})),
  });
  const text = h("input.edit-source", {
    type: "text",
    "aria-label": "Another input",
    placeholder: "another input of as many tokens",
    spellcheck: false,
    autocomplete: "off",
  });
  const source = () => ({
    input: text.value.trim() ? text.value : state.get().input,
    edits: [],
    checkpoint: state.get().checkpoint,
  });
  const el = h(
    "div.touch",
    h(
      "div.touch-part",
      h("h4", "A whole point of this layer"),
      where,
      h(
        "div.touch-row",
        how.el,
        button("Add", () => point?.value && tried({edit: how.value, point: point.value})),
      ),
    ),
    h(
      "div.touch-part",
      h("h4", "This head from elsewhere"),
      text,
      h(
        "div.touch-row.edit-from",
        button(
          "Patch what it says",
          () =>
            text.value.trim()
              ? tried(patch(placeOf(app), state.get().head, source()))
              : text.focus(),
          {name: "Patch what this head says from the other input"},
        ),
        button(
          "Freeze where it looks",
          () => tried(freeze(placeOf(app), state.get().head, source())),
          {name: "Freeze where this head looks"},
        ),
      ),
      h(
        "p.soft",
        "Patch takes what the head says in the other input; freeze keeps where it looks " +
          "there, or in the present input, whatever comes.",
      ),
    ),
    said,
  );
  const off = follow(app, ["input", "checkpoint", "layer", "side", "site"], said, async (fresh) => {
    const {header} = await app.call("points", {look: {...app.look(), edits: []}}, {key: "points"});
    if (!fresh()) return;
    const {layer} = state.get(),
      {stack} = kindOf(app),
      mine = header.points.filter(
        (one) =>
          one.layer === layer && one.name.startsWith(`${stack}.`) && one.axes.includes("position"),
      );
    point = select({
      label: "Point",
      value: mine.find((one) => one.kind === "attention_out")?.name ?? mine[0]?.name,
      options: mine.map((one) => ({
        value: one.name,
        label: one.name.split(".").slice(3).join("."),
      })),
    });
    fill(where, point.el);
  });
  return {el, off};
}

/** The selected head's pattern: after minus before. */
function signedPattern(app) {
  const {state} = app,
    room = h("div"),
    hint = h(
      "p.soft",
      "Once something is changed, this shows where the selected head looks more, and where less.",
    );
  let picture = /** @type {any} */ (null),
    frame = /** @type {any} */ (null),
    legendRoom = h("div");
  const el = h("div", h("h2", "Where the selected head looks, after minus before"), hint, room);
  async function show(compared) {
    if (!compared) {
      room.hidden = true;
      hint.hidden = false;
      return;
    }
    const {header, arrays} = compared,
      {pattern_a: a, pattern_b: b} = arrays,
      [T, S] = a.shape;
    if (Math.max(T, S) > LARGEST) {
      room.hidden = true;
      hint.hidden = false;
      hint.textContent =
        `The pattern has ${number(T)} queries and ${number(S)} keys; the difference is drawn ` +
        `up to ${LARGEST}.`;
      return;
    }
    if (a.data.every((x, i) => Math.abs(b.data[i] - x) < STILL)) {
      room.hidden = true;
      hint.hidden = false;
      hint.textContent =
        "The selected head looks where it did before: the edits act behind its weights, or " +
        "beside it.";
      return;
    }
    const looked = await app.looked(),
      {queries, keys} = sequences(looked, kindOf(app)),
      values = Float32Array.from(b.data, (x, i) => x - a.data[i]),
      most = Math.max(
        0.01,
        values.reduce((best, x) => Math.max(best, Math.abs(x)), 0),
      );
    const {layer, head, query, key} = state.get(),
      options = {
        rows: header.queries.map(([, i]) => queries[i]),
        columns: header.keys.map(([, j]) => keys[j]),
        values,
        kind: "signed",
        high: most,
        digits: true,
        selected:
          query !== null && key !== null && query < T && key < S ? {row: query, column: key} : null,
        valueName: "change",
        name: `Change of attention, layer ${layer} head ${head}`,
        onselect: (r, c) => state.set({query: r, key: c}, {replace: true}),
      };
    hint.hidden = true;
    room.hidden = false;
    if (!picture) {
      picture = heatmap(options);
      frame = figure({
        title: "After minus before",
        name: "pattern change",
        wide: true,
        picture,
        legend: legendRoom,
        shows:
          "How much each weight of the selected head grew or fell. Edits in layers before " +
          "it change what it asks and answers; edits of itself change it directly. Rows " +
          "sum to 0 unless a row was cut whole.",
        hides:
          "the pattern itself, which the head’s page has, and changes in other heads: " +
          "select them with `[` `]` and `{` `}`.",
      });
      fill(room, frame.el);
    } else picture.update(options);
    fill(
      legendRoom,
      legend({kind: "signed", high: Number(most.toPrecision(2)), label: "change of weight"}),
    );
    frame.refresh();
  }
  return {el, show, off: () => picture?.destroy()};
}

export const page = {
  about:
    "Changes inside the running model, in order, and their effect. Edits are part of the " +
    "address: links, the Python code beside, and all other pages keep them.",
  notAbout:
    "a trained difference: the weights stay the same, and only the run of this input " + "changes.",
  render,
};
