// @ts-check
// Answers before the edits and under them: all positions in brief, and one in numbers.
import {fill, h} from "../dom.js";
import {labelOf, number, percent, token} from "../format.js";
import {button, figure} from "../marks.js";
import {telling} from "./aimed.js";
import {follow, HEAD, kindOf} from "./attended.js";
import {pairs} from "./edit_pairs.js";

const MOST = 8,
  CHIPS = 400;

/**
 * Position of the answer: the selected one, or for tags that of the query. @param {any} s
 * @param {any} looked
 */
export function positionOf(s, looked) {
  const rows = looked.outcome.rows;
  if (looked.outcome.kind === "class") return -1;
  const chosen =
    s.position >= 0
      ? s.position
      : looked.outcome.kind === "tags" && s.query !== null
        ? s.query
        : s.position === -1
          ? telling(looked)
          : s.position;
  return chosen < 0 ? Math.max(0, rows.length + chosen) : Math.min(rows.length - 1, chosen);
}

/** @param {any} app @param {{onchanged?: (compared: any) => void, wide?: boolean}} [how] */
export function outcome(app, {onchanged, wide = false} = {}) {
  const {state} = app,
    said = h("div"),
    strip = h("div.outcome-strip"),
    note = h("p.outcome-note", {role: "status"});
  const picture = pairs({items: [], name: "Outcome"});
  const frame = figure({
    title: "Effect on the answer",
    name: "outcome before after",
    picture,
    controls: strip,
    below: [note, said],
    wide,
    shows:
      "The model’s answers and their probabilities in percent. Under edits: before as an " +
      "outline, after as a filled bar, and the difference; the answers that changed most " +
      "come first.",
    hides:
      "whether the change is the head’s own work or the shock of an input that the layers " +
      "behind it never met; 0 is such an input, the mean is a gentler one.",
  });
  const answer = (row) => row.top[0];
  let seen = -1;

  function drawStrip(before, after) {
    const {kind, rows} = after.outcome;
    strip.hidden = kind === "class" || kind === "vectors" || rows.length > CHIPS;
    if (strip.hidden) return 0;
    const at = positionOf(state.get(), after);
    const scrolled = strip.firstElementChild?.scrollTop ?? -1;
    let changed = 0;
    fill(
      strip,
      h(
        "ol.outcome-chips",
        {
          "aria-label":
            kind === "tags"
              ? "Tags, position by position"
              : "What comes next, position by position",
        },
        rows.map((row, i) => {
          const was = answer(before.outcome.rows[i]),
            is = answer(row),
            other = was.id !== is.id;
          changed += Number(other);
          return h(
            "li",
            h(
              "button",
              {
                type: "button",
                class: `outcome-chip${other ? " changed" : ""}`,
                "aria-pressed": i === at,
                onclick: () => state.set({position: i}, {replace: true}),
                "aria-label":
                  `${labelOf(after.elements[i])}: ` +
                  `${other ? `${was.label} before, ${is.label} now` : is.label}, ` +
                  `${percent(is.p)}`,
              },
              h("span.outcome-token", token(after.elements[i])),
              h(
                "span.outcome-answer",
                other && [
                  h("s", token({label: was.label, kind: kind === "tags" ? "word" : "token"})),
                  " ",
                ],
                token({label: is.label, kind: kind === "tags" ? "word" : "token"}),
              ),
            ),
          );
        }),
      ),
    );
    const list = /** @type {any} */ (strip.firstElementChild),
      chip = list.children[at];
    list.scrollTop = scrolled;
    if (chip && at !== seen) list.scrollTop = chip.offsetTop - list.offsetTop - 60;
    seen = at;
    list.classList.toggle("scrolls", list.scrollHeight > list.clientHeight + 1);
    return changed;
  }

  const off = follow(app, [...HEAD, "position", "query"], said, async (fresh) => {
    const s = state.get(),
      look = app.look(),
      clean = {...look, edits: []},
      edited = s.edits.length > 0;
    const [after, before] = await Promise.all([
      app.looked(),
      app.call("look", {look: clean}).then(({header}) => header),
    ]);
    if (!fresh()) return;
    if (after.outcome.kind === "vectors")
      return void fill(note, "This model makes vectors: it chooses no answer.");
    const at = positionOf(s, after),
      kind = after.outcome.kind,
      changed = drawStrip(before, after);
    const where =
      kind === "class"
        ? ""
        : h(
            "span",
            kind === "tags" || app.has("masked") ? "at " : "after ",
            token(after.elements[at]),
            h("span.soft", ` ${at}`),
          );
    const name = (label) => token({label, kind: kind === "tokens" ? "token" : "word"});
    if (!edited) {
      const {top} = after.outcome.rows[kind === "class" ? 0 : at];
      picture.update({
        items: top.map((one) => ({
          label: name(one.label),
          text: one.label,
          before: null,
          after: one.p,
        })),
        name: "The likeliest answers",
      });
      fill(
        note,
        h(
          "span",
          "The model as it is",
          where ? ", " : "",
          where,
          ". Change something, and this shows the difference.",
        ),
      );
      onchanged?.(null);
    } else {
      const {side, site} = kindOf(app),
        {header, arrays} = await app.call(
          "compare",
          {a: clean, b: look, side, site, layer: s.layer, head: s.head, k: MOST, number: at},
          {key: "outcome"},
        );
      if (!fresh()) return;
      picture.update({
        items: (header.changes ?? []).map((one) => ({
          label: name(one.label),
          text: one.label,
          before: one.a,
          after: one.b,
        })),
        name: "Answers before and after",
      });
      fill(
        note,
        h(
          "span",
          `${s.edits.length === 1 ? "Under the edit" : `Under ${s.edits.length} edits`}`,
          where ? ", " : "",
          where,
          ": ",
          h("strong", `KL ${number(header.kl, 3)}`),
          " from before to after. ",
          kind === "class"
            ? ""
            : `${changed} of ${after.outcome.rows.length} positions have another first answer.`,
        ),
        " ",
        button("Back to the model as it is", () => state.set({edits: [], shelf: undefined}), {
          kind: "quiet",
        }),
      );
      onchanged?.({header, arrays});
    }
    frame.refresh();
  });
  return {el: frame.el, off};
}
