// @ts-check
// Controls of the selected head and edge: silence it, set its temperature, cut an edge, move a
// weight. Each is an edit in the selection.
import {fill, h} from "../dom.js";
import {labelOf, token} from "../format.js";
import {button, slider, toggle} from "../marks.js";
import {cut, found, mean, put, scale, temperature, weight, without, zero} from "./edit_list.js";
import {follow, HEAD, kindOf, placeOf, sequences} from "./attended.js";

const LEAST = 1e-6;

/**
 * Controls for the selection. @param {any} app
 * @returns {{el: HTMLElement, off: () => void}}
 */
export function touch(app) {
  const {state} = app,
    said = h("div") /* the outcome beside says what is wrong */,
    ofHead = h("div.touch-part"),
    ofEdge = h("div.touch-part");
  const el = h("div.touch", {role: "group", "aria-label": "Change the model here"}, ofHead, ofEdge);
  const set = (edit, on, replace = false) => {
    const {edits} = state.get();
    state.set({edits: on ? put(edits, edit) : without(edits, edit)}, {replace});
  };
  const now = (edit, name, none) => found(state.get().edits, edit)?.[name] ?? none;
  /** @type {Record<string, any>} */
  const control = {};
  let head = "",
    edge = "";

  function drawHead() {
    const {layer, head: number, edits} = state.get(),
      place = placeOf(app),
      name = `${place} ${number}`;
    if (name !== head) {
      head = name;
      control.zero = toggle({
        label: "Say nothing (0)",
        onchange: (on) => set(zero(place, number), on),
      });
      control.mean = toggle({
        label: "Say the same everywhere (mean)",
        onchange: (on) => set(mean(place, number), on),
      });
      control.tau = slider({
        label: "Temperature",
        name: "temperature of the head",
        min: 0.05,
        max: 5,
        step: 0.05,
        value: 1,
        oninput: (tau) => set(temperature(place, number, tau), tau !== 1, true),
      });
      control.by = slider({
        label: "Loudness",
        name: "loudness of the head",
        min: 0,
        max: 3,
        step: 0.05,
        value: 1,
        oninput: (by) => set(scale(place, number, by), by !== 1, true),
      });
      fill(
        ofHead,
        h("h4", `Layer ${layer} head ${number}`),
        h("div.touch-row", control.zero.el, control.mean.el),
        h("div.stack", control.tau.el, control.by.el),
      );
    }
    control.zero.set(Boolean(found(edits, zero(place, number))));
    control.mean.set(Boolean(found(edits, mean(place, number))));
    control.tau.set(now(temperature(place, number), "tau", 1));
    control.by.set(now(scale(place, number), "by", 1));
  }

  async function drawEdge(fresh) {
    drawHead();
    const {query, key, head: number, edits} = state.get();
    if (query === null || key === null) {
      edge = "";
      fill(
        ofEdge,
        h("h4", "An edge"),
        h("p.soft", "Pick a cell of the matrix: then its edge can be cut and its weight moved."),
      );
      return;
    }
    const place = placeOf(app),
      ask = app.args("row", {query}),
      looked = await app.looked();
    const {queries, keys} = sequences(looked, kindOf(app));
    if (!queries[query] || !keys[key]) return;
    const {header, arrays} = await app.call("row", ask, {key: "touch"});
    if (!fresh()) return;
    const seen = arrays.weights.data[key],
      cutIt = cut(place, number, query, key),
      setIt = weight(place, number, query, key),
      own = found(edits, setIt),
      gone = found(edits, cutIt);
    const name = [place, number, query, key, labelOf(queries[query]), labelOf(keys[key])].join(" ");
    if (name !== edge) {
      edge = name;
      control.cut = toggle({label: "Cut it", onchange: (on) => set(cutIt, on)});
      control.to = slider({
        label: "Weight",
        name: "weight of the edge",
        min: 0,
        max: 1,
        step: 0.01,
        value: Number(seen.toFixed(3)),
        oninput: (to) => set({...setIt, to}, true, true),
      });
      control.go = button("Let go", () => set(setIt, false), {
        kind: "quiet",
        name: "Let the weight go",
      });
      control.why = h("p.soft");
      fill(
        ofEdge,
        h("h4", token(queries[query]), " → ", token(keys[key])),
        control.to.el,
        h("div.touch-row", control.cut.el, control.go),
        control.why,
      );
    }
    const masked = header.masked.includes(key) && !gone,
      alone = !own && 1 - seen < LEAST;
    for (const input of control.to.el.querySelectorAll("input"))
      input.disabled = masked || alone || Boolean(gone);
    control.cut.el.hidden = masked;
    control.go.hidden = !own;
    control.why.textContent = masked
      ? "Masked: this query may not see this key at all."
      : gone
        ? "Cut before the softmax: the weight is 0, and the rest of the row has grown."
        : alone
          ? "This query sees nothing else, so its only weight stays 1."
          : "The rest of the row makes room, so that it still sums to 1.";
    control.cut.set(Boolean(gone));
    if (!control.to.el.contains(document.activeElement) || !own)
      control.to.set(own ? own.to : Number(seen.toFixed(3)));
  }

  return {el, off: follow(app, [...HEAD, "query", "key"], said, drawEdge)};
}
