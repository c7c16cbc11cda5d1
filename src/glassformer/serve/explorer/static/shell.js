// @ts-check
// The frame of every page: landmarks, rail, the bar with model and input, the inspector of the
// selection, help, theme.
import {clear, fill, h, on} from "./dom.js";
import {button} from "./controls.js";
import {plural, token} from "./format.js";
import {inputForm} from "./input.js";
import {link} from "./link.js";
import {prose} from "./mathml.js";
import {lookOf, request} from "./schema.js";
import {shareBox} from "./share.js";
import {kindOf, sequences} from "./pages/attended.js";
import {bindToAddress, makeState} from "./state.js";
import {superseded} from "./wire.js";

const KEYS = [
  ["?", "this help"],
  ["/", "to the input"],
  ["[ ]", "head before, head after"],
  ["{ }", "layer before, layer after"],
  ["← → ↑ ↓", "in a matrix: the next cell"],
  ["Shift + ← →", "in a matrix: the largest of the row"],
  ["Shift + ↑ ↓", "in a matrix: the largest of the column"],
  ["Home, End", "first, last of the row"],
  ["Enter", "pin the cell, open the head"],
  ["Alt + ← →", "on a token: move it"],
  ["Delete, Enter", "on a token: leave it out, replace it"],
];

/**
 * Draws the explorer into `root`. `bind`: the address holds the selection. Resolves with the app
 * after the first page was drawn.
 * @param {HTMLElement} root @param {{pages: any[], wire: any, bind?: boolean, start?: any}} options
 */
export async function mount(root, {pages, wire, bind = true, start = {}}) {
  const live = h("div.sr", {role: "status", "aria-live": "polite"});
  const visited = /** @type {Set<string>} */ (new Set());
  let model = /** @type {any} */ (null),
    reason = "",
    refused = false;
  try {
    model = (await wire.call("model", {})).header;
  } catch (error) {
    reason = /** @type {any} */ (error).message;
    refused = /** @type {any} */ (error).status === 403;
  }
  const state = makeState(start, model ? {input: model.examples?.[0] ?? ""} : {});
  const app = {
    model,
    state,
    call: wire.call,
    stream: wire.stream,
    asked: wire.asked ?? (() => []),
    linked: bind,
    pages: /** @type {any[]} */ ([]),
    visited: () => [...visited],
    announce: (/** @type {string} */ text) => (live.textContent = text),
    /** Whether the model has a capability. */
    has: (/** @type {string} */ name) => Boolean(model?.capabilities.includes(name)),
    /** Input, edits and checkpoint of the selection. */
    look: () => lookOf(state.get()),
    /** The arguments of an op for the selection, then those given. */
    args: (/** @type {string} */ op, given = {}) => {
      const {side, site} = kindOf(app);
      return request(op, {...state.get(), side, site}, given);
    },
    /** Ask with these arguments. */
    ask: (/** @type {string} */ op, given = {}, options = {}) =>
      wire.call(op, app.args(op, given), options),
    /** The present look's header: elements, outcome. */
    looked: async () => (await wire.call("look", {look: app.look()})).header,
    failed: (/** @type {Element} */ el, /** @type {any} */ error) =>
      superseded(error) || fill(el, h("p.problem", {role: "alert"}, error.message)),
  };
  const mine = pages.filter(
    (page) => page.free || (model && (!page.needs.length || page.needs.some(app.has))),
  );
  const home = mine[0]?.id ?? "";
  app.pages = mine;
  if (bind) bindToAddress(state);

  const main = h("main.page", {id: "main", tabindex: -1}),
    rail = h("nav.rail", {"aria-label": "Pages"});
  const aside = h("aside.inspector", {"aria-label": "Selection"}),
    top = h("header.top"),
    help = helpDialog();
  const skip = h(
    "a.skip",
    {href: "#main", onclick: (event) => (event.preventDefault(), main.focus())},
    "Skip to the page",
  );
  fill(root, skip, top, h("div.body", rail, main, aside), help, live);
  root.classList.add("glassformer");
  topBar(top, app, {help, reason});

  let shown = "",
    cleanups = /** @type {(() => void)[]} */ ([]),
    turn = 0;
  const current = () =>
    mine.find((page) => page.id === state.get().page) ?? mine.find((page) => page.id === home);

  function drawRail() {
    const page = current(),
      open = rail.querySelector("details")?.open;
    const to = (page, text, now, part) =>
      link(app, {page, lesson: part}, text, {
        "aria-current": now ? "page" : "false",
        onfollow: () => {
          const narrow = rail.querySelector("details");
          if (narrow) narrow.open = narrow.dataset.wide === "true";
          main.focus({preventScroll: true});
          scrollTo(0, 0);
        },
      });
    const list = h(
      "ol.rail-list",
      mine.map((each) =>
        h(
          "li",
          to(each.id, each.title, each === page && !state.get().lesson, ""),
          each.parts &&
            each === page &&
            h(
              "ol.rail-parts",
              each.parts.map((part, i) =>
                h(
                  "li",
                  to(
                    each.id,
                    [h("span.rail-number", String(i + 1)), h("span", part.title)],
                    state.get().lesson === part.id,
                    part.id,
                  ),
                ),
              ),
            ),
        ),
      ),
    );
    const wideEnough = matchMedia("(min-width: 900px)").matches;
    const now = page?.parts?.find((part) => part.id === state.get().lesson);
    fill(
      rail,
      h(
        "details.rail-fold",
        {open: wideEnough || open, dataset: {wide: String(wideEnough)}},
        h("summary", now?.title ?? page?.title ?? "Pages"),
        list,
      ),
      model || refused
        ? null
        : h(
            "p.rail-note",
            "No model is open. ",
            h("code", "glassformer inspect RUN"),
            " opens one, and the other pages with it.",
          ),
    );
  }

  async function drawPage() {
    const page = current(),
      mark = ++turn;
    cleanups.forEach((fn) => fn());
    cleanups = [];
    clear(main);
    if (refused) main.append(h("p.problem", {role: "alert"}, reason));
    document.title = pageTitle(page, state, app);
    root.classList.toggle("without-inspector", !model || Boolean(page?.free || page?.alone));
    if (!page) return void fill(main, h("h1", "No page"), h("p", reason));
    visited.delete(page.id);
    visited.add(page.id); // the latest last
    if (!page.bare) {
      main.append(
        h(
          "div.page-head",
          h("h1", page.title),
          h("p.lead", prose(page.about)),
          page.notAbout &&
            h("p.hides", h("span.hides-mark", "What it does not show"), " ", prose(page.notAbout)),
        ),
      );
    }
    const room = h("div.page-room");
    main.append(room);
    const keep = (fn) => typeof fn === "function" && (mark === turn ? cleanups.push(fn) : fn());
    try {
      keep(await page.render(room, app));
      if (mark === turn) drawInspector(page, keep);
    } catch (error) {
      if (mark === turn) app.failed(room, error);
      if (!(/** @type {any} */ (error).name === "WireError") && !superseded(error)) throw error;
    }
  }

  function drawInspector(page, keep) {
    clear(aside);
    if (!model || page.free || page.alone) return;
    const selection = h("div.inspector-part"),
      own = h("div.inspector-part");
    fill(aside, selection, own, shareBox(app));
    const show = () => selectionBox(selection, app);
    show();
    keep(state.subscribe(show));
    if (page.inspect) keep(page.inspect(own, app));
  }

  state.subscribe((now, before) => {
    const page = current();
    document.title = pageTitle(page, state, app);
    if (page && (page.id !== shown || (page.parts && now.lesson !== before.lesson))) {
      shown = page.id;
      drawRail();
      drawPage();
    }
  });
  on(document, "keydown", (event) => {
    const typing =
      /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName ?? "") ||
      event.target.isContentEditable;
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const s = state.get();
    if (event.key === "?") help.showModal();
    else if (event.key === "/" && top.querySelector("textarea, select"))
      top.querySelector("textarea, select").focus();
    else if (model && "[]".includes(event.key))
      state.set(
        {head: bounded(s.head + (event.key === "]" ? 1 : -1), heads(app))},
        {replace: true},
      );
    else if (model && "{}".includes(event.key))
      state.set(
        {layer: bounded(s.layer + (event.key === "}" ? 1 : -1), layers(app))},
        {replace: true},
      );
    else return;
    event.preventDefault();
  });
  on(matchMedia("(min-width: 900px)"), "change", drawRail);
  shown = current()?.id ?? "";
  drawRail();
  await drawPage();
  return app;
}

function bounded(/** @type {number} */ x, /** @type {number} */ count) {
  return Math.max(0, Math.min(count - 1, x));
}

const layers = (app) => (app.model ? kindOf(app).layers : 1);
const heads = (app) => (app.model ? kindOf(app).heads : 1);

function pageTitle(page, state, app) {
  const {layer, head, lesson} = state.get(),
    part = page?.parts?.find((each) => each.id === lesson);
  const where = app.model && page && !page.free ? `, layer ${layer} head ${head}` : "";
  return [part?.title, `${page?.title ?? ""}${where}`, app.model?.name, "glassformer"]
    .filter(Boolean)
    .join(" · ");
}

function topBar(top, app, {help, reason}) {
  const {model, state} = app;
  fill(
    top,
    h(
      "a.brand",
      {
        href: "#",
        onclick: (event) => (
          event.preventDefault(),
          state.restore({input: state.get().input}, {replace: false})
        ),
      },
      mark(),
      h("span.brand-name", "glassformer"),
    ),
    model &&
      h(
        "div.model",
        h("span.model-name", model.name),
        h("span.model-size", `${plural(model.parameters, "parameter")}`),
      ),
    model ? inputForm(app) : h("span.top-space", {title: reason}),
    h(
      "div.top-tools",
      themeButton(),
      button("?", () => help.showModal(), {kind: "quiet", name: "Help: the keys"}),
    ),
  );
}

function mark() {
  return h(
    "span.brand-mark",
    {"aria-hidden": true},
    [1, 0, 0, 0.35, 1, 0, 0.15, 0.55, 1].map((opacity) => h("i", {style: {opacity}})),
  );
}

function selectionBox(el, app) {
  const s = app.state.get(),
    labels = {layer: layers(app), head: heads(app)};
  const dial = (name, count) =>
    h(
      "label.dial",
      h("span", name),
      h("input.number-box", {
        type: "number",
        min: 0,
        max: count - 1,
        value: s[name],
        onchange: (event) =>
          app.state.set({[name]: bounded(Math.round(Number(event.target.value)), count)}),
      }),
      h("span.dial-of", count > 1 ? `0 to ${count - 1}` : "the only one"),
    );
  fill(
    el,
    h("h2", "Selection"),
    h("div.dials", dial("layer", labels.layer), dial("head", labels.head)),
  );
  if (s.edits.length) {
    el.append(
      h(
        "p.edited",
        link(app, {page: "edit"}, plural(s.edits.length, "edit")),
        s.edits.length === 1 ? " acts in this run. " : " act in this run. ",
        button("Take away", () => app.state.set({edits: []}), {
          kind: "quiet",
          name: "Take all edits away",
        }),
      ),
    );
  }
  if (s.query === null && s.key === null) return;
  const cells = h("dl.pairs");
  el.append(cells);
  app
    .looked()
    .then((looked) => {
      const {queries, keys} = sequences(looked, kindOf(app));
      for (const [name, index, list] of [
        ["query", s.query, queries],
        ["key", s.key, keys],
      ]) {
        if (index !== null && list[index])
          cells.append(h("dt", name), h("dd", token(list[index]), h("span.soft", ` ${index}`)));
      }
    })
    .catch(() => {});
}

function helpDialog() {
  const dialog = h(
    "dialog.help",
    {"aria-labelledby": "help-title"},
    h("h2", {id: "help-title"}, "Keys"),
    h(
      "dl.keys",
      KEYS.map(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)]),
    ),
    button("Close", () => dialog.close(), {kind: "main"}),
  );
  return dialog;
}

const THEMES = ["", "light", "dark"],
  THEME_NAMES = {"": "Auto", light: "Light", dark: "Dark"};

function themeButton() {
  let now = "";
  try {
    now = localStorage.getItem("glassformer-theme") ?? "";
  } catch {
    // without storage, the choice is not kept
  }
  const set = (to) => {
    now = THEMES.includes(to) ? to : "";
    const {dataset} = document.documentElement,
      shown = now || dataset.host || ""; // a notebook says how it looks itself
    if (shown) dataset.theme = shown;
    else delete dataset.theme;
    el.textContent = THEME_NAMES[now];
    el.setAttribute("aria-label", `Theme: ${THEME_NAMES[now]}`);
    document.dispatchEvent(new Event("themechange"));
    try {
      localStorage.setItem("glassformer-theme", now);
    } catch {
      // as above
    }
  };
  const el = button("Auto", () => set(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]), {
    kind: "quiet",
  });
  set(now);
  on(document, "hostchange", () => set(now));
  return el;
}
