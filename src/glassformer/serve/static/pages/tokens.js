// @ts-check
// What the model is given: the input cut into tokens or patches, each with its number, and which of them are one word.
// Knows: the ops look and picture. Does not know: attention.
import {fill, h, svg} from "../dom.js";
import {number, plural, token, tokenText} from "../format.js";
import {button, choice, figure, toggle} from "../marks.js";
import {follow, LOOK} from "./attended.js";
import {units} from "./head_patterns.js";
import {parts, patches} from "./tokens_patches.js";

const TEXTUAL = ["lm", "masked", "tag", "classify"];
const MOST = 4096;

/** A token's text as UTF-8 bytes: c3 bc. @param {string} text */
export function bytesOf(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app, said = h("div"), strips = h("div", {class: "tokens"}), facts = h("div", {class: "readings"}), detail = h("div", {class: "token-detail", role: "status"});
  const textual = TEXTUAL.includes(app.model.family);
  let looked = /** @type {any} */ (null), offPatches = /** @type {(() => void)[]} */ ([]);
  const words = () => Boolean(state.get().words), role = () => state.get().picks ?? "query";
  const asWords = toggle({label: "Words", checked: words(), onchange: (on) => state.set({words: on || undefined}, {replace: true})});
  const picks = choice({label: "A click picks the", value: role(), options: [{value: "query", label: "query"}, {value: "key", label: "key"}], onchange: (to) => state.set({picks: to === "query" ? undefined : to}, {replace: true})});
  const sequences = () => [["", looked.elements, looked.source_elements.length ? "Target so far" : "Input"], ...(looked.source_elements.length ? [["source", looked.source_elements, "Source"]] : [])].reverse();
  const picture = {
    el: strips,
    table: () => ({columns: ["position", "sequence", "text", "id", "kind", "word", "row", "column"], rows: looked ? sequences().flatMap(([, list, name]) => list.map((one, i) =>
      [i, name, one.label, one.id ?? "", one.kind, one.word ?? "", one.row ?? "", one.column ?? ""])) : []}),
    summary: () => (looked ? sequences().map(([, list, name]) => `${name}: ${plural(list.length, "element")}`).join("; ") + "." : ""),
    toSvg() {
      const parts = [], style = getComputedStyle(strips), font = {"font-family": "monospace", fill: style.color};
      let x = 10, y = 30;
      for (const [, list] of sequences()) {
        for (const one of list) {
          const text = tokenText(one.label), width = Math.max(34, 14 + 9 * text.length);
          if (x + width > 760) [x, y] = [10, y + 56];
          parts.push(svg("rect", {x, y: y - 20, width, height: 44, fill: "none", stroke: style.color, "stroke-opacity": 0.4, rx: 3, ...(one.kind === "special" ? {"stroke-dasharray": "3 2"} : {})}),
            svg("text", {...font, x: x + width / 2, y: y - 2, "text-anchor": "middle", "font-size": 15}, text), svg("text", {...font, x: x + width / 2, y: y + 17, "text-anchor": "middle", "font-size": 11}, String(one.id ?? "")));
          x += width + 5;
        }
        [x, y] = [10, y + 72];
      }
      return svg("svg", {viewBox: `0 0 770 ${y}`}, parts);
    },
  };
  const frame = figure({
    title: "The sequence", name: "tokens", wide: true, picture, controls: [asWords.el, picks.el], below: [facts, detail],
    shows: "The elements that the model reads, in order. Blanks are drawn as ·, new lines as ⏎; the number below is the row of the embedding table. A dashed border is a special token that nobody wrote. Point at one, and the same token lights up wherever else it stands.",
    hides: "the vectors that the numbers stand for, and position, which is added or turned in later.",
  });
  el.append(said, frame.el);

  const light = (id) => strips.querySelectorAll(".token-chip").forEach((chip) => chip.classList.toggle("same", id !== null && id !== "" && chip.dataset.id === id));

  function chips(which, list) {
    const rows = looked.outcome.kind === "tags" && !which ? looked.outcome.rows : null, {query, key} = state.get();
    return h("ol", {class: "token-chips"}, units(joined(list), true).map((unit) => {
      const first = list[unit.from[0]], ids = unit.from.map((i) => list[i].id), tags = rows ? [...new Set([unit.from[0]].map((i) => rows[i]?.top[0].label))] : [];
      const isQuery = !which && query !== null && unit.from.includes(query), isKey = key !== null && unit.from.includes(key) && (which === "source") === (state.get().site === "cross");
      return h("li", null, h("button", {type: "button", class: `token-chip ${first.kind}${isQuery ? " is-query" : ""}${isKey ? " is-key" : ""}`, dataset: {id: ids.length === 1 ? String(ids[0] ?? "") : "", i: unit.from[0]},
        "aria-pressed": isQuery || isKey, "aria-label": `${unit.label}, position ${unit.from.join(" to ")}, ${first.kind}${ids[0] === null ? "" : `, id ${ids.join(" and ")}`}${isQuery ? ", the query" : ""}${isKey ? ", the key" : ""}`,
        onclick: () => pick(which, unit.from[0]), onpointerenter: (event) => light(event.currentTarget.dataset.id), onpointerleave: () => light(null), onfocus: (event) => light(event.currentTarget.dataset.id), onblur: () => light(null)},
      h("span", {class: "token-text"}, token(unit)), h("span", {class: "token-id"}, ids[0] === null ? (ids.length > 1 ? String(ids.length) : "") : ids.join(" ")), tags.length ? h("span", {class: "token-tag"}, tags.join(" ")) : null,
      isQuery ? h("b", {class: "token-role q", "aria-hidden": true}, "Q") : null, isKey ? h("b", {class: "token-role k", "aria-hidden": true}, "K") : null));
    }));
  }

  function pick(which, i) {
    if (which === "source") state.set({site: "cross", side: "", key: i}, {replace: true});
    else state.set(role() === "key" ? {key: i, ...(state.get().site === "cross" ? {site: "self"} : {})} : {query: i}, {replace: true});
  }

  function draw() {
    if (!looked) return;
    const held = strips.contains(document.activeElement) ? [...strips.querySelectorAll("button")].indexOf(/** @type {any} */ (document.activeElement)) : -1;
    offPatches.forEach((off) => off());
    offPatches = [];
    fill(strips, sequences().map(([which, list, name]) => {
      const several = sequences().length > 1, text = list.filter((one) => one.kind !== "image" && one.kind !== "audio");
      const grids = which === "source" || !several ? patches(app, list, {selected: state.get().query, onselect: (i) => pick(which, i)}) : null;
      if (grids) offPatches.push(grids.off);
      return h("div", {class: "token-strip"}, several ? h("h4", null, name) : null, grids?.el,
        list.length > MOST ? h("p", {class: "soft"}, `${number(list.length)} elements are too many to draw; the table has them all.`) : text.length ? chips(which, list) : null);
    }));
    if (held >= 0) /** @type {any} */ (strips.querySelectorAll("button")[held])?.focus();
    asWords.el.hidden = !sequences().some(([, list]) => units(list, true).length < list.length);
    drawFacts();
    drawDetail();
    frame.refresh();
  }

  // A picture's patches stand in their grid; among the tokens they are one chip, so that the order is seen.
  function joined(list) {
    const part = new Map(parts(list).flatMap(({from}, n) => from.map((i, k) => [i, {word: `part ${n}`, label: k ? "" : `[${list[i].kind}]`, kind: "special"}])));
    return list.map((one, i) => ({...one, ...(part.get(i) ?? {word: words() ? one.word : null})}));
  }

  function drawFacts() {
    const list = looked.elements, ids = list.map((one) => one.id).filter((id) => id !== null), wordsThere = new Set(list.map((one) => one.word).filter((word) => word !== null)).size;
    const letters = list.filter((one) => one.kind === "token").reduce((sum, one) => sum + one.label.length, 0), plain = list.filter((one) => one.kind === "token").length;
    const fact = (name, value) => h("p", {class: "reading"}, h("span", null, name), h("output", {class: "value"}, value));
    fill(facts, fact("elements", `${number(list.filter((one) => one.kind !== "class").length)} of at most ${number(app.model.max_length)}`), wordsThere ? fact("words", number(wordsThere)) : null, ids.length ? fact("different tokens", number(new Set(ids).size)) : null,
      fact("special", number(list.filter((one) => one.kind === "special" || one.kind === "class").length)), plain ? fact("characters per token", number(letters / plain, 3)) : null);
  }

  function drawDetail() {
    const {query} = state.get(), one = query === null ? null : looked.elements[query];
    if (!one) return void fill(detail, h("p", {class: "soft"}, "Choose a token to see its bytes and where else it stands."));
    const others = looked.elements.flatMap((other, i) => (other.id !== null && other.id === one.id && i !== query ? [i] : [])), pairs = [["position", String(query)], ["kind", one.kind]];
    if (one.id !== null) pairs.push(["id", `${number(one.id)} of ${number(app.model.config.vocab_size)}`]);
    if (one.kind === "token") pairs.push(["bytes", bytesOf(one.label)]);
    if (one.row !== null) pairs.push(["row, column", `${one.row}, ${one.column}`]);
    if (one.word !== null) pairs.push(["word", String(one.word)]);
    if (one.id !== null) pairs.push(["also at", others.length ? others.join(", ") : "nowhere else"]);
    const ids = looked.elements.map((each) => each.id), movable = textual && ids.every((id) => id !== null) && ids.length > 1;
    const swap = (to) => () => {
      const next = [...ids];
      [next[query], next[to]] = [next[to], next[query]];
      state.set({input: next, query: to, key: null, position: -1});
    };
    fill(detail, h("h4", null, token(one)), h("dl", {class: "pairs"}, pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
      movable ? h("div", {class: "row"}, button("← Move", swap(Math.max(0, query - 1)), {name: "Move the token one place to the left"}), button("Move →", swap(Math.min(ids.length - 1, query + 1)), {name: "Move the token one place to the right"}),
        button("Leave it out", () => state.set({input: ids.filter((_, i) => i !== query), query: null, key: null, position: -1}), {name: "Leave the token out"}), h("span", {class: "soft"}, "The input becomes a list of ids; Back brings the text again.")) : null);
  }

  const offs = [follow(app, LOOK, said, async (fresh) => {
    const got = await app.looked();
    if (!fresh()) return;
    looked = got;
    draw();
  }), state.subscribe((now, before) => ["query", "key", "words", "site", "picks"].some((name) => now[name] !== before[name]) && draw())];
  return () => [...offs, ...offPatches].forEach((off) => off());
}

export const page = {
  id: "tokens", title: "Tokens", families: null,
  about: "What the model is really given: not letters and not words, but the numbered pieces that its tokenizer cut the input into, or the patches of a picture.",
  notAbout: "what the pieces mean to the model; that begins with their vectors.",
  render,
};
