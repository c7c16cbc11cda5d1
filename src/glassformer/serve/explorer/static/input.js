// @ts-check
// The input of the model as fields: a text, a pair, an image, audio, or parts in their order;
// examples; the button that runs it, with the time it took.
import {fill, h} from "./dom.js";
import {select} from "./controls.js";
import {number, plural} from "./format.js";
import {DEFAULTS} from "./schema.js";
import {same} from "./state.js";
import {superseded} from "./wire.js";

/** The fields of a selection that belong to one input, with their defaults. */
const OF_INPUT = ["query", "key", "position", "target", "against", "step", "was"];
const ELSEWHERE = Object.fromEntries(OF_INPUT.map((name) => [name, DEFAULTS[name]]));
const LARGEST = 700_000;

/** An input in a few words. @param {any} input @returns {string} */
export function inputText(input) {
  if (typeof input === "string") return input;
  if (Array.isArray(input))
    return input.every((part) => typeof part === "number")
      ? `[${input.join(", ")}]`
      : input.map(inputText).filter(Boolean).join(" / ");
  if (input?.text !== undefined) return input.text;
  const [kind, where] = Object.entries(input ?? {})[0] ?? ["", ""];
  return kind ? placeName(kind, where) : "";
}

/** "image 3" of an example, "your image" of a file. @param {string} kind @param {string} where */
function placeName(kind, where) {
  return where.startsWith("example:") ? `${kind} ${Number(where.slice(8)) + 1}` : `your ${kind}`;
}

/** The form of the bar. @param {any} app */
export function inputForm(app) {
  const {model, state} = app,
    examples = model.examples ?? [],
    timing = h("output.timing"),
    fields = h("div.fields");
  const pair = app.has("pair"),
    alone = (input) => Boolean(input && typeof input === "object" && !Array.isArray(input));
  let read = () => state.get().input,
    drawn = "";

  function field(input, name) {
    if (
      typeof input === "string" ||
      (Array.isArray(input) && input.every((part) => typeof part === "number"))
    )
      return textField(inputText(input), name, app, fields);
    if (input?.text !== undefined) {
      const one = textField(input.text, name, app, fields);
      return {el: one.el, read: () => ({...input, text: one.read()})};
    }
    if (Array.isArray(input)) {
      const parts = input.map((part, i) =>
        field(part, pair ? ["Source", "Target so far"][i] : `${name} part ${i + 1}`),
      );
      return {el: parts.map((part) => part.el), read: () => parts.map((part) => part.read())};
    }
    const [kind, where] = Object.entries(input ?? {})[0] ?? ["", ""];
    return kind in model.media
      ? mediaField({kind, where, accept: model.media[kind]}, name, examples, run)
      : textField("", name, app, fields);
  }
  function show() {
    const {input} = state.get();
    if (!drawn || !same(read(), input)) {
      const made = field(input ?? "", "Input");
      drawn = "yes";
      read = made.read;
      fill(fields, made.el);
    }
    steps?.set(String(state.get().checkpoint ?? last));
    chosen?.set("-1"); // a menu: the fields show the choice
  }
  async function ask(fresh = false) {
    timing.textContent = "…";
    timing.classList.remove("bad");
    try {
      const begun = performance.now();
      const {header} = await app.call("look", {look: app.look()}, {key: "top", fresh});
      timing.textContent =
        `${plural(header.elements.length, "element")}, ` +
        `${number(performance.now() - begun, 3)} ms`;
    } catch (error) {
      if (superseded(error)) return;
      timing.textContent = "no answer";
      timing.title = /** @type {any} */ (error).message;
      timing.classList.add("bad");
    }
  }
  function run() {
    const input = read();
    if (same(input, state.get().input)) ask(true);
    else state.set({input, ...ELSEWHERE});
  }

  const known = model.checkpoints ?? [],
    last = known[known.length - 1];
  const steps =
    known.length > 1
      ? select({
          label: "step",
          value: String(state.get().checkpoint ?? last),
          options: known.map((step) => ({value: String(step), label: number(step)})),
          onchange: (step) => state.set({checkpoint: Number(step) === last ? null : Number(step)}),
        })
      : null;
  const chosen =
    examples.length > 1 && !alone(examples[0])
      ? select({
          label: "",
          value: "-1",
          options: [
            {value: "-1", label: "Examples"},
            ...examples.map((example, i) => ({value: String(i), label: short(inputText(example))})),
          ],
          onchange: (i) => Number(i) >= 0 && state.set({input: examples[Number(i)], ...ELSEWHERE}),
        })
      : null;
  chosen?.el.classList.add("examples");
  chosen?.el.querySelector("select")?.setAttribute("aria-label", "Examples");
  state.subscribe((now, before) => {
    if (
      same(now.input, before.input) &&
      same(now.edits, before.edits) &&
      now.checkpoint === before.checkpoint
    )
      return;
    show();
    ask();
  });
  const el = h(
    "form.input-form",
    {
      role: "search",
      "aria-label": "Input of the model",
      onsubmit: (event) => (event.preventDefault(), run()),
    },
    fields,
    chosen?.el,
    steps?.el,
    h("button.button.main", {type: "submit"}, "Run"),
    timing,
  );
  show();
  ask();
  return el;
}

/** A text field: one line until it has focus. Enter runs, Shift and Enter is a new line. */
function textField(value, name, app, fields) {
  const area = h("textarea.input", {
    rows: 1,
    "aria-label": name,
    placeholder: name,
    spellcheck: false,
    autocomplete: "off",
    value,
    onkeydown: (event) => {
      if (event.key === "Escape") area.blur();
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      area.form.requestSubmit();
      area.blur();
    },
    onblur: () => (area.scrollTop = 0),
  });
  return {
    el: h("span.input-room", area),
    read() {
      const ids = /^\s*\[[\d,\s]+\]\s*$/.test(area.value);
      return ids ? (area.value.match(/\d+/g) ?? []).map(Number) : area.value;
    },
  };
}

/** An image or audio: an example of the run, or a file of the reader. */
function mediaField({kind, where, accept}, name, examples, run) {
  const found = new Set(),
    walk = (input) => {
      if (Array.isArray(input)) input.forEach(walk);
      else if (input?.[kind]) found.add(input[kind]);
    };
  examples.forEach(walk);
  let now = where;
  const own = [...found],
    said = h("span.soft", {role: "status"}),
    options = (own.includes(now) ? own : [now, ...own]).map((one) => ({
      value: one,
      label: placeName(kind, one),
    }));
  const pick = select({label: "", value: now, options, onchange: (one) => ((now = one), run())});
  pick.el.querySelector("select")?.setAttribute("aria-label", `${name}, ${kind}`);
  const file = h("input.sr", {
    type: "file",
    accept,
    "aria-label": `${name}: open a file`,
    onchange: async () => {
      const one = file.files?.[0];
      if (!one) return;
      if (one.size > LARGEST)
        return void (said.textContent =
          `That file has ${number(Math.round(one.size / 1000))} kB; at most ` +
          `${number(LARGEST / 1000)} kB fit into an address.`);
      const bytes = new Uint8Array(await one.arrayBuffer());
      const media = one.type || accept.split(",")[0];
      const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
      now = `data:${media};base64,${btoa(text)}`;
      run();
    },
  });
  return {el: [pick.el, h("label.button.file", "File…", file), said], read: () => ({[kind]: now})};
}

function short(text, most = 48) {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat;
}
