// @ts-check
// The input as tokens or patches, which can be moved, left out, replaced and hidden; and their
// positions.
import {fill, h, redrawn, svg} from "../dom.js";
import {isPatch, number, plural, token, tokenText} from "../format.js";
import {button, choice, figure, reading, toggle} from "../marks.js";
import {same} from "../state.js";
import {follow, LOOK} from "./attended.js";
import {units} from "./head_patterns.js";
import {catching, chipRow} from "./tokens_chips.js";
import {
  carried,
  hidden,
  inputOf,
  movable,
  moved,
  replaced,
  spelled,
  toggled,
  without,
} from "./tokens_moves.js";
import {answers} from "./tokens_outcome.js";
import {partsOf} from "./image_sheet.js";
import {patches} from "./tokens_patches.js";
import {positions} from "./tokens_positions.js";

const MOST = 4096;

/** A token's text as UTF-8 bytes: c3 bc. @param {string} text */
function bytesOf(text) {
  return Array.from(new TextEncoder().encode(text), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join(" ");
}

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {state} = app,
    said = h("div"),
    strips = h("div.tokens"),
    facts = h("div.readings"),
    detail = h("div.token-detail", {role: "status"});
  const hands = h("div.token-hands", {role: "group", "aria-label": "The chosen token"}),
    hand = {now: /** @type {import("./tokens_chips.js").Held} */ (null)};
  let looked = /** @type {any} */ (null),
    grids = /** @type {Map<string, ReturnType<typeof patches>>} */ (new Map()),
    earlier = /** @type {Map<number, string>} */ (new Map());
  let editing = /** @type {{which: string, at: number} | null} */ (null),
    focusing = /** @type {{which: string, at: number} | null} */ (null);
  const words = () => Boolean(state.get().words),
    role = () => state.get().picks ?? "query";
  const asWords = toggle({
    label: "Words",
    checked: words(),
    onchange: (on) => state.set({words: on || undefined}, {replace: true}),
  });
  const picks = choice({
    label: "A click picks the",
    value: role(),
    options: [
      {value: "query", label: "query"},
      {value: "key", label: "key"},
    ],
    onchange: (to) => state.set({picks: to === "query" ? undefined : to}, {replace: true}),
  });
  const sequences = () =>
    [
      ["", looked.elements, looked.source_elements.length ? "Target so far" : "Input"],
      ...(looked.source_elements.length ? [["source", looked.source_elements, "Source"]] : []),
    ].reverse();
  const picture = {
    el: strips,
    table: () => ({
      columns: ["position", "sequence", "text", "id", "kind", "word", "row", "column"],
      rows: looked
        ? sequences().flatMap(([, list, name]) =>
            list.map((one, i) => [
              i,
              name,
              one.label,
              one.id ?? "",
              one.kind,
              one.word ?? "",
              one.row ?? "",
              one.column ?? "",
            ]),
          )
        : [],
    }),
    summary: () =>
      looked
        ? sequences()
            .map(([, list, name]) => `${name}: ${plural(list.length, "element")}`)
            .join("; ") + "."
        : "",
    toSvg() {
      const parts = [],
        style = getComputedStyle(strips),
        font = {"font-family": "monospace", fill: style.color};
      let x = 10,
        y = 30;
      for (const [, list] of sequences()) {
        for (const one of list) {
          const text = tokenText(one.label),
            width = Math.max(34, 14 + 9 * text.length);
          if (x + width > 760) [x, y] = [10, y + 56];
          parts.push(
            svg("rect", {
              x,
              y: y - 20,
              width,
              height: 44,
              fill: "none",
              stroke: style.color,
              "stroke-opacity": 0.4,
              rx: 3,
              ...(one.kind === "special" ? {"stroke-dasharray": "3 2"} : {}),
            }),
            svg(
              "text",
              {...font, x: x + width / 2, y: y - 2, "text-anchor": "middle", "font-size": 15},
              text,
            ),
            svg(
              "text",
              {...font, x: x + width / 2, y: y + 17, "text-anchor": "middle", "font-size": 11},
              String(one.id ?? ""),
            ),
          );
          x += width + 5;
        }
        [x, y] = [10, y + 72];
      }
      return svg("svg", {viewBox: `0 0 770 ${y}`}, parts);
    },
  };
  const frame = figure({
    title: "The sequence",
    name: "tokens",
    wide: true,
    picture,
    controls: [asWords.el, picks.el],
    below: [hands, facts, detail],
    shows:
      "The elements that the model reads, in order. Blanks are drawn as ·, new lines as ⏎; " +
      "the number below is the row of the embedding table. A dashed border is a special " +
      "token that nobody wrote. Point at one, and the same token lights up wherever else " +
      "it stands.",
    hides:
      "the vectors that the numbers stand for, and position, which is added or turned in later.",
  });
  const where = positions(app),
    result = answers(app, (tags) => {
      if (!earlier.size && !tags.size) return;
      earlier = tags;
      draw();
    });
  el.append(
    said,
    frame.el,
    h("section.section", result.el),
    h("section.section", h("h2", "Position"), where.el),
  );

  const light = (id) =>
    strips
      .querySelectorAll(".token-chip")
      .forEach((chip) =>
        chip.classList.toggle("same", id !== null && id !== "" && chip.dataset.id === id),
      );
  const listOf = (which) => (which === "source" ? looked.source_elements : looked.elements),
    canMove = (which) => movable(app.model, listOf(which));

  function rowOf(which, list, name) {
    const rows = looked.outcome.kind === "tags" && !which ? looked.outcome.rows : null,
      {query, key, site, edits} = state.get();
    return {
      which,
      list,
      name,
      units: units(joined(list), true),
      movable: canMove(which),
      hidden: hidden(app.model, which, edits),
      editing: editing?.which === which ? editing.at : -1,
      tags: (i) =>
        rows ? [...(earlier.has(i) ? [earlier.get(i)] : []), rows[i]?.top[0].label] : [],
      chosen: (unit) => ({
        query: !which && query !== null && unit.from.includes(query),
        key: key !== null && unit.from.includes(key) && (which === "source") === (site === "cross"),
      }),
    };
  }

  function pick(which, i) {
    if (which === "source") state.set({site: "cross", side: "", key: i}, {replace: true});
    else
      state.set(
        role() === "key"
          ? {key: i, ...(state.get().site === "cross" ? {site: "self"} : {})}
          : {query: i},
        {replace: true},
      );
  }

  /**
   * Another sequence. `order[t]`: former index of the element at t, −1: none; `at`: the selected
   * one.
   */
  function put(which, ids, order, at, said_) {
    if (!ids.length) return void app.announce("The last token stays: a sequence has at least one.");
    const s = state.get(),
      from = (i) => (i === null || order.indexOf(i) < 0 ? null : order.indexOf(i));
    focusing =
      editing || strips.contains(document.activeElement)
        ? {which, at: Math.max(0, Math.min(ids.length - 1, at))}
        : null; // a button keeps it
    editing = null;
    state.set({
      input: inputOf(app.model, s.input, which, ids),
      was: s.was ?? s.input,
      edits: carried(app.model, which, s.edits, order),
      query: which ? s.query : from(s.query),
      key: which && s.site === "cross" ? from(s.key) : null,
      position: -1,
      target: null,
      against: null,
    });
    app.announce(said_);
  }
  const idsOf = (which) => listOf(which).map((one) => one.id),
    places = (which) => [...listOf(which).keys()],
    named = (unit) => `“${unit.label.trim() || unit.label}”`;
  const act = {
    pick,
    light,
    move(which, {from, ...unit}, to) {
      const order = moved(places(which), from, to),
        at = order.indexOf(from[0]);
      if (order.every((i, t) => i === t)) return;
      put(
        which,
        moved(idsOf(which), from, to),
        order,
        at,
        `${named(unit)} stands at position ${at} now.`,
      );
    },
    leave(which, {from, ...unit}) {
      put(
        which,
        without(idsOf(which), from),
        without(places(which), from),
        from[0],
        `${named(unit)} is left out.`,
      );
    },
    hide(which, unit) {
      const on = !unit.from.every((i) => hidden(app.model, which, state.get().edits).has(i));
      state.set({edits: toggled(app.model, which, state.get().edits, unit.from, on)});
      app.announce(`${named(unit)} ${on ? "is hidden: nobody may read it" : "is seen again"}.`);
    },
    edit(which, at, focus = -1) {
      editing = at < 0 ? null : {which, at};
      if (focus >= 0) focusing = {which, at: focus};
      draw();
      const field = strips.querySelector(".token-edit");
      /** @type {any} */ (field)?.focus();
      /** @type {any} */ (field)?.select();
    },
    async replace(which, {from, ...unit}, text) {
      const bare = /^\s*#(\d+)\s*$/.exec(text),
        specials = app.model.specials ?? {},
        role_ = Object.keys(specials).find((name) => text.trim().toLowerCase() === `<${name}>`);
      try {
        let ids = bare ? [Number(bare[1])] : role_ ? [specials[role_]] : [];
        if (!ids.length) {
          const lead = /^\s/.exec(unit.label)?.[0] ?? "",
            whole = lead && !/^\s/.test(text) ? lead + text : text;
          const {header} = await app.call("look", {
            look: {
              input: spelled(app.model, which, whole),
              edits: [],
              checkpoint: state.get().checkpoint,
            },
          });
          ids = (which === "source" ? header.source_elements : header.elements)
            .filter((one) => one.kind === "token")
            .map((one) => one.id);
        }
        if (!ids.length) return void app.announce("That is no token.");
        const order = replaced(
          places(which),
          from,
          ids.map((_, i) => (i ? -1 : from[0])),
        );
        put(
          which,
          replaced(idsOf(which), from, ids),
          order,
          from[0],
          `${named(unit)} is replaced by “${bare ? ids[0] : text.trim()}”.`,
        );
      } catch (error) {
        editing = null;
        draw();
        app.failed(said, error);
      }
    },
  };

  function drawHands() {
    const {query, key, site} = state.get(),
      which = site === "cross" && looked.source_elements.length && key !== null ? "source" : "",
      at = which ? key : query;
    const row = rowOf(which, listOf(which), ""),
      u = at === null ? -1 : row.units.findIndex((unit) => unit.from.includes(at)),
      one_ = at === null ? null : listOf(which)[at],
      patch = one_ && isPatch(one_);
    const unit = patch
        ? {label: one_.label, kind: one_.kind, from: [/** @type {number} */ (at)]}
        : (row.units[u] ?? null),
      can = unit !== null && row.movable,
      free = sequences().some(([which]) => canMove(which));
    const one = (label, name, fn, off = !can) => {
      const made = button(label, () => fn({which, unit}), {name});
      made.disabled = off;
      return made;
    };
    const beside =
      (by) =>
      ({unit: {from}}) => {
        const other = row.units[u + by];
        if (other)
          act.move(
            which,
            {...unit, from},
            by < 0 ? other.from[0] : other.from[other.from.length - 1] + 1,
          );
      };
    const out = unit !== null && unit.from.every((i) => row.hidden.has(i)),
      mask = app.model.specials?.mask;
    redrawn(hands, () =>
      fill(
        hands,
        !free
          ? null
          : [
              one("← Move", "Move the token one place to the left", beside(-1), !can || u === 0),
              one(
                "Move →",
                "Move the token one place to the right",
                beside(1),
                !can || u === row.units.length - 1,
              ),
              one("Replace…", "Replace the token", () => act.edit(which, u)),
            ],
        mask === undefined || which || !free
          ? null
          : catching(
              one("Mask", "Put a mask in place of the token", ({unit}) =>
                put(
                  which,
                  replaced(
                    idsOf(which),
                    unit.from,
                    unit.from.map(() => mask),
                  ),
                  places(which),
                  unit.from[0],
                  `${named(unit)} is masked.`,
                ),
              ),
              hand,
              ({unit}) =>
                put(
                  "",
                  replaced(
                    idsOf(""),
                    unit.from,
                    unit.from.map(() => mask),
                  ),
                  places(""),
                  unit.from[0],
                  `${named(unit)} is masked.`,
                ),
            ),
        catching(
          one(
            out ? "Show again" : "Hide",
            out ? "Let the token be read again" : "Hide the token from attention",
            ({which, unit}) => act.hide(which, unit),
            unit === null,
          ),
          hand,
          (it) => act.hide(it.which, it.unit),
        ),
        !free
          ? null
          : catching(
              one("Leave it out", "Leave the token out", ({which, unit}) => act.leave(which, unit)),
              hand,
              (it) => act.leave(it.which, it.unit),
            ),
        h(
          "p.soft",
          unit ? "" : "Choose a token. ",
          free
            ? "Drag a token to another place, or onto a button; Alt with ← → moves it, " +
                "Delete leaves it out, Enter replaces it."
            : "What is hidden stands in its place, and nobody may read it.",
        ),
      ),
    );
  }

  function draw() {
    if (!looked) return;
    const grid = document.activeElement?.closest(".patch-sheets") ? document.activeElement : null,
      held =
        !grid && strips.contains(document.activeElement)
          ? [...strips.querySelectorAll("button")].indexOf(
              /** @type {any} */ (document.activeElement),
            )
          : -1;
    fill(
      strips,
      sequences().map(([which, list, name]) => {
        const several = sequences().length > 1,
          text = list.filter((one) => !isPatch(one)),
          {query} = state.get();
        if (!grids.has(which))
          grids.set(
            which,
            which === "source" || !several
              ? patches(app, list, {selected: query, onselect: (i) => pick(which, i)})
              : null,
          );
        grids.get(which)?.select(query, hidden(app.model, which, state.get().edits));
        return h(
          "div.token-strip",
          {dataset: {which}},
          several && h("h4", name),
          grids.get(which)?.el,
          list.length > MOST
            ? h(
                "p.soft",
                `${number(list.length)} elements are too many to draw; the table has them all.`,
              )
            : text.length
              ? chipRow(rowOf(which, list, name), act, hand)
              : null,
        );
      }),
    );
    // the same element, removed and inserted again
    if (grid) /** @type {any} */ (grid).focus({preventScroll: true});
    if (focusing && !editing) {
      const chips = [...strips.querySelectorAll(`[data-which="${focusing.which}"] .token-chip`)],
        at = chips.findIndex(
          (chip) => Number(/** @type {any} */ (chip).dataset.i) >= /** @type {any} */ (focusing).at,
        );
      /** @type {any} */ (chips[at < 0 ? chips.length - 1 : at])?.focus({preventScroll: true});
      focusing = null;
    } else if (held >= 0) /** @type {any} */ (strips.querySelectorAll("button")[held])?.focus();
    asWords.el.hidden = !sequences().some(([, list]) => units(list, true).length < list.length);
    drawHands();
    drawFacts();
    drawDetail();
    frame.refresh();
  }

  // Patches of an image are in their grid; among the tokens they are one chip, to show the order.
  function joined(list) {
    const part = new Map(
      partsOf(list).flatMap((from, n) =>
        from.map((i, k) => [
          i,
          {word: `part ${n}`, label: k ? "" : `[${list[i].kind}]`, kind: "special"},
        ]),
      ),
    );
    return list.map((one, i) => ({...one, ...(part.get(i) ?? {word: words() ? one.word : null})}));
  }

  function forget() {
    grids.forEach((one) => one?.off());
    grids = new Map();
  }

  function drawFacts() {
    const list = looked.elements,
      learned = list.filter((one) => one.kind === "class" || one.kind === "register").length,
      ids = list.map((one) => one.id).filter((id) => id !== null),
      wordsThere = new Set(list.map((one) => one.word).filter((word) => word !== null)).size;
    const letters = list
        .filter((one) => one.kind === "token")
        .reduce((sum, one) => sum + one.label.length, 0),
      plain = list.filter((one) => one.kind === "token").length;
    fill(
      facts,
      reading(
        "elements",
        `${number(list.length - learned)} of at most ${number(app.model.max_length)}`,
      ),
      wordsThere > 0 && reading("words", number(wordsThere)),
      ids.length > 0 && reading("different tokens", number(new Set(ids).size)),
      reading(
        "special",
        number(learned + list.filter((one) => one.kind === "special").length),
      ),
      plain ? reading("characters per token", number(letters / plain, 3)) : null,
    );
  }

  function drawDetail() {
    const {query} = state.get(),
      one = query === null ? null : looked.elements[query];
    if (!one)
      return void fill(
        detail,
        h("p.soft", "Choose a token to see its bytes and where else it stands."),
      );
    const others = looked.elements.flatMap((other, i) =>
        other.id !== null && other.id === one.id && i !== query ? [i] : [],
      ),
      pairs = [
        ["position", String(query)],
        ["kind", one.kind],
      ];
    if (one.id !== null)
      pairs.push(["id", `${number(one.id)} of ${number(app.model.config.vocab_size)}`]);
    if (one.kind === "token") pairs.push(["bytes", bytesOf(one.label)]);
    if (one.row !== null) pairs.push(["row, column", `${one.row}, ${one.column}`]);
    if (one.word !== null) pairs.push(["word", String(one.word)]);
    if (one.id !== null)
      pairs.push(["also at", others.length ? others.join(", ") : "nowhere else"]);
    fill(
      detail,
      h("h4", token(one)),
      h(
        "dl.pairs",
        pairs.map(([name, value]) => [h("dt", name), h("dd", value)]),
      ),
    );
  }

  const offs = [
    follow(app, LOOK, said, async (fresh) => {
      const got = await app.looked();
      if (!fresh()) return;
      looked = got;
      forget();
      draw();
    }),
    state.subscribe(
      (now, before) =>
        ["query", "key", "words", "site", "picks"].some((name) => now[name] !== before[name]) &&
        same(now.input, before.input) &&
        draw(),
    ),
    result.off,
    where.off,
  ];
  return () => {
    offs.forEach((off) => off());
    forget();
  };
}

export const page = {
  about:
    "The actual input of the model: not letters and not words, but the numbered pieces " +
    "into which its tokenizer splits the input, or the patches of an image.",
  notAbout: "what the pieces mean to the model; that begins with their vectors.",
  render,
};
