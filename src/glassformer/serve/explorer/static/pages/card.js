// @ts-check
// The model card: task, architecture, example inputs, and the content of each page.
import {h} from "../dom.js";
import {number, plural} from "../format.js";
import {inputText} from "../input.js";
import {link} from "../link.js";
import {prose, table} from "../marks.js";
import {shareBox} from "../share.js";

const ARCHITECTURES = {
  decoder: "a decoder: every element reads those before it",
  encoder: "an encoder: every element reads all others",
  encoder_decoder: "an encoder, and a decoder that reads it by cross-attention",
};
const POSITIONS = {
  rotary: "rotary: queries and keys are turned by their place",
  rotary_2d: "rotary: queries and keys are turned by their row and column",
  learned: "learned vectors, one for each place",
  sinusoidal: "sine waves, added",
  alibi: "ALiBi: scores fall with distance",
  none: "none: order is not seen",
};

/** @param {HTMLElement} el @param {any} app */
function render(el, app) {
  const {model, state} = app,
    {config} = model,
    begin = (input) =>
      state.set({
        input,
        page: "attention",
        query: null,
        key: null,
        position: -1,
        target: null,
        against: null,
        was: undefined,
      });
  const facts = [
    ["is", ARCHITECTURES[model.architecture] ?? model.architecture],
    ["parameters", number(model.parameters)],
    [
      "blocks",
      `${plural(model.layers, "layer")} of ` +
        plural(model.heads, "head") +
        (model.kv_heads === model.heads
          ? ""
          : `, which share ${plural(model.kv_heads, "key-value head")}`),
    ],
    ["widths", `${number(model.d_model)} of the stream, ${number(model.d_head)} of a head`],
    [
      "reads",
      (config.elements === "patches"
        ? plural(model.max_length, "patch", "patches")
        : plural(model.max_length, "element")) +
        " " +
        "at " +
        `most${config.vocab_size ? `, of a vocabulary of ${number(config.vocab_size)}` : ""}`,
    ],
    ["positions", POSITIONS[config.position] ?? config.position],
    model.classes.length
      ? [
          "answers",
          `${config.multi_label ? "any" : "one"} of ` +
            `${plural(model.classes.length, "class", "classes")}: ` +
            `${model.classes.slice(0, 20).join(", ")}${model.classes.length > 20 ? ", …" : ""}`,
        ]
      : null,
    [
      "kept",
      model.checkpoints.length
        ? `${plural(model.checkpoints.length, "checkpoint")}: step ` +
          `${model.checkpoints.map((step) => number(step)).join(", ")}`
        : "no checkpoint beside the model itself",
    ],
    ["folder", h("code", model.path)],
  ].filter(Boolean);
  const settings = Object.entries(config)
    .filter(
      ([, value]) => value !== null && !(typeof value === "object" && !Object.keys(value).length),
    )
    .map(([name, value]) => [
      name,
      typeof value === "object" ? JSON.stringify(value) : String(value),
    ]);
  const rest = app.pages.filter((page) => page.id !== "model");
  el.append(
    h(
      "div.opening",
      h("p.kicker", "Model"),
      h("h1", model.name),
      h(
        "p.lead",
        `It ${model.task}. Nothing leaves this machine: the model runs in the process that ` +
          "opened this page.",
      ),
    ),
    h(
      "dl.facts",
      facts.map(([name, value]) => [h("dt", name), h("dd", value)]),
    ),
    h(
      "section.section",
      h("h2", "Begin with"),
      h(
        "ul.begin-list",
        model.examples.map((example) =>
          h(
            "li",
            h(
              "button.begin",
              {type: "button", onclick: () => begin(example)},
              h("bdi", inputText(example)),
            ),
          ),
        ),
      ),
      h("p.soft.begin-note", "Or write in the bar above; Enter runs it."),
    ),
    h(
      "section.section",
      h("h2", "What can be seen"),
      h(
        "ol.contents-list.seen-list",
        rest.map((page) =>
          h(
            "li",
            link(
              app,
              {page: page.id, lesson: ""},
              [h("span.contents-title", page.title), h("span.contents-lead", prose(page.about))],
              {onfollow: () => scrollTo(0, 0)},
            ),
          ),
        ),
      ),
    ),
    h(
      "details.section.settings",
      h("summary", "All settings of the model"),
      table({caption: "Settings of the model", columns: ["setting", "value"], rows: settings}),
    ),
    h("section.section.card-python", shareBox(app)),
  );
}

export const page = {
  bare: true,
  alone: true,
  about: "What this model does and how it is built.",
  notAbout: "how good it is.",
  render,
};
