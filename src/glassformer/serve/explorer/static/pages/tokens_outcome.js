// @ts-check
// Answers to the original sequence and to the edited one, whose tokens were moved, left out,
// replaced or hidden.
import {fill, h} from "../dom.js";
import {number, token} from "../format.js";
import {button, figure} from "../marks.js";
import {same} from "../state.js";
import {aimOf} from "./aimed.js";
import {follow, kindOf, LOOK} from "./attended.js";
import {pairs} from "./edit_pairs.js";
import {hides, movable} from "./tokens_moves.js";

const MOST = 8;

/** The look before any change of tokens. @param {any} app */
export function before(app) {
  const {was, input, edits, checkpoint} = app.state.get(),
    mine = (edit) =>
      ["", "source"].some((which) => hides(app.model, /** @type {any} */ (which), edit));
  return {input: was ?? input, edits: edits.filter((edit) => !mine(edit)), checkpoint};
}

/**
 * The likeliest outcomes of two distributions, largest change first. An outcome of one list only
 * counts as 0 in the other.
 */
function changed(one, other) {
  const found = new Map();
  const read = ({header, arrays}, name) =>
    arrays.ids.data.forEach((id, i) => {
      const item = found.get(id) ?? {label: header.labels[id], before: 0, after: 0};
      item[name] = arrays.before.data[i];
      found.set(id, item);
    });
  read(one, "before");
  read(other, "after");
  return [...found.values()]
    .sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before))
    .slice(0, MOST)
    .sort((a, b) => Math.max(b.before, b.after) - Math.max(a.before, a.after));
}

/**
 * @param {any} app @param {(earlier: Map<number, string>) => void} ontags  tags that were others
 * before, by their place now
 */
export function answers(app, ontags) {
  const {state} = app,
    said = h("div"),
    note = h("p.outcome-note", {role: "status"}),
    picture = pairs({items: [], name: "The likeliest answers"});
  const frame = figure({
    title: "Effect on the answer",
    name: "tokens before after",
    picture,
    below: [note, said],
    shows:
      "The model’s answers in percent, for the sequence as it was (outline) and as it " +
      "stands now (filled).",
    hides:
      "why: a token that is moved, dropped or replaced changes what all others can read, " +
      "and where they stand. An answer beyond the 50 likeliest counts as 0.",
  });
  const back = button(
    "Back to the sequence as it was",
    () => {
      const {was, input} = state.get();
      state.set({
        input: was ?? input,
        was: undefined,
        edits: before(app).edits,
        query: null,
        key: null,
        position: -1,
        target: null,
        against: null,
      });
    },
    {kind: "quiet"},
  );

  const off = follow(app, [...LOOK, "was", "position", "query"], said, async (fresh) => {
    const a = before(app),
      b = app.look(),
      [was, is] = await Promise.all([
        app.call("look", {look: a}).then(({header}) => header),
        app.looked(),
      ]);
    if (!fresh()) return;
    const kind = is.outcome.kind,
      touched = !same(a.input, b.input) || a.edits.length !== b.edits.length;
    frame.el.hidden = kind === "vectors";
    if (kind === "vectors") return;
    const name = (label) => token({label, kind: kind === "tokens" ? "token" : "word"}),
      item = ({label, a: p, b: q, before: x, after: y}) => ({
        label: name(label),
        text: label,
        before: p ?? x,
        after: q ?? y,
      });
    const tagged = kind === "tags",
      at =
        kind === "class"
          ? -1
          : tagged && state.get().query !== null && state.get().query < is.elements.length
            ? state.get().query
            : aimOf(app.state.get(), is).position,
      where =
        at < 0
          ? ""
          : [
              tagged || app.has("masked") ? " at " : " after ",
              token(is.elements[at]),
              h("span.soft", ` ${at}`),
            ];
    if (!touched) {
      picture.update({
        items: (at < 0 ? is.outcome.rows[0] : is.outcome.rows[at]).top.map((one) => ({
          label: name(one.label),
          text: one.label,
          before: null,
          after: one.p,
        })),
        name: "The likeliest answers",
      });
      fill(
        note,
        "The sequence as it is",
        where ? [",", where] : "",
        ". " +
          (movable(app.model, is.elements) || is.source_elements.length
            ? "Move a token, leave one out, replace or hide one"
            : "Hide a token or a patch") +
          ", " +
          "and this shows the difference.",
      );
      ontags(new Map());
      return void frame.refresh();
    }
    const {side, site} = kindOf(app),
      {layer, head} = state.get(),
      ask = {a, b, side, site, layer, head, k: MOST};
    let items = null,
      apart = "";
    if (kind === "tokens") {
      const from =
          state.get().position >= 0
            ? Math.min(was.elements.length - 1, at)
            : aimOf(app.state.get(), was).position,
        [one, other] = await Promise.all([
          app.call("next", {look: a, position: from}),
          app.call("next", {look: b, position: at}),
        ]);
      items = changed(one, other).map(item);
      if (was.elements[from].label !== is.elements[at].label)
        apart = ["; before, after ", token(was.elements[from])];
    } else {
      let {header} = await app.call("compare", ask, {key: "tokens"});
      const partners = header.alignment.filter(([i, j]) => i !== null && j !== null),
        number_ = partners.findIndex(([, j]) => j === at);
      if (tagged) {
        ontags(
          new Map(
            partners
              .filter(([i, j]) => was.outcome.rows[i].top[0].id !== is.outcome.rows[j].top[0].id)
              .map(([i, j]) => [j, was.outcome.rows[i].top[0].label]),
          ),
        );
        if (number_ >= 0)
          ({header} = await app.call("compare", {...ask, number: number_}, {key: "tokens"}));
      }
      items =
        tagged && number_ < 0
          ? is.outcome.rows[at].top.map((one) => ({
              label: name(one.label),
              text: one.label,
              before: null,
              after: one.p,
            }))
          : (header.changes ?? []).map(item);
      if (header.kl !== undefined && (at < 0 || number_ >= 0))
        apart = [": ", h("strong", `KL ${number(header.kl, 3)}`), " from before to after"];
    }
    if (!fresh()) return;
    picture.update({items, name: "Answers before and after"});
    fill(note, "The sequence was touched", where ? [";", where] : "", apart, ". ", back);
    frame.refresh();
  });
  return {el: frame.el, off};
}
