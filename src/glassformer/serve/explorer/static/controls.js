// @ts-check
// Labelled controls: slider, choice, toggle, button, stepper, table; all native to the browser.
import {fill, h, still, unique} from "./dom.js";
import {number} from "./format.js";
import {prose} from "./mathml.js";

/**
 * A range with a number box beside it. `set(value)` moves it without calling `oninput`.
 * @param {{label: any, min: number, max: number, step?: number, value: number, digits?: number,
 * unit?: string, compact?: boolean, name?: string,
 *          oninput?: (value: number) => void}} options
 */
export function slider({
  label,
  min,
  max,
  step = 0.01,
  value,
  unit = "",
  compact = false,
  name,
  oninput,
}) {
  const id = unique("slider"),
    limit = (x) => Math.min(max, Math.max(min, x));
  const range = h("input.range", {type: "range", id, min, max, step, value});
  const box = h("input.number-box", {
    type: "number",
    min,
    max,
    step,
    value,
    "aria-label": `${name ?? (typeof label === "string" ? label : "value")}, number`,
  });
  const show = (x) => range.style.setProperty("--at", `${(100 * (x - min)) / (max - min)}%`);
  const control = {
    el: h(
      "div",
      {class: `slider${compact ? " compact" : ""}`},
      h("label", {for: id}, label),
      range,
      box,
      unit && h("span.unit", unit),
    ),
    get value() {
      return Number(range.value);
    },
    set(/** @type {number} */ x) {
      range.value = String(x);
      if (document.activeElement !== box) box.value = String(Number(x.toFixed(6)));
      show(x);
    },
  };
  range.addEventListener("input", () => {
    control.set(Number(range.value));
    oninput?.(Number(range.value));
  });
  box.addEventListener("input", () => {
    if (box.value === "" || Number.isNaN(Number(box.value))) return;
    const x = limit(Number(box.value));
    range.value = String(x);
    show(x);
    oninput?.(x);
  });
  box.addEventListener("blur", () => control.set(control.value));
  show(value);
  return control;
}

/**
 * One of several, as a row of radio buttons.
 * @param {{label: string, options: {value: string, label: any}[], value: string, quiet?: boolean,
 * onchange?: (value: string) => void}} options
 */
export function choice({label, options, value, quiet = false, onchange}) {
  const name = unique("choice");
  const inputs = options.map((option) =>
    h("input", {
      type: "radio",
      name,
      value: option.value,
      checked: option.value === value,
      onchange: () => onchange?.(option.value),
    }),
  );
  return {
    el: h(
      "fieldset.choice",
      h("legend", {class: quiet ? "sr" : ""}, label),
      h(
        "div.choice-row",
        options.map((option, i) => h("label", inputs[i], h("span", option.label))),
      ),
    ),
    get value() {
      return inputs.find((input) => input.checked)?.value ?? "";
    },
    set(/** @type {string} */ to) {
      for (const input of inputs) input.checked = input.value === to;
    },
  };
}

/** On or off. @param {{label: any, checked?: boolean, onchange?: (on: boolean) => void}} options */
export function toggle({label, checked = false, onchange}) {
  const input = h("input", {
    type: "checkbox",
    role: "switch",
    checked,
    onchange: () => onchange?.(input.checked),
  });
  return {
    el: h("label.toggle", input, h("span.toggle-track", {"aria-hidden": true}), h("span", label)),
    get checked() {
      return input.checked;
    },
    set(/** @type {boolean} */ to) {
      input.checked = to;
    },
  };
}

/**
 * @param {any} label @param {() => void} onclick @param {{kind?: "plain" | "main" | "quiet", name?:
 * string, pressed?: boolean}} [how]
 */
export function button(label, onclick, {kind = "plain", name, pressed} = {}) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      onclick,
      "aria-label": name ?? null,
      ...(pressed === undefined ? {} : {"aria-pressed": pressed}),
    },
    label,
  );
}

/**
 * One of a list. @param {{label: string, options: {value:
 * string, label: string}[], value?: string, onchange?: (value: string) => void}} options
 */
export function select({label, options, value, onchange}) {
  const input = h(
    "select",
    {onchange: () => onchange?.(input.value)},
    options.map((option) =>
      h("option", {value: option.value, selected: option.value === value}, option.label),
    ),
  );
  return {
    el: h("label.select", h("span", label), input),
    get value() {
      return input.value;
    },
    set(/** @type {string} */ to) {
      input.value = to;
    },
  };
}

/**
 * Steps 0 .. count - 1: back, forward, play; it does not start on its own.
 * @param {{count: number, value?: number, names?: string[], label?: string, every?: number,
 * onchange: (step: number) => void}} options
 */
export function stepper({count, value = 0, names = [], label = "Step", every = 1400, onchange}) {
  let at = value,
    timer = 0;
  const status = h("output.stepper-status");
  const back = button("Back", () => go(at - 1), {name: `${label} back`}),
    next = button("Next", () => go(at + 1), {kind: "main", name: `${label} forward`});
  const play = button("Play", () => (timer ? pause() : run()), {kind: "quiet"});
  const dots = h("div.stepper-dots", {"aria-hidden": true});
  const control = {
    el: h("div.stepper", {role: "group", "aria-label": label}, back, next, play, dots, status),
    get value() {
      return at;
    },
    go,
    /** Set another number of steps, and go to the first. */
    reset(/** @type {number} */ steps) {
      pause();
      count = steps;
      go(0);
    },
    stop: pause,
  };
  function show() {
    back.disabled = at === 0;
    next.disabled = at === count - 1;
    fill(
      dots,
      Array.from({length: count}, (_, i) =>
        h("i", {class: i < at ? "done" : i === at ? "now" : ""}),
      ),
    );
    status.textContent = `${at + 1} of ${count}${names[at] ? `: ${names[at]}` : ""}`;
  }
  function go(/** @type {number} */ to) {
    at = Math.max(0, Math.min(count - 1, to));
    if (at === count - 1) pause();
    show();
    onchange(at);
  }
  function run() {
    if (at === count - 1) go(0);
    play.textContent = "Pause";
    timer = setInterval(
      () => (control.el.isConnected ? go(at + 1) : pause()),
      still() ? 2 * every : every,
    );
  }
  function pause() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  show();
  return control;
}

const PAGE = 200;

/**
 * A table of numbers; long ones are shown in parts.
 * @param {{caption: string, columns: any[], rows: any[][], quiet?: boolean}} options  the first
 * cell of each row is its header
 */
export function table({caption, columns, rows, quiet = true}) {
  const body = h("tbody"),
    more = h("div.table-more");
  const numeric = columns.map((_, i) => i > 0 && rows.length > 0 && typeof rows[0][i] === "number");
  const cell = (value) => (typeof value === "number" ? number(value) : value);
  let from = 0;
  function show() {
    fill(
      body,
      rows.slice(from, from + PAGE).map((row) =>
        h(
          "tr",
          row.map((value, i) =>
            i
              ? h("td", {class: numeric[i] ? "num" : ""}, cell(value))
              : h("th", {scope: "row"}, cell(value)),
          ),
        ),
      ),
    );
    if (rows.length > PAGE) {
      fill(
        more,
        button("Earlier", () => ((from = Math.max(0, from - PAGE)), show())),
        button("Later", () => ((from = Math.min(rows.length - 1, from + PAGE)), show())),
        h(
          "span",
          `rows ${number(from + 1)} to ${number(Math.min(from + PAGE, rows.length))} of ` +
            `${number(rows.length)}`,
        ),
      );
    }
  }
  show();
  return h(
    "div.table-wrap",
    {role: "region", "aria-label": caption, tabindex: 0},
    h(
      "table",
      h("caption", {class: quiet ? "sr" : ""}, caption),
      h(
        "thead",
        h(
          "tr",
          columns.map((name, i) => h("th", {scope: "col", class: numeric[i] ? "num" : ""}, name)),
        ),
      ),
      body,
    ),
    more,
  );
}

/**
 * A number that is looked at: its name and its value, marked when it is not as it should be. @param
 * {string} name @param {any} value @param {"" | "good" | "bad"} [how]
 */
export function reading(name, value, how = "") {
  return h(
    "p",
    {class: `reading ${how}`},
    h("span", prose(name)),
    h(
      "output",
      {class: `value ${how}`},
      value,
      how ? h("span", {"aria-hidden": true}, how === "good" ? " ✓" : " ✗") : null,
    ),
  );
}
